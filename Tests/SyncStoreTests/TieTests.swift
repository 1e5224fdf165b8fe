import SyncCore
import Testing

@testable import SyncStore

/// PROTOCOL C6, C5: what waits for what, and what becomes of it.
@Suite("Ties")
struct TieTests {
    static let rules: RuleBook = {
        var site = EntityRules(), visit = EntityRules(), answer = EntityRules(), reading = EntityRules()
        visit.refs = ["site": EntityName(trusted: "site"), "above": EntityName(trusted: "visit")]
        answer.refs = ["visit": EntityName(trusted: "visit")]
        reading.kind = .event
        reading.refs = ["site": EntityName(trusted: "site")]
        site.priority = .normal
        return RuleBook([
            EntityName(trusted: "site"): site, EntityName(trusted: "visit"): visit, EntityName(trusted: "answer"): answer,
            EntityName(trusted: "reading"): reading,
        ])
    }()

    private func agent() throws -> TestAgent { try TestAgent(rules: Self.rules) }

    private func site(_ agent: TestAgent, _ id: String = "s", _ priority: Priority? = nil) throws -> MutationKey {
        try agent.enqueue(TestAgent.mutation(.create, id, entity: "site", priority: priority)).key
    }

    private func visit(
        _ agent: TestAgent, _ id: String = "v", _ data: JSONObject = ["site": "s"], _ priority: Priority? = nil
    ) throws -> MutationKey {
        try agent.enqueue(TestAgent.mutation(.create, id, data, entity: "visit", priority: priority)).key
    }

    private func answer(_ agent: TestAgent, _ id: String = "a") throws -> MutationKey {
        try agent.enqueue(TestAgent.mutation(.create, id, ["visit": "v"], entity: "answer")).key
    }

    @Test("Parents go before children in one batch, whatever was made first")
    func rank() throws {
        let agent = try agent()
        let child = try visit(agent, "v", ["site": "s"])
        let grandchild = try answer(agent)
        let parent = try site(agent)
        #expect(try agent.claim().map(\.key) == [parent, child, grandchild])
        #expect(try agent.store.verify() == [])
    }

    @Test("Thousands that wait for one mutation are freed in slices, with other work in between; a restart continues")
    func slices() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules, capacity: TestAgent.capacity(1_000_000))
        let parent = try site(agent)
        let children = try (0..<2_500).map { try visit(agent, "v\($0)") }
        #expect(try agent.claim(1).map(\.key) == [parent])
        // The engine asks again at once.
        #expect(try agent.answer(.accepted(parent, 1)).retryAt == agent.now.wall)
        #expect(try agent.store.verify() == [])
        let urgent = try site(agent, "x", .critical)
        #expect(try agent.claim(1).map(\.key) == [urgent])
        try agent.answer(.accepted(urgent, 2))
        try agent.reopen()
        #expect(try agent.store.verify() == [])
        var claimed: [MutationKey] = []
        var version: Int64 = 2
        var retryAt: Timestamp? = agent.now.wall
        while true {
            let batch = try agent.claim(300)
            guard !batch.isEmpty else { break }
            claimed += batch.map(\.key)
            let results = batch.map { mutation in
                version += 1
                return PushResult.accepted(mutation.key, version)
            }
            retryAt = try agent.store.applyResults(results, next: nil, at: agent.now).summary.retryAt
        }
        #expect(claimed == children && retryAt == nil)
        #expect(try agent.store.verify() == [])
    }

    /// Returns the number of these mutations by state.
    private func tally(_ agent: TestAgent, _ keys: [MutationKey]) throws -> [String: Int] {
        try Dictionary(agent.states(keys).map { ($0, 1) }, uniquingKeysWith: +)
    }

    @Test(
        "Thousands that fall with one mutation do so in slices; the rest is never sent, and a restart continues",
        arguments: ["refused", "cancelled"])
    func fallingSlices(_ how: String) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules, capacity: TestAgent.capacity(1_000_000))
        let parent = try site(agent)
        let children = try (0..<2_500).map { try visit(agent, "v\($0)") }
        let grandchild = try agent.enqueue(TestAgent.mutation(.create, "a", ["visit": "v2400"], entity: "answer")).key
        if how == "refused" {
            #expect(try agent.claim(1).map(\.key) == [parent])
            try agent.answer(.rejected(parent))
        } else {
            _ = try agent.store.cancel(parent, at: agent.now)
        }
        // The transaction of the verdict, or of the cancelling, does a slice.
        #expect(try tally(agent, children) == ["rejected": 1_000, "pending": 1_500] && agent.store.isFalling)
        #expect(try agent.store.verify() == [])
        // The next claim does not contain mutations that are still to fall, and a new child falls at once if its parent waits for a person.
        let stranger = try site(agent, "x", .critical)
        if how == "refused" {
            #expect(try agent.enqueue(TestAgent.mutation(.create, "late", ["site": "s"], entity: "visit")).state == .rejected)
        }
        try agent.reopen()
        #expect(try agent.store.isFalling && agent.store.verify() == [])
        #expect(try agent.claim(10).map(\.key) == [stranger])
        #expect(try tally(agent, children) == ["rejected": 2_000, "pending": 500])
        while try agent.store.housekeep(at: agent.now) {}
        #expect(try tally(agent, children + [grandchild]) == ["rejected": 2_501] && !agent.store.isFalling)
        #expect(try agent.store.reads.mutation(children[2_499], at: agent.now)?.problem?.members["parent"]?.text == parent.text)
        #expect(try agent.claim(10).isEmpty && agent.record("v2499", "visit")?.view == nil)
        #expect(try agent.store.verify() == [])
        try agent.reopen()
        #expect(!agent.store.isFalling)
    }

    @Test("A retry of a mutation that still takes others along makes them wait for the new one, fallen or not")
    func retryWhileFalling() throws {
        let agent = try TestAgent(rules: Self.rules, capacity: TestAgent.capacity(1_000_000))
        let parent = try site(agent)
        let children = try (0..<1_500).map { try visit(agent, "v\($0)") }
        _ = try agent.claim(1)
        try agent.answer(.rejected(parent))
        #expect(try tally(agent, children) == ["rejected": 1_000, "pending": 500])
        let again = try agent.store.retry(parent, cascades: true, by: agent.app, at: agent.now)
        #expect(try tally(agent, children) == ["resolved": 1_000, "pending": 500])
        #expect(try agent.store.verify() == [])
        #expect(try agent.claim(1).map(\.key) == [again.key])
        try agent.answer(.accepted(again.key, 1))
        #expect(!agent.store.isFalling)
        try agent.drain()
        #expect(try tally(agent, children) == ["resolved": 1_000, "done": 500])
        #expect(try agent.record("v0", "visit")?.status == .synced && agent.store.verify() == [])
    }

    @Test("Trees that fall keep a short list of what is left, however wide they are")
    func fallingTree() throws {
        let agent = try TestAgent(rules: Self.rules, capacity: TestAgent.capacity(1_000_000))
        let parent = try site(agent)
        var all: [MutationKey] = []
        for number in 0..<1_500 {
            all.append(try visit(agent, "v\(number)"))
            all.append(try agent.enqueue(TestAgent.mutation(.create, "a\(number)", ["visit": .string("v\(number)")], entity: "answer")).key)
        }
        _ = try agent.claim(1)
        try agent.answer(.rejected(parent))
        var slices = 1
        while agent.store.isFalling {
            #expect(try agent.store.fallingTies().count <= 1_001 && agent.store.verify() == [])
            let before = try tally(agent, all)["rejected"] ?? 0
            try agent.store.goOnFalling(at: agent.now)
            #expect(try (tally(agent, all)["rejected"] ?? 0) - before <= 1_000)
            slices += 1
        }
        #expect(try tally(agent, all) == ["rejected": 3_000] && slices == 3)
        #expect(try agent.store.verify() == [])
    }

    @Test("With one mutation a batch, a child waits until its parent is accepted", arguments: [true, false])
    func oneByOne(_ parentFirst: Bool) throws {
        let agent = try agent()
        var parent: MutationKey?
        if parentFirst { parent = try site(agent) }
        let child = try visit(agent)
        let made = try parent ?? site(agent)
        #expect(try agent.claim(1).map(\.key) == [made])
        #expect(try agent.claim(1).isEmpty)
        try agent.answer(.accepted(made, 1))
        #expect(try agent.claim(1).map(\.key) == [child])
        #expect(try agent.store.verify() == [])
    }

    @Test("A child does not wait for a parent that the hub has, or that is not created here")
    func knownParents() throws {
        let agent = try agent()
        try agent.pull([("s", 3, [:])], entity: "site")
        let first = try visit(agent)
        let second = try visit(agent, "w", ["site": "elsewhere"])
        #expect(try agent.claim().map(\.key) == [first, second])
    }

    @Test("An event waits for its parent")
    func events() throws {
        let agent = try agent()
        let parent = try site(agent)
        let event = try agent.enqueue(TestAgent.mutation(.create, "r", ["site": "s"], entity: "reading")).key
        #expect(try agent.claim(1).map(\.key) == [parent])
        try agent.answer(.accepted(parent, 1))
        #expect(try agent.claim().map(\.key) == [event])
        #expect(try agent.store.verify() == [])
    }

    @Test("Children are deleted before their parents")
    func deletes() throws {
        let agent = try agent()
        try agent.pull([("s", 3, [:])], entity: "site")
        try agent.pull([("v", 4, ["site": "s"])], entity: "visit")
        let parent = try agent.enqueue(TestAgent.mutation(.delete, "s", entity: "site")).key
        let child = try agent.enqueue(TestAgent.mutation(.delete, "v", entity: "visit")).key
        #expect(try agent.claim().map(\.key) == [child, parent])
    }

    @Test("A record that is deleted and made anew waits with the new one for the next batch")
    func contradiction() throws {
        let agent = try agent()
        try agent.pull([("s", 3, [:])], entity: "site")
        let gone = try agent.enqueue(TestAgent.mutation(.delete, "s", entity: "site")).key
        let again = try site(agent)
        let other = try site(agent, "t")
        #expect(try agent.claim().map(\.key) == [other, gone])
        try agent.answer(.accepted(other, 4), .accepted(gone, 5))
        #expect(try agent.claim().map(\.key) == [again])
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation waits for those that it depends on, and for no others")
    func dependsOn() throws {
        let agent = try agent()
        let first = try agent.enqueue(TestAgent.mutation(.create, "r", entity: "reading")).key
        var second = TestAgent.mutation(.create, "s", entity: "site")
        second.dependsOn = [first]
        let key = try agent.enqueue(second).key
        #expect(try agent.store.reads.obstacle(to: key, at: agent.now) == .dependency(first, .pending))
        #expect(try agent.blocked(key) == Deferral(.dependency) && agent.blocked(first) == nil)
        // In one batch the site would come first, by its name; so it waits.
        #expect(try agent.claim().map(\.key) == [first])
        #expect(try agent.store.reads.obstacle(to: key, at: agent.now) == .dependency(first, .inFlight))
        #expect(try agent.blocked(key) == Deferral(.dependency))
        #expect(try agent.blocked(first) == nil, "what is in flight is asked about first")
        try agent.answer(.accepted(first, 1))
        #expect(try agent.store.reads.obstacle(to: key, at: agent.now) == nil)
        #expect(try agent.blocked(key) == nil)
        #expect(try agent.claim().map(\.key) == [key])
    }

    @Test("A plan names an earlier mutation of the record, and a retry with its time")
    func orderAndRetry() throws {
        let agent = try TestAgent()
        let first = try agent.create("a").key
        _ = try agent.claim()
        let second = try agent.update("a", ["n": 2]).key
        #expect(try agent.blocked(second) == Deferral(.order))
        try agent.answer(.retry(first, after: .seconds(60)))
        #expect(try agent.blocked(first) == Deferral(.backoff, until: agent.store.reads.mutation(first, at: agent.now)?.nextAttempt))
        #expect(try agent.blocked(first)?.until != nil)
        #expect(try agent.blocked(second) == Deferral(.order))
    }

    @Test(
        "A dependency on a settled mutation is met; one on a mutation that was given up is refused",
        arguments: ["done", "cancelled", "discarded"])
    func dependsOnSettled(_ fate: String) throws {
        let agent = try agent()
        let first = try site(agent)
        if fate == "cancelled" { _ = try agent.store.cancel(first, at: agent.now) } else { _ = try agent.claim() }
        if fate == "done" { try agent.answer(.accepted(first, 1)) }
        if fate == "discarded" {
            try agent.answer(.rejected(first))
            try agent.store.discard(first, reason: "", uid: 0, at: agent.now)
        }
        var second = TestAgent.mutation(.create, "t", entity: "site")
        second.dependsOn = [first]
        if fate == "done" {
            try agent.enqueue(second)
            #expect(try agent.claim().count == 1)
        } else {
            #expect(agent.refusal(second)?.code == "validation")
        }
    }

    @Test("On the wire, a dependency on an edit that went into another has that one's key")
    func dependsOnCoalesced() throws {
        let agent = try agent()
        let first = try agent.enqueue(TestAgent.mutation(.create, "s", ["a": 1], entity: "site", coalesces: true)).key
        let edit = try agent.enqueue(TestAgent.mutation(.update, "s", ["a": 2], entity: "site", coalesces: true))
        #expect(edit.state == .coalesced)
        var second = TestAgent.mutation(.create, "v", entity: "visit")
        second.dependsOn = [edit.key]
        try agent.enqueue(second)
        let batch = try agent.claim()
        #expect(batch.map(\.key.text).first == first.text)
        #expect(batch.last?.dependsOn == "[\"\(first)\"]")
    }

    @Test("An urgent child lends its priority to its parent, and to its parent's parent")
    func inheritance() throws {
        let agent = try agent()
        let parent = try site(agent, "s", .bulk)
        let child = try visit(agent, "v", ["site": "s"], .bulk)
        let urgent = try agent.enqueue(TestAgent.mutation(.create, "a", ["visit": "v"], entity: "answer", priority: .critical)).key
        let update = try agent.enqueue(TestAgent.mutation(.update, "s", ["x": 1], entity: "site", priority: .bulk)).key
        #expect(try agent.claim(50, .critical).map(\.key) == [parent, child, urgent])
        try agent.answer(.accepted(parent, 1))
        #expect(try agent.claim().map(\.key) == [update])
        #expect(try agent.store.verify() == [])
    }

    @Test("An urgent child that was made first lends its priority to the parent that follows")
    func lateInheritance() throws {
        let agent = try agent()
        let urgent = try visit(agent, "v", ["site": "s"], .critical)
        let parent = try site(agent, "s", .bulk)
        #expect(try agent.claim(50, .critical).map(\.key) == [parent, urgent])
        #expect(try agent.store.verify() == [])
    }

    @Test("A list that makes the parent of a record and changes that record lets go first what was made before it")
    func listBehindItsChild() throws {
        let agent = try agent()
        try agent.pull([("v", 5, ["k": 1])], entity: "visit")
        let child = try agent.enqueue(TestAgent.mutation(.update, "v", ["site": "t"], entity: "visit")).key
        let list = try agent.list([
            TestAgent.mutation(.create, "t", entity: "site"), TestAgent.mutation(.update, "v", ["k": 2], entity: "visit"),
        ]).map(\.key)
        var sent: [MutationKey] = []
        for version in Int64(10)..<14 {
            let batch = try agent.claim().map(\.key)
            sent += batch
            for key in batch { try agent.answer(.accepted(key, version)) }
        }
        #expect(sent == [child] + list)
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation of which nothing was left is not named to the hub, which will never get it")
    func superseded() throws {
        let agent = try agent()
        try agent.pull([("v", 5, ["k": 1])], entity: "visit")
        let first = try agent.enqueue(TestAgent.mutation(.update, "v", ["k": 2], entity: "visit")).key
        var next = TestAgent.mutation(.create, "w", ["k": 3], entity: "visit")
        next.dependsOn = [first]
        let second = try agent.enqueue(next).key
        try agent.pull([("v", 6, ["k": 2])], entity: "visit")
        #expect(try agent.state(first) == .superseded)
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [second] && batch.map(\.dependsOn) == [nil])
    }

    @Test("A parent that was parked when its urgent child came is as urgent when it waits again", arguments: ["retry", "due"])
    func inheritanceOfParked(_ how: String) throws {
        let agent = try agent()
        let parent = try site(agent, "s", .bulk)
        for _ in 0..<Limits.attempts {
            #expect(try agent.claim().map(\.key) == [parent])
            try agent.store.setAside(parent, Problem("failed", status: 500, detail: "it fails over it"), counts: true, at: agent.now)
            agent.wait(.seconds(61))
        }
        #expect(try agent.states([parent]) == ["failed"])
        let urgent = try visit(agent, "v", ["site": "s"], .critical)
        if how == "retry" { _ = try agent.store.retry(parent, by: agent.app, at: agent.now) } else { agent.wait(.seconds(25 * 3_600)) }
        #expect(try agent.claim(50, .critical).map(\.key) == [parent])
        #expect(try agent.store.verify() == [])
        try agent.answer(.accepted(parent, 1))
        #expect(try agent.claim().map(\.key) == [urgent])
    }

    @Test("No mutations wait in a circle")
    func circles() throws {
        let agent = try agent()
        // The child waits for a parent that depends on the child.
        let child = try visit(agent)
        var parent = TestAgent.mutation(.create, "s", entity: "site")
        parent.dependsOn = [child]
        let made = try agent.enqueue(parent).key
        // Two records, each above the other.
        let upper = try visit(agent, "x", ["above": "y"])
        let lower = try visit(agent, "y", ["above": "x"])
        var sent: [MutationKey] = []
        for version in 1..<10 {
            let batch = try agent.claim()
            sent += batch.map(\.key)
            for mutation in batch { try agent.answer(.accepted(mutation.key, Int64(version))) }
        }
        #expect(Set(sent) == [child, made, upper, lower])
        // A list creates the parent of a record and depends on that record.
        let early = try visit(agent, "z", ["site": "t"])
        var last = TestAgent.mutation(.create, "q", entity: "answer")
        last.dependsOn = [early]
        let list = try agent.list([TestAgent.mutation(.create, "t", entity: "site"), last]).map(\.key)
        #expect(try agent.claim(1).map(\.key) == [early])
        try agent.answer(.accepted(early, 20))
        #expect(try agent.claim().map(\.key) == list)
        #expect(try agent.store.verify() == [])
        // A list creates the parent of a record and changes that record: each would wait for the other.
        let waiting = try visit(agent, "w", ["site": "u"])
        let both = try agent.list([
            TestAgent.mutation(.create, "u", entity: "site"), TestAgent.mutation(.update, "w", ["n": 1], entity: "visit"),
        ]).map(\.key)
        #expect(try agent.claim().map(\.key) == [waiting])
        try agent.answer(.accepted(waiting, 30))
        #expect(try agent.claim().map(\.key) == both)
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision does not wait for the creation of its parent, where that waits for the list that the decision joins")
    func circleOfDecision() throws {
        var site = EntityRules(), visit = EntityRules()
        visit.refs = ["site": EntityName(trusted: "site")]
        visit.onDeleted = .manual
        site.onDeleted = .deleteWins
        let agent = try TestAgent(rules: RuleBook([EntityName(trusted: "site"): site, EntityName(trusted: "visit"): visit]))
        try agent.pull([("s", 1, [:])], entity: "site")
        try agent.pull([("v", 2, ["site": "s"]), ("w", 3, ["site": "s"])], entity: "visit")
        let list = try agent.list([
            TestAgent.mutation(.update, "v", ["n": 1], entity: "visit"), TestAgent.mutation(.update, "w", ["n": 1], entity: "visit"),
        ]).map(\.key)
        // Another device deletes the site and one of the visits. Here the site is made anew, in one list with a change of the other visit.
        try agent.pull([], deleted: [("s", 4)], entity: "site")
        let later = try agent.list([
            TestAgent.mutation(.create, "s", entity: "site"), TestAgent.mutation(.update, "v", ["n": 2], entity: "visit"),
        ]).map(\.key)
        try agent.pull([], deleted: [("w", 5)], entity: "visit")
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        #expect(try agent.store.verify() == [])
        let batch = try agent.claim(2)
        #expect(batch.map(\.key) == [list[0], decision])
        for mutation in batch { try agent.answer(.accepted(mutation.key, 10 + Int64(mutation.key == decision ? 1 : 0))) }
        #expect(try agent.claim().map(\.key) == later)
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision in a list names no other decision to the hub that goes behind the list")
    func circleOfDecisions() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["finding": "pass"]), ("b", 2, ["finding": "pass"])])
        let first = try agent.update("a", ["finding": "fail"]).key
        var dependent = TestAgent.mutation(.update, "b", ["finding": "fail"])
        dependent.dependsOn = [first]
        let list = try agent.list([TestAgent.mutation(.update, "a", ["n": 1]), dependent]).map(\.key)
        try agent.pull([("a", 5, ["finding": "flagged"]), ("b", 6, ["finding": "flagged"])])
        let decisions = try [1, 2].map { try #require(try ConflictTests.resolve(agent, .all(.local), id: $0).mutation) }
        #expect(try agent.store.verify() == [])
        let batch = try agent.claim(2)
        #expect(batch.map(\.key) == [list[0], decisions[1]] && batch.map(\.dependsOn) == [nil, nil])
        for (index, mutation) in batch.enumerated() { try agent.answer(.accepted(mutation.key, Int64(10 + index))) }
        #expect(try agent.claim().map(\.key) == [decisions[0]])
        #expect(try agent.store.verify() == [])
    }

    // MARK: - What does not get through

    @Test("A mutation in flight with a parent that is sent back goes back behind it", arguments: ["busy", "alone"])
    func returned(_ how: String) throws {
        let agent = try agent()
        let parent = try site(agent)
        let child = try visit(agent)
        let grandchild = try answer(agent)
        #expect(try agent.claim().map(\.key) == [parent, child, grandchild])
        if how == "busy" {
            try agent.answer(.retry(parent, after: .seconds(10)))
        } else {
            try agent.store.setAside(parent, Problem("x", status: 500, detail: ""), counts: true, at: agent.now)
        }
        #expect(try agent.states([parent, child, grandchild]) == ["pending", "pending", "pending"])
        #expect(try agent.inFlight().isEmpty)
        #expect(try agent.store.verify() == [])
        agent.wait(.seconds(600))
        #expect(try agent.claim(1).map(\.key) == [parent])
    }

    @Test("A batch is settled in the order in which it went")
    func settled() throws {
        let agent = try agent()
        let child = try visit(agent)
        let parent = try site(agent)
        #expect(try agent.claim().map(\.key) == [parent, child])
        #expect(try agent.inFlight().map(\.key) == [parent, child])
        try agent.crash()
        #expect(try agent.inFlight(1).map(\.key) == [parent])
    }

    @Test("A refused creation takes its children, their children and its own updates along, in the same transaction")
    func rejection() throws {
        let agent = try agent()
        let parent = try site(agent)
        let update = try agent.enqueue(TestAgent.mutation(.update, "s", ["x": 1], entity: "site", priority: .bulk)).key
        let child = try visit(agent)
        let grandchild = try answer(agent)
        var named = TestAgent.mutation(.create, "t", entity: "site")
        named.dependsOn = [grandchild]
        let last = try agent.enqueue(named).key
        let stranger = try site(agent, "u")
        #expect(try agent.claim(1).map(\.key) == [parent])
        try agent.answer(.rejected(parent))
        let all = [parent, update, child, grandchild, last]
        #expect(try agent.states(all) == Array(repeating: "rejected", count: 5))
        for (key, cause) in [(update, parent), (child, parent), (grandchild, child), (last, grandchild)] {
            let problem = try agent.store.reads.mutation(key, at: agent.now)?.problem
            #expect(problem?.code == "parent-rejected" && problem?.members["parent"]?.text == cause.text)
        }
        for name in [("s", "site"), ("v", "visit"), ("a", "answer"), ("t", "site")] {
            let record = try agent.record(name.0, name.1)
            #expect(record?.view == nil && record?.status == .error)
        }
        #expect(try agent.claim().map(\.key) == [stranger])
        #expect(try agent.store.verify() == [])
    }

    /// The hub has accepted the site `o`, and refused the site `s`.
    private func agentWithRefusedSite() throws -> TestAgent {
        let agent = try agent()
        let other = try site(agent, "o")
        _ = try agent.claim()
        try agent.answer(.accepted(other, 1))
        let parent = try site(agent)
        _ = try agent.claim()
        try agent.answer(.rejected(parent))
        return agent
    }

    @Test("An atomic list that depends on a refused mutation is answered as rejected, with its records as they are without it")
    func fallenList() throws {
        let agent = try agentWithRefusedSite()
        let list = [
            TestAgent.mutation(.update, "o", ["x": 1], entity: "site"),
            TestAgent.mutation(.create, "v", ["site": "s"], entity: "visit"),
            TestAgent.mutation(.create, "r", ["site": "o"], entity: "reading"),
        ]
        let appKey = AppKey(key: "k", fingerprint: [UInt8](repeating: 1, count: 16))
        for isRepeat in [false, true] {
            let answers = try agent.store.enqueue(list, isAtomic: true, by: agent.app, appKey: appKey, at: agent.now)
            #expect(answers.map(\.state) == [.rejected, .rejected, .rejected])
            #expect(answers.map(\.isRepeat) == [isRepeat, isRepeat, isRepeat])
            #expect(answers[0].record?.view == "{}")
            #expect(answers[0].record == (try agent.record("o", "site")))
            #expect(answers[1].record == (try agent.record("v", "visit")) && answers[1].record?.view == nil)
            #expect(answers[2].record == nil)
        }
        #expect(try agent.store.verify() == [])
    }

    @Test("The retry of an atomic list that still depends on a refused mutation is answered as rejected")
    func fallenRetry() throws {
        let agent = try agentWithRefusedSite()
        let list = try agent.list([
            TestAgent.mutation(.update, "o", ["x": 1], entity: "site"),
            TestAgent.mutation(.create, "v", ["site": "s"], entity: "visit"),
        ]).map(\.key)
        let again = try agent.store.retry(list[0], cascades: true, by: agent.app, at: agent.now)
        #expect(again.state == .rejected && again.record?.view == "{}")
        #expect(again.record == (try agent.record("o", "site")))
        #expect(try agent.states([again.key] + list) == ["rejected", "resolved", "resolved"])
        #expect(try agent.store.verify() == [])
    }

    @Test("With cascade, what fell with a parent is asked for again with it", arguments: [true, false])
    func cascade(_ cascades: Bool) throws {
        let agent = try agent()
        let parent = try site(agent)
        let child = try visit(agent)
        let grandchild = try answer(agent)
        let other = try site(agent, "o")
        _ = try agent.claim(1)
        try agent.answer(.rejected(parent))
        _ = try agent.claim()
        try agent.answer(.rejected(other))
        let again = try agent.store.retry(parent, fix: ["fixed": true], cascades: cascades, by: agent.app, at: agent.now)
        #expect(try agent.state(parent) == .resolved)
        #expect(
            try agent.states([child, grandchild, other])
                == (cascades ? ["resolved", "resolved", "rejected"] : ["rejected", "rejected", "rejected"]))
        let batch = try agent.claim()
        #expect(batch.first?.key == again.key && batch.first?.data == "{\"fixed\":true}")
        #expect(batch.map(\.record.entity.text) == (cascades ? ["site", "visit", "answer"] : ["site"]))
        #expect(try agent.store.verify() == [])
        let verbs = try agent.store.reads.audit(after: 0, limit: 10).items.map(\.verb)
        #expect(verbs == Array(repeating: "retry", count: cascades ? 3 : 1))
    }

    @Test("A mutation that fell with a parent in the same batch is retried with it, though the hub names no parent")
    func cascadeOfOneBatch() throws {
        let agent = try agent()
        let parent = try site(agent)
        let child = try visit(agent)
        var named = TestAgent.mutation(.create, "w", entity: "visit")
        named.dependsOn = [child]
        let last = try agent.enqueue(named).key
        let keys = [parent, child, last]
        #expect(try agent.claim().map(\.key) == keys)
        func refusal(_ key: MutationKey) -> PushResult {
            PushResult(key: key, verdict: .rejected(Problem("parent-rejected", status: 409, detail: "it was rejected"), current: nil))
        }
        try agent.answer(.rejected(parent), refusal(child), refusal(last))
        for (key, cause) in [(child, parent), (last, child)] {
            #expect(try agent.store.reads.mutation(key, at: agent.now)?.problem?.members["parent"]?.text == cause.text)
        }
        _ = try agent.store.retry(parent, fix: ["fixed": true], cascades: true, by: agent.app, at: agent.now)
        #expect(try agent.states(keys) == ["resolved", "resolved", "resolved"])
        #expect(try agent.claim().map(\.record.id.text) == ["s", "v", "w"])
        #expect(try agent.store.verify() == [])
    }

    @Test("A change that depends on itself, or on another one of its own list, is refused: neither has an id yet")
    func dependsOnItself() throws {
        let agent = try agent()
        let own = "0199c3f3-aaaa-7000-8000-000000000001"
        var mutation = TestAgent.mutation(.create, "s", entity: "site")
        mutation.dependsOn = [MutationKey(trusted: own)]
        let problem = agent.refusal(mutation, appKey: AppKey(key: own, fingerprint: [UInt8](repeating: 1, count: 16)))
        #expect(problem?.code == "validation" && problem?.errors.map(\.pointer) == ["/depends_on/0"])
        let before = agent.store.lastSeq
        // The number is one that the list is about to get.
        var random = SeededRandom(seed: 7)
        mutation.dependsOn = [MutationKey(trusted: UUIDv7.make(at: agent.now.wall, carrying: before + 2, using: &random))]
        let second = TestAgent.mutation(.create, "t", entity: "site")
        #expect(StoreError.problem { _ = try agent.list([mutation, second]) }?.errors.map(\.pointer) == ["/mutations/0/depends_on/0"])
        #expect(try agent.claim().isEmpty && agent.store.verify() == [])
    }

    @Test("A mutation that is given up takes along those that waited for it", arguments: ["cancel", "expire", "discard"])
    func givenUp(_ how: String) throws {
        let agent = try agent()
        var first = TestAgent.mutation(.create, "s", entity: "site")
        if how == "expire" { first.ttl = .seconds(5) }
        let parent = try agent.enqueue(first).key
        switch how {
        case "cancel":
            let child = try visit(agent)
            _ = try agent.store.cancel(parent, at: agent.now)
            #expect(try agent.states([parent, child]) == ["cancelled", "rejected"])
        case "expire":
            let child = try visit(agent)
            agent.wait(.seconds(10))
            #expect(try agent.claim().isEmpty)
            #expect(try agent.states([parent, child]) == ["expired", "rejected"])
        default:
            _ = try agent.claim()
            try agent.answer(.rejected(parent))
            // Made when its parent was refused already: it falls at once, and is asked for again with it.
            let child = try agent.enqueue(TestAgent.mutation(.create, "v", ["site": "s"], entity: "visit"))
            #expect(child.state == .rejected && child.record?.view == nil)
            let event = try agent.enqueue(TestAgent.mutation(.create, "r", ["site": "s"], entity: "reading"))
            #expect(event.state == .rejected)
            #expect(try agent.claim().isEmpty)
            _ = try agent.store.retry(parent, cascades: true, by: agent.app, at: agent.now)
            #expect(try agent.claim().map(\.record.entity.text) == ["site", "reading", "visit"])
            #expect(try agent.states([parent, child.key, event.key]) == ["resolved", "resolved", "resolved"])
        }
        #expect(try agent.store.verify() == [])
    }

    @Test("A creation that another device made unnecessary lets its children go")
    func madeByOthers() throws {
        let agent = try agent()
        let parent = try site(agent)
        let child = try visit(agent)
        _ = try agent.claim(1)
        try agent.answer(.conflict(parent, ["x"], .record(HubRecord(version: 9, data: ["x": 1]))))
        #expect(try agent.claim().isEmpty)
        try agent.store.discard(parent, reason: "remote", uid: 0, at: agent.now)
        #expect(try agent.claim().map(\.key) == [child])
        #expect(try agent.store.verify() == [])
    }

    @Test("An expired mutation is not sent, even before housekeeping has come by; a critical one never expires")
    func expiry() throws {
        let agent = try agent()
        var first = TestAgent.mutation(.create, "s", entity: "site")
        first.ttl = .seconds(5)
        var urgent = TestAgent.mutation(.create, "t", entity: "site", priority: .critical)
        urgent.ttl = .seconds(5)
        let keys = [try agent.enqueue(first).key, try agent.enqueue(urgent).key]
        agent.wait(.seconds(6))
        #expect(try agent.claim().map(\.key) == [keys[1]])
        #expect(try agent.states(keys) == ["expired", "in_flight"])
        #expect(try agent.store.verify() == [])
    }
}
