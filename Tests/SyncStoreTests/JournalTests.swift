import SyncCore
import SyncStore
import Testing

/// PROTOCOL B6: what happened, in order, for readers that come back.
@Suite("Journal")
struct JournalTests {
    private func words(_ page: JournalPage) -> [String] {
        page.events.map { event in
            switch event.body {
            case .mutation(let mutation): "\(event.id) \(mutation.seq) \(mutation.state.name)"
            case .record(let record): "\(event.id) \(record.record.id) \(record.change) \(record.source)"
            case .note(let type, _): "\(event.id) \(type)"
            }
        }
    }

    private func read(_ agent: TestAgent, after: Int64 = 0, limit: Int = 1_000, _ filter: JournalFilter = JournalFilter()) throws
        -> JournalPage
    {
        try agent.store.reads.journal(after: after, limit: limit, filter: filter)
    }

    /// Two records through their lives, an event, a note and a pull.
    private func live(_ agent: TestAgent, _ round: Int64 = 0) throws {
        let (a, b) = round == 0 ? ("a", "b") : ("a\(round)", "b\(round)")
        let keys = [try agent.create(a).key, try agent.create(b).key]
        try agent.event()
        _ = try agent.claim()
        try agent.answer(.accepted(keys[0], 5), .rejected(keys[1]))
        try agent.store.addNote(type: "link", json: #"{"up":true}"#, at: agent.now)
        try agent.pull([(a, 6, ["v": 2])], deleted: [(b, 7)])
    }

    @Test("It tells of every state and of every record, with ids that rise by one")
    func tells() throws {
        let agent = try TestAgent()
        try live(agent)
        let page = try read(agent)
        let told = words(page).map { $0.drop { $0 != " " }.dropFirst() }
        #expect(
            Set(told) == [
                "1 pending", "a upsert local", "2 pending", "b upsert local", "3 pending", "1 in_flight", "2 in_flight", "3 in_flight",
                "2 rejected", "1 done", "b delete local", "link", "a upsert remote", "b delete remote",
            ])
        #expect(page.events.map(\.id) == Array(1...page.newest))
        #expect(page.next == page.newest && page.oldest == 1 && !page.isGapped)
    }

    @Test("A reader that goes on after any id misses nothing and hears nothing twice, at any page size", arguments: [1, 2, 3, 7, 100])
    func resumes(_ limit: Int) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        for round in 0..<5 { try live(agent, Int64(round)) }
        let all = words(try read(agent))
        var heard: [String] = []
        var position: Int64 = 0
        while true {
            let page = try read(agent, after: position, limit: limit)
            #expect(page.events.count <= limit)
            heard += words(page)
            guard page.next > position else { break }
            position = page.next
            try agent.reopen()
        }
        #expect(heard == all)
        for start in stride(from: Int64(0), through: Int64(all.count), by: 3) {
            #expect(words(try read(agent, after: start)) == Array(all[Int(start)...]))
        }
    }

    @Test("A filter leaves out kinds and entities, and the position goes on behind what was left out")
    func filters() throws {
        let agent = try TestAgent()
        try live(agent)
        var filter = JournalFilter()
        filter.types = ["record"]
        let records = try read(agent, filter)
        #expect(words(records).allSatisfy { $0.contains("upsert") || $0.contains("delete") })
        #expect(records.next == records.newest)
        filter.types = ["link"]
        #expect(words(try read(agent, filter)).count == 1)
        filter = JournalFilter()
        filter.entities = [EntityName(trusted: "reading")]
        #expect(words(try read(agent, filter)).filter { !$0.hasSuffix("link") }.allSatisfy { $0.contains(" 3 ") })
        filter.types = ["nothing"]
        let none = try read(agent, filter)
        #expect(none.events.isEmpty && none.next == none.newest)
    }

    @Test("A position that the journal does not know is told from the page: before the oldest, and past the newest")
    func reset() throws {
        let agent = try TestAgent()
        try live(agent)
        let newest = try read(agent).newest
        let past = try read(agent, after: newest + 100)
        #expect(past.events.isEmpty && past.next == newest, "a database that came back shorter")
        agent.wait(.seconds(31 * 86_400))
        while try agent.store.housekeep(at: agent.now) {}
        let page = try read(agent)
        #expect(page.oldest > 1 && page.next >= page.oldest - 1)
        try agent.create("late")
        #expect(words(try read(agent)).last?.hasSuffix("late upsert local") == true)
    }

    @Test("The journal keeps a bounded number of events, and their ids go on")
    func journalIsBounded() throws {
        let agent = try TestAgent()
        let ids = (0..<1_000).map { "r\($0)" }
        for round in 1...53 { try agent.pull(ids.map { ($0, Int64(round), ["v": 1]) }, hasMore: true) }
        while try agent.store.housekeep(at: agent.now) {}
        let page = try read(agent, limit: 1)
        #expect(page.newest == 53_000)
        #expect(page.newest - page.oldest >= 49_000 && page.newest - page.oldest < 52_000)
        #expect(page.events.first?.id == page.oldest)
    }

    @Test("An event whose mutation is gone makes a gap that is told")
    func gap() throws {
        let agent = try TestAgent()
        try agent.event()
        try agent.drain()
        agent.wait(.seconds(8 * 86_400))
        _ = try agent.store.housekeep(at: agent.now)
        let page = try read(agent)
        #expect(page.events.isEmpty && page.isGapped && page.next == page.newest)
    }

    @Test("Events of a rolled back transaction were never shown", arguments: [CommitStage.before])
    func rolledBack(_ stage: CommitStage) throws {
        let agent = try TestAgent()
        agent.store.gate = { at throws(StoreError) in if at == stage { throw StoreError(.stopped, doing: "commit") } }
        _ = try? agent.create("a")  // stopped, as meant
        agent.store.gate = nil
        #expect(try read(agent).events.isEmpty)
        try agent.create("b")
        #expect(words(try read(agent)) == ["1 1 pending", "2 b upsert local"])
    }

    @Test("The history of one mutation is in it, state by state, with its times")
    func history() throws {
        let agent = try TestAgent()
        let key = try agent.event().key
        #expect(try agent.store.reads.history(of: key).map(\.state) == [.pending])
        for _ in 0..<2 {
            agent.wait(.seconds(1_000))
            _ = try agent.claim()
            try agent.answer(.retry(key))
        }
        agent.wait(.seconds(1_000))
        try agent.drain()
        let history = try agent.store.reads.history(of: key)
        #expect(history.map(\.state) == [.pending, .inFlight, .pending, .inFlight, .pending, .inFlight, .done])
        #expect(history.map(\.at) == history.map(\.at).sorted())
    }
}
