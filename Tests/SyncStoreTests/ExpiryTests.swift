import SyncCore
import SyncStore
import Testing

/// The end of a change whose time is over, and of the changes that rest on it (PROTOCOL B2, C5).
@Suite("Expiry")
struct ExpiryTests {
    private func agent() throws -> TestAgent { try TestAgent(rules: TieTests.rules) }

    private func lasting(_ mutation: NewMutation, _ ttl: Int?, after parents: MutationKey...) -> NewMutation {
        var mutation = mutation
        mutation.ttl = ttl.map { .seconds($0) }
        mutation.dependsOn = parents
        return mutation
    }

    private func site(_ action: NewMutation.Action, _ id: String, _ data: JSONObject = ["n": 1], priority: Priority? = nil) -> NewMutation {
        TestAgent.mutation(action, id, data, entity: "site", priority: priority)
    }

    private func problem(_ agent: TestAgent, _ key: MutationKey) throws -> Problem? {
        try agent.store.reads.mutation(key, at: agent.now)?.problem
    }

    /// Another boot: boot time begins anew, and the wall clock shows whatever it shows.
    private func boot(_ agent: TestAgent, _ id: String, wall: Timestamp) throws {
        agent.options.bootID = id
        agent.now = Moment(instant: Instant(nanoseconds: 9_000_000_000), wall: wall)
        agent.store = try Store(agent.database, agent.options, at: agent.now)
    }

    private func learn(_ agent: TestAgent, _ time: Timestamp) throws {
        let difference = time.milliseconds - agent.now.instant.nanoseconds / 1_000_000
        try agent.store.learn(ClockAnchor(difference: difference, error: .milliseconds(20)), at: agent.now)
    }

    private static let fortnight = 14 * 86_400

    @Test("After a boot with a clock that is weeks ahead, work that is minutes old keeps its time", arguments: [20, 200, -7_000])
    func wrongClock(_ days: Int) throws {
        let agent = try agent()
        try learn(agent, agent.now.wall)
        let key = try agent.enqueue(lasting(site(.create, "s"), Self.fortnight)).key
        agent.wait(.seconds(120))
        let truth = agent.now.wall
        try boot(agent, "boot-2", wall: truth.advanced(by: .seconds(days * 86_400)))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.states([key]) == ["pending"])
        // The same again, without a trusted clock.
        agent.wait(.seconds(60))
        try boot(agent, "boot-3", wall: truth.advanced(by: .seconds(days * 86_400 + 86_400)))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.states([key]) == ["pending"])
        // The hub says what the time is: it was off for a day.
        try learn(agent, truth.advanced(by: .seconds(86_400)))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.states([key]) == ["pending"])
        // A step of the clock within the boot is no time that has passed.
        try learn(agent, truth.advanced(by: .seconds(40 * 86_400)))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.states([key]) == ["pending"])
    }

    @Test(
        "A device that was off for longer than a change may wait expires it when the time is known, before it is sent",
        arguments: [15, 60, 700])
    func longGap(_ days: Int) throws {
        let agent = try agent()
        try learn(agent, agent.now.wall)
        let key = try agent.enqueue(lasting(site(.create, "s"), Self.fortnight)).key
        let lasts = try agent.enqueue(site(.create, "t")).key
        let truth = agent.now.wall.advanced(by: .seconds(days * 86_400))
        // A gateway without a clock chip begins in 1970; a restart of the process in the same boot changes nothing.
        try boot(agent, "boot-2", wall: Timestamp(milliseconds: 5_000))
        try agent.crash()
        #expect(try agent.states([key]) == ["pending"])
        try learn(agent, truth)
        #expect(try agent.claim().map(\.key) == [lasts])
        #expect(try agent.states([key]) == ["expired"])
        #expect(try agent.store.verify() == [])
    }

    @Test("A change that rests on an expired one and has more time is reported as parent-expired, with the expired one")
    func told() throws {
        let agent = try agent()
        let made = try agent.enqueue(lasting(site(.create, "s"), 5)).key
        let edit = try agent.enqueue(site(.update, "s", ["n": 2])).key
        let brief = try agent.enqueue(lasting(site(.update, "s", ["n": 3]), 5)).key
        let child = try agent.enqueue(TestAgent.mutation(.create, "v", ["site": "s"], entity: "visit")).key
        let dependent = try agent.enqueue(lasting(site(.create, "t"), nil, after: made)).key
        let last = try agent.enqueue(lasting(site(.create, "u"), nil, after: dependent)).key
        let other = try agent.enqueue(site(.create, "w")).key
        agent.wait(.seconds(6))
        #expect(try agent.claim().map(\.key) == [other])
        #expect(
            try agent.states([made, edit, brief, child, dependent, last])
                == ["expired", "rejected", "expired", "rejected", "rejected", "rejected"])
        for (key, cause) in [(edit, made), (child, made), (dependent, made), (last, dependent)] {
            let problem = try #require(try problem(agent, key))
            #expect(problem.code == "parent-expired" && problem.members["parent"]?.text == cause.text)
        }
        var inbox = MutationQuery()
        inbox.states = [.rejected]
        #expect(try agent.store.reads.mutations(inbox, at: agent.now).items.map(\.key) == [edit, child, dependent, last])
        #expect(try agent.record("s", "site")?.status == .error)
        #expect(try agent.store.verify() == [])
    }

    @Test("An expired change can be asked for again, with what fell with it, and has no deadline then")
    func again() throws {
        let agent = try agent()
        let made = try agent.enqueue(lasting(site(.create, "s"), 5)).key
        let edit = try agent.enqueue(site(.update, "s", ["n": 2])).key
        let child = try agent.enqueue(TestAgent.mutation(.create, "v", ["site": "s"], entity: "visit")).key
        agent.wait(.seconds(6))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.states([made, edit, child]) == ["expired", "rejected", "rejected"])
        _ = try agent.store.retry(made, cascades: true, by: agent.app, at: agent.now)
        #expect(try agent.states([made, edit, child]) == ["resolved", "resolved", "resolved"])
        #expect(try agent.record("s", "site")?.view == #"{"n":2}"#)
        agent.wait(.seconds(1_000))
        let sent = try agent.claim()
        #expect(sent.map(\.action) == [.create, .create, .update])
        #expect(sent.map(\.record.id.text) == ["s", "v", "s"])
        #expect(try agent.store.verify() == [])
    }

    @Test("A change that fell, asked for again before its own deadline, keeps that", arguments: [true, false])
    func keepsDeadline(_ isInTime: Bool) throws {
        let agent = try agent()
        let made = try agent.enqueue(lasting(site(.create, "s"), 5)).key
        let dependent = try agent.enqueue(lasting(site(.create, "t"), 60, after: made)).key
        agent.wait(.seconds(6))
        _ = try agent.store.housekeep(at: agent.now)
        if !isInTime { agent.wait(.seconds(100)) }
        let again = try agent.store.retry(dependent, by: agent.app, at: agent.now).key
        agent.wait(.seconds(isInTime ? 54 : 1_000))
        #expect(try agent.claim().map(\.key) == (isInTime ? [] : [again]))
        #expect(try agent.state(again) == (isInTime ? .expired : .inFlight))
        #expect(try agent.store.verify() == [])
    }

    @Test("An atomic list stays one: with the member that expires nothing of it goes, and the others are told")
    func list() throws {
        let agent = try agent()
        let keys = try agent.list([site(.create, "s"), lasting(site(.create, "t"), 5), site(.create, "u")]).map(\.key)
        let edit = try agent.enqueue(site(.update, "u", ["n": 2])).key
        agent.wait(.seconds(6))
        #expect(try agent.claim().isEmpty)
        #expect(try agent.states(keys + [edit]) == ["rejected", "expired", "rejected", "rejected"])
        #expect(try problem(agent, keys[0])?.code == "parent-expired")
        #expect(try problem(agent, keys[0])?.members["parent"]?.text == keys[1].text)
        #expect(try problem(agent, edit)?.code == "parent-expired" || problem(agent, edit)?.code == "parent-rejected")
        _ = try agent.store.retry(keys[1], cascades: true, by: agent.app, at: agent.now)
        let sent = try agent.claim()
        #expect(sent.map(\.record.id.text) == ["s", "t", "u", "u"])
        #expect(Set(sent.prefix(3).map(\.group)).count == 1 && sent[0].group != nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("A change that is critical only because a critical one waits for it keeps its deadline", arguments: [true, false])
    func raised(_ isOffline: Bool) throws {
        let agent = try agent()
        let made = try agent.enqueue(lasting(site(.create, "s"), 5)).key
        let urgent = try agent.enqueue(site(.update, "s", ["n": 2], priority: .critical)).key
        #expect(try agent.store.reads.mutation(made, at: agent.now)?.priority == .critical)
        #expect(try agent.store.reads.mutation(made, at: agent.now)?.expiresAt == agent.now.wall.advanced(by: .seconds(5)))
        #expect(try agent.store.nextExpiry(at: agent.now) == agent.now.instant.advanced(by: .seconds(5)))
        agent.wait(.seconds(6))
        if isOffline { _ = try agent.store.housekeep(at: agent.now) }
        #expect(try agent.claim().isEmpty)
        #expect(try agent.states([made, urgent]) == ["expired", "rejected"])
        #expect(try problem(agent, urgent)?.code == "parent-expired")
        #expect(try agent.store.verify() == [])
    }

    @Test("A deletion goes on without the creation before it: an app's own id may be in use at the hub")
    func deletionGoesOn() throws {
        let agent = try agent()
        let made = try agent.enqueue(lasting(site(.create, "s"), 5)).key
        let gone = try agent.enqueue(site(.delete, "s", [:])).key
        let anew = try agent.enqueue(site(.create, "s", ["n": 9])).key
        agent.wait(.seconds(6))
        #expect(try agent.claim().map(\.key) == [gone])
        #expect(try agent.state(made) == .expired)
        try agent.answer(.accepted(gone, 0))
        #expect(try agent.claim().map(\.key) == [anew])
        #expect(try agent.store.verify() == [])
    }

    @Test("Later edits of a record that is there go on without the expired one")
    func laterEditsGoOn() throws {
        let agent = try agent()
        try agent.pull([("s", 5, ["n": 1, "m": 1])], entity: "site")
        let first = try agent.enqueue(lasting(site(.update, "s", ["n": 2]), 5)).key
        let second = try agent.enqueue(site(.update, "s", ["m": 2])).key
        agent.wait(.seconds(6))
        #expect(try agent.claim().map(\.key) == [second])
        #expect(try agent.state(first) == .expired)
        #expect(try agent.record("s", "site")?.view == #"{"n":1,"m":2}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "The undisputed part of a change goes on with its deadline; a decision of a person has none", arguments: [true, false])
    func undisputedPartKeepsItsDeadline(_ isMoot: Bool) throws {
        let agent = try ConflictTests.agent()
        var change = TestAgent.mutation(.update, "a", ["finding": "fail", "note": "new"])
        change.ttl = .seconds(60)
        try agent.enqueue(change)
        let there: JSONObject = ["note": "old", "visits": 3, "tags": ["x"], "notes": "rail"]
        func hub(_ finding: String) -> JSONObject {
            var data = there
            data["finding"] = .string(finding)
            return data
        }
        try agent.pull([("a", 7, hub("flagged"))])
        if isMoot { try agent.pull([("a", 8, hub("fail"))]) } else { try ConflictTests.resolve(agent, .all(.local)) }
        agent.wait(.seconds(61))
        #expect(try agent.claim().count == (isMoot ? 0 : 1))
        #expect(try agent.store.verify() == [])
    }
}
