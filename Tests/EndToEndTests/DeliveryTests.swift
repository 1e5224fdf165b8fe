import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    @Suite("Delivery")
    struct DeliveryTests {
        @Test("A mutation that an app enqueues arrives at the hub, and the app is told when")
        func delivered() async throws {
            try await Stand.with { stand in
                let order = NewMutation(
                    .create, EntityName(trusted: "work_orders"), RecordID(trusted: "wo-1"),
                    data: ["title": "Check the bearing", "exact": .number(try number("1.10"))])
                let reply = try await stand.client.enqueue(order, key: "first", wait: .seconds(60))
                #expect(reply.status == 201)
                #expect(reply.value.state == "done")

                let records = try await stand.hubRecords("work_orders")
                #expect(records.map(\.id) == ["wo-1"])
                #expect(records.first?.data.json == #"{"title":"Check the bearing","exact":1.10}"#)
                #expect(try await stand.hubApplied() == 1)

                let record = try await stand.client.record(RecordName(order.entity, RecordID(trusted: "wo-1"))).value
                #expect(record.status == "synced")
                #expect(record.version > 0)
                let status = try await stand.client.status().value
                #expect(status.outbox.isBalanced)
                #expect(status.outbox.count(.done) == 1)
                #expect(status.outbox.open == 0)
            }
        }

        @Test("The repeat of a key is answered with the first answer and takes effect once")
        func repeated() async throws {
            try await Stand.with { stand in
                let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["value": 7])
                let first = try await stand.client.enqueue(reading, key: "k-1")
                let second = try await stand.client.enqueue(reading, key: "k-1")
                #expect(first.status == 201)
                #expect(second.status == 200)
                #expect(first.value.id == second.value.id)

                _ = try await stand.settle()
                #expect(try await stand.hubApplied() == 1)
                #expect(try await stand.hubRecords("readings").count == 1)
            }
        }

        @Test("A record of another device arrives in the mirror as it was sent")
        func pulled() async throws {
            try await Stand.with { stand in
                let other = try await PlainPeer("other", on: stand)
                try await other.create(
                    "work_orders", "wo-9", #"{"n":9007199254740993,"t":"\u0041\u030A"}"#, at: await stand.hubURL)
                _ = try await stand.settle()
                let name = RecordName(EntityName(trusted: "work_orders"), RecordID(trusted: "wo-9"))
                let record = try await stand.client.record(name).value
                #expect(record.data?.utf8.elementsEqual(#"{"n":9007199254740993,"t":"\u0041\u030A"}"#.utf8) == true)
            }
        }

        @Test("While the hub is away work goes on, status says what waits and why, and later all of it arrives")
        func outage() async throws {
            try await Stand.with { stand in
                await stand.stopHub()
                for number in 1...20 {
                    let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["n": .int(number)])
                    #expect(try await stand.client.enqueue(reading).status == 201)
                }
                #expect(try await stand.sync() != "ok")

                // The agent tries again by itself, at least once a second, and what it tries does not wait meanwhile. No such try lasts.
                let waiting = try await stand.until("all of it waits, with a reason") { status in
                    // The cycle that failed comes before the probe that confirms it.
                    status.outbox.deferred.reduce(0) { $0 + $1.count } == 20 && status.connectivity.state != "online"
                        && status.sync.lastError?.isEmpty == false
                }
                #expect(waiting.outbox.open == 20)
                #expect(waiting.outbox.isBalanced)
                var command = try await stand.agentctl("status")
                for _ in 0..<50 where !command.text.contains("20 pending") { command = try await stand.agentctl("status") }
                #expect(command.status == 1)
                #expect(command.text.contains("20 pending"), "\(command.text)")

                try await stand.startHub()
                let settled = try await stand.settle()
                #expect(settled.outbox.count(.done) == 20)
                let numbers = try await stand.hubRecords("readings").compactMap { $0.data["n"]?.int }
                #expect(numbers.sorted() == Array(1...20))
            }
        }

        @Test("An agent that was stopped in between has lost nothing and sends nothing twice")
        func restarted() async throws {
            try await Stand.with { stand in
                await stand.stopHub()
                let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["n": 1])
                let before = try await stand.client.enqueue(reading, key: "only")
                await stand.stopAgent()
                try await stand.startHub()
                try await stand.startAgent()
                let after = try await stand.client.enqueue(reading, key: "only")
                #expect(after.status == 200)
                #expect(after.value.id == before.value.id)
                _ = try await stand.settle()
                #expect(try await stand.hubApplied() == 1)
            }
        }

        private func number(_ text: String) throws -> JSONNumber {
            guard case .number(let number) = try JSONReader.read(text) else { throw StandError("\(text) is no number") }
            return number
        }
    }
}
