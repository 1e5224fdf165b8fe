/// Knowledge about the hub, by its answers since the start. Nothing of it survives a restart; that part is ``DurableMemory``.
package struct HubView: Hashable, Sendable {
    /// Time after the last hello at which the next one is due.
    static let helloInterval: Duration = .seconds(24 * 3600)
    /// Shortest time between two complete listings that contradicting answers of a hub can cause.
    static let selfHealingInterval: Duration = .seconds(600)

    /// Reachability of the hub over the present link; never `offline`.
    private(set) var reachability = Reachability.connecting

    // MARK: Greeting

    private var greetedAt: Instant?
    /// A fleet that finds its hub again spreads over this time; the hub sends it in its hello (`spread_s`).
    private(set) var spread: Duration = .seconds(30)
    /// Number of records and deletions that are requested in one page.
    private(set) var pullRecords = Limits.pullRecords
    /// The hub compares digests (``VerifyMessages``).
    private(set) var hasDigests = false
    /// The hub can leave a damaged record out and say so (``UnreadableRecords``).
    private(set) var namesUnreadable = false
    private(set) var namesEntities = false

    // MARK: Answers

    /// Newest commit number that the hub has named.
    private(set) var head: Int64?
    private var headSeenAt: Instant?
    /// The commit number up to which everything is here except our own echoes.
    private var readHead: Int64?
    /// The highest `seq` of ours that the hub knows, by its latest answer.
    private(set) var deviceSeq: Int64 = 0
    /// Number of databases that use our name in turns, as the hub last said; 1 is only this one.
    private(set) var clones: Int64 = 1
    /// Time at which a pull of the entity was last read to its end. The hub leaves out streams without news, so no page shows it.
    private var pulledAt: [EntityName: Timestamp] = [:]
    private(set) var clock: ClockOffset
    /// The verdict about the time in the latest answer.
    private(set) var time = ClockOffset.Verdict.accepted

    // MARK: A hub that went back

    /// Time at which this database last healed alone from a hub that had gone back.
    private var healedAt: Instant?
    /// The hub went back again too soon after that: this database heals once more at the due time.
    private var owesHealing = false

    init(prior: ClockAnchor? = nil) {
        clock = ClockOffset(prior: prior)
    }

    mutating func isNow(_ reachability: Reachability) {
        self.reachability = reachability
    }

    // MARK: Greeting

    func isGreeted(at now: Instant) -> Bool {
        greetedAt.map { $0.duration(to: now) < Self.helloInterval } ?? false
    }

    /// Lets the next cycle begin with a hello.
    mutating func requireHello() {
        greetedAt = nil
    }

    mutating func recordHello(_ hello: HelloResponse, at now: Instant) {
        pullRecords = min(hello.limits.pullRecords, Limits.pullRecords)
        spread = hello.spread
        hasDigests = hello.capabilities.contains(VerifyMessages.capability)
        namesUnreadable = hello.capabilities.contains(UnreadableRecords.capability)
        namesEntities = hello.capabilities.contains(EntityList.capability)
        greetedAt = now
    }

    // MARK: Heads

    /// - Parameter isOvertaken: The answer may be older than others before it, so only higher numbers are news.
    mutating func record(_ facts: HubHeaders, isOvertaken: Bool, at now: Instant) {
        if let head = facts.head, !isOvertaken || self.head.map({ $0 < head }) ?? true { recordHead(head, at: now) }
        if let seq = facts.deviceSeq { deviceSeq = isOvertaken ? max(deviceSeq, seq) : seq }
    }

    mutating func recordHead(_ head: Int64, at now: Instant) {
        self.head = head
        headSeenAt = now
    }

    /// Records that everything up to `head` is here; `nil`: it is not known up to where.
    mutating func recordWholeRead(upTo head: Int64?) {
        readHead = head ?? readHead
    }

    /// Until an entity is read again, the head up to which everything is here is undefined.
    mutating func forgetReadHead() {
        readHead = nil
    }

    /// The numbers of another history have no meaning.
    mutating func forgetHeads() {
        (readHead, head) = (nil, nil)
    }

    /// If every commit since the read head is one of our own, everything is still known: the echoes can wait for the next periodic pull.
    /// Versions do not show that, because they are not numbers of the feed. The head rises by at least one with each commit.
    mutating func recordOwnCommits(_ count: Int, upTo pushedHead: Int64) {
        guard let known = readHead else { return }
        head = max(head ?? 0, pushedHead)
        if pushedHead.saturatingSubtract(known) == Int64(count) { readHead = pushedHead }
    }

    /// Everything that the hub has named is here.
    var isReadToHead: Bool { readHead != nil && readHead == head }

    /// Time since the hub last said that it has nothing newer; `nil` when it has, or when that is unknown.
    func timeWithoutNews(at now: Instant) -> Duration? {
        guard isReadToHead else { return nil }
        return headSeenAt?.duration(to: now)
    }

    // MARK: Entities

    mutating func recordPulled(_ entities: Set<EntityName>, at wall: Timestamp) {
        for entity in entities { pulledAt[entity] = wall }
    }

    func pulledAt(_ entity: EntityName) -> Timestamp? { pulledAt[entity] }

    // MARK: Time and clones

    /// Records the time in an answer.
    ///
    /// - Returns: A report when the verdict changes: once while it lasts, and once more when the time agrees again.
    mutating func recordTime(
        _ time: Timestamp, sent: Instant, received: Instant, systemTime: Timestamp?
    ) -> SyncReport? {
        let verdict = clock.add(hubTime: time, sent: sent, received: received, systemTime: systemTime)
        defer { self.time = verdict }
        return (verdict == .accepted) != (self.time == .accepted) ? .hubTime(verdict) : nil
    }

    /// Records the number of databases that use our name: this device was cloned, or is a clone (PROTOCOL A6).
    ///
    /// - Returns: A report when it has changed.
    mutating func recordClones(_ facts: HubHeaders) -> SyncReport? {
        let count = max(1, facts.twins ?? 1)
        guard count != clones else { return nil }
        clones = count
        return .twins(count)
    }

    // MARK: A hub that went back

    func hasHealedLately(at now: Instant) -> Bool {
        healedAt.map { $0.duration(to: now) < Self.selfHealingInterval } ?? false
    }

    /// This database still has to heal from a hub that had gone back, and may do so now.
    func mustHeal(at now: Instant) -> Bool {
        owesHealing && !hasHealedLately(at: now)
    }

    mutating func postponeHealing() {
        owesHealing = true
    }

    mutating func recordHealing(at now: Instant) {
        owesHealing = false
        healedAt = now
    }
}
