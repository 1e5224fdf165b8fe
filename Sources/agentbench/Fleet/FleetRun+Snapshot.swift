import BenchKit
import CBenchFloors
import CPostgresFloor

// A transaction keeps a snapshot of the database open, as pg_dump does: what that costs the pushes.
extension FleetRun {
    func measureSnapshot() throws -> SnapshotReport {
        var report = SnapshotReport(self)
        report.rows = try rows { try measureSnapshot($0) }
        return report
    }

    private func measureSnapshot(_ name: String) throws -> SnapshotReport.Row {
        let stand = try FleetStand(name, self)
        defer { stand.end() }
        guard let server = stand.server else { throw BenchError("\(name) has no server that keeps snapshots") }
        // Before the hubs, which ask the database something ten times a second.
        let floor = try FleetFloor(server, writers: stand.hubCount, self)
        let heldFloor = try floorBesideSnapshot(server, writers: stand.hubCount)
        try stand.startHubs()
        let start = bench_now() + span(3)
        let held = UInt64(snapshot) * 1_000_000_000, beside = UInt64(min(snapshot, 60)) * 1_000_000_000
        var client = FleetClient(
            FleetLoad(devices: devices, pushes: .max, mutations: mutations), ports: stand.ports, connections: connections, firstDevice: 0,
            ending: .moment(start + beside + held + beside))
        var keeper: OpaquePointer?
        // Moments: the start, the begin and the end of the snapshot, and the end; with the CPU time of the server.
        var marks: [(at: UInt64, cpu: UInt64)] = []
        let dues = [start, start + beside, start + beside + held]
        let outcome = try client.run { _ in
            guard marks.count < dues.count, bench_now() >= dues[marks.count] else { return }
            marks.append((bench_now(), server.cpu))
            var failure = bench_failure()
            if marks.count == 2 {
                keeper = bench_snapshot_hold(server.url, &failure)
                guard keeper != nil else { throw BenchError("snapshot: \(failure.message)") }
            } else if marks.count == 3, let kept = keeper {
                keeper = nil
                try checked("snapshot") { bench_snapshot_end(kept, $0) }
            }
        }
        marks.append((min(bench_now(), start + beside + held + beside), server.cpu))
        try stand.check(name, pushed: outcome.applied + outcome.repeated)
        let parts = zip(marks, marks.dropFirst()).map { from, to in
            let rate = FleetMoments.rate(outcome.pushes, in: from.at..<to.at)
            let applied = rate * Double(to.at - from.at) / 1e9
            return SnapshotReport.Part(rate: rate, serverMicroseconds: Double(to.cpu - from.cpu) / 1_000 / max(applied, 1))
        }
        guard parts.count == 3 else { throw BenchError("\(name): the load ended too early") }
        let end = marks[2].at
        return SnapshotReport.Row(
            name: name, before: parts[0], held: parts[1], after: parts[2],
            last: FleetMoments.rate(outcome.pushes, in: end - held / 5..<end), floor: floor, heldFloor: heldFloor)
    }

    private func floorBesideSnapshot(_ server: PostgresUnderTest, writers: Int) throws -> FleetFloor {
        var failure = bench_failure()
        guard let keeper = bench_snapshot_hold(server.url, &failure) else { throw BenchError("snapshot: \(failure.message)") }
        let floor = Result { try FleetFloor(server, writers: writers, self) }
        try checked("snapshot") { bench_snapshot_end(keeper, $0) }
        return try floor.get()
    }
}
