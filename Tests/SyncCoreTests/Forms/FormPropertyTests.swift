import SyncCore
import Testing

/// Laws over random forms and random answers.
@Suite("Laws of forms")
struct FormPropertyTests {
    /// Makes forms that can be read, and records with right, wrong and missing answers.
    private struct Maker {
        var random: SeededRandom
        private(set) var names: [String] = []

        init(seed: UInt64) { random = SeededRandom(seed: seed) }

        mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }
        mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }

        /// A form that can be read: most random conditions can hold together, and the others are refused.
        mutating func form() -> JSON {
            while true {
                let json = anyForm()
                // A refusal is no failure here: another form is made.
                if (try? Form(json)) != nil { return json }
            }
        }

        private mutating func anyForm() -> JSON {
            names = []
            var earlier: [(String, String)] = []
            let sections = (0..<number(1...3)).map { index -> JSON in
                var section: JSONObject = ["id": .string("s\(index)")]
                if index > 0, chance(40), !earlier.isEmpty { section["visible_when"] = condition(earlier) }
                section["fields"] = .array(fields(number(1...6), &earlier, isGroup: false))
                return .object(section)
            }
            return ["sections": .array(sections)]
        }

        private mutating func fields(_ count: Int, _ earlier: inout [(String, String)], isGroup: Bool) -> [JSON] {
            (0..<count).map { _ in
                let types = ["choice", "multi_choice", "text", "integer", "checkbox", "date", "photo"] + (isGroup ? [] : ["group"])
                let type = types[number(0...(types.count - 1))]
                let id = "q\(names.count)"
                names.append(id)
                var field: JSONObject = ["id": .string(id), "type": .string(type), "required": .bool(chance(60))]
                if chance(40), !earlier.isEmpty { field["visible_when"] = condition(earlier) }
                switch type {
                case "choice", "multi_choice": field["choices"] = ["a", "b", "c"]
                case "photo": field["min"] = .int(number(0...2))
                case "integer": (field["min"], field["max"]) = (0, 5)
                case "group":
                    var inside = earlier
                    field["fields"] = .array(fields(number(1...3), &inside, isGroup: true))
                default: break
                }
                earlier.append((id, type))
                return .object(field)
            }
        }

        /// A condition that names one question, so that it can hold.
        private mutating func condition(_ earlier: [(String, String)]) -> JSON {
            let (id, type) = earlier[number(0...(earlier.count - 1))]
            let test: JSON =
                switch type {
                case "choice", "multi_choice": chance(50) ? "a" : ["b", "c"]
                case "integer": ["min": .int(number(0...5))]
                case "checkbox": .bool(chance(50))
                default: ["set": .bool(chance(70))]
                }
            let plain: JSON = .object(JSONObject(dictionaryLiteral: (id, test)))
            return chance(25) ? ["not": plain] : plain
        }

        mutating func record(of form: JSON, wrong: Int = 10, missing: Int = 25) -> JSONObject {
            var record: JSONObject = ["status": "open"]
            for section in form.object?["sections"]?.array ?? [] {
                for member in answers(section, wrong, missing).members { record[member.name.text] = member.value }
            }
            return record
        }

        private mutating func answers(_ parent: JSON, _ wrong: Int, _ missing: Int) -> JSONObject {
            var object = JSONObject()
            for field in parent.object?["fields"]?.array ?? [] {
                guard let id = field.object?["id"]?.text, !chance(missing) else { continue }
                object[id] = chance(wrong) ? .object(["wrong": true]) : answer(field, wrong, missing)
            }
            return object
        }

        mutating func answer(_ field: JSON, _ wrong: Int = 0, _ missing: Int = 0) -> JSON {
            let file: JSON = .object(["$blob": .string("sha256:" + String(repeating: "b", count: 64))])
            switch field.object?["type"]?.text {
            case "choice": return .string(["a", "b", "c"][number(0...2)])
            case "multi_choice": return chance(50) ? ["a"] : ["b", "c"]
            case "text": return .string("t\(number(0...9))")
            case "integer": return .int(number(0...5))
            case "checkbox": return .bool(chance(50))
            case "date": return "2026-04-30"
            case "photo": return [file, file]
            default: return .array((0..<number(1...3)).map { _ in .object(answers(field, wrong, missing)) })
            }
        }
    }

    private static let seeds = Array(UInt64(1)...12)

    /// The questions at the top that a record does not show, found without the code under test's own list: an answer of a wrong kind is a
    /// fault exactly where it counts.
    private static func hidden(_ form: Form, _ record: JSONObject, _ names: [String]) -> [String] {
        names.filter { name in
            var probe = record
            probe[name] = .object(["wrong": true])
            return !form.faults(in: probe).contains { $0.pointer == "/" + name }
        }
    }

    @Test("Hidden answers never change the result", arguments: seeds)
    func hiddenAnswers(_ seed: UInt64) throws {
        var maker = Maker(seed: seed)
        for _ in 0..<10 {
            let json = maker.form()
            let form = try Form(json)
            let record = maker.record(of: json)
            let judged = form.judge(record)
            var changed = record
            for name in Self.hidden(form, record, maker.names) where maker.chance(70) {
                changed[name] = maker.chance(50) ? nil : .string("anything")
            }
            var other = form.judge(changed)
            other.steps = judged.steps
            #expect(other == judged, "\(json.json) \(record.json) \(changed.json)")
        }
    }

    @Test("A record is complete exactly when it has 100 percent", arguments: seeds)
    func percent(_ seed: UInt64) throws {
        var maker = Maker(seed: seed)
        for _ in 0..<10 {
            let json = maker.form()
            let form = try Form(json)
            let record = maker.record(of: json, missing: maker.chance(50) ? 0 : 25)
            let progress = form.progress(of: record)
            #expect((progress.total.percent == 100) == form.holes(in: record).isEmpty)
            #expect(progress.total.missing == progress.holes.count)
            #expect(progress.total == progress.sections.map(\.count).reduce(FormCount(), +))
            #expect(progress.total.answered <= progress.total.questions && progress.total.required <= progress.total.questions)
            for section in progress.sections where !section.applies { #expect(section.count == FormCount()) }
        }
    }

    @Test("To take a needed answer away makes exactly it missing", arguments: seeds)
    func removal(_ seed: UInt64) throws {
        var maker = Maker(seed: seed)
        for _ in 0..<10 {
            let json = maker.form()
            let form = try Form(json)
            let record = maker.record(of: json, wrong: 0, missing: 0)
            guard form.holes(in: record).isEmpty else { continue }
            for section in json.object?["sections"]?.array ?? [] {
                for field in section.object?["fields"]?.array ?? [] {
                    guard let id = field.object?["id"]?.text else { continue }
                    // Another question may look at it; then more can change.
                    let text = json.json
                    guard !text.contains("{\"\(id)\":") else { continue }
                    var less = record
                    less[id] = nil
                    let isNeeded =
                        field.object?["required"]?.bool == true || (field.object?["min"]?.int ?? 0) > 0 && field.object?["max"] == nil
                    let isHidden = Self.hidden(form, record, [id]) == [id]
                    #expect(form.holes(in: less).map(\.pointer) == (isNeeded && !isHidden ? ["/" + id] : []), "\(text) \(less.json)")
                }
            }
        }
    }

    @Test("The order of members does not matter", arguments: seeds)
    func order(_ seed: UInt64) throws {
        var maker = Maker(seed: seed)
        for _ in 0..<10 {
            let json = maker.form()
            let record = maker.record(of: json)
            let form = try Form(json), shuffledForm = try Form(Self.shuffled(json, &maker.random))
            let judged = form.judge(record)
            let other = form.judge(Self.shuffled(.object(record), &maker.random).object ?? [:])
            #expect(other == judged)
            var third = shuffledForm.judge(record)
            third.steps = judged.steps
            #expect(third == judged)
        }
    }

    /// The same value with the members of each object in another order.
    private static func shuffled(_ json: JSON, _ random: inout SeededRandom) -> JSON {
        switch json {
        case .array(let list): return .array(list.map { shuffled($0, &random) })
        case .object(let object):
            var members = object.members
            for index in members.indices { members[index].value = shuffled(members[index].value, &random) }
            return .object(JSONObject(uniqueMembers: members.shuffled(using: &random)))
        case .null, .bool, .number, .string: return json
        }
    }
}
