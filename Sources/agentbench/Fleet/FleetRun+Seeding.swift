import BenchKit
import CBenchFloors

// New devices make their first sync of everything while the others push.
extension FleetRun {
    /// The published entity. It is of the kind `reference`, so that it can be filled without pushes.
    private static let entity = "work"

    func measureSeeding() throws -> SeedingReport {
        var report = SeedingReport(self)
        report.rows = try rows { try measureSeeding($0) }
        return report
    }

    private func measureSeeding(_ name: String) throws -> SeedingReport.Row {
        let stand = try FleetStand(name, self)
        defer { stand.end() }
        // Before the hubs, which ask the database something ten times a second.
        let floor = try stand.server.map { try FleetFloor($0, writers: stand.hubCount, self) }
        try stand.startHubs(entities: FleetStand.entities + "  \(Self.entity): { kind: reference }\n")
        Talk.say("\(name): \(records) records are published")
        try stand.publish(Self.entity, records) {
            #"{"id":"w-\#($0)","data":{"site":"s-\#($0 % 1_000)","title":"Pump 3 is hot, bearing at the drive end","n":\#($0)}}"#
        }
        let before = try stand.applied()
        let load = FleetLoad(devices: devices, pushes: .max, mutations: mutations)
        var pushed = 0
        func run(_ number: Int, _ ending: FleetClient.Ending, new count: Int = 0) throws -> FleetClient.Outcome {
            var client = FleetClient(
                load, ports: stand.ports, connections: connections, firstDevice: number * devices, ending: ending,
                newDevices: (count, Self.entity))
            let outcome = try client.run { _ in }
            pushed += outcome.applied + outcome.repeated
            return outcome
        }
        func alone(_ number: Int) throws -> FleetClient.Outcome {
            try run(number, .moment(bench_now() + span(10)))
        }
        // Warm first, and once more at the end: what else the machine does changes meanwhile.
        _ = try run(0, .moment(bench_now() + span(2)))
        let first = try alone(1)
        let beside = try run(2, .firstSyncs, new: seeding)
        let second = try alone(3)
        try stand.check(name, pushed: pushed, before: before)
        return SeedingReport.Row(
            name: name, alone: Times(first.pushTimes + second.pushTimes), beside: Times(beside.pushTimes),
            rates: (
                alone: FleetMoments.mean(first, second),
                beside: Double(beside.applied) * 1e9 / Double(max(beside.nanoseconds, 1))
            ),
            nanoseconds: beside.nanoseconds, pages: beside.received.pages, bytes: beside.received.bytes,
            floor: floor)
    }
}
