import ExampleKit
import SyncCore
import Testing

@Suite("Worked examples of the protocol, at the hub", .eachEngine)
struct HubExampleTests {
    @Test("The hub does what every example says, in each order of arrival")
    func examples() throws {
        let hub = try ExampleHub(ExampleBook.examples)
        for example in ExampleBook.examples(for: .hub) {
            for order in example.orders {
                for failure in try hub.failures(of: example, order) { Issue.record("\(example.name) (\(order)): \(failure)") }
            }
        }
    }

    @Test("An example whose rule the hub does not follow yet still differs", arguments: ExampleBook.awaited(by: .hub))
    func awaited(_ example: WorkedExample) throws {
        let hub = try ExampleHub(ExampleBook.examples)
        #expect(try example.orders.contains { try !hub.failures(of: example, $0).isEmpty }, "take it out of ExampleBook.awaited")
    }

    @Test("A wrong word in any part of any example is noticed at the hub")
    func mistakes() throws {
        let hub = try ExampleHub(ExampleBook.examples)
        for example in ExampleBook.examples(for: .hub) {
            var endings: [WorkedExample.Order: ExampleHub.Ending] = [:]
            for order in example.orders { endings[order] = try hub.run(example, order) }
            for mistake in example.mistakes where mistake.sides.contains(.hub) {
                let (wrong, order) = (mistake.example, mistake.order)
                let ending = mistake.isOfCourse ? try hub.run(wrong, order) : endings[order]
                #expect(ending?.failures(against: wrong, order).isEmpty == false, "\(example.name) (\(order)): \(mistake.what)")
            }
        }
    }
}

@Suite("Worked examples of the protocol, with real agents")
struct AgentExampleTests {
    @Test("Agents and hub end as every example says, whether the hub or the agent brings the two changes together")
    func examples() throws {
        for example in ExampleBook.examples(for: .agent) {
            for order in example.orders {
                for fleet in ExampleFleet.all {
                    for failure in try fleet.failures(of: example, order) {
                        Issue.record("\(example.name) (\(order), \(fleet.way) first, coalescing \(fleet.coalesces)): \(failure)")
                    }
                }
            }
        }
    }

    @Test("An example whose rule agents do not follow yet still differs", arguments: ExampleBook.awaited(by: .agent))
    func awaited(_ example: WorkedExample) throws {
        let isDifferent = try example.orders.contains { order in
            try ExampleFleet.all.contains { try !$0.failures(of: example, order).isEmpty }
        }
        #expect(isDifferent, "take it out of ExampleBook.awaited")
    }

    @Test(
        "A rule that is switched off breaks an example",
        arguments: [
            (Ablation.deadlinesJoined, "deadlines: "), (.listsTorn, "lists: "), (.deletedForgotten, "deletions: "),
            (.writtenAgainForgotten, "seen: the same value, written again"), (.takenBackUntold, "creations: taken back"),
            (.joinedStampsLost, "stamps: "),
        ])
    func without(_ rule: Ablation, about: String) throws {
        let examples = ExampleBook.examples(for: .agent)
        // One that breaks is enough, and it is most likely among those that are about the rule.
        let likely = examples.filter { $0.name.hasPrefix(about) }, others = examples.filter { !$0.name.hasPrefix(about) }
        let isNoticed = try (likely + others).contains { example in
            try example.orders.contains { order in
                try ExampleFleet.all.filter(\.coalesces).contains { fleet in
                    var fleet = fleet
                    fleet.ablations = Ablations([rule])
                    return try !fleet.failures(of: example, order).isEmpty
                }
            }
        }
        #expect(isNoticed, "\(rule.rawValue) is switched off, and every example ends as before")
    }

    @Test("A wrong word in any part of any example is noticed with agents")
    func mistakes() throws {
        let fleet = ExampleFleet(way: .push, coalesces: false)
        for example in ExampleBook.examples(for: .agent) {
            var endings: [WorkedExample.Order: ExampleEnding] = [:]
            for order in example.orders { endings[order] = try fleet.run(example, order) }
            for mistake in example.mistakes where mistake.sides.contains(.agent) {
                let (wrong, order) = (mistake.example, mistake.order)
                let ending = mistake.isOfCourse ? try fleet.run(wrong, order) : endings[order]
                #expect(ending?.failures(against: wrong, order).isEmpty == false, "\(example.name) (\(order)): \(mistake.what)")
            }
        }
    }
}

@Suite("The document of the protocol")
struct ExampleBookTests {
    @Test("Every block that is an example can be read, and there are enough of them")
    func document() {
        #expect(ExampleBook.problem == nil)
        #expect(ExampleBook.examples.count >= 60)
    }

    @Test("Every example that waits for its rule is in the document, with a reason")
    func awaited() {
        let names = Set(ExampleBook.examples.map(\.name))
        for (name, awaited) in ExampleBook.awaited {
            #expect(names.contains(name) && !awaited.sides.isEmpty && !awaited.why.isEmpty, "\(name)")
        }
    }

    private static let step = #"{"by": "a", "at": "09:00", "update": {"n": 1}}"#

    private static let agents = #""not_at": {"hub": "no", "rest": "no"}"#

    private static func block(_ members: String, _ fence: String = "```json example") -> String {
        "\(fence)\n{\"name\": \"x\", \(members)}\n```\n"
    }

    @Test("An example that is well made is read")
    func sound() throws {
        let example = Self.block(#""start": {}, "steps": [\#(Self.step)], "result": {"n": 1}"#)
        #expect(try ExampleBook.parse("text\n\n" + example + "```json\n{\"a\": 1}\n```\n").count == 1)
    }

    @Test(
        "An example that is malformed, that says what is not known, or that no side runs is a mistake",
        arguments: [
            block(#""start": {}, "steps": [\#(step)]"#),
            block(#""start": {}, "steps": [], "result": {}"#),
            block(#""start": {}, "steps": [\#(step)], "result": 1"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}, "resullt": {}"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}"#, "```json  example"),
            block(#""start": {}, "steps": [\#(step)], "result": {}"#, "```yaml example"),
            block(#""start": {}, "steps": [\#(step)], "result": {}"#) + block(#""start": {}, "steps": [\#(step)], "result": {}"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}, "both_orders": true"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}, "reversed": {"result": {}}"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}, "not_at": {"moon": "far"}"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}, "not_at": {"hub": "a", "agent": "b", "rest": "c"}"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}, "rest": {"weaker": "somehow"}"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}, "rules": {"fields": {"n": "sum"}}"#),
            block(#""start": {}, "steps": [\#(step)], "result": {}, "rules": {"field": {"n": "lww"}}"#),
            block(#""start": {}, "steps": [{"by": "c", "at": "09:00", "update": {}}], "result": {}"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "9:00", "update": {}}], "result": {}"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00"}], "result": {}"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00", "update": {}, "delete": true}], "result": {}"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00", "ops": [{"field": "n", "op": "mul", "value": 2}]}], "result": {}"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00", "update": {}, "says": "yes"}], "result": {}"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00", "update": {}, "seen": "much"}], "result": {}"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00", "until": "10:00", "update": {"n": 1}}], "result": {"n": 1}"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00", "until": "08:00", "update": {}}], "result": {}, \#(agents)"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00", "retry": 1}], "result": {}, \#(agents)"#),
            block(#""start": {}, "steps": [{"by": "a", "at": "09:00", "decide": {}, "update": {}}], "result": {}, \#(agents)"#),
            "```json example\n{\"name\": \"x\"\n```\n", "```json example\n{}\n",
        ])
    func malformed(_ document: String) {
        #expect(throws: ExampleError.self) { try ExampleBook.parse(document) }
    }
}
