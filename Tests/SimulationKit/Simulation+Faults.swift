import HubServer
import SyncCore
import SyncStore

// Faults from outside, and their end.
extension Simulation {
    func weather() throws(Broken) {
        guard !isHealed else { return }
        if scenario.isShort { return try shortWeather() }
        plan(.weather, in: chance(from: .seconds(1), upTo: .seconds(20)))
        let agent = pick(agents)
        // These events are no faults: other people work, operators decide, backups are made.
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1: try publish()
        case 2:
            let scope = pick(SyncRequest.Scope.allCases)
            try feed(.requested(SyncRequest(scope: scope, isForced: chance(0.3))), to: agent)
        case 3, 4:
            if agent.store != nil {
                try Broken.none { try agent.takeImage(acknowledgements: acknowledgements) }
                say("agent \(agent.index) is copied")
            }
        case 5: try decide(agent)
        case 6, 7: try appCancels(agent)
        case 8: if has(.hubRestore) || has(.rollback) { try backUpHub() }
        default: break
        }
        try shareWeather()
        try schemaWeather()
        try keepWeather()
        try fileWeather()
        let possible = [
            Fault.powerCut, .restore, .link, .metered, .clock, .pause, .collect, .auth, .hubCrash, .hubRestore, .clone, .rollback,
        ].filter { has($0) }
        guard !possible.isEmpty, chance(0.6) else { return }
        try strike(pick(possible), agent)
    }

    func strike(_ fault: Fault, _ agent: SimAgent) throws(Broken) {
        switch fault {
        case .powerCut:
            guard agent.store != nil else { return }
            say("agent \(agent.index) loses power")
            count("power cuts")
            if agent.wallError != .zero { count("reboots at a wrong time") }
            die(agent, reboots: true)
        case .restore: try restore(agent)
        case .link:
            try link(agent, up: false)
            plan(.link(agent: agent.index, up: true), in: chance(0.7) ? spell(upTo: .seconds(40)) : spell(upTo: .seconds(400)))
        case .metered:
            try metered(agent, true)
            plan(.costsNothing(agent: agent.index), in: chance(upTo: .seconds(120)))
        case .clock:
            let far: [Duration] = [.seconds(10), .seconds(4_000), .seconds(40 * 86_400)]
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1: agent.wallError = .zero
            // Without a battery the clock starts at 1970. With one wrong bit it shows 2106.
            case 2: agent.wallError = .milliseconds(0 - agent.moment(at: now).wall.advanced(by: .zero - agent.wallError).milliseconds)
            case 3:
                agent.wallError = .milliseconds(
                    4_294_967_295_000 - agent.moment(at: now).wall.advanced(by: .zero - agent.wallError).milliseconds)
            default: agent.wallError = pick(far) * (chance(0.5) ? 1 : -1)
            }
            say("agent \(agent.index) has its clock wrong by \(agent.wallError.milliseconds / 1_000) s")
            count("clock jumps")
            try feed(.clockChanged, to: agent)
        case .pause:
            let wait = chance(from: .seconds(5), upTo: .seconds(120))
            let until = chance(0.5) ? agent.moment(at: now).wall.advanced(by: wait) : nil
            say("agent \(agent.index) is paused\(until == nil ? "" : " for \(wait.milliseconds / 1_000) s")")
            count("pauses")
            try feed(.paused(EngineMemory.Pause(until: until, reason: "simulated", uid: 0)), to: agent)
            if until == nil || chance(0.3) { plan(.resumes(agent: agent.index), in: wait) }
        case .collect:
            try hub.observe(at: hubTime)
            let forgotten = try Broken.none { try hub.hub.collectTombstones(before: hubTime) }
            oracle.forget(before: hubTime)
            if forgotten > 0 {
                say("the hub forgets \(forgotten) deletions")
                count("tombstones collected")
            }
        case .auth:
            badTokens[agent.index] = now.advanced(by: chance(from: .seconds(5), upTo: .seconds(100)))
            count("bad credentials")
        case .hubCrash: if hub.isUp { stopHub() }
        case .hubRestore: if chance(0.5) { try backUpHub() } else { try replaceHub() }
        case .clone: try clone(agent)
        case .rollback: if hubImages.isEmpty { try backUpHub() } else { try rollBackHub() }
        default: return
        }
    }

    /// Puts an old copy of the disk in place of the present one: a snapshot was rolled back, a card was swapped.
    private func restore(_ agent: SimAgent) throws(Broken) {
        guard !agent.images.isEmpty else { return }
        let image = pick(agent.images)
        let withMarker = chance(0.6)
        die(agent, reboots: true)
        forget(since: image, agent)
        try Broken.none { try agent.install(image, withMarker: withMarker) }
        say("agent \(agent.index) is restored from an old copy\(withMarker ? "" : ", what stood beside it is new")")
        count("restores", alsoWithScopes: true)
    }

    private func publish() throws(Broken) {
        try hub.observe(at: hubTime)
        let entity = pick([Entities.templates, Entities.prices, Entities.works])
        let name = RecordName(entity, RecordID(trusted: "r\(Int.random(in: 0..<scenario.records, using: &random))"))
        let text = JSON.string("hub-\(now.nanoseconds)")
        if entity == Entities.works {
            // A back office edits an existing record, and keeps the fields that devices count and append.
            guard hub.records[name] != nil else { return }
            let published = try Broken.none { try hub.publish(name, [pick(["s", "v", "m"]): text], at: hubTime) }
            oracle.publish(name, published.0, version: published.1, at: hubTime)
        } else {
            let deletes = hub.records[name] != nil && chance(0.25)
            _ = try Broken.none { try hub.publish(name, deletes ? nil : ["s": text, "v": text], at: hubTime) }
        }
        say("the back office changes \(name)")
        count("published")
    }

    func link(_ agent: SimAgent, up: Bool) throws(Broken) {
        if up, isHealed, agent.linkIsUp { return }
        agent.linkIsUp = up
        say("agent \(agent.index) link \(up ? "up" : "down")")
        if !up { count("link losses") }
        try feed(.conditions(agent.conditions), to: agent)
    }

    func metered(_ agent: SimAgent, _ costs: Bool) throws(Broken) {
        agent.isMetered = costs && !isHealed
        say("agent \(agent.index) has a link that \(agent.isMetered ? "costs something" : "costs nothing")")
        if agent.isMetered { count("metered links") }
        try feed(.conditions(agent.conditions), to: agent)
    }

    // MARK: The end of the faults

    func heal() throws(Broken) {
        isHealed = true
        say("the faults stop")
        badTokens = [:]
        try startHub()
        grantAgain()
        settleSchemas()
        drainUntil = now.advanced(by: .seconds(1_800))
        for agent in agents {
            if agent.isMetered { try metered(agent, false) }
            if !agent.linkIsUp { try link(agent, up: true) }
            try feed(.resumed, to: agent)
            extendDrain(for: agent)
            if scenario.isShort { continue }
            for delay in [Duration.zero, .seconds(2)] {
                plan(.appSays(agent: agent.index), in: delay + chance(upTo: .milliseconds(500)))
            }
            agent.owesWord = true
        }
        if scenario.isShort { planLastWords() }
        plan(.operatorLooks, in: scenario.isShort ? .seconds(5) : .seconds(60))
    }

    /// Extends the time to drain, because a wait that the hub demanded before it recovered still holds.
    func extendDrain(for agent: SimAgent) {
        guard isHealed, let until = agent.engine?.retryAt else { return }
        let wait = agent.moment(at: now).wall.duration(to: until)
        drainUntil = max(drainUntil, now.advanced(by: wait).advanced(by: .seconds(1_800)))
    }
}
