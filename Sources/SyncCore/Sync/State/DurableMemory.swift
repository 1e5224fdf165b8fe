/// The part of the engine's state that survives a restart (``EngineMemory``), and how much of it is on flash. Every change of it has a name
/// here, because each one is a promise that holds after a crash, or may be worth an fsync.
struct DurableMemory: Hashable, Sendable {
    private(set) var memory: EngineMemory
    /// The parts of ``memory`` that are on flash, and those that are being written.
    private var saved: EngineMemory
    private var saving: EngineMemory?
    /// The store refused the last attempt: the next one comes with the next cycle or pause, not at once.
    private var couldNotSave = false
    /// The receipt that the hub has seen again last.
    private var shownReceipt: String?

    init(_ stored: EngineMemory = EngineMemory()) {
        memory = stored
        saved = stored
    }

    // MARK: Saving

    var isSaving: Bool { saving != nil }

    /// A pause must be on flash before a caller relies on it; everything else can wait for the end of a cycle.
    var mustSavePause: Bool { memory.pause != saved.pause && !couldNotSave }

    /// `true` when writing the memory is worth an fsync: for a server's delay and a pause always, for the count of failures now and then,
    /// for the time of the last success every ten minutes.
    var isWorthSaving: Bool {
        if memory.healing != saved.healing || memory.share != saved.share { return true }
        if memory.writtenUnder != saved.writtenUnder { return true }
        if (memory.standing == nil) != (saved.standing == nil) { return true }
        if memory.epoch != saved.epoch || memory.notBefore != saved.notBefore { return true }
        if memory.pause != saved.pause || memory.isBreakerOpen != saved.isBreakerOpen { return true }
        if (memory.failures == 0) != (saved.failures == 0) { return true }
        if memory.failures >= saved.failures + 3 { return true }
        guard let success = memory.lastSuccess else { return false }
        return saved.lastSuccess.map { $0.duration(to: success) >= .seconds(600) } ?? true
    }

    /// Begins a save. Only one runs at a time; later changes are seen when its answer is in.
    ///
    /// - Returns: `nil` while one is running.
    mutating func save() -> StoreCommand? {
        guard saving == nil else { return nil }
        saving = memory
        return .remember(memory)
    }

    mutating func recordSaved(_ answer: StoreAnswer) {
        if case .failed = answer { couldNotSave = true } else if let saving { saved = saving }
        saving = nil
    }

    mutating func allowSaving() {
        couldNotSave = false
    }

    // MARK: Pauses and delays

    mutating func pause(_ pause: EngineMemory.Pause) {
        memory.pause = pause
        couldNotSave = false
    }

    mutating func endPause() {
        memory.pause = nil
        couldNotSave = false
    }

    mutating func holdUntil(_ time: Timestamp?) {
        memory.notBefore = time
    }

    /// Writes the time of a delay that the server asked for anew: the wall clock shows something else now.
    mutating func moveHold(to time: Timestamp?) {
        if memory.notBefore != nil { memory.notBefore = time }
    }

    /// After a restart, half open counts as open, because the trial was not made.
    mutating func recordBreaker(_ state: Breaker.State) {
        memory.isBreakerOpen = state != .closed
    }

    // MARK: Successes and failures

    mutating func recordSuccess(at wall: Timestamp, error: String?) {
        memory.failures = 0
        memory.lastSuccess = wall
        memory.lastError = error
        memory.lastErrorAt = error == nil ? nil : wall
    }

    mutating func recordFailure(_ detail: String, at wall: Timestamp) {
        memory.failures += 1
        memory.lastError = Printable.text(detail)
        memory.lastErrorAt = wall
    }

    /// The cause of the failures was changed.
    mutating func forgiveFailures() {
        memory.failures = 0
    }

    /// Silence and portals of the old link say little about a new one.
    mutating func forgiveFailuresOfOldLink() {
        memory.failures = min(memory.failures, 1)
    }

    /// Records the server's name. The failures of one server and the delays that it asked for do not apply to another.
    ///
    /// - Returns: `true` when it is another server than before.
    @discardableResult
    mutating func recordServer(_ server: String) -> Bool {
        defer { if !server.isEmpty { memory.server = server } }
        guard !server.isEmpty, let before = memory.server, before != server else { return false }
        (memory.failures, memory.notBefore, memory.isBreakerOpen) = (0, nil, false)
        (memory.lastError, memory.lastErrorAt) = (nil, nil)
        return true
    }

    // MARK: Content of the hub

    /// - Returns: `true` when the hub names an entity that was not known.
    mutating func recordEntities(_ entities: [EntityName]) -> Bool {
        let known = Set(memory.hubEntities ?? [])
        if memory.hubEntities != entities { memory.hubEntities = entities }
        return !known.isSuperset(of: entities)
    }

    /// A hub that replaced another one may not name entities at all.
    mutating func forgetEntities() {
        memory.hubEntities = nil
    }

    /// Records what a hello tells of the entities and the scopes of this device.
    mutating func recordShare(_ hello: HelloResponse) {
        if let entities = hello.entities { memory.hubEntities = entities }
        memory.share = hello.share
    }

    /// - Returns: `false` when the last answer was made under the same scopes.
    mutating func recordShareMark(_ mark: String) -> Bool {
        guard mark != memory.shareMark else { return false }
        memory.shareMark = mark
        return true
    }

    /// Verdicts of the last answer are about to be recorded.
    ///
    /// A verdict that shows a record brings one that no cursor may know: others made it, and perhaps changed it afterwards. If its scope is
    /// lost before the next pull, the feed cannot name it.
    ///
    /// - Returns: The marks to store with them; `nil`: those that are stored.
    mutating func recordVerdicts(_ results: [PushResult]) -> Set<String>? {
        // One of two is another one than any mark of the next pull, so more of them say no more.
        guard let mark = memory.shareMark, mark != memory.readUnder || results.contains(where: \.showsRecord),
            memory.writtenUnder.count < 2, memory.writtenUnder.insert(mark).inserted
        else { return nil }
        return memory.writtenUnder
    }

    /// A page of a pull that is not at its end is about to be recorded.
    ///
    /// The pages after the first tell of the records that have changed since. If the scopes of these pages are lost before the pull comes
    /// to its end, no cursor knows which of the records this device has written.
    ///
    /// - Returns: See ``recordVerdicts(_:)``.
    mutating func recordPartOfPull() -> Set<String>? {
        guard let mark = memory.shareMark, let read = memory.readUnder, mark != read, memory.writtenUnder.count < 2,
            memory.writtenUnder.insert(mark).inserted
        else { return nil }
        return memory.writtenUnder
    }

    /// The device may have records of scopes that it had for a while since its last whole pull and has no more: no pull takes them away.
    var mustListShares: Bool { memory.writtenUnder.contains { $0 != memory.shareMark } }

    /// All streams were read to their end, or are about to be listed.
    ///
    /// - Parameter mark: The mark of all answers of the pull; `nil`: they had several, or there is no pull.
    mutating func recordSharesRead(under mark: String?) {
        (memory.readUnder, memory.writtenUnder) = (mark, [])
    }

    mutating func recordWholePull(at wall: Timestamp) {
        memory.pulledAt = wall
    }

    /// - Returns: All records that are left out now, if the page has changed them.
    mutating func recordLeftOut(_ page: StreamPage) -> LeftOutRecords? {
        memory.leftOut.record(page) ? memory.leftOut : nil
    }

    /// - Returns: All records that are left out now, if the page has changed them.
    mutating func recordLeftOut(_ page: SnapshotPage, of listing: StreamPosition.Listing?) -> LeftOutRecords? {
        memory.leftOut.record(page, after: listing?.after, only: listing?.buckets) ? memory.leftOut : nil
    }

    /// - Returns: `true` when records of entities that are not synced any more were forgotten.
    mutating func keepLeftOut(only entities: Set<EntityName>) -> Bool {
        memory.leftOut.keep(only: entities)
    }

    // MARK: The hub's history

    /// Records the first history ever.
    mutating func learnHistory(_ epoch: String) {
        memory.epoch = epoch
    }

    /// A first history that is not on flash is not believed.
    ///
    /// - Returns: `true` when there is no history now.
    mutating func forgetUnsavedHistory() -> Bool {
        guard saved.epoch == nil else { return false }
        memory.epoch = nil
        return true
    }

    /// Begins the move to another history, or continues it.
    ///
    /// - Returns: `true` when it begins.
    mutating func beginHealing(to epoch: String) -> Bool {
        guard memory.healing?.epoch != epoch else { return false }
        memory.healing = EngineMemory.Healing(epoch: epoch)
        return true
    }

    /// The known hub answers after all; answers of the other one have no meaning for it.
    mutating func endOtherHealing() {
        if memory.healing?.epoch != memory.epoch { memory.healing = nil }
    }

    mutating func recordAsked(upTo seq: Int64) {
        memory.healing?.askedSeq = seq
    }

    mutating func recordRequeued(_ count: Int) {
        memory.healing?.requeued += count
    }

    /// Records the state of the hub that is being asked.
    mutating func recordHealing(_ facts: HubHeaders, replica: ReplicaID) {
        guard let epoch = memory.healing?.epoch, let head = facts.head else { return }
        memory.healing?.standing = HubStanding(
            epoch: epoch, replica: replica, head: head, seq: facts.deviceSeq ?? 0, receipt: facts.receipt)
    }

    /// The new history is ours now, with the hub's state as it was asked.
    mutating func adopt(_ healing: EngineMemory.Healing, withStanding: Bool) {
        memory.epoch = healing.epoch
        memory.healing = nil
        memory.standing = withStanding ? healing.standing : nil
    }

    // MARK: The state that the hub may not fall behind

    /// The receipt of this history that a request shows. The cursors of a pull prove as much as a receipt that the hub has seen again; the
    /// beginning of a listing has no cursor.
    func receipt(for kind: HubCall.Kind) -> String? {
        guard let standing = memory.standing, standing.epoch == memory.epoch else { return nil }
        return switch kind {
        case .hello, .settle, .push, .snapshot: standing.receipt
        case .pull: standing.receipt == shownReceipt ? nil : standing.receipt
        case .known, .verify: nil
        }
    }

    /// Records the state of the hub by an answer whose content is stored with it.
    ///
    /// - Returns: `nil` when it is known already.
    mutating func recordStanding(at head: Int64, _ facts: HubHeaders, replica: ReplicaID) -> HubStanding? {
        guard let epoch = memory.epoch, facts.epoch == epoch else { return nil }
        var standing = HubStanding(
            // The smaller of two numbers that should be equal: a wrong one must not make the hub look old for ever.
            epoch: epoch, replica: replica, head: min(head, facts.head ?? head), seq: facts.deviceSeq ?? 0, receipt: facts.receipt)
        if let old = memory.standing, old.epoch == epoch {
            standing.head = max(standing.head, old.head)
            if old.replica == replica { standing.seq = max(standing.seq, old.seq) }
            // In place of one that the hub has not seen again, a newer one would hide a loss: an older copy of the hub, which another
            // device has brought to the same head, gives out the newer one.
            if let kept = old.receipt, standing.receipt == nil || kept != shownReceipt { standing.receipt = kept }
        }
        guard standing != memory.standing else { return nil }
        memory.standing = standing
        return standing
    }

    /// The hub has seen a receipt again, and goes on in its history.
    mutating func recordShown(_ receipt: String) {
        shownReceipt = receipt
    }

    /// A hub with contradicting answers is believed.
    mutating func forgetStanding() {
        memory.standing = nil
    }
}
