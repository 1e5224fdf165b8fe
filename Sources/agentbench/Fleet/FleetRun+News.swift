import BenchKit
import CBenchFloors
import CPostgresFloor
import Glibc
import SyncCore

// Devices that wait for news: how soon they have a change, what they cost while nothing changes, and how soon they have a change while a
// new device lists and compares a large entity.
extension FleetRun {
    /// Number of changes that are measured one after the other, alone and beside the new device. There it rises up to the second number
    /// until the device has compared the entity.
    private static let rounds = 5
    private static let roundsMax = 40
    /// The entity that the new device lists.
    private static let large = "work"

    /// The seconds of a wait (PROTOCOL A3). The cost of waiting is measured over one second more, in which each wait ends once.
    private var waitSeconds: Int { isQuick ? 4 : 55 }

    func measureNews() throws -> NewsReport {
        var report = NewsReport(self)
        report.rows = try rows { try measureNews($0) }
        return report
    }

    private func measureNews(_ name: String) throws -> NewsReport.Row {
        let connections = devices + 256
        // The hub's own need of files for so many connections (`agenthub serve --connections`), which is larger than this program's.
        try NewsCommandLimits.raise(to: connections + min(connections, 1_000) + 320)
        let stand = try FleetStand(name, self)
        defer { stand.end() }
        try stand.startHubs(
            entities: FleetStand.entities + "  \(Self.large): { kind: reference }\n", options: ["--connections", String(connections)])
        Talk.say("\(name): \(records) records are published")
        try stand.publish(Self.large, records) {
            #"{"id":"w-\#($0)","data":{"site":"s-\#($0 % 1_000)","title":"Pump 3 is hot, bearing at the drive end","n":\#($0)}}"#
        }
        let port = stand.ports[0]
        // The first answers make the hub's own tables and caches, which belong to no device.
        try NewsClient(devices: 16, port: port, waitSeconds: waitSeconds).close()
        let before = try facts(of: stand.hubs[0])

        var client = try NewsClient(devices: devices, port: port, waitSeconds: waitSeconds)
        defer { client.close() }
        try client.wait()
        let after = try facts(of: stand.hubs[0])

        Talk.say("\(name): \(devices) devices wait, and ask again when a wait ends")
        let (cpu, commits) = (stand.cpu, try stand.server?.commits())
        let start = bench_now()
        let asked = try client.hold(nanoseconds: UInt64(waitSeconds + 1) * 1_000_000_000)
        let seconds = Double(bench_now() - start) / 1e9
        let (cpuLater, commitsLater) = (stand.cpu, try stand.server?.commits())

        let alone = try times(&client) { _ in true }
        try client.beginListing(Self.large)
        let beside = try times(&client) { $0.listed.comparisons > 0 }
        return NewsReport.Row(
            name: name, waiters: devices, times: alone, beside: beside, listing: client.listed,
            bytesPerWaiter: Double(after.anonymousBytes - before.anonymousBytes) / Double(devices), idleSeconds: seconds, asked: asked,
            hubMicroseconds: Double(cpuLater.hubs - cpu.hubs) / 1_000 / seconds,
            serverMicroseconds: stand.server.map { _ in Double(cpuLater.server - cpu.server) / 1_000 / seconds },
            transactions: commits.flatMap { first in commitsLater.map { Double($0 - first) / seconds } })
    }

    /// - Returns: The times of all devices and changes.
    private func times(_ client: inout NewsClient, until isDone: (NewsClient) -> Bool) throws -> Times {
        var times: [UInt64] = []
        var round = 0
        while round < Self.rounds || round < Self.roundsMax && !isDone(client) {
            times += try client.round()
            try client.wait()
            round += 1
        }
        return Times(times)
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
