import LocalAPI
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// The agent in a network namespace of its own, its links made and broken under it.
    @Suite("Links", .disabled(if: Namespaces.obstacle != nil, Comment(rawValue: Namespaces.obstacle ?? "")))
    struct LinkTests {
        private static let wan = Namespaces.Cable.wan, modem = Namespaces.Cable.modem

        @Test("Without a link work waits as offline; it arrives when there is one, also with a new address or made anew")
        func comesAndGoes() async throws {
            try await FieldStand.with([Self.wan]) { stand in
                try await stand.enqueue(1, .critical)
                try await stand.untilHubHas(1)

                try await stand.network.pull(Self.wan)
                try await stand.until("offline without carrier") { $0.connectivity.state == "offline" }
                let waiting = try await stand.enqueue(2)
                let status = try await stand.until("the deferral") { !$0.outbox.deferred.isEmpty }
                #expect(status.outbox.deferred.map(\.reason) == ["offline"])
                #expect(try await stand.ask("why", waiting).object?["reason"]?.text == "offline")
                #expect(try await stand.hubMutations("applied") == 1)
                try await stand.network.plug(Self.wan)
                try await stand.untilHubHas(2)

                try await stand.network.renumber(Self.wan, to: 3)
                try await stand.enqueue(3, .critical)
                try await stand.untilHubHas(3)

                try await stand.network.remove(Self.wan)
                try await stand.until("offline without the interface") { $0.connectivity.state == "offline" }
                try await stand.enqueue(4, .critical)
                try await stand.network.lay(Self.wan)
                try await stand.network.route(over: Self.wan)
                try await stand.untilHubHas(4)
                try await expectEachOnce([1, 2, 3, 4], at: stand)
            }
        }

        @Test("On a metered link critical work goes and costs what it must; the rest waits until the link costs nothing")
        func metered() async throws {
            try await FieldStand.with([Self.wan, Self.modem]) { stand in
                try await stand.enqueue(1, .critical)
                try await stand.untilHubHas(1)

                let before = try await stand.network.counters(Self.modem)
                try await stand.network.route(over: Self.modem)
                try await stand.until("the modem as uplink") { $0.connectivity.uplink == Self.modem.name }
                let waiting = try await stand.enqueue(2, .normal, padding: 100_000)
                try await stand.enqueue(3, .critical)
                try await stand.untilHubHas(2)
                let status = try await stand.until("the deferral") { !$0.outbox.deferred.isEmpty }
                #expect(status.outbox.deferred.map(\.reason) == ["metered"])
                #expect(try await stand.ask("why", waiting).object?["reason"]?.text == "metered")
                #expect(Set(try await numbers(at: stand)) == [1, 3])

                let cost = try await stand.network.counters(Self.modem) - before
                // A probe (0.7 KB), a TLS handshake (3 KB) and three small requests; a tenth of what waits.
                #expect((1_000...12_000).contains(cost.bytes), "\(cost)")

                try await stand.network.route(over: Self.wan)
                try await stand.untilHubHas(3)
                try await expectEachOnce([1, 2, 3], at: stand)
            }
        }

        @Test("On a metered link nothing at all is sent while nothing that may go waits")
        func quiet() async throws {
            try await FieldStand.with([Self.modem]) { stand in
                try await stand.enqueue(1, .critical)
                try await stand.untilHubHas(1)
                try await stand.enqueue(2, .normal)
                try await stand.enqueue(3, .bulk)
                // The hub's settings came with the first answer, and the agent greeted the hub again with them.
                try await stand.until("both deferred, and no cycle ahead") { status in
                    let soon = SystemClocks().now().wall.advanced(by: .seconds(30))
                    return status.configuration.version == 2 && status.outbox.deferred.count == 2 && status.isResting
                        && status.sync.nextAt.map { $0 > soon } ?? true
                }
                let before = try await stand.network.counters(Self.modem)
                let segments = try await stand.network.tcp("InSegs")
                // The promise is about a span of time, so one has to pass.
                Moment.pass(milliseconds: 6_000)
                #expect(try await stand.network.counters(Self.modem) - before == .init(bytes: 0, packets: 0))
                #expect(try await stand.network.tcp("InSegs") == segments)
            }
        }

        @Test("A link that flaps twenty times in ten seconds loses nothing, repeats nothing and costs few connections")
        func flaps() async throws {
            try await FieldStand.with([Self.wan]) { stand in
                try await stand.enqueue(0, .critical)
                try await stand.untilHubHas(1)
                let before = try await stand.network.connectionsAccepted()
                async let flapping: Void = stand.network.flap(Self.wan, times: 20, within: .seconds(10))
                for number in 1...200 { try await stand.enqueue(number, number.isMultiple(of: 4) ? .critical : .normal) }
                try await flapping
                try await stand.untilHubHas(201)
                #expect(await stand.isAgentRunning)
                try await expectEachOnce(Array(0...200), at: stand)
                let status = try await stand.until("everything settled") { $0.outbox.open == 0 }
                #expect(status.outbox.isBalanced)
                #expect(status.outbox.count(.done) == 201)
                // A probe and a request for each flap would be forty.
                let connections = try await stand.network.connectionsAccepted() - before
                #expect(connections <= 40, "\(connections) connections")
            }
        }

        private func numbers(at stand: FieldStand) async throws -> [Int] {
            try await stand.hubRecords("readings").compactMap { $0["n"]?.int.map { Int($0) } }
        }

        /// Readings have ids that the agent made: one that was applied twice would be there twice.
        private func expectEachOnce(_ wanted: [Int], at stand: FieldStand) async throws {
            #expect(try await numbers(at: stand).sorted() == wanted)
            #expect(try await stand.hubMutations("applied") == Int64(wanted.count))
        }
    }
}
