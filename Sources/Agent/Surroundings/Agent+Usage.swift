import LocalAPI
import Logging
import SyncCore
import SyncHTTP
import SyncStore

// The byte ledger: every request is counted on the link that carried it.
extension Agent {
    func count(_ traffic: Traffic, for purpose: UsagePurpose, requests: Int64 = 1, over uplink: Uplink?) {
        guard traffic.wireUp > 0 || traffic.wireDown > 0 else { return }
        let now = environment.time.now()
        let budget = uplink.flatMap { loaded.configuration.budget(of: $0) }
        let row = around.book.record(
            traffic, for: purpose, on: uplink?.name ?? Self.unknownLink, isRoaming: uplink?.isRoaming ?? false,
            anchorDay: budget?.anchorDay ?? 1, requests: requests, at: now, isTrusted: isClockTrusted)
        around.usage.add(row, now: now.instant)
        around.reservation.count(.init(up: row.up, down: row.down), over: row.link)
        metrics.moved(traffic, for: purpose, over: row.link)
        if let due = around.usage.dueAt, around.usageWake == nil {
            around.usageWake = schedule(after: delay(until: due)) { $0.saveUsage() }
        }
        if budget != nil { tellConditions() }
    }

    /// Name of the link where links are not watched.
    private static let unknownLink = "unknown"

    /// Counts the bytes that connections moved after their last request: closing messages, session tickets, late acknowledgements.
    func countLeftover(over uplink: Uplink?) {
        count(environment.takeLeftover(), for: .hello, requests: 0, over: uplink)
    }

    /// Books a request before it is sent: its largest possible size is on flash when this returns, or cannot be stored.
    func book(_ most: UsageReservation.Bytes) async {
        countLate()
        let uplink = around.connectivity.uplink
        let isToBeStored = around.reservation.begin(
            most, over: uplink?.name ?? Self.unknownLink, isRoaming: uplink?.isRoaming ?? false, carried: environment.carried)
        guard isToBeStored, hasBegun, !hasStopped else { return }
        await withCheckedContinuation { continuation in
            storeUsage { continuation.resume() }
        }
    }

    /// Ends the booking of a request by what it has moved.
    func endBooking(_ most: UsageReservation.Bytes, moved: UsageReservation.Bytes) {
        around.reservation.end(most, moved: moved)
    }

    /// Counts the bytes that may have moved after the ledger was last stored before this start. Their purpose is unknown: sent ones count
    /// as a push, received ones as a pull.
    func countReserved(_ stored: UsageReservation.Stored) {
        let used = around.reservation.resume(
            stored, boot: environment.bootID, at: environment.time.now().instant, carried: environment.carried)
        count(cutOff: used, over: stored.link, isRoaming: stored.isRoaming)
        log.notice(
            "the agent was killed during transfers; the bytes that may have moved are counted",
            metadata: ["link": "\(stored.link)", "up_bytes": "\(used.up)", "down_bytes": "\(used.down)"])
        storeUsage()
    }

    /// Counts the bytes that the kernel has sent since this start for requests of a run that was killed.
    private func countLate() {
        guard let requests = around.reservation.cutOff else { return }
        let late = around.reservation.late(at: environment.time.now().instant, carried: environment.carried)
        count(cutOff: late, over: requests.link, isRoaming: requests.isRoaming)
    }

    private func count(cutOff bytes: UsageReservation.Bytes, over link: String, isRoaming: Bool) {
        let now = environment.time.now()
        let anchorDay = loaded.configuration.budget(of: link, isMetered: false)?.anchorDay ?? 1
        for (purpose, up, down) in [(UsagePurpose.push, bytes.up, 0), (.pull, 0, bytes.down)] where up + down > 0 {
            var traffic = Traffic()
            (traffic.up, traffic.down) = (Int(clamping: up), Int(clamping: down))
            around.usage.add(
                around.book.record(
                    traffic, for: purpose, on: link, isRoaming: isRoaming, anchorDay: anchorDay, requests: 0, at: now,
                    isTrusted: isClockTrusted), now: now.instant)
        }
    }

    /// Stores the counted bytes. If that fails now, they are stored with later ones.
    func saveUsage() {
        around.usageWake?.cancel()
        around.usageWake = nil
        guard !around.usage.isEmpty else { return }
        storeUsage()
        // A budget that is nearly used up is checked again when it begins anew.
        review()
    }

    private func storeUsage(isLast: Bool = false, then done: @escaping @Sendable () -> Void = {}) {
        countLate()
        let now = environment.time.now()
        let rows = around.usage.take()
        let book = around.book.saved(at: now)
        let room = isLast ? 0 : UsageReservation.room(for: around.connectivity.uplink.flatMap { loaded.configuration.budget(of: $0) })
        let reserved = around.reservation.stored(room: room, boot: environment.bootID, carried: environment.carried)
        fromStore { store, moment throws(StoreError) in
            try store.recordUsage(rows, book, reserved, at: moment)
        } then: { agent, result in
            if case .failure(let error) = result {
                agent.log.warning("the byte ledger was not stored", metadata: ["error": "\(error)"])
                let now = agent.environment.time.now().instant
                for row in rows {
                    agent.around.usage.add(row, now: now)
                    agent.around.reservation.failed(.init(up: row.up, down: row.down), over: row.link)
                }
            }
            done()
        }
    }

    /// Stores the ledger at the end of the run: running requests are cut off, and no more will follow.
    func closeUsage() {
        around.usageWake?.cancel()
        around.usageWake = nil
        if hasBegun { storeUsage(isLast: true) }
    }

    func showLedger(_ call: LocalCall, _ query: LedgerQuery) {
        var wanted = UsageQuery()
        wanted.link = query.link?.text
        wanted.from = query.from.map { UTCDay($0.start) }
        wanted.to = query.to.map { UTCDay($0.start) }
        wanted.period = query.period == .day ? .day : .month
        let filter = wanted
        let budgets = ledgerBudgets(link: query.link?.text)
        saveUsage()
        // Queued behind the work that was just passed to the writer, so that it is included.
        fromStore(for: call) { store, _ throws(StoreError) in
            try store.reads.usage(filter)
        } then: { _, rows in
            let items = rows.map { row in
                let day = RFC3339.text(row.day.start).prefix(query.period == .day ? 10 : 7)
                return LedgerAnswer.Item(
                    link: row.link, period: String(day), purpose: row.purpose.rawValue, up: row.up, down: row.down,
                    requests: row.requests)
            }
            call.answer(LedgerAnswer(by: query.period, items: items, budgets: budgets).answer)
        }
    }

    private func ledgerBudgets(link: String?) -> [LedgerAnswer.Budget] {
        shownLinks.filter { link == nil || link == $0.name }.compactMap { judged in
            let budgets = budgets(of: judged)
            return budgets.isEmpty ? nil : LedgerAnswer.Budget(link: judged.name, budgets)
        }
    }

    /// The budgets in the form of the local API.
    func budgets(of link: JudgedLink) -> LinkBudgets {
        let uplink = Uplink(name: link.name, isMetered: link.cost.isMetered, isRoaming: link.cost.isRoaming)
        guard let limits = loaded.configuration.budget(of: uplink) else { return LinkBudgets() }
        var shown = LinkBudgets()
        let all = around.book.budgets(of: link.name, limits, at: environment.time.now())
        var rest = all[...]
        if limits.dayBytes != nil { shown.day = rest.popFirst().map({ BudgetUse($0) }) }
        if limits.monthBytes != nil { shown.month = rest.popFirst().map({ BudgetUse($0) }) }
        return shown
    }
}
