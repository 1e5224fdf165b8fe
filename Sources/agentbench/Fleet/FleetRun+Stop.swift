import BenchKit
import CBenchFloors
import Glibc
import SyncCore

// One hub is stopped while others over the same database go on: how long they answer no push.
extension FleetRun {
    /// The time for which a hub is stopped. The server ends the transaction of a stopped hub after 1 or 4 s (HubPostgres, `Patience`).
    private var frozenNanoseconds: UInt64 { span(5) }

    func measureStop() throws -> StopReport {
        let seed = seed ?? UInt64.random(in: 0..<1_000_000)
        Talk.say("the moments are those of --seed \(seed)")
        var report = StopReport(seed: seed, self)
        report.rows = try rows { try measureStop($0, StopPlan(count: stops, hubs: 2, seed: seed)) }
        return report
    }

    private func measureStop(_ name: String, _ plan: StopPlan) throws -> StopReport.Row {
        let stand = try FleetStand(name, self)
        defer { stand.end() }
        // Before the hubs, which ask the database something ten times a second.
        let floor = try stand.server.map { try FleetFloor($0, writers: stand.hubCount, self) }
        try stand.startHubs()
        // The first pushes make the hubs' own caches, and their hellos are over.
        let start = bench_now() + span(3)
        // One second more, because each moment is noticed up to 0.1 s late.
        let length = plan.stops.reduce(0) { $0 + $1.after + frozenNanoseconds } + 1_000_000_000
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
                due = now + frozenNanoseconds
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
        let undisturbed = zip([start] + times.map(\.range.upperBound), times.map(\.range.lowerBound)).map { $0..<max($0, $1) }
        let calm = undisturbed.flatMap { range in
            (0..<stand.hubCount).map { hub in
                FleetMoments.longestSilence(outcome.pushes.filter { $0.hub == hub }.map(\.at), in: range)
            }
        }
        return StopReport.Row(
            name: name, silences: silences, calm: calm.max() ?? 0, refused: outcome.refused, lost: outcome.lost,
            pushes: outcome.pushes.count, rate: FleetMoments.rate(outcome.pushes, in: undisturbed), floor: floor)
    }
}
