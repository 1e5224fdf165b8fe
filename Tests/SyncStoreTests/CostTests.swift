import Foundation
import SyncCore
import SyncStore
import Synchronization
import Testing

/// Work may grow with what is asked for, and no faster: for each kind of request and each thing that waits, sizes n, 2n, 4n and 8n
/// are run, and what is counted may grow by less than 2.5 with each doubling (linear work grows by 2, and the logarithm of a tree
/// that gets deeper by a little more).
///
/// Counted are steps of SQLite's virtual machine, which do not depend on the machine or on what else it does. Loops of the store in
/// memory go over rows that a statement gave it, so they are seen as long as each round reads something; those that compare in
/// memory alone are kept to sets and heaps. Work inside one document is not seen here.
///
/// `COST_SCALE=8` in the environment makes all sizes eight times as large.
@Suite("Cost by doubling")
struct CostTests {
    /// A thing that there may be many of.
    struct Case: CustomTestStringConvertible, Sendable {
        var name: String
        /// The smallest of four sizes.
        var size: Int
        /// Makes ready what is not counted, and returns what is.
        var prepare: @Sendable (TestAgent, Int) throws -> () throws -> Void

        init(_ name: String, _ size: Int = 100, _ prepare: @escaping @Sendable (TestAgent, Int) throws -> () throws -> Void) {
            (self.name, self.size, self.prepare) = (name, size, prepare)
        }

        var testDescription: String { name }
    }

    private static let scale = max(1, ProcessInfo.processInfo.environment["COST_SCALE"].flatMap { Int($0) } ?? 1)

    private static let rules: RuleBook = {
        var book = TieTests.rules
        book.entities[EntityName(trusted: "audit")] = EntityRules()
        for number in 0..<900 { book.entities[EntityName(trusted: "e\(number)")] = EntityRules() }
        return book
    }()

    /// Steps for each of the four sizes.
    private static func costs(_ example: Case) throws -> [Int] {
        try [1, 2, 4, 8].map { factor in
            let agent = try TestAgent(rules: rules, capacity: TestAgent.capacity(1_000_000))
            let work = try example.prepare(agent, example.size * factor * scale)
            let before = agent.database.stepsTaken
            try work()
            return agent.database.stepsTaken - before
        }
    }

    /// The doublings that cost more than they may, such as "800: 3.9".
    private static func excess(_ costs: [Int]) -> [String] {
        zip(costs, costs.dropFirst()).compactMap { $1 * 2 < $0 * 5 ? nil : "\($0) -> \($1)" }
    }

    @Test("Twice as much costs about twice as many steps", arguments: cases)
    func doubling(_ example: Case) throws {
        let costs = try Self.costs(example)
        #expect(Self.excess(costs) == [], "\(costs)")
    }

    @Test(
        "The check sees work that grows with the square",
        arguments: [
            Case("each enqueue looks at all that waits", 40) { agent, count in
                try agent.create("a")
                return {
                    for number in 0..<count {
                        try agent.update("a", ["v": .int(number)])
                        _ = try agent.store.reads.waiting(limit: 100_000, at: agent.now)
                    }
                }
            },
            // So it is, and known: each refusal makes what apps see of the record anew, from all that still waits. One answer with many
            // of them does so once.
            Case("changes of one record are refused, in an answer each", 40) { agent, count in
                try waiting(agent, count)
                return { try settleOneByOne(agent) { mutation, _ in .rejected(mutation.key) } }
            },
            Case("each verdict shows news, in an answer of its own", 40) { agent, count in
                try waiting(agent, count)
                let batch = try agent.claim(count / 2)
                return {
                    for (index, mutation) in batch.enumerated() {
                        let data: JSONObject = ["v": .int(index), "other": .int(index)]
                        try agent.answer(
                            .accepted(mutation.key, Int64(10 + index), record: HubRecord(version: Int64(10 + index), data: data)))
                    }
                }
            },
        ])
    func control(_ example: Case) throws {
        #expect(try Self.excess(Self.costs(example)).isEmpty == false)
    }

    /// A parent with children that wait for it: 2,500, 5,000 and 10,000 of them. Two tests begin so, each on copies, because to make them
    /// takes most of the time of both.
    private enum Family {
        private struct Made: @unchecked Sendable {
            // Unchecked: used under the lock alone.
            var parent: MutationKey
            var databases: [Database] = []
        }

        private static let made = Mutex(Result { try make() })

        private static func make() throws -> Made {
            let agent = try agent()
            var made = Made(parent: try agent.enqueue(site("s")).key)
            for number in 0..<10_000 {
                try agent.enqueue(visit("v\(number)"))
                if [2_500, 5_000, 10_000].contains(number + 1) { made.databases.append(try agent.database.copy()) }
            }
            return made
        }

        private static func agent(on database: Database? = nil) throws -> TestAgent {
            try TestAgent(rules: rules, capacity: TestAgent.capacity(1_000_000), on: database)
        }

        static func agents() throws -> (parent: MutationKey, agents: [TestAgent]) {
            let (parent, copies) = try made.withLock { made in
                let made = try made.get()
                return (made.parent, try made.databases.map { try $0.copy() })
            }
            return (parent, try copies.map { try agent(on: $0) })
        }
    }

    @Test("The transaction with a verdict frees one slice of the waiting mutations, and each claim after it frees another")
    func verdictFreesOneSliceOfTheWaiting() throws {
        var first: [Int] = [], second: [Int] = []
        let (key, agents) = try Family.agents()
        for agent in agents {
            #expect(try agent.claim(1).map(\.key) == [key])
            let before = agent.database.stepsTaken
            try agent.answer(.accepted(key, 1))
            first.append(agent.database.stepsTaken - before)
            _ = try agent.claim(1)
            second.append(agent.database.stepsTaken - before - first[first.count - 1])
        }
        // Nothing but the depth of a tree may show.
        #expect(first[2] * 10 < first[0] * 12, "\(first)")
        #expect(second[2] * 10 < second[0] * 12, "\(second)")
    }

    @Test("The transaction with a rejection undoes one slice of the dependants, and each one after it undoes another")
    func rejectionUndoesOneSliceOfTheDependants() throws {
        var first: [Int] = [], second: [Int] = []
        let (key, agents) = try Family.agents()
        for agent in agents {
            #expect(try agent.claim(1).map(\.key) == [key])
            let before = agent.database.stepsTaken
            try agent.answer(.rejected(key))
            first.append(agent.database.stepsTaken - before)
            try agent.store.goOnFalling(at: agent.now)
            second.append(agent.database.stepsTaken - before - first[first.count - 1])
        }
        #expect(first[2] * 10 < first[0] * 12, "\(first)")
        #expect(second[2] * 10 < second[0] * 12, "\(second)")
    }

    // MARK: - What there may be many of

    /// Changes of one record that wait each for itself.
    private static func waiting(_ agent: TestAgent, _ count: Int, priority: Priority? = nil) throws {
        try agent.pull([("a", 5, ["v": 0, "other": 0])])
        try agent.pull([("b", 5, ["v": 0])])
        for number in 0..<count { try agent.update("a", ["v": .int(number)], priority: priority) }
    }

    /// Claims batches of 50 and answers them, until nothing is left.
    private static func settle(_ agent: TestAgent, _ verdict: (OutgoingMutation, Int64) throws -> PushResult) throws {
        var version: Int64 = 100
        var batch = try agent.claim()
        while !batch.isEmpty {
            var results: [PushResult] = []
            for mutation in batch {
                version += 1
                results.append(try verdict(mutation, version))
            }
            batch = try agent.store.applyResults(results, next: TestAgent.anyBatch, at: agent.now).next?.mutations ?? []
        }
        #expect(try agent.claim().isEmpty)
    }

    /// The same, one in a batch.
    private static func settleOneByOne(_ agent: TestAgent, _ verdict: (OutgoingMutation, Int64) throws -> PushResult) throws {
        var version: Int64 = 100
        while let mutation = try agent.claim(1).first {
            version += 1
            try agent.answer(verdict(mutation, version))
        }
    }

    private static func site(_ id: String, after keys: [MutationKey] = []) -> NewMutation {
        NewMutation(.create, EntityName(trusted: "site"), RecordID(trusted: id), data: ["n": 1], dependsOn: keys)
    }

    private static func visit(_ id: String, _ data: JSONObject = ["site": "s"]) -> NewMutation {
        TestAgent.mutation(.create, id, data, entity: "visit")
    }

    /// Each waits for the one before it. At eight times the size it is near the limit of a chain.
    private static func chain(_ agent: TestAgent, _ count: Int) throws -> [MutationKey] {
        var keys: [MutationKey] = []
        for number in 0..<count { keys.append(try agent.enqueue(site("s\(number)", after: keys.suffix(1))).key) }
        return keys
    }

    /// Accepted, with the record as it was computed here.
    private static func shown(_ mutation: OutgoingMutation, _ version: Int64) throws -> PushResult {
        var data = try #require(try mutation.data.flatMap { try JSONReader.read($0).object })
        data["other"] = 0
        return .accepted(mutation.key, version, record: HubRecord(version: version, data: data))
    }

    private static let cases: [Case] = [
        // Changes of one record.
        Case("enqueue changes of one record") { agent, count in { try waiting(agent, count) } },
        Case("drain changes of one record, verdicts without it") { agent, count in
            try waiting(agent, count)
            return { try settle(agent) { .accepted($0.key, $1) } }
        },
        Case("drain changes of one record, verdicts with it") { agent, count in
            try waiting(agent, count)
            return {
                try settle(agent, shown)
            }
        },
        Case("one batch of verdicts with news, changes of one record behind it") { agent, count in
            try waiting(agent, count + 50)
            let batch = try agent.claim()
            return {
                let results = batch.enumerated().map { index, mutation in
                    let version = Int64(10 + index)
                    return PushResult.accepted(
                        mutation.key, version, record: HubRecord(version: version, data: ["v": .int(index), "other": 1]))
                }
                _ = try agent.store.applyResults(results, next: nil, at: agent.now)
            }
        },
        Case("drain changes of one record, one verdict an answer, without it") { agent, count in
            try waiting(agent, count)
            return { try settleOneByOne(agent) { .accepted($0.key, $1) } }
        },
        Case("drain changes of one record, one verdict an answer, with what was computed here") { agent, count in
            try waiting(agent, count)
            return {
                try settleOneByOne(agent, shown)
            }
        },
        Case("changes of one record are sent back once each") { agent, count in
            try waiting(agent, count)
            return {
                for number in 0..<count {
                    let first = try #require(try agent.claim(1).first)
                    try agent.answer(.retry(first.key, "busy"))
                    agent.wait(.seconds(120))
                    let again = try #require(try agent.claim(1).first)
                    try agent.answer(.accepted(again.key, Int64(100 + number)))
                }
            }
        },
        Case("a pull onto changes of one record") { agent, count in
            try waiting(agent, count)
            return { try agent.pull([("a", 50, ["v": 0, "other": 1])]) }
        },
        Case("repeated verdicts on one record, in one answer") { agent, count in
            try waiting(agent, count)
            // All of it may have been sent.
            try agent.store.adoptReplica(ReplicaID(trusted: "another"), at: agent.now)
            return {
                let record = HubState.record(HubRecord(version: 9_000, data: ["v": .int(count - 1), "other": 1]))
                let batch = try agent.inFlight(count)
                #expect(batch.count == count)
                _ = try agent.store.applyResults(batch.map { .duplicate($0.key, .accepted, record) }, next: nil, at: agent.now)
            }
        },
        Case("raise changes of one record") { agent, count in
            try waiting(agent, count, priority: .bulk)
            return { try agent.update("a", ["v": 1], priority: .critical) }
        },
        Case("give up overdue changes of one record") { agent, count in
            try waiting(agent, 0)
            for number in 0..<count {
                var change = TestAgent.mutation(.update, "a", ["v": .int(number)])
                change.ttl = .seconds(60)
                try agent.enqueue(change)
            }
            agent.wait(.seconds(90))
            return { () throws -> Void in #expect(try agent.claim().isEmpty) }
        },
        Case("cancel a creation with changes behind it") { agent, count in
            let key = try agent.create("a").key
            for number in 0..<count { try agent.update("a", ["v": .int(number)]) }
            return { _ = try agent.store.cancel(key, at: agent.now) }
        },
        Case("refuse a creation with changes behind it, retry all") { agent, count in
            let key = try agent.create("a").key
            for number in 0..<count { try agent.update("a", ["v": .int(number)]) }
            _ = try agent.claim(1)
            return {
                try agent.answer(.rejected(key))
                _ = try agent.store.retry(key, cascades: true, by: agent.app, at: agent.now)
            }
        },
        // Parents, children and chains.
        Case("children after their parent") { agent, count in
            {
                try agent.enqueue(site("s"))
                for number in 0..<count { try agent.enqueue(visit("v\(number)")) }
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("children before their parent") { agent, count in
            for number in 0..<count { try agent.enqueue(visit("v\(number)")) }
            return {
                try agent.enqueue(site("s"))
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("a parent is refused with its children, retry all") { agent, count in
            let key = try agent.enqueue(site("s")).key
            for number in 0..<count { try agent.enqueue(visit("v\(number)")) }
            _ = try agent.claim(1)
            return {
                try agent.answer(.rejected(key))
                _ = try agent.store.retry(key, cascades: true, by: agent.app, at: agent.now)
            }
        },
        Case("a chain of children that were made before their parents") { agent, count in
            {
                for number in 0..<count { try agent.enqueue(visit("v\(number)", ["above": .string("v\(number + 1)")])) }
                try agent.enqueue(TestAgent.mutation(.update, "v0", ["n": 1], entity: "visit", priority: .critical))
            }
        },
        Case("a chain of dependencies", 100 / scale) { agent, count in
            {
                _ = try chain(agent, count)
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("a chain falls and is retried", 100 / scale) { agent, count in
            let keys = try chain(agent, count)
            _ = try agent.claim(1)
            return {
                try agent.answer(.rejected(keys[0]))
                _ = try agent.store.retry(keys[0], cascades: true, by: agent.app, at: agent.now)
            }
        },
        // Records, entities, apps, keys, lists, conflicts, files.
        Case("records") { agent, count in
            {
                for number in 0..<count { try agent.create("r\(number)") }
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("records of a listing, and their deletion by the next one") { agent, count in
            {
                try agent.pull((0..<count).map { ("r\($0)", Int64($0 + 1), ["v": 1]) }, head: 100_000)
                try agent.store.restartStreams([EntityName(trusted: "audit")], at: agent.now)
                try agent.pull([("r0", 1, ["v": 1])], head: 200_000)
            }
        },
        Case("events") { agent, count in
            {
                for _ in 0..<count { try agent.enqueue(TestAgent.mutation(.create, nil, ["t": 1], entity: "reading")) }
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("entities", 100) { agent, count in
            {
                for number in 0..<min(count, 900) { try agent.enqueue(TestAgent.mutation(.create, "r", ["v": 1], entity: "e\(number)")) }
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("apps", 50) { agent, count in
            {
                for number in 0..<min(count, 900) {
                    let app = Requester(app: AppName(trusted: "app\(number)"), uid: 1_000)
                    _ = try agent.store.enqueue([TestAgent.mutation(.create, "r\(number)")], by: app, at: agent.now)
                }
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("keys of one app, each used twice") { agent, count in
            {
                for number in 0..<(2 * count) {
                    let key = AppKey(key: "k\(number / 2)", fingerprint: [UInt8](repeating: 1, count: 16))
                    try agent.enqueue(TestAgent.mutation(.create, "r\(number / 2)"), appKey: key)
                }
            }
        },
        Case("atomic lists", 20) { agent, count in
            {
                for number in 0..<count {
                    try agent.list((0..<5).map { TestAgent.mutation(.create, "r\(number)-\($0)") })
                }
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("conflicts, and the decision about each") { agent, count in
            for number in 0..<count { try agent.create("r\(number)") }
            return {
                try settle(agent) { mutation, version in
                    .conflict(mutation.key, ["n"], .record(HubRecord(version: version, data: ["n": 2])))
                }
                for id in 1...Int64(count) {
                    _ = try agent.store.resolve(id, ConflictDecision(.all(.remote), comment: "seen"), by: agent.app, at: agent.now)
                }
            }
        },
        Case("files, one after the other, some of them removed") { agent, count in
            {
                for number in 0..<count {
                    let digest = try #require(BlobDigest(bytes: SHA256.hash(Array("\(number)".utf8))))
                    let blob = try agent.store.addBlob(
                        digest, size: 10, type: "image/jpeg", filename: "\(number).jpg", by: agent.app, capacity: BlobCapacity(),
                        at: agent.now)
                    if number % 3 == 0 { _ = try agent.store.removeBlob(blob.row.id, at: agent.now) }
                }
                #expect(try agent.store.verify() == [])
            }
        },
        Case("changes that show files on one record") { agent, count in
            try agent.create("a")
            var files: [BlobID] = []
            for number in 0..<count {
                let digest = try #require(BlobDigest(bytes: SHA256.hash(Array("\(number)".utf8))))
                let blob = try agent.store.addBlob(
                    digest, size: 10, type: "image/jpeg", filename: "\(number).jpg", by: agent.app, capacity: BlobCapacity(), at: agent.now)
                files.append(blob.row.id)
            }
            let shown = files
            return {
                for (number, id) in shown.enumerated() {
                    var change = TestAgent.mutation(.update, "a")
                    change.blobs = [.object(["field": .string("f\(number % 10)"), "blob": .string(id.description)])]
                    try agent.enqueue(change)
                }
                try settle(agent) { .accepted($0.key, $1) }
            }
        },
        Case("a database that went back in time, and a new history of the hub") { agent, count in
            for number in 0..<count { try agent.create("r\(number)") }
            try agent.drain()
            for number in 0..<count { try agent.update("r\(number)", ["v": 1]) }
            return {
                try agent.store.adoptReplica(ReplicaID(trusted: "another"), at: agent.now)
                while try agent.store.forgetHistory(at: agent.now) {}
            }
        },
    ]
}
