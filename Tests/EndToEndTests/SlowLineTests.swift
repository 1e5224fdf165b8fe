import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import Testing

extension EndToEnd {
    /// Lines of satellites and old modems, both ways.
    @Suite("Slow lines", .disabled(if: Namespaces.shapingObstacle != nil, Comment(rawValue: Namespaces.shapingObstacle ?? "")))
    struct SlowLineTests {
        private static let wan = Namespaces.Cable.wan
        private static let isLong = ProcessInfo.processInfo.environment["EDGE_SYNC_LONG"] != nil
        private static let padding = 2_000

        struct Line: Sendable {
            var bits: Int
            /// Records of 2 KB that the hub has, and mutations of 2 KB that wait here.
            var down: Int
            var up: Int
        }

        /// EDGE_SYNC_LONG: 2 MB of records, and 400 KB over the slowest line, some fifteen minutes.
        private static let lines =
            [Line(bits: 64_000, down: 120, up: 60), Line(bits: 9_600, down: 12, up: 12)]
            + (isLong ? [Line(bits: 40_000, down: 1_000, up: 200), Line(bits: 9_600, down: 200, up: 100)] : [])

        @Test("Records of the hub and waiting mutations arrive over slow lines, and cost little more than their size")
        func bothWays() async throws {
            // Side by side, each in namespaces of its own, because all of it is waiting for the lines.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for line in Self.lines { group.addTask { try await Self.bothWays(line) } }
                try await group.waitForAll()
            }
        }

        private static func bothWays(_ line: Line) async throws {
            try await FieldStand.with([Self.wan]) { stand in
                // An agent that notices the hub's absence would probe, and no probe comes through the slowest line in its time.
                _ = try await stand.agentctl("pause")
                try await stand.publish(line.down, to: "work_orders", padding: Self.padding) {
                    try await stand.network.shape(Self.wan, bits: line.bits)
                }
                let first = try await stand.network.counters(Self.wan)
                let began = ContinuousClock.now
                _ = try await stand.agentctl("resume")
                // It must not cost the page that is on its way.
                _ = try await stand.agentctl("sync")
                try await stand.untilHere(line.down, of: "work_orders", patience: Self.patience(for: line.down, over: line))
                let pulled = try await stand.network.counters(Self.wan) - first
                try Self.expect(pulled.aboveEthernet, after: began, for: line.down, over: line, "down")

                _ = try await stand.agentctl("pause")
                for number in 0..<line.up { try await stand.enqueue(number, padding: Self.padding) }
                let second = try await stand.network.counters(Self.wan)
                let resumed = ContinuousClock.now
                _ = try await stand.agentctl("resume")
                try await stand.until("all sent", patience: Self.patience(for: line.up, over: line)) { $0.outbox.isDrained }
                let pushed = try await stand.network.counters(Self.wan) - second
                try Self.expect(pushed.aboveEthernet, after: resumed, for: line.up, over: line, "up")
                #expect(try await stand.hubMutations("applied") == Int64(line.up), "\(line.bits) bit/s")
                #expect(try await stand.status().sync.lastError == nil, "\(line.bits) bit/s")
            }
        }

        /// Size after gzip of hexadecimal noise, some 5 bits a digit, and of the names around it, bytes.
        private static func content(_ count: Int) -> Int { count * (padding * 5 / 8 + 60) }

        private static func patience(for count: Int, over line: Line) -> Duration {
            .seconds(30 + 3 * content(count) * 8 / line.bits)
        }

        private static func expect(
            _ wire: Int64, after began: ContinuousClock.Instant, for count: Int, over line: Line, _ way: String
        ) throws {
            let took = began.duration(to: .now)
            print("slow line: \(line.bits) bit/s \(way): \(content(count)) bytes in \(wire) on the wire, \(took)")
            // Heads of requests, acknowledgements, and a handshake of TLS at most.
            #expect(wire < Int64(content(count)) * 13 / 10 + 8_000, "\(line.bits) bit/s \(way)")
        }
    }
}

extension StatusDocument.Outbox {
    fileprivate var isDrained: Bool { count(.pending) == 0 && count(.inFlight) == 0 }
}

extension FieldStand {
    /// Gives the hub records of its own while it is stopped, and starts it again after `body`.
    fileprivate func publish(_ count: Int, to entity: String, padding: Int, _ body: () async throws -> Void) async throws {
        await stopHub()
        let lines = (0..<count).map { number in
            #"{"id":"w-\#(number)","data":{"noise":"\#(Noise.hexadecimal(padding))"}}"#
        }
        let file = "\(folder)/published"
        try lines.joined(separator: "\n").write(toFile: file, atomically: false, encoding: .utf8)
        let output = try await Child.run([Programs.agenthub, "publish", entity, file, "--data", "\(folder)/hub"], in: folder)
        guard output.status == 0 else { throw StandError("agenthub publish: \(output.talk)") }
        try await body()
        try await startHub()
    }

    /// Asks the agent until it has the last of so many records.
    fileprivate func untilHere(_ count: Int, of entity: String, patience: Duration) async throws {
        let end = ContinuousClock.now + patience
        let last = RecordName(EntityName(trusted: entity), RecordID(trusted: "w-\(count - 1)"))
        // Until it has come, the answer is that there is none.
        while (try? await client.record(last)) == nil {
            guard ContinuousClock.now < end else { throw StandError("not all of \(count) came: \(try await status().sync)") }
            await Pause.long()
        }
    }
}

extension Namespaces {
    /// Lets no more than that pass over a cable, each way.
    func shape(_ cable: Cable, bits: Int) async throws {
        let tc = access("/usr/sbin/tc", X_OK) == 0 ? "/usr/sbin/tc" : "/sbin/tc"
        for (place, device) in [(Place.field, cable.name), (.yard, cable.far)] {
            let command =
                entering(place) + [
                    tc, "qdisc", "replace", "dev", device, "root", "tbf", "rate", "\(bits)bit", "burst", "1600", "limit", "16000",
                ]
            let output = try await Child.run(command, in: folder)
            guard output.status == 0 else { throw StandError("tc: \(output.talk)") }
        }
    }
}
