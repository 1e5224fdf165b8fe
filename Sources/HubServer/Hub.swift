package import SyncCore

/// The reference hub: requests in, answers out, over a database (PROTOCOL A1-A7, A9, A10). The database is one SQLite file of its own, or a
/// server's that several hubs share as replicas of each other.
///
/// Everything is synchronous and deterministic: time comes with each call, randomness with `init`. The owner calls a hub from one thread;
/// an HTTP server, a test and the simulation drive the same code.
///
/// One call is one transaction and at most one fsync, however many requests it carries, and no answer exists before the commit. If the
/// process dies before it, nothing has happened, and the devices repeat their requests. With a shared database no state carries over from
/// one call to the next: each transaction reads the hub row anew.
package final class Hub {
    package enum Place: Sendable {
        case memory
        /// The database file; its folder must exist.
        case file(String)
        /// A database that other hubs may serve at the same time.
        case shared(any HubDatabasePlace)
    }

    package var settings: Settings
    /// Receives the cause of an answer 503, which the answer itself does not name.
    package var report: ((HubError) -> Void)?
    /// Receives news about the hub's history, once it is committed. Earlier news is kept until this is set.
    package var tell: ((HubNotice) -> Void)? {
        didSet {
            let untold = untold
            self.untold = []
            if let tell { untold.forEach(tell) } else { self.untold = untold }
        }
    }
    private var untold: [HubNotice] = []
    let place: Place
    var random: SeededRandom
    var store: HubStore
    /// The hub row of the database, cached. Restored when a transaction fails.
    var state: HubStore.HubRow
    /// The openings of the database, as it stores them.
    var lineage: HubLineage
    /// The entities whose records are shared out.
    var scopeIndexes: [EntityName: ScopeIndex] = [:]
    /// The newest generation of the rows of scopes that ``scopeIndexes`` has.
    var scopeGeneration: Int64 = 0
    /// The mark of the versions of the documents that the rules were compared with.
    var versionMark: Int64 = 0
    /// Names the entity settings of the database that ``settings`` has; empty: those of the program.
    var entityMark = ""
    /// The settings before those of the present transaction.
    var adoption: EntityAdoption?
    /// The outcome for the entities file of the start; `nil`: there is none.
    package internal(set) var fileOutcome: EntityOutcome?
    /// The opening that this process has added; `nil`: none yet.
    var opened: String?
    /// The connection was replaced: the database's state is read anew.
    var mustReload = false
    let witness = HubWitness()
    /// Read by the readers beside this hub.
    let generation: HubGeneration
    /// `true` in a ``HubReader``: nothing may be changed.
    let onlyReads: Bool
    /// The time of the latest request.
    var latest: Timestamp?
    /// Notices to report once the present transaction is committed.
    var notices: [HubNotice] = []
    /// Unproved claims since the start, and the devices that made them.
    var claims: Int64 = 0
    var claimants: Set<DeviceID> = []
    /// The database's book of tokens, if it keeps one.
    var shelf = TokenShelf()
    /// Tokens that were shown for the first time. They are recorded after the transaction, which may be a reading one.
    var shown: [TokenBook.Entry] = []
    /// Devices that were refused records because they would keep others, with the entity. They are recorded after the transaction.
    var keeping: [DeviceID: EntityName] = [:]
    /// Counters since the start, for `/metrics`.
    let traffic = HubTraffic()
    var housekept = HubHousekeeping()
    /// Durations of turns at the database: reading and writing for the waiting requests, including the commit.
    package var transactionTimes = DurationHistogram()
    /// The connection is given up, and could not be reopened yet.
    var isDown = false
    var reopening = Reopening()

    #if ABLATIONS
        /// For tests: called before each commit; `false` stands for a process that dies there. The hub answers 503 then.
        package var beforeCommit: (() -> Bool)?
        /// For tests: no request is decided without the lock of the hub.
        package var locksFirst = false
        /// The share of each device at its request before the present one.
        var sharesBefore: [DeviceID: DeviceAccess] = [:]
    #endif

    /// Opens the database, or creates it.
    ///
    /// - Throws: `.database` or `.foreignDatabase`; the latter leaves the file as it was.
    package convenience init(_ place: Place, settings: Settings, random: SeededRandom) throws(HubError) {
        try self.init(place, settings: settings, random: random) { () throws(DatabaseError) in try place.database.open() }
    }

    /// - Parameter open: Opens the database at this place.
    init(
        _ place: Place, settings: Settings, random: SeededRandom, opening open: () throws(DatabaseError) -> any HubDatabase
    ) throws(HubError) {
        self.place = place
        self.settings = settings
        self.random = random
        generation = HubGeneration()
        onlyReads = false
        do throws(DatabaseError) {
            store = HubStore(try open(), ablations: settings.ablations)
            if settings.ablations.contains(.commitUnsynced), !store.database.isShared {
                try store.database.execute("PRAGMA synchronous=NORMAL")
            }
            let loaded = try Hub.load(store, &self.random)
            (state, lineage, untold) = loaded
        } catch {
            throw HubError(error)
        }
        try settleRules()
    }

    /// The state behind a ``HubReader``: the same settings, and a connection that only reads.
    init(readingBeside hub: Hub, _ database: any HubDatabasePlace) throws(HubError) {
        (place, settings, random, generation, onlyReads) = (hub.place, hub.settings, hub.random, hub.generation, true)
        (state, lineage) = (hub.state, hub.lineage)
        (scopeIndexes, scopeGeneration, versionMark) = (hub.scopeIndexes, hub.scopeGeneration, hub.versionMark)
        entityMark = hub.entityMark
        settings.tokensRead = nil
        settings.changeTokens = nil
        do throws(DatabaseError) {
            store = HubStore(try database.openForReading(), ablations: settings.ablations)
        } catch {
            throw HubError(error)
        }
    }

    func announce(_ notice: HubNotice) {
        if let tell { tell(notice) } else { untold.append(notice) }
    }

    /// Names the history that cursors and versions belong to.
    package var epoch: String { state.epoch }
    /// The newest commit number.
    package var head: Int64 { state.head }

    // MARK: Requests

    package func handle(_ request: HubRequest, at now: Timestamp) -> HubResponse {
        handle([request], at: now)[0]
    }

    /// Answers several requests in one transaction: waiting pushes share an fsync.
    ///
    /// - Returns: One answer for each request, in their order.
    package func handle(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse] {
        if isDown { reopen(at: now) }
        // Public endpoints are answered whatever the database does: they report its state.
        let isSpared = requests.map { !$0.asksDatabase }
        guard isSpared.contains(true), requests.count > 1 else { return handleAlike(requests, at: now) }
        var asking = handleAlike(zip(requests, isSpared).filter { !$1 }.map(\.0), at: now).makeIterator()
        return zip(requests, isSpared).map { request, isSpared in
            isSpared ? handleAlike([request], at: now)[0] : asking.next() ?? Hub.finish(HubResponse(Hub.notFound), at: now)
        }
    }

    /// Answers writing requests in few transactions, unless others write for longer than a moment.
    ///
    /// - Returns: The answers of the first requests. Nothing has happened with those that follow: the caller answers the waiting reads, and
    ///   tries again. `nil`: there is no answer yet.
    package func handleIfFree(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse]? {
        if isDown { reopen(at: now) }
        let turn = take(requests, .writingIfFree, at: now)
        return turn.isHeld && turn.responses.isEmpty ? nil : turn.responses
    }

    /// Refuses requests for which ``handleIfFree(_:at:)`` has failed for too long.
    package func refuseHeld(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse] {
        let error = DatabaseError(.busy, doing: "begin to write", detail: "another session keeps the database to itself")
        report?(HubError(error))
        let responses = requests.map { _ in Hub.finish(HubResponse(Hub.unavailable(error)), at: now) }
        for (request, response) in zip(requests, responses) { traffic.count(request, response) }
        return responses
    }

    private func handleAlike(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse] {
        take(requests, .writing, at: now).responses
    }

    private struct Turn {
        var responses: [HubResponse]
        /// Others wrote meanwhile, and the requests without a response are as if they had not come.
        var isHeld = false
    }

    /// - Parameter writing: The way in which writing transactions begin.
    private func take(_ requests: [HubRequest], _ writing: TransactionPurpose, at now: Timestamp) -> Turn {
        if requests.isEmpty { return Turn(responses: []) }
        var requests = readingBodies(of: requests)
        var turn = Turn(responses: [])
        while !turn.isHeld, turn.responses.count < requests.count {
            let start = turn.responses.count
            let isDecided = mayDecide(requests[start])
            let end = isDecided ? endOfDecision(from: start, in: &requests) : endOfLocked(from: start, in: requests)
            let part = take(Array(requests[start..<end]), writing, deciding: isDecided, at: now)
            turn.responses += part.responses
            turn.isHeld = part.isHeld
            for index in start..<end { requests[index].push = nil }
        }
        return turn
    }

    /// - Parameter deciding: The requests are decided without the lock of the hub, as long as no other hub comes in between.
    private func take(_ requests: [HubRequest], _ writing: TransactionPurpose, deciding: Bool, at now: Timestamp) -> Turn {
        var responses: [HubResponse] = []
        var (tries, histories) = (0, 0)
        var needsLock = !deciding
        latest = now
        while true {
            let before = state
            var isCommitting = false
            tries += 1
            let isDecided = !needsLock && tries <= Hub.decisionsMax
            do throws(DatabaseError) {
                responses =
                    isDecided
                    ? try decide(requests, writing, &isCommitting, at: now) : try attempt(requests, writing, &isCommitting, at: now)
                guard let evidence = witness.take() else { break }
                // Nothing of it was committed. In the new history the evidence proves nothing any more, so this ends.
                state = before
                histories += 1
                guard histories <= Hub.historiesMax else {
                    throw DatabaseError(.contended, doing: "begin a new history", detail: "it has begun \(histories - 1) times at once")
                }
                try renew(upon: evidence, at: now)
                continue
            } catch {
                witness.found = nil
                needsLock = store.takeNeedOfLock() || needsLock
                // A caller that will try again has nothing to report yet. A decision that waits for the lock has not begun to commit.
                let isHeld = writing == .writingIfFree && error.kind == .busy && (!isCommitting || isDecided)
                let isOfOne = requests.count > 1 && mayBeOfOne(error, isCommitting)
                let isOvertaken = isDecided && error.kind == .contended
                abandon(error, isReported: !isHeld && !isOfOne && !isOvertaken)
                state = before
                if isHeld { return Turn(responses: [], isHeld: true) }
                // One request fails their common transaction, so each runs alone and the others succeed.
                if isOfOne { return Turn(responses: requests.flatMap { alone($0, at: now) }) }
                if mayRepeat(error, tries, isCommitting, at: now) { continue }
                responses = requests.map { _ in Hub.finish(HubResponse(Hub.unavailable(error)), at: now) }
                break
            }
        }
        for damage in store.takeDamage() { report?(damage) }
        noteShownTokens(at: now)
        noteKeeping(at: now)
        for (request, response) in zip(requests, responses) { traffic.count(request, response) }
        return Turn(responses: responses)
    }

    private func alone(_ request: HubRequest, at now: Timestamp) -> [HubResponse] {
        if isDown { reopen(at: now) }
        return take([request], .writing, deciding: false, at: now).responses
    }

    private func attempt(
        _ requests: [HubRequest], _ writing: TransactionPurpose, _ isCommitting: inout Bool, at now: Timestamp
    ) throws(DatabaseError) -> [HubResponse] {
        var responses: [HubResponse] = []
        // Public endpoints need no transaction: the database may be far away or broken.
        if requests.allSatisfy({ !$0.asksDatabase }) {
            for request in requests { responses.append(try answer(request, at: now)) }
            return responses
        }
        let writes = requests.contains { $0.writes }
        try begin(writes ? writing : .reading)
        // Another replica has written records without their links: a question for a file waits until they are there.
        if !writes, state.linked < state.head, requests.contains(where: { Endpoint.find($0.path) == .blob }) {
            try store.database.rollback()
            try begin(writing)
        }
        if writes { try openIfNeeded(at: now) }
        var (waiting, start) = (requests, 0)
        while start < waiting.count {
            let end = writes ? endOfGroup(from: start, in: &waiting) : waiting.count
            if writes {
                store.openGroup(head: state.head)
                try readAhead(Array(waiting[start..<end]), at: now)
            }
            for index in start..<end {
                responses.append(try isolated(waiting[index], alone: waiting.count == 1, at: now))
                waiting[index].push = nil
            }
            start = end
            if try givesUpForEvidence() { return [] }
            try flush()
            store.closeGroup()
        }
        isCommitting = true
        try commit()
        return responses
    }

    /// Returns whether to repeat the transaction now: after a conflict of two transactions, or when the connection was cut before the
    /// commit. A commit whose answer was lost may have succeeded, so the devices must ask.
    private func mayRepeat(_ error: DatabaseError, _ tries: Int, _ isCommitting: Bool, at now: Timestamp) -> Bool {
        guard store.database.isShared else { return false }
        switch error.kind {
        case .contended: return tries < Hub.triesMax && !isDown
        case .lost where !isCommitting && tries == 1:
            reopen(at: now)
            return !isDown
        default: return false
        }
    }

    /// Returns whether one of several requests may have failed all of them without any effect. A server reports an error in a row only when
    /// the following commit is awaited; a disk that fails a commit reports no cause.
    private func mayBeOfOne(_ error: DatabaseError, _ isCommitting: Bool) -> Bool {
        isCommitting ? store.database.isShared && error.kind == .other : error.mayBeOfOneRequest
    }

    static let triesMax = 5
    /// Largest number of new histories for one transaction; one is normal.
    private static let historiesMax = 3

    /// Gives up the present transaction when a request of it has carried evidence (``HubWitness``).
    ///
    /// - Returns: `true`: nothing of it was committed.
    func givesUpForEvidence() throws(DatabaseError) -> Bool {
        guard witness.found != nil else { return false }
        store.closeGroup()
        try store.database.rollback()
        settleShelf(committed: false)
        notices = []
        return true
    }

    /// Runs one request; its failure undoes its own writes only.
    func isolated(_ request: HubRequest, alone: Bool, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        // A request outside the group must see all writes: it may read any table.
        guard Endpoint.find(request.path)?.writesInGroup == true else {
            let isGrouping = store.group != nil
            try flush()
            store.closeGroup()
            let response = try savepointed(request, alone: alone, at: now)
            if isGrouping { store.openGroup(head: state.head) }
            return response
        }
        let before = state
        do throws(DatabaseError) {
            let response = try answer(request, at: now)
            store.group?.keepRequest()
            return response
        } catch {
            // A server has aborted the whole transaction.
            if alone || store.database.isShared { throw error }
            report?(HubError(error))
            store.group?.dropRequest()
            state = before
            settleShelf(committed: false)
            return Hub.finish(HubResponse(Hub.unavailable(error)), at: now)
        }
    }

    private func savepointed(_ request: HubRequest, alone: Bool, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        if alone || !request.writes { return try answer(request, at: now) }
        let before = state
        try store.database.execute("SAVEPOINT request")
        do throws(DatabaseError) {
            let response = try answer(request, at: now)
            // Its failures must be known before the next request begins.
            try store.database.settle()
            try store.database.execute("RELEASE SAVEPOINT request")
            return response
        } catch {
            // The failure is not this request's own, but one of the connection or of the whole transaction.
            if [.lost, .contended].contains(error.kind) { throw error }
            report?(HubError(error))
            try store.database.execute("ROLLBACK TO SAVEPOINT request")
            try store.database.execute("RELEASE SAVEPOINT request")
            state = before
            settleShelf(committed: false)
            if settings.keepsTokens { try readTokens() }
            return Hub.finish(HubResponse(Hub.unavailable(error)), at: now)
        }
    }

    func answer(_ request: HubRequest, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        var caller: HubGate.Caller?
        let response: HubResponse
        do throws(HubRefusal) {
            response = try respond(request, &caller, at: now)
        } catch {
            response = try error.answer()
        }
        return try finish(response, caller, at: now)
    }

    private func respond(
        _ request: HubRequest, _ caller: inout HubGate.Caller?, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        guard let endpoint = Endpoint.find(request.path) else { throw HubRefusal(Hub.notFound) }
        guard endpoint.methods.contains(request.method) else {
            throw HubRefusal(Hub.wrongMethod(at: endpoint))
        }
        if endpoint == .enroll { return try enroll(request, at: now) }
        guard endpoint.isForDevices else { return open(endpoint, request, at: now) }
        let gate = HubGate(tokens: settings.tokens, grace: settings.tokenGrace, now: now)
        var proved = try gate.caller(request.headers, certificate: request.certificateDevice, at: endpoint)
        proved.share = try querying { () throws(DatabaseError) in try share(of: proved.device) }
        caller = proved
        if let token = proved.token, token.awaitsFirstUse {
            if onlyReads { throw HubRefusal(DatabaseError(.readOnly, doing: "note the first use of a token", detail: "it only reads")) }
            if settings.keepsTokens { shown.append(token) } else { try confirm(token, at: now) }
        }
        return try serve(endpoint, request, proved, at: now)
    }

    private func serve(
        _ endpoint: Endpoint, _ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        switch endpoint {
        case .hello: try hello(request, caller, at: now)
        case .pull: try pull(request, caller)
        case .push: try push(request, caller, at: now)
        case .snapshot: try snapshot(request, caller)
        case .known: try known(request, caller)
        case .config: config(request)
        case .verify: try verify(request, caller)
        case .diagnostics: try diagnostics(request, caller, at: now)
        case .token: try refreshToken(request, at: now)
        case .files, .file, .blob: try files(endpoint, request, caller, at: now)
        case .enroll, .probe, .healthz, .readyz, .metrics: open(endpoint, request, at: now)
        }
    }

    // MARK: Bodies and headers

    /// The request's body without its content coding.
    func body(of request: HubRequest) throws(HubRefusal) -> [UInt8] {
        let coding = request.headers["Content-Encoding"] ?? "identity"
        if asciiCaseEqual(coding, "identity") {
            guard request.body.count <= Limits.hubRequestBytes else { throw HubRefusal(Hub.bodyTooLarge) }
            return request.body
        }
        guard asciiCaseEqual(coding, "gzip"), let compressor = settings.compressor else {
            var response = HubResponse(
                Problem("encoding-unsupported", status: 415, detail: "this hub cannot read Content-Encoding: \(coding.prefix(32))"))
            response.headers["Accept-Encoding"] = settings.compressor == nil ? "identity" : "gzip, identity"
            throw HubRefusal(response)
        }
        let inflated = compressor.gunzip(
            request.body, maxBytes: Limits.hubRequestBytes, maxRatio: Limits.inflateRatio)
        // Not 413, even for a decompression bomb: a mutation that was damaged in transit must not be given up as too large. An agent sends
        // it once more uncompressed, and then learns the exact error.
        guard let inflated else {
            throw HubRefusal(
                Problem("malformed", status: 400, detail: "the body is not complete, valid gzip, or inflates beyond the limit"))
        }
        return inflated
    }

    /// Adds the headers that every answer carries. Unauthenticated callers learn the time and the version, but not how busy the hub is.
    private func finish(_ response: HubResponse, _ caller: HubGate.Caller?, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        var headers = HubHeaders()
        if let caller {
            headers.epoch = state.epoch
            headers.head = state.head
            headers.config = settings.config?.version
            headers.tokenEndsAt = caller.token?.endsAt
            headers.tokenRefreshAt = caller.token?.refreshAt
            headers.shareMark = caller.share.map { mark(of: $0) }
            headers.schemas = settings.schemas
            if let replica = caller.replica {
                let seq = try store.replica(caller.device, replica)?.maxSeq ?? 0
                headers.deviceSeq = seq
                if response.givesReceipt { headers.receipt = receipt(for: caller, seq: seq, head: state.head) }
                headers.twins = try twins(of: caller.device, replica, at: now)
            }
        }
        var finished = Hub.finish(response, headers, at: now)
        if let caller, store.isDeciding {
            var preliminary = response.preliminary ?? Preliminary(.problem, head: state.head)
            preliminary.caller = headers.receipt == nil ? nil : caller
            preliminary.seq = headers.deviceSeq ?? 0
            finished.preliminary = preliminary
        }
        return finished
    }

    static func finish(_ response: HubResponse, _ headers: HubHeaders = HubHeaders(), at now: Timestamp) -> HubResponse {
        var (response, headers) = (response, headers)
        headers.time = now
        // Headers that the answer itself has set stay.
        let own = [HubHeader.retryAfter, HubHeader.tokenEnds, HubHeader.tokenRefresh].map { ($0, response.headers[$0]) }
        headers.write(to: &response.headers)
        for case (let name, let value?) in own { response.headers[name] = value }
        return response
    }
}

extension Hub.Place {
    package var database: any HubDatabasePlace {
        switch self {
        case .memory: SQLiteDatabase.Place.memory
        case .file(let path): SQLiteDatabase.Place.file(path)
        case .shared(let place): place
        }
    }
}
