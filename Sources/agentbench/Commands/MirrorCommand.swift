import ArgumentParser
import BenchKit
import CBenchFloors
import Glibc
import LocalAPI

/// Measures the read latency of apps, and the size of the mirror.
struct MirrorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mirror",
        abstract: "Measures local reads of 100 records, a query among 10,000, and the size of the mirror.",
        discussion: """
            One agent pushes 10,000 records to a hub, and another one pulls them and answers the reads, each on a new connection. \
            Floor: the answer to the cheapest request, /v1/healthz.
            """)

    @OptionGroup var shared: SharedOptions

    func run() throws {
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        let count = 10_000, repeats = shared.quick ? 20 : 200
        var report = Report(command: "mirror", workplace: workplace)
        report.note(
            "p50 of \(repeats) requests a round. The size is that of the database with its log, less that of an empty one.")
        let health = "GET /v1/healthz"
        var read = Figure(id: "read_100", title: "read of 100 records", unit: .microseconds, floor: health, goal: .below(10_000))
        var query = Figure(
            id: "query_10000", title: "query among 10,000", unit: .microseconds, floor: health, goal: .below(50_000))
        var size = Figure(
            id: "mirror_1000", title: "mirror per 1,000 records", unit: .bytes, floor: "the documents alone",
            goal: .below(500_000))
        var tokens: [String: String] = [:]
        let hub = try HubUnderTest(
            program: shared.agenthub, in: workplace.folder("hub"), devices: ["bench", "reader"], tokens: &tokens)
        defer { hub.stop() }
        let url = "http://127.0.0.1:\(hub.port)"
        try bring(count, url, tokens["bench"] ?? "", workplace)

        let folder = try workplace.folder("reader")
        let agent = try AgentUnderTest(
            program: shared.agentd, in: folder, device: "reader", hubURL: url, token: tokens["reader"] ?? "",
            producers: Producers(wanted: 1))
        defer { agent.stop() }
        try agent.explaining {
            let empty = try emptySize(workplace)
            var records: Int64 = 0
            let end = ContinuousClock.now + .seconds(60)
            while records < count, ContinuousClock.now < end {
                try agent.call("POST", "/v1/sync", body: #"{"scope":"all","force":true,"wait":true}"#)
                records = try agent.status().entities.first { $0.name == BenchEntity.record.name }?.records ?? 0
            }
            guard records == count else { throw BenchError("pulled \(records) of \(count) records") }
            // The log is written into the database when the agent is idle.
            _ = poll(nil, 0, 15_000)
            size.add(floor: 200_000, agent: (Self.stored(in: folder) - empty) / Double(count) * 1_000)
            for round in 1...shared.roundCount(full: 3) {
                Talk.say("round \(round)")
                let floor = try median(repeats) { try agent.call("GET", "/v1/healthz") }
                read.add(
                    floor: floor,
                    agent: try median(repeats) { try agent.call("GET", "/v1/records/\(BenchEntity.record.name)?limit=100") })
                let filter = #"{"field":"sensor","op":"eq","value":"pump-07/bearing-1"}"#
                let body = #"{"entity":"\#(BenchEntity.record.name)","where":\#(filter),"limit":100}"#
                query.add(floor: floor, agent: try median(repeats) { try agent.call("POST", "/v1/query", body: body) })
            }
        }
        report.figures = [read, query, size]
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }

    private static func stored(in folder: String) -> Double {
        Double(fileSize("\(folder)/state/agent.db") + fileSize("\(folder)/state/agent.db-wal"))
    }

    /// Size of the database of an agent without any contact to a hub, after a clean end.
    private func emptySize(_ workplace: Workplace) throws -> Double {
        let folder = try workplace.folder("empty")
        try AgentUnderTest(program: shared.agentd, in: folder, hubURL: AgentUnderTest.noHub, producers: Producers(wanted: 1)).stop()
        return Self.stored(in: folder)
    }

    private func bring(_ count: Int, _ url: String, _ token: String, _ workplace: Workplace) throws {
        let agent = try AgentUnderTest(
            program: shared.agentd, in: workplace.folder("writer"), hubURL: url, token: token, producers: Producers(wanted: 1))
        defer { agent.stop() }
        try agent.explaining {
            _ = try Load(socket: agent.socketPath, entity: .record, producers: Producers(wanted: 1)).lines(count, firstRow: 0)
            try agent.wait { $0.outbox.open == 0 }
        }
    }

    /// Median duration in microseconds.
    private func median(_ count: Int, _ body: () throws -> Void) throws -> Double {
        let times = try (0..<count).map { _ in
            let before = bench_now()
            try body()
            return bench_now() - before
        }
        return Times(times).quantile(0.5) / 1_000
    }
}
