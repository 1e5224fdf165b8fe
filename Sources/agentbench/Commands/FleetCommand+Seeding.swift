import BenchKit
import CBenchFloors

// New devices make their first sync of everything while the others push.
extension FleetCommand {
    private static let aloneSeconds: UInt64 = 10
    /// The published entity. It is of the kind `reference`, so that it can be filled without pushes.
    private static let entity = "work"

    func publishSeeding(in workplace: Workplace) throws {
        var report = SeedingReport(command: self, fileSystem: workplace.fileSystem.name)
        report.rows = try rows { try measureSeeding($0, newDevices: seeding ?? 8, workplace) }
        report.publish(asJSON: json)
    }

    private func measureSeeding(_ name: String, newDevices: Int, _ workplace: Workplace) throws -> SeedingReport.Row {
        let stand = try FleetStand(name, self, in: workplace)
        defer { stand.end() }
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
            try run(number, .moment(bench_now() + Self.aloneSeconds * 1_000_000_000))
        }
        // Warm first, and once more at the end: what else the machine does changes meanwhile.
        _ = try run(0, .moment(bench_now() + 2_000_000_000))
        let first = try alone(1)
        let beside = try run(2, .firstSyncs, new: newDevices)
        let second = try alone(3)
        try stand.check(name, pushed: pushed, before: before)
        return SeedingReport.Row(
            name: name, alone: Times(first.pushTimes + second.pushTimes), beside: Times(beside.pushTimes),
            rates: (
                alone: FleetMoments.mean(first, second),
                beside: Double(beside.applied) * 1e9 / Double(max(beside.nanoseconds, 1))
            ),
            nanoseconds: beside.nanoseconds, pages: beside.received.pages, bytes: beside.received.bytes)
    }
}
