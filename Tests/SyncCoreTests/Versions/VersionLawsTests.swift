import Testing

@testable import SyncCore

/// Laws of the conversion between versions of a schema, over random documents, changes, rules and steps (PROTOCOL D7).
@Suite struct VersionLawsTests {
    static let rounds = 4_000

    @Test(arguments: [UInt64(1), 2, 3])
    func convertingThereAndBackGivesTheSameBytes(seed: UInt64) throws {
        var world = ShapeWorld(seed: seed)
        for _ in 0..<Self.rounds {
            let steps = world.steps(.lossless), document = world.document()
            let there = steps.convert(document)
            let back = try steps.inverse(under: ShapeWorld.schema).convert(there)
            #expect(ShapeWorld.sorted(back) == ShapeWorld.sorted(document), "\(steps.json.json) by \(there.json)")
        }
    }

    @Test(arguments: [UInt64(4), 5])
    func theWayOverAVersionBetweenIsTheWay(seed: UInt64) throws {
        var world = ShapeWorld(seed: seed)
        for _ in 0..<Self.rounds {
            let (first, second) = (world.steps(.any), world.steps(.any))
            let versions = try SchemaVersions(
                present: 3, versions: [1: .init(), 2: .init(up: first, down: []), 3: .init(up: second, down: [])], accepts: nil)
            let document = world.document(), change = world.change(to: document)
            let whole = try #require(versions.up(from: 1)), rest = try #require(versions.up(from: 2))
            #expect(whole.convert(document).json == rest.convert(first.convert(document)).json)
            let stepwise = rest.convert(first.convert(change, seen: document), seen: first.convert(document))
            #expect(whole.convert(change, seen: document) == stepwise)
        }
    }

    @Test(arguments: [UInt64(6), 7, 8])
    func foldingAndThenConvertingIsConvertingAndThenFolding(seed: UInt64) throws {
        var world = ShapeWorld(seed: seed)
        for _ in 0..<Self.rounds {
            let steps = world.steps(.any), document = world.document(), rules = world.rules()
            let change = try world.change(to: document, under: rules).placed(under: rules)
            let after = ShapeWorld.rules(rules, after: steps)
            let converted = try steps.convert(change, seen: document).placed(under: after)
            let foldedFirst = Fold.apply(change, to: document).map { steps.convert($0) }
            let convertedFirst = Fold.apply(converted, to: steps.convert(document))
            #expect(
                foldedFirst.map(ShapeWorld.sorted) == convertedFirst.map(ShapeWorld.sorted),
                "\(steps.json.json) of \(document.json) and \(change): \(converted)")
        }
    }

    @Test(arguments: [UInt64(9), 10, 11])
    func mergingAndThenConvertingIsConvertingAndThenMerging(seed: UInt64) throws {
        var world = ShapeWorld(seed: seed)
        var accepted = 0
        for _ in 0..<Self.rounds {
            // The steps contain no move between a field and a member: for two changes at the same time the rules compare fields and members
            // differently. They also contain no map that gives one name to two values: equal values afterwards are no contest.
            let steps = world.steps(.any, isContested: true), rules = world.rules(), after = ShapeWorld.rules(rules, after: steps)
            var record = world.record(under: rules), converted = steps.convert(record)
            for number in 0..<3 {
                let seen = record.data ?? [:]
                let change = world.hubChange(to: record, number, under: rules)
                var lifted = change
                lifted.mutation.content = try steps.convert(change.mutation.content, seen: seen).placed(under: after)
                let commit = record.version + 1
                let first = HubMerge.apply(change, to: record, rules: rules, commit: commit, now: ShapeWorld.now)
                let second = HubMerge.apply(lifted, to: converted, rules: after, commit: commit, now: ShapeWorld.now)
                guard case .accepted(let merged) = first else { break }
                guard case .accepted(let other) = second else {
                    // A conflict is asked about where one value is given for two others; then nothing is lost.
                    Issue.record("\(first) became \(second) by \(steps.json.json)")
                    break
                }
                accepted += 1
                record = merged.record ?? record
                converted = other.record ?? converted
                let expected = record.data.map { ShapeWorld.sorted(steps.convert($0)) }
                #expect(
                    converted.data.map(ShapeWorld.sorted) == expected,
                    "\(steps.json.json) of \(seen.json) and \(change.mutation): \(lifted.mutation.content)")
                guard converted.data.map(ShapeWorld.sorted) == expected else { return }
            }
        }
        #expect(accepted > Self.rounds)
    }

    /// A hub that accepts its present version alone may still have to go back, and a device that follows must convert what waits.
    @Test func settingsGoBackToAVersionThatIsNotAccepted() throws {
        let known: [Int: SchemaVersions.Version] = [
            1: .init(), 2: .init(up: [.values("s", ["a": "c", "b": "c"])]), 3: .init(up: [.rename("s", to: "t")]),
        ]
        let versions = try SchemaVersions(present: 3, versions: known, accepts: [3])
        #expect(versions.accepts == [3])
        #expect(versions.steps(from: 3, to: 2) == [.rename("s", to: "t")])
        #expect(versions.steps(from: 3, to: 1) == nil, "two values have one name there")
        #expect(throws: SchemaVersions.Fault.self) { try SchemaVersions(present: 3, versions: known, accepts: [1, 3]) }
        let older = try SchemaVersions(present: 2, versions: known.filter { $0.key < 3 }, accepts: [2])
        #expect(older.steps(from: StoredSchema(versions)) == [.rename("s", to: "t")])
    }

    @Test func numbersAndTextsStayByteForByte() throws {
        let document = try #require(try JSONReader.read(#"{"site":"\u0041\/é","count":1.10,"big":9007199254740993,"tags":1e2}"#).object)
        let steps: SchemaSteps = [
            .rename("site", to: "site_id"), .wrap("tags"), .fill("severity", "minor"), .rename("count", to: "visits"),
        ]
        #expect(
            steps.convert(document).json
                == #"{"site_id":"\u0041\/é","visits":1.10,"big":9007199254740993,"tags":[1e2],"severity":"minor"}"#)
    }
}

/// Random documents of a small vocabulary, so that steps, changes and rules meet.
struct ShapeWorld {
    var random: SeededRandom

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    static let now = Timestamp(milliseconds: 2_000_000_000_000)
    /// The older schema knows every field but the one that the steps fill in, and requires none.
    static let schema = try? DocumentSchema(["properties": ["site": true, "status": true, "note": true, "tags": true, "lat": true]])

    enum Kind { case lossless, any }

    private mutating func pick<T>(_ items: [T]) -> T { items[Int(random.next() % UInt64(items.count))] }
    private mutating func chance(_ percent: UInt64) -> Bool { random.next() % 100 < percent }

    /// Members in the order of their names: a conversion may move a member to the end. An object that has lost its last member counts as
    /// none: merging leaves it, and moving takes it away.
    static func sorted(_ document: JSONObject) -> String {
        var members = document.members.sorted { $0.name.text < $1.name.text }
        for index in members.indices {
            guard let inner = members[index].value.object else { continue }
            members[index].value = .object(JSONObject(uniqueMembers: inner.members.sorted { $0.name.text < $1.name.text }))
        }
        return JSONObject(uniqueMembers: members.filter { $0.value.object?.isEmpty != true }).json
    }

    mutating func value(of field: String) -> JSON {
        switch field {
        case "status": pick(["open", "done", "lost", 1, true])
        case "count": .int(Int64(random.next() % 9))
        case "tags": pick(["a", "b", 2])
        case "labels": .array([pick(["x", "y"]), pick(["z", "w"])])
        case "position": .object(["lat": .int(Int64(random.next() % 9)), "lon": .int(Int64(random.next() % 9))])
        default: pick(["A", "B", #"""#, "é", 7])
        }
    }

    static let fields = ["site", "status", "note", "tags", "lat", "count", "labels", "position"]

    mutating func document() -> JSONObject {
        var document: JSONObject = [:]
        for field in Self.fields where chance(70) { document[field] = value(of: field) }
        return document
    }

    mutating func steps(_ kind: Kind, isContested: Bool = false) -> SchemaSteps {
        var pool: [SchemaStep] = [
            .rename("site", to: "site_id"), .rename("note", to: "site"), .rename("count", to: "visits"),
            .values("status", ["open": "waiting", "1": "one"]), .fill("severity", "minor"), .wrap("tags"),
        ]
        if kind == .any {
            pool += [.drop("note"), .fill("note", "none"), .fill("site", "S")]
            if !isContested { pool.append(.values("status", ["open": "done"])) }
        }
        // The members of an object are moved once: afterwards it may be gone.
        let moves: [SchemaStep] = [
            .moveInto("lat", .init("position", "height")), .moveOut(.init("position", "lon"), "lon"),
            .moveInto("note", .init("position", "text")),
        ]
        var steps: [SchemaStep] = []
        for step in pool where chance(40) { steps.append(step) }
        for index in steps.indices.dropLast() where chance(50) { steps.swapAt(index, index + 1) }
        if !isContested, chance(40) { steps.insert(pick(moves), at: Int(random.next() % UInt64(steps.count + 1))) }
        // A fill that meets an absent field of the older schema is not lossless, by its nature.
        return SchemaSteps(steps)
    }

    mutating func rules() -> EntityRules {
        var rules = EntityRules()
        rules.fields = ["count": .counter, "labels": .set, "position": .merge]
        if chance(50) { rules.fields["status"] = pick([.server, .client, .lww]) }
        return rules
    }

    static func rules(_ rules: EntityRules, after steps: SchemaSteps) -> EntityRules {
        var after = rules
        after.fields = [:]
        for (field, rule) in rules.fields { if let name = steps.name(of: field) { after.fields[name] = rule } }
        return after
    }

    mutating func change(to document: JSONObject, under rules: EntityRules = EntityRules()) -> MutationContent {
        var content = MutationContent(.update)
        for field in Self.fields where chance(35) {
            switch field {
            case "count" where rules.strategy(of: "count") == .counter: content.operations.append(FieldOperation("count", .increment, 2))
            case "labels" where rules.strategy(of: "labels") == .set:
                content.operations.append(FieldOperation("labels", pick([.add, .remove]), pick(["x", "q"])))
            case "position" where rules.strategy(of: "position") == .merge:
                // The value as the author had seen it, with one member changed.
                guard let before = document["position"]?.object else { continue }
                var object = before
                object[pick(["lat", "lon"])] = .int(Int64(random.next() % 90))
                content.data["position"] = .object(object)
                content.base["position"] = .object(before)
            case "count", "labels", "position": continue
            default: if chance(25), document[field] != nil { content.unset.append(field) } else { content.data[field] = value(of: field) }
            }
        }
        return content
    }

    mutating func stamp(_ version: Int64, _ writer: String? = nil) -> VersionedRecord.Stamp {
        let writer = writer ?? pick(["gw-1", "gw-2"])
        let time = HybridTime(milliseconds: 1_000_000 + random.next() % 1_000, counter: 0, node: writer == "gw-1" ? "01" : "02")
        return VersionedRecord.Stamp(version: version, hlc: time, writer: DeviceID(trusted: writer))
    }

    mutating func record(under rules: EntityRules) -> VersionedRecord {
        let data = document()
        var exceptions: [JSONString: VersionedRecord.Stamp] = [:]
        for field in Self.fields where chance(40) { exceptions[JSONString(field)] = stamp(Int64(random.next() % 9 + 1)) }
        return VersionedRecord(data: data, stamp: stamp(10), exceptions: exceptions)
    }

    mutating func hubChange(to record: VersionedRecord, _ number: Int, under rules: EntityRules) -> HubMerge.Change {
        let device = pick(["gw-1", "gw-2"])
        var mutation = IncomingMutation(
            record: RecordName(EntityName(trusted: "audits"), RecordID(trusted: "r")),
            content: change(to: record.data ?? [:], under: rules), baseVersion: Int64(random.next() % UInt64(record.version + 1)),
            hlc: stamp(0, device).hlc)
        if let placed = try? mutation.content.placed(under: rules) { mutation.content = placed }  // The vocabulary has no misplaced ones.
        return HubMerge.Change(device: DeviceID(trusted: device), key: MutationKey(trusted: "k-\(number)"), mutation: mutation)
    }
}
