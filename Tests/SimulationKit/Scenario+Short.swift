package import SyncCore

// Short histories about shares. A history of usual length costs as much as twenty of them, so they can be run by the million.
extension Scenario {
    /// Faults of short histories: those that can make a device hold more or less than its share. Without a link work waits, and its record
    /// may leave meanwhile.
    private static let faultsOfShares: [Fault] = [
        .lostRequest, .lostAnswer, .duplicate, .delay, .cut, .failed, .missingResults, .crash, .powerCut, .failedSync, .restore, .link,
        .link, .hubCrash, .collect, .hubRestore, .rollback, .clone, .repeated,
    ]

    /// Draws a short scenario from its seed: two or three devices and a few records of shared entities, no other entities, and at most two
    /// kinds of faults, for less than a minute. Almost every step concerns shares.
    ///
    /// The numbers of short scenarios and of others are separate: the same seed names one of each.
    package init(short seed: UInt64, ablations: Set<Ablation> = []) {
        self.init(seed: seed, ablations: ablations)
        isShort = true
        var random = SeededRandom(seed: seed &* 0xE703_7ED1_A0B4_28DB &+ 29)
        func oneOf<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &random)] }
        faults = Set(Self.faultsOfShares.shuffled(using: &random).prefix(oneOf([0, 1, 1, 1, 2, 2])))
        agents = oneOf([2, 3])
        operations = Int.random(in: 3...9, using: &random)
        records = Int.random(in: 1...3, using: &random)
        page = oneOf([1, 2, 500, 500])
        batch = oneOf([1, 3, 50])
        // Usually a device pulls only when something happens at it.
        pullInterval = oneOf([.seconds(10), .seconds(6 * 3_600), .seconds(6 * 3_600)])
        spread = .zero
        faultsFor = .seconds(Int64.random(in: 10...40, using: &random))
        fullSync = oneOf([.seconds(15), .seconds(7 * 86_400), .seconds(7 * 86_400)])
        deletesFreely = 50
        countsByRecord = oneOf([true, false, false, false])
        (sharesOut, changesSchemas) = (true, false)
        // A quarter of the histories has nothing but records and grants.
        let extra = Int.random(in: 0..<12, using: &random)
        usesGroups = extra < 3
        hasParents = [3, 4, 5, 6].contains(extra)
        hasFiles = extra == 7
        keeps = [2, 8].contains(extra)
        if keeps { faults.subtract([.hubRestore, .rollback]) }
    }

    // MARK: Pace

    /// Each kind of fault of a short history strikes so many times as often.
    var faultRate: Double { isShort ? 3 : 1 }

    /// Durations of outages, and of waits of people, are divided by this.
    var haste: Int { isShort ? 8 : 1 }
}

// What happens from outside in a short history.
extension Simulation {
    func shortWeather() throws(Broken) {
        plan(.weather, in: chance(from: .milliseconds(500), upTo: .seconds(4)))
        let agent = pick(agents)
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1, 2:
            let scope = pick(SyncRequest.Scope.allCases)
            try feed(.requested(SyncRequest(scope: scope, isForced: chance(0.3))), to: agent)
        case 3: try decide(agent)
        case 4: try appCancels(agent)
        case 5, 6:
            if has(.restore), agent.store != nil {
                try Broken.none { try agent.takeImage(acknowledgements: acknowledgements) }
                say("agent \(agent.index) is copied")
            }
        case 7: if has(.hubRestore) || has(.rollback) { try backUpHub() }
        default: break
        }
        try shareWeather()
        try keepWeather()
        try fileWeather()
        let possible = [Fault.powerCut, .restore, .link, .collect, .hubCrash, .hubRestore, .clone, .rollback].filter { has($0) }
        guard !possible.isEmpty, chance(0.4) else { return }
        try strike(pick(possible), agent)
    }

    /// The last word of an app of a short history: an order of its own device.
    func makeLastOrder(for agent: SimAgent) -> Operation {
        let name = RecordName(Shares.orders, RecordID(trusted: "last-\(agent.index)"))
        var operation = Operation(
            number: operations.count, agent: agent.index, record: name, action: action(on: name, agent), data: [:], operations: [],
            priority: .normal)
        guard operation.action != .delete else { return operation }
        operation.data = ["t": .string(operation.token), "s": .string(operation.token), "assignee": .string(agent.device.text)]
        operation.operations = [
            FieldOperation("n", .increment, 1), FieldOperation("a", .append, .array([.string(operation.token)])),
        ]
        return operation
    }

    /// In a short history the apps speak once more now and then, and seldom during a cycle.
    func planLastWords() {
        for agent in agents {
            if chance(0.3) { plan(.appSays(agent: agent.index), in: chance(upTo: .seconds(2))) }
            agent.owesWord = chance(0.15)
        }
    }
}
