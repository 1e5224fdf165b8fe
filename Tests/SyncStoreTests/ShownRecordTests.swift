import SyncCore
import SyncStore
import Testing

/// Verdicts that show the record: what waits behind them meets what others wrote, once.
@Suite("Verdicts that show the record")
struct ShownRecordTests {
    /// A record of the hub, and changes of it that wait each for itself.
    private func agent(waiting count: Int, _ data: JSONObject = ["v": 0, "other": 1]) throws -> TestAgent {
        let agent = try TestAgent()
        try agent.pull([("a", 5, data)])
        for number in 1...count { try agent.update("a", ["v": .int(number)]) }
        return agent
    }

    private func steps(_ agent: TestAgent, _ work: () throws -> Void) throws -> Int {
        let before = agent.database.stepsTaken
        try work()
        return agent.database.stepsTaken - before
    }

    private func document(_ agent: TestAgent) throws -> JSONObject? { try agent.view("a").flatMap { try JSONReader.read($0).object } }

    /// A batch is accepted, and with each verdict comes the record as it was then.
    private func settle(_ agent: TestAgent, _ batch: [OutgoingMutation], other: JSON?, from version: Int64) throws {
        let results = try batch.enumerated().map { index, mutation in
            var data = try #require(try mutation.data.flatMap { try JSONReader.read($0).object })
            data["other"] = other
            return PushResult.accepted(mutation.key, version + Int64(index), record: HubRecord(version: version + Int64(index), data: data))
        }
        _ = try agent.store.applyResults(results, next: nil, at: agent.now)
    }

    @Test("Fifty verdicts that show another device's record cost about as much as one, with thousands waiting behind them")
    func once() throws {
        func cost(_ count: Int) throws -> Int {
            let agent = try agent(waiting: 1_000)
            let batch = try agent.claim(count)
            #expect(batch.count == count)
            let cost = try steps(agent) { try settle(agent, batch, other: 2, from: 10) }
            #expect(try document(agent) == ["v": 1_000, "other": 2])
            #expect(try agent.store.verify() == [])
            return cost
        }
        #expect(try cost(50) <= 3 * cost(1))
    }

    @Test("A record that is what was computed here is no news: what waits is not looked at")
    func noNews() throws {
        func cost(_ waiting: Int) throws -> Int {
            let agent = try agent(waiting: waiting)
            let batch = try agent.claim(20)
            let cost = try steps(agent) { try settle(agent, batch, other: 1, from: 10) }
            #expect(try document(agent) == ["v": .int(waiting), "other": 1])
            #expect(try agent.record("a")?.version == 29)
            #expect(try agent.store.verify() == [])
            return cost
        }
        #expect(try cost(2_000) <= cost(200) * 11 / 10)
    }

    @Test("A record that is what was computed here, with its members in another order, is shown as the hub has it")
    func order() throws {
        let agent = try agent(waiting: 2, ["p": 1, "q": 1])
        let batch = try agent.claim(1)
        try agent.answer(.accepted(batch[0].key, 6, record: HubRecord(version: 6, data: ["q": 1, "v": 1, "p": 1])))
        #expect(try agent.view("a") == #"{"q":1,"v":2,"p":1}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("All at once or one by one: what waits comes to rest on the same, and asks for the same", arguments: [true, false])
    func sameAsOneByOne(_ isAtOnce: Bool) throws {
        let agent = try ConflictTests.agent()
        // This device's changes of a field that people decide about, and another device's change of another field.
        let seen = try #require(try agent.view("a").flatMap { try JSONReader.read($0).object })
        for value in ["one", "two", "three"] { try agent.update("a", ["finding": .string(value)]) }
        let waiting = try agent.update("a", ["finding": "four", "note": "mine"]).key
        let batch = try agent.claim(3)
        var results: [PushResult] = []
        for (index, mutation) in batch.enumerated() {
            var data = seen
            data["note"] = "theirs"
            data["finding"] = .string(["one", "two", "three"][index])
            let version = Int64(20 + index)
            results.append(.accepted(mutation.key, version, record: HubRecord(version: version, data: data)))
        }
        if isAtOnce {
            _ = try agent.store.applyResults(results, next: nil, at: agent.now)
        } else {
            for result in results { try agent.answer(result) }
        }
        // The own values are no news to what was written on top of them.
        #expect(try agent.conflicts().isEmpty)
        #expect(try agent.state(waiting) == .pending)
        // One by one, only the first of them brings news.
        #expect(try agent.claim().map(\.baseVersion) == [isAtOnce ? 22 : 20])
        #expect(try agent.store.verify() == [])
    }

    @Test("A verdict of another kind in between meets what was shown before it")
    func inBetween() throws {
        let agent = try agent(waiting: 5)
        let batch = try agent.claim(4)
        func shown(_ index: Int, _ version: Int64) -> PushResult {
            .accepted(batch[index].key, version, record: HubRecord(version: version, data: ["v": .int(index + 1), "other": 9]))
        }
        _ = try agent.store.applyResults([shown(0, 10), shown(1, 11), .rejected(batch[2].key), shown(3, 12)], next: nil, at: agent.now)
        #expect(try document(agent) == ["v": 5, "other": 9])
        #expect(try agent.states(batch.map(\.key)) == ["done", "done", "rejected", "done"])
        // The record that the last answer shows is no news after that.
        #expect(try agent.claim().map(\.baseVersion) == [11])
        #expect(try agent.store.verify() == [])
    }

    @Test("A page that names a record again and again counts its newest version, whatever its place")
    func pageRepeats() throws {
        let agent = try agent(waiting: 300)
        let once = try steps(agent) { try agent.pull([("a", 400, ["v": 0, "other": 400])]) }
        let often = try steps(agent) {
            try agent.pull((401...450).map { ("a", Int64($0), ["v": 0, "other": .int($0)]) } + [("a", 420, ["v": 0, "other": 0])])
        }
        #expect(try document(agent) == ["v": 300, "other": 450])
        #expect(often <= 2 * once)
        #expect(try agent.store.verify() == [])
    }
}
