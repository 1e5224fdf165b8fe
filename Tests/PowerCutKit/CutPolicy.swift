package import SyncCore

/// The fate of the writes that no sync had covered when the power went.
package enum CutPolicy: Hashable, Sendable, CaseIterable {
    /// None of them reached the medium: the worst loss.
    case nothing
    /// All did, as after `kill -9`.
    case everything
    /// The changes up to a moment are durable.
    case prefix
    /// Any of them.
    case subset
    /// Any sectors of any of them: of the smallest unit that a medium writes, and of the usual one.
    case torn512
    case torn4096

    var sector: Int? {
        switch self {
        case .torn512: 512
        case .torn4096: 4_096
        case .nothing, .everything, .prefix, .subset: nil
        }
    }
}

/// The time from which a name is on the medium.
package enum NameRule: Hashable, Sendable, CaseIterable {
    /// After the `fsync` of its folder, and no sooner: all that POSIX promises. Changes that were not synced may be there or not, in any
    /// combination.
    case strict
    /// ext4: changes of names go into one journal in their order, and an `fsync` of anything writes it out.
    case journal
}

/// One state that a cut can leave: after how many records of the log, and what became of what was not synced.
package struct Cut: Hashable, Sendable, CustomStringConvertible {
    package var place: Int
    package var policy: CutPolicy
    package var names: NameRule
    package var seed: UInt64

    package init(place: Int, policy: CutPolicy, names: NameRule, seed: UInt64) {
        self.place = place
        self.policy = policy
        self.names = names
        self.seed = seed
    }

    package var description: String { "\(place):\(policy):\(names):\(seed)" }

    /// So many cuts of a log, in the order of their places. Every other one falls right behind an answer, where a broken
    /// promise shows first; the others anywhere.
    package static func draw(_ count: Int, from log: IOLog, using random: inout SeededRandom) -> [Cut] {
        // Files from before the beginning of the log are there at every cut.
        let first = log.records.prefix { $0.kind == .found || ($0.kind == .makeFolder && $0.place == 1) }.count
        let answers = log.records.indices.filter { log.records[$0].kind == .sent }.map { $0 + 1 }
        return (0..<count).map { number in
            let place =
                number % 2 == 0
                ? answers.randomElement(using: &random) ?? log.records.count : Int.random(in: first...log.records.count, using: &random)
            // All policies come equally often, and nothing depends on the luck of a short run.
            let policies = CutPolicy.allCases
            return Cut(
                place: place, policy: policies[number / 2 % policies.count], names: Bool.random(using: &random) ? .strict : .journal,
                seed: random.next())
        }.sorted { ($0.place, $0.seed) < ($1.place, $1.seed) }
    }
}
