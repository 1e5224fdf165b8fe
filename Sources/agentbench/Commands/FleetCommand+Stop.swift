import BenchKit
import CBenchFloors
import Glibc
import SyncCore

// One hub is stopped while others over the same database go on: how long they answer no push.
extension FleetCommand {
    /// The time for which a hub is stopped. The server ends the transaction of a stopped hub after 1 or 4 s (HubPostgres, `Patience`).
    private static let frozenNanoseconds: UInt64 = 5_000_000_000

    func publishStop(in workplace: Workplace) throws {
        let seed = seed ?? UInt64.random(in: 0..<1_000_000)
        Talk.say("the moments are those of --seed \(seed)")
        var report = StopReport(seed: seed, command: self, fileSystem: workplace.fileSystem.name)
        report.rows = try rows { try measureStop($0, StopPlan(count: stops, hubs: 2, seed: seed), workplace) }
        report.publish(asJSON: json)
    }

    private func measureStop(_ name: String, _ plan: StopPlan, _ workplace: Workplace) throws -> StopReport.Row {
        let stand = try FleetStand(name, self, in: workplace)
        defer { stand.end() }
        try stand.startHubs()
        // The first pushes make the hubs' own caches, and their hellos are over.
        let start = bench_now() + 3_000_000_000
        let length = plan.stops.reduce(0) { $0 + $1.after + Self.frozenNanoseconds } + 1_000_000_000
        var client = FleetClient(
            FleetLoad(devices: devices, pushes: .max, mutations: mutations), ports: stand.ports, connections: connections, firstDevice: 0,
            ending: .moment(start + length))
        var next = 0, due = start + (plan.stops.first?.after ?? 0)
        var frozen: Int?
        var times: [(hub: Int, range: Range<UInt64>)] = []
        let outcome = try client.run { _ in
            let now = bench_now()
            guard now >= due else { return }
            if let hub = frozen {
                stand.hubs[hub].thaw()
                times[next].range = times[next].range.lowerBound..<now
                frozen = nil
                next += 1
                due = next < plan.stops.count ? now + plan.stops[next].after : .max
            } else if next < plan.stops.count {
                let hub = plan.stops[next].hub
                stand.hubs[hub].freeze()
                times.append((hub, now..<now))
                frozen = hub
                due = now + Self.frozenNanoseconds
            }
        }
        // A load that ended while a hub was stopped says nothing about that time.
        for hub in stand.hubs { hub.thaw() }
        guard frozen == nil, next == plan.stops.count else { throw BenchError("\(name): the load ended before the last stop was over") }
        try stand.check(name, pushed: outcome.applied + outcome.repeated)
        let silences = times.map { time in
            FleetMoments.longestSilence(outcome.pushes.filter { $0.hub != time.hub }.map(\.at), in: time.range)
        }
        // The same hubs while both are there: from the end of one stop to the next one.
        let calm = zip([start] + times.map(\.range.upperBound), times.map(\.range.lowerBound)).flatMap { from, to in
            (0..<stand.hubCount).map { hub in
                FleetMoments.longestSilence(outcome.pushes.filter { $0.hub == hub }.map(\.at), in: from..<max(from, to))
            }
        }
        return StopReport.Row(
            name: name, silences: silences, calm: calm.max() ?? 0, refused: outcome.refused, lost: outcome.lost,
            pushes: outcome.pushes.count)
    }
}
