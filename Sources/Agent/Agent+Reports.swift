import LocalAPI
import Logging
import SyncCore
import SyncStore

// Handles the engine's reports: one line in the log for each change of state, an event for each reader, a fact for status.
extension Agent {
    /// Shows a report of the engine in the log, to the readers of the journal, and in status.
    func publish(_ report: SyncReport) {
        switch report {
        case .cycleBegan(let session):
            feed(.busy(true))
            cycleWaiters.began(session)
            log.debug("sync begins", metadata: ["session": "\(session)"])
        case .cycleEnded(let outcome): reportEnd(outcome)
        case .reachability(let before, let after, let cause, let fault):
            let now = environment.time.now()
            diagnostics.handle(.reachability(after), at: now.instant)
            let told = around.reachability.changed(to: after, cause, fault, at: now.wall)
            log.notice(
                "connectivity", metadata: ["from": "\(before.rawValue)", "to": "\(after.rawValue)", "cause": "\(told)"])
            journal(
                .connectivity,
                EventPayload.connectivity(
                    from: before, to: after, cause: told, portalURL: around.connectivity.portalURL.map { Printable.text($0) }))
        case .fault(let fault): reportFault(fault)
        case .regressed(let hubSeq, let ours):
            raise(
                .replicaRegressed,
                "this database is an older copy: the hub has seen seq \(hubSeq), and the database ends at \(ours); "
                    + "it was restored or copied, so agentd asks the hub about each waiting mutation first")
        case .epochChanged(let before, let after):
            raise(.epochChanged, "the hub was restored or created anew (epoch \(before) before, now \(after))")
        case .hubWentBack(let said, let now, let isHealing):
            raise(
                .epochChanged,
                "the hub's database was replaced by an older copy (commit \(said) before, now \(now)); "
                    + (isHealing ? "mutations that it lacks are sent to it again" : "this device shows it the receipt that proves it"))
        case .historyAdopted(let epoch, let requeued):
            raise(
                .epochChanged,
                "the hub was restored or created anew (epoch \(epoch)); it lacks \(requeued) accepted mutations, "
                    + "which are sent to it again, and all records are listed again")
        case .compared(let entity, let differing):
            log.log(
                level: differing == 0 ? .info : .warning, "compared with the hub",
                metadata: ["entity": "\(entity)", "differing": "\(differing)"])
        case .twins(let count): reportClones(count)
        case .streamsRestarted(let entities):
            log.notice("all records are listed again", metadata: ["entities": "\(entities.map(\.text).joined(separator: ","))"])
        case .massDelete(let entities):
            raise(
                .massDelete,
                // The command comes first: a narrow screen may cut off the rest.
                "if the hub is right: agentctl sync --accept-deletions. It no longer has suspiciously many records of "
                    + "\(entities.map(\.text).joined(separator: ", ")), which were kept here")
        case .streamHeld(let entity, let detail, let isAlarm): reportHeld(entity, detail, isAlarm: isAlarm)
        case .streamResumed(let entity):
            log.notice("the server's answers about the entity can be used again", metadata: ["entity": "\(entity)"])
            if engine.heldStreams.isEmpty { alarms.end(.streamUnreadable) }
        case .recordsLeftOut(let records): reportLeftOut(records)
        case .breaker(let before, let after):
            log.notice("breaker", metadata: ["from": "\(before.rawValue)", "to": "\(after.rawValue)"])
        case .stalled(let detail):
            metrics.stalled()
            raise(.stalled, "nothing was synced although a sync was due (\(detail)); this is a fault of agentd")
        case .hubTime(let verdict): recordHubTime(verdict)
        case .setAside(let key, let detail):
            log.warning(
                "a mutation fails even when it is sent alone; agentd retries it later",
                metadata: ["mutation": "\(key)", "error": "\(detail)"])
        }
    }

    /// Reports an entity that is left out of the pulls. The alarm names all such entities with their reasons.
    private func reportHeld(_ entity: EntityName, _ detail: String, isAlarm: Bool) {
        log.warning(
            "the server's answer about an entity cannot be used; agentd asks again later",
            metadata: ["entity": "\(entity)", "error": "\(detail)"])
        guard isAlarm || alarms[.streamUnreadable] != nil else { return }
        raise(
            .streamUnreadable,
            "the server's answers about some entities cannot be used. Everything else is synced, and agentd asks again "
                + "(at once: agentctl sync). \(engine.heldStreams.sentence)")
    }

    /// Reports records that the hub has and cannot read. They stay here unchanged, or are missing; everything else is synced.
    private func reportLeftOut(_ records: LeftOutRecords) {
        guard !records.isEmpty else {
            alarms.end(.recordsUnreadable)
            return
        }
        raise(
            .recordsUnreadable,
            "the hub cannot read records of its own: \(records.sentence). They stay as they are here, or are missing, until the hub's "
                + "operator has restored or published them; everything else is synced")
    }

    private func reportEnd(_ outcome: CycleOutcome) {
        feed(.busy(false))
        countLeftover(over: around.connectivity.uplink)
        saveUsage()
        metrics.cycleEnded(outcome)
        var metadata: Logger.Metadata = [
            "session": "\(outcome.session)", "pushed": "\(outcome.pushed)", "pulled": "\(outcome.pulled)",
            "up_bytes": "\(outcome.bytesUp)", "down_bytes": "\(outcome.bytesDown)", "ms": "\(outcome.duration.milliseconds)",
        ]
        if outcome.interruption == .schemasChanged {
            log.info("sync begins anew, with the new versions of the schemas", metadata: metadata)
        } else if let error = outcome.error {
            metadata["error"] = "\(error)"
            // Only the first failure is news.
            log.log(level: engine.memory.failures <= 1 ? .warning : .info, "sync failed", metadata: metadata)
        } else {
            around.reachability.endFault()
            alarms.end(.epochChanged)
            alarms.end(.replicaRegressed)
            let isNews = outcome.pushed + outcome.pulled + outcome.rejected > 0
            log.log(level: isNews ? .info : .debug, "sync done", metadata: metadata)
        }
        if outcome.error != nil || outcome.pushed + outcome.pulled + outcome.rejected > 0 {
            journal(
                .sync,
                EventPayload.sync(
                    cycle: outcome.session, phase: "ended", result: outcome.error ?? "ok", pulled: Int64(outcome.pulled),
                    pushed: Int64(outcome.pushed), bytesUp: Int64(outcome.bytesUp), bytesDown: Int64(outcome.bytesDown)))
        }
        fetchConfigIfOffered()
        switch outcome.interruption {
        case .schemasChanged, .newsArriving, .readOwed: cycleWaiters.goOn(after: outcome.session)
        case .schemasOffered where outcome.error == nil && offers.isFetching: interruptedCycles.append(outcome)
        case .schemasOffered, nil: answerCycleWaiters(outcome)
        }
        // A caller that asked during this cycle waits for the next one. With refused credentials there is none. Where this cycle has met
        // a portal, or no hub, a probe decides, and it comes at once, as for a caller that asks now: the next planned one may come after
        // minutes.
        if engine.reachability == .auth {
            answerHeldWaiters()
        } else if cycleWaiters.hasCallersWithoutCycle {
            feed(.wanted)
        }
        // An existing backend issues no tokens and accepts no diagnostics.
        if outcome.error == nil, backend == nil {
            refreshTokenIfDue()
            sendDiagnosticsIfDue()
        }
        tidyBlobs()
    }

    /// Adds an event to the journal, for present and later readers. Losing one in a power cut loses no data.
    func journal(_ type: EventType, _ payload: [UInt8]) {
        let json = String(decoding: payload, as: UTF8.self)
        fromStore { store, now throws(StoreError) in
            try store.addNote(type: type.rawValue, json: json, at: now)
        } then: { agent, _ in
            agent.events.sendNew()
        }
    }
}
