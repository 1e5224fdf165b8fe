import BenchKit
import CBenchFloors
import Glibc

// The load of a whole fleet and its return after an outage, beside the floor of the hub's statements.
extension FleetRun {
    func measureLoad() throws -> FleetReport {
        let load = FleetLoad(devices: devices, pushes: pushes, mutations: mutations)
        var report = FleetReport(self, load)
        report.rows = try rows { try measure($0, load) }
        return report
    }

    private func measure(_ name: String, _ load: FleetLoad) throws -> FleetReport.Row {
        let stand = try FleetStand(name, self)
        defer { stand.end() }
        // Before the hubs, which ask the database something ten times a second.
        let floor = try stand.server.map { try FleetFloor($0, writers: stand.hubCount, self) }
        try stand.startHubs()

        let before = stand.cpu
        var client = FleetClient(load, ports: stand.ports, connections: connections, firstDevice: 0)
        let steady = try client.run { _ in }
        let after = stand.cpu

        // The same load again, from other devices.
        client = FleetClient(load, ports: stand.ports, connections: connections, firstDevice: load.devices)
        var backAt: UInt64?
        var returned: UInt64?
        let returning = try client.run { taken in
            if backAt == nil, taken >= load.total / 2 {
                for hub in stand.hubs { hub.end(SIGKILL) }
                backAt = bench_now() + UInt64(outage) * 1_000_000
            }
            if let at = backAt, returned == nil, bench_now() >= at {
                for hub in stand.hubs { try hub.start() }
                returned = bench_now()
            }
        }
        let end = bench_now()

        try stand.check(name, pushed: 2 * load.total)
        return FleetReport.Row(
            name: name, steady: steady, hubCPU: after.hubs - before.hubs, serverCPU: floor.map { _ in after.server - before.server },
            returning: returning, drained: end - (returned ?? end), floor: floor)
    }
}
