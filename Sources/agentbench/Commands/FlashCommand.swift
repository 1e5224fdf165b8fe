import ArgumentParser
import BenchKit
import CBenchFloors
import Glibc
import LocalAPI
import SyncCore

/// Measures the bytes of a mutation that reach the flash.
struct FlashCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flash",
        abstract: "Measures the bytes that are written to flash for each durable mutation, and for relaxed telemetry.",
        discussion: """
            The bytes are counted at a loop device with ext4. This requires root; without it the command is skipped. The count \
            begins with the enqueue and ends when the receipt of the mutation is removed, for which the agent's clock is moved \
            eight days ahead. Floor: raw SQLite inserts and deletes the same rows, 64 in a transaction.
            """)

    @OptionGroup var shared: SharedOptions

    func run() throws {
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        guard let disk = OwnDisk(in: workplace.path, megabytes: 1_024) else {
            return Talk.say("skipped: a disk for the measurement needs root, losetup and mkfs.ext4")
        }
        defer { disk.remove() }
        let count = shared.quick ? 5_000 : 50_000, seconds = shared.quick ? 10 : 60
        let producers = Producers(wanted: 64)
        var report = Report(command: "flash", workplace: workplace)
        report.note(
            "\(count) events by \(producers.count) producers until they are at the hub. Relaxed: 10 a second for \(seconds) s, one in a "
                + "request.")
        let floorWords = "SQLite, 64 rows a transaction"
        var durable = Figure(
            id: "flash_durable", title: "durable, until settled and pruned: a mutation", unit: .bytes, floor: floorWords, goal: .atMost(2.5)
        )
        var relaxed = Figure(
            id: "flash_relaxed", title: "relaxed, 10 a second: a mutation", unit: .bytes, floor: floorWords, goal: .below(2_048))
        for round in 1...shared.roundCount(full: 2) {
            Talk.say("round \(round)")
            let floor = try floorBytes(disk, count)
            durable.add(floor: floor, agent: try durableBytes(disk, workplace, producers, count))
            relaxed.add(floor: floor, agent: try relaxedBytes(disk, workplace, seconds))
        }
        report.figures = [durable, relaxed]
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }

    private func folder(_ name: String, on disk: OwnDisk) throws -> String {
        let folder = "\(disk.path)/\(name)"
        bench_remove_tree(folder)
        guard mkdir(folder, 0o700) == 0 else { throw BenchError("mkdir \(folder): \(String(cString: strerror(errno)))") }
        return folder
    }

    private func floorBytes(_ disk: OwnDisk, _ count: Int) throws -> Double {
        let floors = Floors(folder: try folder("floor", on: disk), withRecord: false)
        let before = disk.writtenBytes
        _ = try floors.batches(count, rowsPerCommit: 64, deletes: true)
        return (disk.writtenBytes - before) / Double(count)
    }

    private func durableBytes(_ disk: OwnDisk, _ workplace: Workplace, _ producers: Producers, _ count: Int) throws -> Double {
        var tokens: [String: String] = [:]
        // The hub writes to another disk.
        let hub = try HubUnderTest(program: shared.agenthub, in: workplace.folder("hub"), devices: ["bench"], tokens: &tokens)
        defer { hub.stop() }
        let folder = try folder("agent", on: disk)
        func agent(daysLater: Int) throws -> AgentUnderTest {
            try AgentUnderTest(
                program: shared.agentd, in: folder, hubURL: "http://127.0.0.1:\(hub.port)", token: tokens["bench"] ?? "",
                producers: producers, daysLater: daysLater)
        }
        let first = try agent(daysLater: 0)
        var before = 0.0
        do {
            defer { first.stop() }
            try first.explaining {
                try first.wait { $0.connectivity.state == "online" }
                before = disk.writtenBytes
                _ = try Load(socket: first.socketPath, entity: .event, producers: producers)
                    .requests(count, connections: producers.count, firstRow: 0)
                // Until the agent has noticed that the producers have disconnected, there is no place for one more connection.
                _ = poll(nil, 0, 1_000)
                try first.wait { $0.outbox.open == 0 }
                // The agent checkpoints when it is idle.
                _ = poll(nil, 0, 15_000)
            }
        }
        let second = try agent(daysLater: 8)
        defer { second.stop() }
        return try second.explaining {
            try second.call("POST", "/v1/sync", body: #"{"scope":"all","force":true,"wait":true}"#)
            // The counts in the status are cumulative; the receipts are deleted.
            try second.wait { _ in try second.call("GET", "/v1/mutations?limit=1").contains(#""items":[]"#) }
            _ = poll(nil, 0, 15_000)
            return (disk.writtenBytes - before) / Double(count + Load.warmup(count))
        }
    }

    private func relaxedBytes(_ disk: OwnDisk, _ workplace: Workplace, _ seconds: Int) throws -> Double {
        let producer = Producers(wanted: 1)
        let agent = try AgentUnderTest(
            program: shared.agentd, in: folder("relaxed", on: disk), hubURL: AgentUnderTest.noHub, producers: producer)
        defer { agent.stop() }
        return try agent.explaining {
            // A growing file costs more than one that is overwritten. The ballast is written once, not in the years after.
            _ = try Load(socket: agent.socketPath, entity: .event, producers: producer).requests(3_000, connections: 1, firstRow: 0)
            _ = poll(nil, 0, 5_000)
            let before = disk.writtenBytes
            let start = ContinuousClock.now
            for number in 0..<(seconds * 10) {
                var payload = [CChar](repeating: 0, count: Int(BENCH_PAYLOAD_BYTES) + 1)
                payload.withUnsafeMutableBufferPointer { bench_payload(UInt64(number), $0.baseAddress!) }
                let document = String(decoding: payload.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                let body =
                    #"{"entity":"\#(BenchEntity.event.name)","action":"create","durability":"relaxed","data":\#(document)}"#
                try agent.call("POST", "/v1/mutations", body: body)
                let rest = start + .milliseconds(100) * (number + 1) - ContinuousClock.now
                if rest > .zero { _ = poll(nil, 0, Int32(rest / .milliseconds(1))) }
            }
            _ = poll(nil, 0, 2_000)
            return (disk.writtenBytes - before) / Double(seconds * 10)
        }
    }
}
