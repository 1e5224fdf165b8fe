package import SyncCore

/// The faults of a simulated world. Each seed draws its own subset, because one fault can hide another: a hub that
/// is always down never shows what a lost answer does.
package enum Fault: String, CaseIterable, Sendable {
    // The network.
    case lostRequest, lostAnswer, duplicate, delay, cut
    // Servers that answer in the hub's place, or in its name.
    case portal, busy, failed, nonsense, missingResults, bodyLimit, auth
    /// The hub fails over requests that contain certain mutations.
    case poison
    // Faults of the agent's machine. After a sync that failed, only reading shows if the commit is there.
    case crash, powerCut, diskFull, restore, link, metered, clock, pause
    case failedSync
    // The hub's machine.
    case hubCrash, collect, hubRestore
    /// Two devices share one name.
    case clone
    /// A person repeats what the hub has refused.
    case repeated
    /// An older copy of the hub's database replaces it, without a restore command.
    case rollback

    /// Faults that every history draws. Later additions are drawn at the end, so that the same seed gives the same history.
    static let first = allCases.filter { ![.failedSync, .repeated, .rollback].contains($0) }
}

/// All decisions before a history begins. Scenario and seed define the whole history.
package struct Scenario: Sendable, Hashable {
    package var seed: UInt64
    package var faults: Set<Fault>
    package var ablations: Set<Ablation>
    /// The rule whose rare moments come more often (``lead(to:)``).
    package let toward: Ablation?
    package var agents: Int
    /// Number of operations of apps during the time of faults.
    package var operations: Int
    /// Number of records that apps change, by entity.
    package var records: Int
    /// Number of records and deletions in a page, and of mutations in a batch.
    package var page: Int
    package var batch: Int
    package var pullInterval: Duration
    package var spread: Duration
    /// Time between two complete comparisons of an agent with the hub.
    package var fullSync: Duration
    /// Number of records that a listing may remove without confirmation, up to a fifth of all.
    package var deletesFreely: Int64
    /// Duration of the faults. After it everything must drain.
    package var faultsFor: Duration

    /// The versions of a record are its own counters, and say nothing about other records or the feed.
    package var countsByRecord: Bool

    /// Devices receive only shares of some entities, and shares and rights change (``Shares``).
    package var sharesOut: Bool

    /// The office changes the versions of schemas and of forms while devices work (``Visits``, ``Audits``).
    package var changesSchemas: Bool

    /// Devices drop documents of one entity by a rule (``Tasks``).
    package var keeps: Bool

    /// Operators also grant the scopes of groups (``Shares/groups``). Only where records are shared out.
    package var usesGroups: Bool

    /// Jobs name an order as their parent (``Shares``). Only where records are shared out.
    package var hasParents: Bool

    /// Orders show files, which devices bring and fetch (``SimFile``). Only where records are shared out.
    package var hasFiles: Bool

    /// A short history about shares alone (``init(short:ablations:)``).
    package internal(set) var isShort = false

    /// Entities that only some histories have.
    var extras: Entities.Extras {
        Entities.Extras(
            sharesOut: sharesOut, changesSchemas: changesSchemas, keeps: keeps, hasParents: hasParents, hasSharesAlone: isShort)
    }

    /// The only entity that apps change, with one priority for all changes; `nil` for all entities.
    var focus: EntityName?

    /// Draws a scenario from its seed.
    package init(seed: UInt64, ablations: Set<Ablation> = [], toward: Ablation? = nil) {
        var random = SeededRandom(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 77)
        self.seed = seed
        self.ablations = ablations
        self.toward = toward
        faults = Set(Fault.first.filter { _ in random.fraction() < 0.4 })
        agents = Int.random(in: 2...3, using: &random)
        operations = Int.random(in: 10...60, using: &random)
        records = Int.random(in: 1...8, using: &random)
        page = [1, 2, 3, 5, 500][Int.random(in: 0..<5, using: &random)]
        batch = [1, 2, 3, 5, 8, 50][Int.random(in: 0..<6, using: &random)]
        pullInterval = [.seconds(20), .seconds(60), .seconds(600), .seconds(6 * 3_600)][Int.random(in: 0..<4, using: &random)]
        spread = Bool.random(using: &random) ? .zero : .seconds(5)
        faultsFor = .seconds(Int64.random(in: 60...600, using: &random))
        fullSync = [.seconds(120), .seconds(7 * 86_400)][Int.random(in: 0..<2, using: &random)]
        deletesFreely = [1, 50, 50][Int.random(in: 0..<3, using: &random)]
        // The hub must fail for this long, while this many other changes get through, until the agent parks a mutation. The process must
        // live so long, because it counts anew after each start.
        if faults.contains(.poison), random.fraction() < 0.12 {
            faults.formIntersection([.poison, .lostAnswer, .duplicate, .delay, .clock, .collect])
            operations = 150
            faultsFor = .seconds(1_800)
        }
        if random.fraction() < 0.3 { faults.insert(.failedSync) }
        if random.fraction() < 0.3 { faults.insert(.repeated) }
        if random.fraction() < 0.3 { faults.insert(.rollback) }
        // These draws use another generator, so that all other draws of a seed stay the same.
        var other = SeededRandom(seed: seed &* 0xD134_2543_DE82_EF95 &+ 5)
        countsByRecord = Int.random(in: 0..<4, using: &other) == 0
        // A history that is led to a certain moment uses records of all devices.
        var third = SeededRandom(seed: seed &* 0xA076_1D64_78BD_642F &+ 9)
        sharesOut = Int.random(in: 0..<3, using: &third) == 0 && toward == nil
        // One of them is the office, which has all scopes at all times.
        if sharesOut { agents = 3 }
        var fourth = SeededRandom(seed: seed &* 0xBF58_476D_1CE4_E5B9 &+ 13)
        changesSchemas = Int.random(in: 0..<3, using: &fourth) == 0 && !sharesOut && toward == nil
        var fifth = SeededRandom(seed: seed &* 0x94D0_49BB_1331_11EB &+ 17)
        keeps = Int.random(in: 0..<10, using: &fifth) == 0 && !changesSchemas && toward == nil
        usesGroups = Int.random(in: 0..<3, using: &fifth) == 0 && sharesOut
        // A device drops a document only after days, and until then it can offer it to a hub that went back. A history lasts minutes.
        if keeps { faults.subtract([.hubRestore, .rollback]) }
        var sixth = SeededRandom(seed: seed &* 0xC2B2_AE3D_27D4_EB4F &+ 21)
        hasParents = Int.random(in: 0..<3, using: &sixth) == 0 && sharesOut
        var seventh = SeededRandom(seed: seed &* 0x8CB9_2BA7_2F3D_8DD7 &+ 25)
        hasFiles = Int.random(in: 0..<3, using: &seventh) == 0 && sharesOut
        if let toward { lead(to: toward) }
    }

    /// Makes rare moments more frequent. Some rules protect moments that a history of this size seldom reaches. The same histories with
    /// the rule pass, which proves that the rule is what they need.
    private mutating func lead(to rule: Ablation) {
        switch rule {
        case .cursorAtEnd:
            // A record that was listed already changes, far before the end of a listing of many pages.
            faults.formUnion([.collect, .hubRestore, .delay])
            faults.subtract([.portal, .auth, .poison, .hubCrash, .crash, .powerCut, .restore, .link, .metered, .pause, .diskFull])
            (agents, operations, records, page) = (3, 60, 8, 1)
            (pullInterval, fullSync, faultsFor) = (.seconds(20), .seconds(7 * 86_400), .seconds(240))
        case .versionsAsPlaces:
            // A device misses a deletion, and the listing that tells of it meets versions beyond the hub's head.
            faults = [.collect, .link, .lostAnswer]
            (agents, operations, records, pullInterval, faultsFor) = (3, 60, 8, .seconds(20), .seconds(240))
            countsByRecord = true
        case .sentCoalesced:
            // An app changes a sent mutation again after an answer that did not contain its result.
            faults = [.missingResults, .failed, .busy, .link]
            (agents, operations, records, batch, faultsFor) = (2, 200, 1, 50, .seconds(600))
            focus = Entities.spots
        case .conflictLosesBase:
            // Two devices change a value that both have seen, and no later change hides that.
            faults.insert(.link)
            faults.subtract([.portal, .auth, .restore, .hubRestore, .rollback, .clone, .poison, .collect, .repeated])
            (agents, operations, records, pullInterval) = (3, 60, 1, .seconds(20))
        case .mergeForgotten:
            // A device changes a value twice to which others add, and sends both changes at once after a time without a link.
            faults.formUnion([.link, .missingResults])
            faults.subtract([.portal, .auth, .restore, .hubRestore, .rollback, .clone, .poison, .collect])
            (agents, operations, records, batch) = (3, 60, 1, 50)
        case .removalBeatsAddition:
            // A device removes an element of a set that another device, unseen, has added again.
            faults = [.link]
            (agents, operations, records, pullInterval) = (3, 80, 1, .seconds(20))
            focus = Entities.works
        case .storedReadAsInput:
            // A device changes a document that an operation has made as deep as the limit allows, or would have made deeper.
            faults.subtract([.portal, .auth, .restore, .hubRestore, .clone, .poison])
            (agents, operations, records, pullInterval) = (2, 60, 2, .seconds(20))
            focus = Entities.works
        case .requeueAboveHighest:
            // A backup falls between an urgent change and the older changes that are sent after it.
            faults.insert(.hubRestore)
            faults.subtract([.portal, .auth, .restore, .clone, .poison, .collect])
            (operations, records, batch) = (60, 8, 1)
        case .markIgnored:
            // Only the mark beside the database shows that the hub's file is an older one.
            faults.insert(.rollback)
            faults.subtract([.portal, .auth, .restore, .clone, .poison, .hubRestore])
            ablations.insert(.proofIgnored)
        case .unofferedIsDeleted:
            // The device that changed a record reaches a restored hub before the device that created it.
            faults.formUnion([.hubRestore, .link])
            faults.subtract([.portal, .auth, .restore, .clone, .poison, .collect, .rollback])
            (agents, operations, records, pullInterval) = (3, 60, 8, .seconds(20))
        case .lostScopesKept:
            // An operator takes a scope from a device that has records of it, and no group grants it again.
            (agents, sharesOut, usesGroups) = (3, true, false)
        case .toldScopesIgnored:
            // A hub goes back to a backup, in which a device has fewer sites than it has records of.
            faults.insert(.hubRestore)
            faults.subtract([.portal, .auth, .restore, .clone, .poison, .collect])
            (agents, sharesOut, usesGroups, deletesFreely) = (3, true, false, 1)
        case .revokedBroughtBack:
            // A document is on its way to a device whose share loses the record meanwhile.
            faults.subtract([.portal, .auth, .poison, .restore, .clone, .hubRestore, .rollback, .link, .metered, .pause])
            (agents, sharesOut, keeps, usesGroups) = (3, true, true, false)
            (operations, records, pullInterval, faultsFor) = (60, 3, .seconds(20), .seconds(600))
        case .hiddenParentsSeen:
            // A device makes a record whose id one of others has, and in the same push a child of it.
            faults = [.link]
            (agents, sharesOut, hasParents, usesGroups) = (3, true, true, false)
            (operations, records, batch, pullInterval, faultsFor) = (80, 2, 50, .seconds(20), .seconds(600))
        case .offersUnheard:
            // A record waits for a file of its device, which another device brings for a record of both.
            faults.subtract([.portal, .auth, .poison, .restore, .clone, .hubRestore, .rollback, .link, .metered, .pause])
            (agents, sharesOut, hasFiles, usesGroups) = (3, true, true, false)
            (operations, records, pullInterval, faultsFor) = (60, 8, .seconds(20), .seconds(600))
        case .newSchemasUnseen:
            // A device switches to a newer version of a schema while pages of the old one are on their way to it.
            faults = [.delay]
            (agents, operations, records, page, batch) = (3, 80, 8, 1, 1)
            (pullInterval, spread, faultsFor) = (.seconds(20), .zero, .seconds(400))
            changesSchemas = true
        case .coalescedInDoubt:
            // A device goes back to a copy with a change that it has sent since, and its app goes on editing without a link.
            faults = [.restore, .link]
            (agents, operations, records, batch, faultsFor) = (2, 60, 1, 50, .seconds(600))
            focus = Entities.spots
        case .returnIgnored:
            // A device goes back to an old copy, and then to a still older one of its first database.
            faults = [.restore, .lostAnswer, .link]
            (agents, operations, records, batch, faultsFor) = (2, 60, 2, 50, .seconds(600))
        default: break
        }
    }

    // MARK: Replay

    /// The environment variables, with values, that repeat this history.
    package var settings: [(name: String, value: String)] {
        var settings = [("SIMULATION_SEED", "\(seed)")]
        if isShort { settings.append((Self.length, Self.short)) }
        let drawn = isShort ? Scenario(short: seed) : Scenario(seed: seed, toward: toward)
        if faults != drawn.faults { settings.append(("SIMULATION_FAULTS", faults.isEmpty ? "none" : list(faults.map(\.rawValue)))) }
        if agents != drawn.agents { settings.append(("SIMULATION_AGENTS", "\(agents)")) }
        if operations != drawn.operations { settings.append(("SIMULATION_OPERATIONS", "\(operations)")) }
        if records != drawn.records { settings.append(("SIMULATION_RECORDS", "\(records)")) }
        if faultsFor != drawn.faultsFor { settings.append(("SIMULATION_SECONDS", "\(faultsFor.milliseconds / 1_000)")) }
        if countsByRecord != drawn.countsByRecord { settings.append(("SIMULATION_COUNTERS", "\(countsByRecord)")) }
        if sharesOut != drawn.sharesOut { settings.append(("SIMULATION_SHARES", "\(sharesOut)")) }
        if changesSchemas != drawn.changesSchemas { settings.append(("SIMULATION_SCHEMAS", "\(changesSchemas)")) }
        if keeps != drawn.keeps { settings.append(("SIMULATION_KEEPS", "\(keeps)")) }
        if usesGroups != drawn.usesGroups { settings.append(("SIMULATION_GROUPS", "\(usesGroups)")) }
        if hasParents != drawn.hasParents { settings.append(("SIMULATION_PARENTS", "\(hasParents)")) }
        if hasFiles != drawn.hasFiles { settings.append(("SIMULATION_FILES", "\(hasFiles)")) }
        if let toward { settings.append(("SIMULATION_TOWARD", toward.rawValue)) }
        if !ablations.isEmpty { settings.append(("SIMULATION_ABLATIONS", list(ablations.map(\.rawValue)))) }
        return settings
    }

    /// The setting that tells short histories from others.
    private static let length = "SIMULATION_LENGTH"
    private static let short = "short"

    /// - Parameter setting: Returns the value of a setting by its name.
    /// - Returns: `nil` if no seed is given.
    package init?(settings setting: (String) -> String?) {
        guard let seed = setting("SIMULATION_SEED").flatMap({ UInt64($0) }) else { return nil }
        func list(_ name: String) -> [String]? { setting(name)?.split(separator: ",").map { String($0) } }
        func number(_ name: String) -> Int? { setting(name).flatMap { Int($0) } }
        let ablations = Set((list("SIMULATION_ABLATIONS") ?? []).compactMap { Ablation(rawValue: $0) })
        if setting(Self.length) == Self.short {
            self.init(short: seed, ablations: ablations)
        } else {
            self.init(seed: seed, ablations: ablations, toward: setting("SIMULATION_TOWARD").flatMap { Ablation(rawValue: $0) })
        }
        if let names = list("SIMULATION_FAULTS") { faults = Set(names.compactMap { Fault(rawValue: $0) }) }
        agents = number("SIMULATION_AGENTS") ?? agents
        operations = number("SIMULATION_OPERATIONS") ?? operations
        records = number("SIMULATION_RECORDS") ?? records
        faultsFor = number("SIMULATION_SECONDS").map { .seconds($0) } ?? faultsFor
        countsByRecord = setting("SIMULATION_COUNTERS").flatMap { Bool($0) } ?? countsByRecord
        sharesOut = setting("SIMULATION_SHARES").flatMap { Bool($0) } ?? sharesOut
        changesSchemas = setting("SIMULATION_SCHEMAS").flatMap { Bool($0) } ?? changesSchemas
        keeps = setting("SIMULATION_KEEPS").flatMap { Bool($0) } ?? keeps
        usesGroups = setting("SIMULATION_GROUPS").flatMap { Bool($0) } ?? usesGroups
        hasParents = setting("SIMULATION_PARENTS").flatMap { Bool($0) } ?? hasParents
        hasFiles = setting("SIMULATION_FILES").flatMap { Bool($0) } ?? hasFiles
    }

    /// The command that repeats the history.
    package var replay: String {
        settings.map { "\($0.name)=\($0.value)" }.joined(separator: " ") + " swift test --filter oneSeed"
    }

    private func list(_ names: [String]) -> String { names.sorted().joined(separator: ",") }
}

/// A broken promise of a history.
package struct Broken: Error, Sendable, Hashable, CustomStringConvertible {
    /// The promise that is broken. Shrinking looks for the same one.
    package var promise: String
    package var detail: String

    init(_ promise: String, _ detail: String) {
        self.promise = promise
        self.detail = detail
    }

    package var description: String { "\(promise): \(detail)" }
}
