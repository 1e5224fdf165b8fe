import ArgumentParser
import BenchKit

/// The subject of one measurement of `agentbench fleet`.
enum FleetSubject: Equatable {
    case load, news, scopes, stop, snapshot, seeding, idlePulls

    /// The option that asks for it; `nil`: none does.
    var option: String? {
        switch self {
        case .load: nil
        case .news: "--news"
        case .scopes: "--scopes"
        case .stop: "--stop"
        case .snapshot: "--snapshot"
        case .seeding: "--seeding"
        case .idlePulls: "--idle-pulls"
        }
    }

    /// The cases that it has.
    var cases: [String] {
        switch self {
        case .load: FleetCommand.cases
        case .news, .scopes, .seeding, .idlePulls: ["sqlite", "postgres-1"]
        // One hub is stopped, and the other one must go on.
        case .stop: ["postgres-2"]
        case .snapshot: ["postgres-1"]
        }
    }
}

extension FleetCommand {
    /// Seconds of `--snapshot` and devices of `--seeding` without a number.
    static let usualSnapshot = 60
    static let usualSeeding = 8
    /// Milliseconds of the second load with `--all`: the goal is for this.
    private static let usualRoundTrip = 1.0

    /// The subjects that the options ask for.
    private var subjects: [FleetSubject] {
        let wanted: [(FleetSubject, Bool)] = [
            (.news, news), (.scopes, scopes), (.stop, stop), (.snapshot, snapshot != nil), (.seeding, seeding != nil),
            (.idlePulls, idlePulls),
        ]
        return wanted.filter(\.1).map(\.0)
    }

    func validateSubject() throws {
        let options = subjects.compactMap(\.option)
        if all {
            // These two options have a number, which counts with --all as well.
            let others = subjects.filter { ![.snapshot, .seeding].contains($0) }.compactMap(\.option)
            guard others.isEmpty else {
                throw ValidationError("--all measures every subject: leave \(others.joined(separator: " and ")) out.")
            }
        } else {
            guard options.count <= 1 else {
                throw ValidationError("\(options.joined(separator: " and ")) are measured one at a time: give one of them, or --all.")
            }
        }
        if let stops, !(1...100).contains(stops) { throw ValidationError("--stops takes 1 to 100.") }
        if seed != nil, !stop, !all { throw ValidationError("--seed is the seed of the moments of --stop: give both.") }
        if let snapshot, !(5...3_600).contains(snapshot) { throw ValidationError("--snapshot takes 5 to 3600 seconds.") }
        if let seeding, !(1...100).contains(seeding) { throw ValidationError("--seeding takes 1 to 100.") }
        if roundTrip > 0, only == "sqlite" {
            throw ValidationError("--round-trip is of the way to PostgreSQL, and --only sqlite measures none.")
        }
        if roundTrip > 0, news || scopes { throw ValidationError("--round-trip does not go with --news and --scopes.") }
        let subject = subjects.first ?? .load
        let possible = all ? FleetCommand.cases : subject.cases
        if let only, !possible.contains(only) {
            let with = all ? nil : subject.option
            throw ValidationError("--only takes \(possible.joined(separator: ", "))\(with.map { " with \($0)" } ?? "").")
        }
    }

    /// The measurements that the options ask for, one after the other, those without a wanted case left out.
    func runs(in workplace: Workplace) -> [FleetRun] {
        guard all else { return [makeRun(subjects.first ?? .load, workplace, roundTrip: roundTrip)] }
        let way = roundTrip > 0 ? roundTrip : Self.usualRoundTrip
        let plan: [(FleetSubject, Double)] = [
            (.load, 0), (.load, way), (.stop, 0), (.snapshot, 0), (.seeding, 0), (.idlePulls, 0), (.news, 0), (.scopes, 0),
        ]
        return plan.map { makeRun($0, workplace, roundTrip: $1) }.filter { !$0.cases.isEmpty }
    }

    private func makeRun(_ subject: FleetSubject, _ workplace: Workplace, roundTrip: Double) -> FleetRun {
        var cases = subject.cases.filter { only == nil || only == $0 }
        // With --all the hub on SQLite was measured by the load before, and has no way to a server.
        if all, roundTrip > 0 { cases.removeAll { $0 == "sqlite" } }
        var run = FleetRun(subject: subject, cases: cases, isQuick: quick, agenthub: agenthub, workplace: workplace)
        if all { run.takeSizesOfAll() }
        if quick { run.takeQuickSizes() }
        run.roundTrip = roundTrip
        run.seed = seed
        if let devices { run.devices = devices }
        if let pushes { run.pushes = pushes }
        if let mutations { run.mutations = mutations }
        if let connections { run.connections = connections }
        if let outage { run.outage = outage }
        if let records { run.records = records }
        if let stops { run.stops = stops }
        // The numbers of the options without a value are those of a full measurement.
        if let snapshot, !quick || snapshot != Self.usualSnapshot { run.snapshot = snapshot }
        if let seeding, !quick || seeding != Self.usualSeeding { run.seeding = seeding }
        return run
    }
}

extension FleetRun {
    /// Sizes with which all subjects together take about a quarter of an hour.
    fileprivate mutating func takeSizesOfAll() {
        snapshot = 30
        switch subject {
        case .load: devices = 2_000
        case .news: devices = 10_000
        case .scopes, .stop, .snapshot, .seeding, .idlePulls: break
        }
    }

    /// The smallest sizes with which everything happens once.
    fileprivate mutating func takeQuickSizes() {
        devices = subject == .news ? 40 : 8
        pushes = 2
        mutations = 5
        connections = 8
        outage = 100
        records = 600
        stops = 1
        snapshot = 1
        seeding = 2
    }
}
