#if ABLATIONS
    import SyncCore
    import Testing

    /// Merges of all devices run on the one thread that writes. So the cost of one merge is bounded by the sizes of the sent change and of
    /// the stored record, never by their product.
    ///
    /// Cost is what ``JSONWork`` counts, not time. Each shape is measured at four sizes, each twice the one before.
    @Suite("The cost of merges and folds grows with their input")
    struct MergeCostTests {
        /// Largest growth of the cost for one doubling. Linear is 2; a product is 4.
        private static let growthMax = 2.5
        private static let sizes = [250, 500, 1_000, 2_000]

        /// The changes that two devices make to one record.
        struct Shape: Sendable, CustomTestStringConvertible {
            var testDescription: String
            var rules: [String: FieldStrategy] = [:]
            var before: @Sendable (Int) -> JSONObject
            /// By the other device, without having seen it.
            var theirs: @Sendable (Int) -> MutationContent
            var mine: @Sendable (Int) -> MutationContent

            var book: EntityRules {
                var rules = EntityRules()
                rules.fields = self.rules
                return rules
            }
        }

        private static func fields(_ count: Int, _ value: JSON) -> JSONObject {
            var object = JSONObject()
            for number in 0..<count { object["f\(number)"] = value }
            return object
        }

        private static func names(_ count: Int) -> [String] { (0..<count).map { "f\($0)" } }
        private static func element(_ number: Int, _ value: Int = 0) -> JSON { ["id": .int(number), "v": .int(value)] }
        private static func list(_ count: Int, _ value: Int = 0) -> JSON { .array((0..<count).map { element($0, value) }) }
        private static func operations(_ count: Int, _ make: (Int) -> FieldOperation) -> MutationContent {
            MutationContent(.update, operations: (0..<count).map(make))
        }

        private static let shapes = [
            Shape(
                testDescription: "other values of all fields", before: { fields($0, 0) },
                theirs: { MutationContent(.update, data: fields($0, 1)) }, mine: { MutationContent(.update, data: fields($0, 2)) }),
            Shape(
                testDescription: "new fields", before: { _ in ["a": 1] },
                theirs: { MutationContent(.update, data: fields($0, 1)) }, mine: { MutationContent(.update, data: fields($0, 2)) }),
            Shape(
                testDescription: "all fields removed", before: { fields($0, 0) },
                theirs: { MutationContent(.update, data: fields($0, 1)) }, mine: { MutationContent(.update, unset: names($0)) }),
            Shape(
                testDescription: "all fields removed by both", before: { fields($0, 0) },
                theirs: { MutationContent(.update, unset: names($0)) }, mine: { MutationContent(.update, unset: names($0)) }),
            Shape(
                testDescription: "created twice", before: { _ in [:] },
                theirs: { MutationContent(.update, data: fields($0, 1)) }, mine: { MutationContent(.create, data: fields($0, 2)) }),
            Shape(
                testDescription: "deleted and changed", before: { fields($0, 0) },
                theirs: { MutationContent(.update, data: fields($0, 1)) }, mine: { _ in MutationContent(.delete) }),
            Shape(
                testDescription: "each field counted", before: { fields($0, 0) },
                theirs: { operations($0) { FieldOperation("f\($0)", .increment, 1) } },
                mine: { operations($0) { FieldOperation("f\($0)", .increment, 2) } }),
            Shape(
                testDescription: "elements put into a set", rules: ["tags": .set], before: { ["tags": list($0)] },
                theirs: { operations($0) { FieldOperation("tags", .add, element($0, 1)) } },
                mine: { operations($0) { FieldOperation("tags", .add, element($0, 2)) } }),
            Shape(
                testDescription: "elements taken out of a set", rules: ["tags": .set], before: { ["tags": list($0)] },
                theirs: { operations($0) { FieldOperation("tags", .add, element($0, 1)) } },
                mine: { operations($0) { FieldOperation("tags", .remove, element($0)) } }),
            Shape(
                testDescription: "two whole sets", rules: ["tags": .set], before: { ["tags": list($0)] },
                theirs: { MutationContent(.update, data: ["tags": list($0, 1)]) },
                mine: { MutationContent(.update, data: ["tags": list($0, 2)]) }),
            Shape(
                testDescription: "a list that both lengthen", rules: ["log": .append], before: { ["log": list($0)] },
                theirs: { operations($0) { FieldOperation("log", .append, [element($0, 1)]) } },
                mine: { operations($0) { FieldOperation("log", .append, [element($0, 2)]) } }),
            Shape(
                testDescription: "two rewritten lists", rules: ["log": .append], before: { ["log": list($0)] },
                theirs: { MutationContent(.update, data: ["log": list($0, 1)]) },
                mine: { MutationContent(.update, data: ["log": list($0, 2)]) }),
            Shape(
                testDescription: "a text that both lengthen", rules: ["text": .append], before: { _ in ["text": "a"] },
                theirs: { operations($0) { _ in FieldOperation("text", .append, "b") } },
                mine: { operations($0) { _ in FieldOperation("text", .append, "c") } }),
            Shape(
                testDescription: "members of an object", rules: ["o": .merge], before: { ["o": .object(fields($0, 0))] },
                theirs: { MutationContent(.update, data: ["o": .object(fields($0, 1))]) },
                mine: { MutationContent(.update, data: ["o": .object(fields($0, 2))], base: ["o": .object(fields($0, 0))]) }),
            Shape(
                testDescription: "members of an object, by two who say what it was", rules: ["o": .merge],
                before: { ["o": .object(fields($0, 0))] },
                theirs: { MutationContent(.update, data: ["o": .object(fields($0, 1))], base: ["o": .object(fields($0, 0))]) },
                mine: { MutationContent(.update, data: ["o": .object(fields($0 / 2, 1))], base: ["o": .object(fields($0, 1))]) }),
            Shape(
                testDescription: "objects without a member in common", rules: ["o": .merge], before: { _ in ["o": [:]] },
                theirs: { MutationContent(.update, data: ["o": .object(fields($0, 1))]) },
                mine: { count in
                    var mine = JSONObject()
                    for number in 0..<count { mine["g\(number)"] = 1 }
                    return MutationContent(.update, data: ["o": .object(mine)], base: ["o": [:]])
                }),
            Shape(
                testDescription: "fields that people decide", rules: Dictionary(uniqueKeysWithValues: names(2_000).map { ($0, .manual) }),
                before: { fields($0, 0) }, theirs: { MutationContent(.update, data: fields($0, 1)) },
                mine: { MutationContent(.update, data: fields($0, 2)) }),
        ]

        @Test("At the hub", arguments: shapes)
        func hub(_ shape: Shape) throws {
            try check(shape) { size in
                let there = Self.record(shape, size)
                return {
                    _ = HubMerge.apply(
                        Self.change(shape.mine(size), by: "gw-2", base: 1), to: there, rules: shape.book, commit: 3,
                        now: .init(milliseconds: 9))
                }
            }
        }

        @Test("In what apps see", arguments: shapes)
        func fold(_ shape: Shape) throws {
            try check(shape) { size in
                let contents = [shape.theirs(size), shape.mine(size)]
                return { _ = Fold.view(base: shape.before(size), mutations: contents) }
            }
        }

        @Test("When a change that waits meets what the hub has now, and when its author is told what it has lost", arguments: shapes)
        func rebase(_ shape: Shape) throws {
            try check(shape) { size in
                let known = shape.before(size)
                let remote = try #require(Fold.apply(shape.theirs(size), to: known))
                let local = Rebase.Local(
                    record: RecordName(EntityName(trusted: "e"), RecordID(trusted: "r")), content: shape.mine(size),
                    hlc: HybridTime(milliseconds: 7, counter: 0, node: "0000000a"),
                    signature: .init(device: DeviceID(trusted: "gw-2"), at: .init(milliseconds: 7), key: MutationKey(trusted: "k")))
                return {
                    let hubSide = Rebase.HubSide(
                        known: known, remote: remote, remoteHLC: HybridTime(milliseconds: 5, counter: 0, node: "0000000b"))
                    _ = Rebase.decide(local, against: hubSide, rules: shape.book)
                    _ = Rebase.lost(of: local, merged: remote.names, in: remote, rules: shape.book)
                }
            }
        }

        @Test("When two changes become one, and when a change is said as a difference", arguments: shapes)
        func coalesce(_ shape: Shape) throws {
            try check(shape) { size in
                let (first, second, seen) = (shape.theirs(size), shape.mine(size), shape.before(size))
                return {
                    _ = Coalescing.merge(first, second, stamp: HybridTime(milliseconds: 5, counter: 0, node: "0000000a"))
                    _ = WireForm.of(second, seen: seen, rules: shape.book, alsoBesideOperations: true)
                    _ = WireForm.bases(second, seen: seen, rules: shape.book)
                }
            }
        }

        @Test("A search in place of the index would be noticed")
        func control() throws {
            // The lookup as it was before there was an index: it shows that the measure notices a product.
            func visits(_ size: Int) -> Int {
                let object = Self.fields(size, 1)
                return JSONWork.visits {
                    for name in Self.names(size) { _ = object.members.first { .string($0.name) == .string(name) } }
                }
            }
            let growth = zip(Self.sizes, Self.sizes.dropFirst()).map { Double(visits($1)) / Double(visits($0)) }
            #expect(growth.allSatisfy { $0 > Self.growthMax }, "\(growth)")
        }

        private func check(_ shape: Shape, _ prepare: (Int) throws -> () -> Void) throws {
            let visits = try Self.sizes.map { size in
                let run = try prepare(size)
                return JSONWork.visits(in: run)
            }
            for (before, after) in zip(visits, visits.dropFirst()) {
                #expect(Double(after) <= Self.growthMax * Double(before) + 200, "\(shape.testDescription): \(visits) at \(Self.sizes)")
            }
        }

        private static func record(_ shape: Shape, _ size: Int) -> VersionedRecord {
            var record: VersionedRecord?
            for (content, base) in [(MutationContent(.create, data: shape.before(size)), Int64(0)), (shape.theirs(size), 1)] {
                let outcome = HubMerge.apply(
                    change(content, by: "gw-1", base: base), to: record, rules: shape.book, commit: base + 1, now: .init(milliseconds: 9))
                if case .accepted(let accepted) = outcome { record = accepted.record }
            }
            return record
                ?? VersionedRecord(
                    data: [:],
                    stamp: .init(version: 1, hlc: .init(milliseconds: 1, counter: 0, node: "0"), writer: DeviceID(trusted: "gw-1")))
        }

        private static func change(_ content: MutationContent, by device: String, base: Int64) -> HubMerge.Change {
            HubMerge.Change(
                device: DeviceID(trusted: device), key: MutationKey(trusted: "k-\(device)-\(base)"),
                mutation: IncomingMutation(
                    record: RecordName(EntityName(trusted: "e"), RecordID(trusted: "r")), content: content, baseVersion: base,
                    hlc: HybridTime(milliseconds: UInt64(5 + base), counter: 0, node: "0000000a")))
        }
    }
#endif
