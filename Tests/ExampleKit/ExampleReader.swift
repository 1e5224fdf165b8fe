import SyncCore

/// Why an example cannot be run as it is written.
package struct ExampleError: Error, Hashable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) { self.description = description }
}

extension WorkedExample {
    /// Reads one example strictly: a member that is not known is a mistake of the document.
    package init(_ text: String) throws {
        let json: JSON
        do { json = try JSONReader.read(text) } catch { throw ExampleError("\(error) in \(text.prefix(80))") }
        var members = try Members(json, "an example")
        let name = try members.text("name")
        self.name = name
        members.place = name
        let rules = try EntityRules(example: try members.object("rules") ?? [:], name)
        self.rules = rules
        start = try members.object("start")
        let both = try members.flag("both_orders")
        var steps = try members.list("steps").enumerated().map { try Step($1, number: $0 + 1, "\(name), step \($0 + 1)") }
        if steps.isEmpty { throw ExampleError("\(name): no steps") }
        for index in steps.indices {
            guard case .retry(let number) = steps[index].request else { continue }
            guard steps[..<index].indices.contains(number - 1), steps[number - 1].device == steps[index].device else {
                throw ExampleError("\(name), step \(index + 1): retry names no earlier step of the device")
            }
            steps[index].content = steps[number - 1].content
            steps[index].record = steps[number - 1].record
            steps[index].wire = steps[index].wire ?? steps[number - 1].wire
        }
        if both, Set(steps.map(\.device)).count != 2 || steps.contains(where: { $0.seen == .all }) {
            throw ExampleError("\(name): only the changes of two devices that have not seen each other have both orders")
        }
        (self.steps, hasBothOrders) = (steps, both)
        meeting = try members.time("meet")
        outcome = try Outcome(&members, isNeeded: rules.kind == .record)
        reversed = try members.take("reversed").map { value in
            guard both else { throw ExampleError("\(members.place): `reversed` without `both_orders`") }
            var other = try Members(value, "\(members.place), reversed")
            let outcome = try Outcome(&other, isNeeded: true)
            try other.finish()
            return outcome
        }
        var skipped: [Side: String] = [:]
        for member in try members.object("not_at")?.members ?? [] {
            guard let side = Side(rawValue: member.name.text), let why = member.value.text, !why.isEmpty else {
                throw ExampleError("\(members.place): not_at names a side and the reason")
            }
            skipped[side] = why
        }
        if skipped.count == Side.allCases.count { throw ExampleError("\(members.place): no side runs it") }
        self.skipped = skipped
        let isOfPeople = meeting != nil || steps.contains { $0.request != nil || $0.list != nil || $0.deadline != nil }
        if isOfPeople, skipped[.hub] == nil || skipped[.rest] == nil {
            throw ExampleError("\(members.place): deadlines, lists and requests of people are run by agents only")
        }
        let weaker = try members.take("rest").map { try Weaker($0, "\(members.place), rest") }
        if weaker != nil, skipped[.rest] != nil { throw ExampleError("\(members.place): weaker at a side that does not run it") }
        self.weaker = weaker
        try members.finish()
    }
}

extension WorkedExample.Outcome {
    fileprivate init(_ members: inout Members, isNeeded: Bool) throws {
        guard let result = members.take("result") else {
            if isNeeded { throw ExampleError("\(members.place): no result") }
            self.init(document: nil, lost: [])
            return
        }
        guard result.isNull || result.object != nil else { throw ExampleError("\(members.place): the result is an object or null") }
        let place = members.place
        let lost = try members.list("lost").map { value in
            var one = try Members(value, "\(place), lost")
            var lost = WorkedExample.Lost(device: try one.text("by"), field: try one.text("field"), value: one.take("value"))
            if let side = one.take("told_by") {
                guard side.text == "agent" else { throw ExampleError("\(place): told_by is agent, or is left out") }
                lost.isKnownToAgents = true
            }
            try one.finish()
            return lost
        }
        var others: [String: JSON] = [:]
        for member in try members.object("others")?.members ?? [] { others[member.name.text] = member.value }
        self.init(document: result.object, lost: lost, others: others)
    }
}

extension WorkedExample.Weaker {
    fileprivate init(_ json: JSON, _ place: String) throws {
        var members = try Members(json, place)
        why = try members.text("weaker")
        documents = [:]
        for (name, device) in [("a_last", "a"), ("b_last", "b")] { documents[device] = members.take(name) }
        try members.finish()
        if documents.isEmpty { throw ExampleError("\(place): what does happen?") }
    }
}

extension WorkedExample.Step {
    fileprivate init(_ json: JSON, number: Int, _ place: String) throws {
        self.number = number
        var members = try Members(json, place)
        device = try members.text("by")
        guard ["a", "b"].contains(device) else { throw ExampleError("\(place): a device is a or b") }
        guard let at = try members.time("at") else { throw ExampleError("\(place): `at` is missing") }
        self.at = at
        deadline = try members.time("until")
        if let deadline, deadline <= at { throw ExampleError("\(place): `until` is before `at`") }
        list = members.take("list")?.text
        if let id = members.take("record")?.text { record = RecordID(trusted: id) }
        seen = .start
        if let word = members.take("seen") {
            guard let seen = word.text.flatMap({ Seen(rawValue: $0) }) else { throw ExampleError("\(place): seen \(word.json)") }
            self.seen = seen
        }
        if let word = members.take("clock") {
            guard word.text == "unsynced" else { throw ExampleError("\(place): clock is unsynced, or is left out") }
            isUnsynced = true
        }
        request = try WorkedExample.Request(example: &members)
        if request != nil { seen = .all }
        content = request == nil ? try MutationContent(example: &members) : MutationContent(.update, data: [:])
        wire = try members.take("wire").map { value in
            var wire = try Members(value, "\(place), wire")
            let content = try MutationContent(example: &wire)
            try wire.finish()
            return content
        }
        let says = try members.take("says").map { try WorkedExample.Answer($0, place) } ?? .init(.accepted(merged: [], kept: [:]))
        answerIfFirst = try members.take("if_first").map { try WorkedExample.Answer($0, place) } ?? says
        answerIfLast = try members.take("if_last").map { try WorkedExample.Answer($0, place) } ?? says
        try members.finish()
    }
}

extension WorkedExample.Request {
    fileprivate init?(example members: inout Members) throws {
        if let number = members.take("retry")?.int {
            self = .retry(Int(number))
        } else if let choices = try members.object("decide") {
            self = .decide(choices)
        } else if try members.flag("let_go") {
            self = .letGo
        } else {
            return nil
        }
    }
}

extension MutationContent {
    fileprivate init(example members: inout Members) throws {
        let creation = try members.object("create"), change = try members.object("update")
        let isDeletion = try members.flag("delete")
        if [creation != nil, change != nil, isDeletion].filter({ $0 }).count > 1 {
            throw ExampleError("\(members.place): one of create, update and delete")
        }
        self.init(isDeletion ? .delete : creation == nil ? .update : .create, data: creation ?? change ?? [:])
        unset = try members.list("unset").map { try $0.text ?? { throw ExampleError("\(members.place): unset") }() }
        operations = try members.list("ops").map { value in
            var one = try Members(value, "\(members.place), ops")
            guard let kind = FieldOperation.Kind(rawValue: try one.text("op")), let operand = one.take("value") else {
                throw ExampleError("\(members.place): an operation has field, op and value")
            }
            let operation = FieldOperation(try one.text("field"), kind, operand)
            try one.finish()
            return operation
        }
        base = try members.object("base") ?? [:]
        if !isDeletion, creation == nil, change == nil, unset.isEmpty, operations.isEmpty {
            throw ExampleError("\(members.place): it asks for nothing")
        }
    }
}

extension WorkedExample.Answer {
    fileprivate init(_ json: JSON, _ place: String) throws {
        if json.text == "accepted" {
            self.init(.accepted(merged: [], kept: [:]))
            return
        }
        var members = try Members(json, "\(place), answer")
        func names(_ value: JSON?) throws -> [String] {
            try (value?.array ?? []).map { try $0.text ?? { throw ExampleError("\(place): a name") }() }
        }
        if let fields = members.take("conflict") {
            self.init(.conflict(fields: try names(fields)))
        } else if let state = members.take("ended")?.text {
            self.init(.ended(state))
        } else if let code = members.take("rejected")?.text {
            self.init(.rejected(code: code, detail: members.take("detail")?.text ?? ""))
        } else {
            self.init(.accepted(merged: try names(members.take("merged")), kept: try members.object("kept") ?? [:]))
        }
        try members.finish()
    }
}

extension EntityRules {
    fileprivate init(example rules: JSONObject, _ name: String) throws {
        self.init()
        var members = try Members(.object(rules), "\(name), rules")
        func word<Word: RawRepresentable<String>>(_ value: JSON) throws -> Word {
            try value.text.flatMap { Word(rawValue: $0) } ?? { throw ExampleError("\(name): no rule \(value.json)") }()
        }
        for member in try members.object("fields")?.members ?? [] { fields[member.name.text] = try word(member.value) }
        for member in try members.object("max_len")?.members ?? [] {
            maxLength[member.name.text] = try member.value.int.map { Int($0) } ?? { throw ExampleError("\(name): max_len") }()
        }
        if let value = members.take("kind") { kind = try word(value) }
        if let value = members.take("strategy") { strategy = try word(value) }
        if let value = members.take("on_deleted") { onDeleted = try word(value) }
        criticalFields = try members.list("critical_fields").compactMap(\.text)
        try members.finish()
    }
}

/// The members of an object of an example, each of which must be asked for.
private struct Members {
    private var rest: JSONObject
    var place: String

    init(_ json: JSON, _ place: String) throws {
        guard let object = json.object else { throw ExampleError("\(place) is an object") }
        (rest, self.place) = (object, place)
    }

    mutating func take(_ name: String) -> JSON? {
        let value = rest[name]
        rest[name] = nil
        return value
    }

    mutating func text(_ name: String) throws -> String {
        try take(name)?.text ?? { throw ExampleError("\(place): `\(name)` is missing, or no text") }()
    }

    mutating func time(_ name: String) throws -> Timestamp? {
        guard let value = take(name) else { return nil }
        guard let time = value.text, time.utf8.count == 5, let found = RFC3339.timestamp("2026-11-20T\(time):00Z") else {
            throw ExampleError("\(place): `\(name)` is a time such as 09:00")
        }
        return found
    }

    mutating func object(_ name: String) throws -> JSONObject? {
        guard let value = take(name) else { return nil }
        return try value.object ?? { throw ExampleError("\(place): `\(name)` is no object") }()
    }

    mutating func list(_ name: String) throws -> [JSON] {
        guard let value = take(name) else { return [] }
        return try value.array ?? { throw ExampleError("\(place): `\(name)` is no list") }()
    }

    mutating func flag(_ name: String) throws -> Bool {
        guard let value = take(name) else { return false }
        guard case .bool(true) = value else { throw ExampleError("\(place): `\(name)` is true, or is left out") }
        return true
    }

    func finish() throws {
        if !rest.isEmpty { throw ExampleError("\(place): \(rest.names.sorted().joined(separator: ", ")) is not known") }
    }
}
