import BenchKit
import CBenchFloors
import Glibc
import SyncCore

// Devices that wait for news: how soon they have a change, and what they cost while nothing changes.
extension FleetCommand {
    /// Number of changes that are measured one after the other.
    private static let rounds = 5
    /// Time without a change in which the cost of waiting is measured, seconds.
    private static let idleSeconds = 10

    func measureNews(_ name: String, _ workplace: Workplace) throws -> NewsReport.Row {
        let connections = devices + 256
        // The hub's own need of files for so many connections (`agenthub serve --connections`), which is larger than this program's.
        try NewsCommandLimits.raise(to: connections + min(connections, 1_000) + 320)
        let program = try agenthub ?? neighbour("agenthub")
        let server = name == "sqlite" ? nil : try PostgresUnderTest(in: workplace.folder("news-pg"))
        defer { server?.stop() }
        let place = try server.map { ["--database", $0.url] } ?? ["--data", workplace.folder("news-data")]
        let hub = try FleetHub(
            program, place: place + ["--connections", String(connections)], in: workplace.folder("news-hub"))
        defer { hub.end(SIGTERM) }
        // The first answers make the hub's own tables and caches, which belong to no device.
        try NewsClient(devices: 16, port: hub.port).close()
        let before = try facts(of: hub)

        var client = try NewsClient(devices: devices, port: hub.port)
        defer { client.close() }
        try client.wait()
        let after = try facts(of: hub)

        let cpu = (hub: hub.cpu, server: server?.cpu ?? 0)
        sleep(UInt32(Self.idleSeconds))
        let idle = (hub: hub.cpu - cpu.hub, server: (server?.cpu ?? 0) - cpu.server)

        var times: [UInt64] = []
        for _ in 0..<Self.rounds {
            times += try client.round()
            try client.wait()
        }
        let seconds = Double(Self.idleSeconds)
        return NewsReport.Row(
            name: name, waiters: devices, times: Times(times),
            bytesPerWaiter: Double(after.anonymousBytes - before.anonymousBytes) / Double(devices),
            hubMicroseconds: Double(idle.hub) / 1_000 / seconds,
            serverMicroseconds: server.map { _ in Double(idle.server) / 1_000 / seconds })
    }

    private func facts(of hub: FleetHub) throws -> ProcessFacts {
        guard let facts = hub.facts else { throw BenchError("the hub has ended") }
        return facts
    }
}

private enum NewsCommandLimits {
    /// Raises the limit of open files of this process, and so of the programs that it starts.
    static func raise(to wanted: Int) throws {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < rlim_t(wanted) else { return }
        guard limit.rlim_max >= rlim_t(wanted) else {
            // The hub would close the connections that are idle longest.
            throw BenchError(
                "so many devices need \(wanted) open files, and the limit here is \(limit.rlim_max). As root: ulimit -Hn \(wanted)")
        }
        limit.rlim_cur = rlim_t(wanted)
        guard setrlimit(resource, &limit) == 0 else { throw BenchError("the limit of open files cannot be raised (errno \(errno))") }
    }
}
