import HubServer
import SyncCore
import SyncStore
import VersionsKit

// Events that change the hub's own history: a restored backup, a new hub, and a device that becomes two.
extension Simulation {
    /// A backup of the hub, with the facts that held at that time.
    struct HubImage {
        var copy: [UInt8]
        var oracle: HubOracle
        /// Number of accepted verdicts, by operation.
        var applied: [Int]
        /// The file beside the database.
        var mark: HubMark?
        var versions: RecordVersions?
    }

    func backUpHub() throws(Broken) {
        guard hub.isUp else { return }
        if hubImages.count == 4 { hubImages.remove(at: Int.random(in: 0..<4, using: &random)) }
        let copy = try Broken.none { try hub.hub.copy() }
        try hub.countVersions(at: hubTime)
        hubImages.append(HubImage(copy: copy, oracle: oracle, applied: operations.map(\.applied), mark: hub.mark, versions: hub.versions))
        say("the hub is backed up")
    }

    /// Loses the hub's disk. An operator restores a backup or begins anew. Requests on their way are lost.
    func replaceHub() throws(Broken) {
        let image = hubImages.isEmpty || chance(0.1) ? nil : pick(hubImages)
        hub.generation += 1
        for index in operations.indices where operations[index].applied > 0 { operations[index].wasApplied = true }
        if let image {
            try Broken.none { try hub.restore(image.copy, startingEpoch: true) }
            goBack(to: image)
            (hub.mark, hub.historyBegan) = (hub.hub.mark, now)
            count("hub restores", alsoWithScopes: true)
            say("the hub is restored from a backup, epoch \(hub.hub.epoch)")
        } else {
            try Broken.none { try hub.makeAnew() }
            oracle.goBack(to: HubOracle())
            try setUpSchemas()
            for index in operations.indices { operations[index].applied = 0 }
            hubImages = []
            (hub.mark, hub.historyBegan) = (hub.hub.mark, nil)
            count("hubs made anew", alsoWithScopes: true)
            say("the hub is made anew, epoch \(hub.hub.epoch)")
        }
        if hub.isUp { stopHub() }
    }

    private func goBack(to image: HubImage) {
        oracle.goBack(to: image.oracle)
        hub.versions = image.versions
        for index in operations.indices { operations[index].applied = index < image.applied.count ? image.applied[index] : 0 }
    }

    /// Replaces the hub's database by an older copy without a restore command: the file alone, so that the newer mark stays, or the whole
    /// folder, or what a server's own tools restore.
    func rollBackHub() throws(Broken) {
        let image = pick(hubImages)
        let keepsMark = ablations.contains(.markIgnored) || scenario.toward == .markIgnored || chance(0.4)
        hub.generation += 1
        for index in operations.indices where operations[index].applied > 0 { operations[index].wasApplied = true }
        try Broken.none { try hub.restore(image.copy, startingEpoch: false) }
        if !keepsMark { hub.mark = image.mark }
        // The histories that began in the replaced copy are gone with it.
        _ = hub.takeCauses()
        hub.rolledBackIn = hub.hub.epoch
        goBack(to: image)
        count(keepsMark ? "hub files replaced" : "hub folders replaced", alsoWithScopes: true)
        say("the hub's \(keepsMark ? "file" : "folder") is replaced by an older copy, epoch \(hub.hub.epoch), head \(hub.hub.head)")
        if hub.isUp { stopHub() } else { try mindMark() }
    }

    /// The check that a hub makes at its start.
    func mindMark() throws(Broken) {
        guard let mark = hub.mark, hub.hub.isOlder(than: mark) else { return }
        try Broken.none { _ = try hub.hub.startEpoch(.mark, at: hubTime) }
        count("older files noticed by the mark")
        say("the mark tells that the hub is older than it was: epoch \(hub.hub.epoch)")
    }

    /// Notes a new history, which may begin with any request.
    func recordHistory() {
        guard hub.epochSeen != hub.hub.epoch else { return }
        hub.epochSeen = hub.hub.epoch
        hub.forgetObserved()
        let causes = hub.takeCauses()
        for cause in causes { count("histories begun by \(cause.rawValue)") }
        // An older copy may be of an earlier history, which is not a new one.
        hub.historyBegan = causes.isEmpty ? nil : now
        say("the hub \(causes.isEmpty ? "is back in" : "begins") another history, epoch \(hub.hub.epoch), head \(hub.hub.head)")
    }

    /// A card is copied into a second device, and both go on under one name.
    func clone(_ agent: SimAgent) throws(Broken) {
        guard !hasClone, agent.store != nil else { return }
        hasClone = true
        let other = try Broken.none { try SimAgent(index: agents.count, cloning: agent) }
        // Either device may send a mutation that the other cancels.
        for number in operations.indices where operations[number].agent == agent.index { operations[number].isDoubtful = true }
        (agent.wentBack, other.wentBack) = (true, true)
        agents.append(other)
        count("clones", alsoWithScopes: true)
        say("agent \(agent.index) is cloned: agent \(other.index)")
        plan(.starts(agent: other.index), in: spell(upTo: .seconds(20)))
        if scenario.hasFiles { plan(.fileTurn(agent: other.index), in: .seconds(20)) }
    }
}

extension SimHub {
    func makeAnew() throws(HubError) {
        try replace()
        forgetObserved()
    }
}

extension HubOracle {
    /// Takes the hub's facts back to an earlier time. Facts about what agents sent stay.
    mutating func goBack(to then: HubOracle) {
        let (known, shared) = (fingerprints, shares)
        self = then
        fingerprints.merge(known) { first, _ in first }
        shares = shared
        shares.goBack(to: then.shares)
    }
}
