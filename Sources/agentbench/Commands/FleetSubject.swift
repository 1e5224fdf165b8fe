import ArgumentParser

/// The subject of one run of `agentbench fleet`.
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
    /// The subjects that the options ask for.
    private var subjects: [FleetSubject] {
        let wanted: [(FleetSubject, Bool)] = [
            (.news, news), (.scopes, scopes), (.stop, stop), (.snapshot, snapshot != nil), (.seeding, seeding != nil),
            (.idlePulls, idlePulls),
        ]
        return wanted.filter(\.1).map(\.0)
    }

    /// - Precondition: ``validateSubject()``
    var subject: FleetSubject { subjects.first ?? .load }

    func validateSubject() throws {
        let options = subjects.compactMap(\.option)
        guard options.count <= 1 else {
            throw ValidationError("\(options.joined(separator: " and ")) are measured one at a time: give one of them.")
        }
        guard (1...100).contains(stops) else { throw ValidationError("--stops takes 1 to 100.") }
        if seed != nil, !stop { throw ValidationError("--seed is the seed of the moments of --stop: give both.") }
        if let snapshot, !(5...3_600).contains(snapshot) { throw ValidationError("--snapshot takes 5 to 3600 seconds.") }
        if let seeding, !(1...100).contains(seeding) { throw ValidationError("--seeding takes 1 to 100.") }
        if roundTrip > 0, only == "sqlite" {
            throw ValidationError("--round-trip is of the way to PostgreSQL, and --only sqlite measures none.")
        }
        if roundTrip > 0, news || scopes { throw ValidationError("--round-trip does not go with --news and --scopes.") }
    }
}
