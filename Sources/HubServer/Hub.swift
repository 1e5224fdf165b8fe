package import SyncCore

/// The reference hub: requests in, answers out, over a database (PROTOCOL A1-A7, A9, A10): one SQLite file of its own, or a
/// server's that several hubs share as replicas of each other.
///
/// Everything is synchronous and deterministic: time comes with each call, randomness with `init`. Whoever owns a hub calls
/// it from one thread; an HTTP server, a test and the simulation drive the same code.
///
/// One call is one transaction and at most one fsync, however many requests it carries, and no answer exists before the
/// commit. If the process dies before that, nothing has happened, and the devices repeat their requests. Of a shared database
/// nothing is known from one call to the next: what the hub row says is read anew in each transaction.
package final class Hub {
    package enum Place: Sendable {
        case memory
        /// The database file; its folder must exist.
        case file(String)
        /// A database that other hubs may serve at the same time.
        case shared(any DatabasePlace)
    }

    package struct Settings: Sendable {
        package var rules: RuleBook
        /// `nil` asks for no credential at all: tests, and a hub on a loopback address.
        package var tokens: TokenBook?
        /// Changes the tokens where they are kept, and gives back the book as it is then; `nil`: ``tokens`` are all there is.
        package var changeTokens: TokenChange?
        /// The tokens are rows of the database, which all replicas share: ``tokens`` is read from there, when it has changed.
        package var keepsTokens = false
        /// Told of the book when it was read from there: for whoever asks before the hub does.
        package var tokensRead: (@Sendable (TokenBook) -> Void)?
        /// Of tokens that are given for an enrolment or a refresh; `nil`: they do not end.
        package var tokenLife: Duration? = .seconds(90 * 86_400)
        /// For so long after its end a device's last token is taken for asking for the next one.
        package var tokenGrace: Duration = .seconds(90 * 86_400)
        /// Opens request bodies; without one, gzip is refused with 415.
        package var compressor: (any Compressor)?
        /// Told to agents: how long to spread out after the hub was away. About fleet size / capacity.
        package var spread: Duration = .seconds(30)
        /// How long after the beginning of a new history a change of a record that is not there waits for the device that made
        /// the record. Then it counts as a change of what was deleted.
        package var offerTime: Duration = .seconds(7 * 86_400)
        /// Told to agents. What this hub itself refuses is larger and fixed (``Limits``).
        package var limits = HelloResponse.Announced()
        package var ablations: Ablations = .none
        /// Where files are kept; `nil`: this hub takes none.
        package var uploads: HubUploads?
        /// How long what only matters for a while is kept.
        package var retention = HubRetention()
        /// What is left on the disk of the database; `nil`: nobody knows.
        package var freeBytes: (@Sendable () -> Int64?)?
        /// Of the program, for `/metrics`.
        package var version: String?
        /// What agents are told to work by; `nil`: nothing, and they have their own.
        package var config: HubConfiguration?

        package init(rules: RuleBook = RuleBook(), tokens: TokenBook? = nil, compressor: (any Compressor)? = nil) {
            self.rules = rules
            self.tokens = tokens
            self.compressor = compressor
        }
    }

    package var settings: Settings
    /// Told why a request was answered 503: the answer itself does not say.
    package var report: ((HubError) -> Void)?
    /// Told what happens to the hub's history, once it is committed. What happened before this was set is kept for it.
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
    /// What the database says, kept at hand. Goes back with a transaction that fails.
    var state: HubStore.HubRow
    /// The openings of the database, as it says them.
    var lineage: HubLineage
    /// The opening that this process has added; `nil`: none yet.
    var opened: String?
    /// The connection is another one: what the database says is read anew.
    var mustReload = false
    let witness = HubWitness()
    /// Told to those who read beside.
    let generation: HubGeneration
    /// Of a ``HubReader``: it may change nothing.
    private let onlyReads: Bool
    /// The time of the latest request.
    var latest: Timestamp?
    /// What the present transaction has to tell once it is through.
    var notices: [HubNotice] = []
    /// Claims without proof since the start, and who made them.
    var claims: Int64 = 0
    var claimants: Set<DeviceID> = []
    /// The database's book of tokens, where it keeps one.
    var shelf = TokenShelf()
    /// Tokens that were shown for the first time: noted after the transaction, which may be one that only reads.
    var shown: [TokenBook.Entry] = []
    /// Counted since the start, for `/metrics`.
    let traffic = HubTraffic()
    var housekept = HubHousekeeping()
    /// How long transactions took, with what led to them.
    package var transactionTimes = DurationHistogram()
    /// The connection is given up, and could not be opened again yet.
    var isDown = false
    var reopening = Reopening()

    #if ABLATIONS
        /// For tests: called before each commit; `false` stands for a process that dies there. The hub answers 503 then.
        package var beforeCommit: (() -> Bool)?
    #endif

    /// Opens the database, or makes it.
    ///
    /// - Throws: `.database` or `.foreignDatabase`; the latter leaves the file as it was.
    package init(_ place: Place, settings: Settings, random: SeededRandom) throws(HubError) {
        self.place = place
        self.settings = settings
        self.random = random
        generation = HubGeneration()
        onlyReads = false
        do throws(DatabaseError) {
            store = HubStore(try place.database.open(), ablations: settings.ablations)
            if settings.ablations.contains(.commitUnsynced), !store.database.isShared {
                try store.database.execute("PRAGMA synchronous=NORMAL")
            }
            let loaded = try Hub.load(store, &self.random)
            (state, lineage, untold) = loaded
        } catch {
            throw HubError(error)
        }
    }

    /// What a ``HubReader`` answers with: the same settings, and a connection that only reads.
    init(readingBeside hub: Hub, _ database: any DatabasePlace) throws(HubError) {
        (place, settings, random, generation, onlyReads) = (hub.place, hub.settings, hub.random, hub.generation, true)
        (state, lineage) = (hub.state, hub.lineage)
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
        // What anybody may ask is answered whatever the database does: it is how one learns what it does.
        let isSpared = requests.map { !$0.asksDatabase }
        guard isSpared.contains(true), requests.count > 1 else { return handleAlike(requests, at: now) }
        var asking = handleAlike(zip(requests, isSpared).filter { !$1 }.map(\.0), at: now).makeIterator()
        return zip(requests, isSpared).map { request, isSpared in
            isSpared ? handleAlike([request], at: now)[0] : asking.next() ?? Hub.finish(HubResponse(Hub.notFound), at: now)
        }
    }

    /// Answers requests that write, in one transaction, unless others write for longer than a moment.
    ///
    /// - Returns: `nil` when they do. Nothing has happened then: whoever asks answers the reads that wait, and comes back.
    package func handleIfFree(_ requests: [HubRequest], at now: Timestamp) -> [HubResponse]? {
        if isDown { reopen(at: now) }
        let turn = take(requests, .writingIfFree, at: now)
        return turn.isHeld ? nil : turn.responses
    }

    /// Answers requests for which ``handleIfFree(_:at:)`` had no time for too long.
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
        /// Others wrote meanwhile, and nobody is answered.
        var isHeld = false
    }

    /// - Parameter writing: How those who write begin.
    private func take(_ requests: [HubRequest], _ writing: TransactionPurpose, at now: Timestamp) -> Turn {
        if requests.isEmpty { return Turn(responses: []) }
        let requests = readingBodies(of: requests)
        var responses: [HubResponse] = []
        var (tries, histories) = (0, 0)
        latest = now
        while true {
            let before = state
            var isCommitting = false
            tries += 1
            do throws(DatabaseError) {
                responses = try attempt(requests, writing, &isCommitting, at: now)
                guard let evidence = witness.take() else { break }
                // Nothing of it was committed. In the new history it proves nothing any more, so this ends.
                state = before
                histories += 1
                guard histories <= Hub.historiesMax else {
                    throw DatabaseError(.contended, doing: "begin a new history", detail: "it has begun \(histories - 1) times at once")
                }
                try renew(upon: evidence, at: now)
                continue
            } catch {
                witness.found = nil
                // Somebody who will come back has nothing to report yet.
                let isHeld = writing == .writingIfFree && error.kind == .busy && !isCommitting
                let isOfOne = requests.count > 1 && mayBeOfOne(error, isCommitting)
                abandon(error, isReported: !isHeld && !isOfOne)
                state = before
                if isHeld { return Turn(responses: [], isHeld: true) }
                // One of them fails what they write together: each alone then, so that the others are done.
                if isOfOne { return Turn(responses: requests.flatMap { alone($0, at: now) }) }
                if mayRepeat(error, tries, isCommitting, at: now) { continue }
                responses = requests.map { _ in Hub.finish(HubResponse(Hub.unavailable(error)), at: now) }
                break
            }
        }
        for damage in store.takeDamage() { report?(damage) }
        noteShownTokens(at: now)
        for (request, response) in zip(requests, responses) { traffic.count(request, response) }
        return Turn(responses: responses)
    }

    private func alone(_ request: HubRequest, at now: Timestamp) -> [HubResponse] {
        if isDown { reopen(at: now) }
        return take([request], .writing, at: now).responses
    }

    private func attempt(
        _ requests: [HubRequest], _ writing: TransactionPurpose, _ isCommitting: inout Bool, at now: Timestamp
    ) throws(DatabaseError) -> [HubResponse] {
        var responses: [HubResponse] = []
        // Whether somebody is here at all can be said without a database that may be far away, or broken.
        if requests.allSatisfy({ !$0.asksDatabase }) {
            for request in requests { responses.append(try answer(request, at: now)) }
            return responses
        }
        let writes = requests.contains { $0.writes }
        try begin(writes ? writing : .reading)
        if writes { try openIfNeeded(at: now) }
        var (waiting, start) = (requests, 0)
        while start < waiting.count {
            let end = writes ? endOfGroup(from: start, in: &waiting) : waiting.count
            if writes {
                store.openGroup()
                try readAhead(Array(waiting[start..<end]), at: now)
            }
            for index in start..<end {
                responses.append(try isolated(waiting[index], alone: waiting.count == 1, at: now))
                waiting[index].push = nil
            }
            start = end
            if witness.found != nil {
                store.closeGroup()
                try store.database.rollback()
                settleShelf(committed: false)
                notices = []
                return []
            }
            try flush()
            store.closeGroup()
        }
        isCommitting = true
        try commit()
        return responses
    }

    /// Whether to do all of it once more, now: where two transactions met, and where the connection had been cut before this
    /// one came to its commit. A commit whose answer is lost may have been one, so the devices shall ask.
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

    /// Whether one of several requests may have failed all of them, and nothing of them was done. A server says what was wrong with
    /// a row only when the commit that comes behind it is waited for; a disk that fails a commit says nothing.
    private func mayBeOfOne(_ error: DatabaseError, _ isCommitting: Bool) -> Bool {
        isCommitting ? store.database.isShared && error.kind == .other : error.mayBeOfOneRequest
    }

    static let triesMax = 5
    /// New histories for the sake of one transaction; one is the rule.
    private static let historiesMax = 3

    /// A failure of one request takes back its own writes only.
    private func isolated(_ request: HubRequest, alone: Bool, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        // Of a request that reads beside others that write nothing is held back either: it may look at any table.
        guard Endpoint.find(request.path)?.writesInGroup == true else {
            let isGrouping = store.group != nil
            try flush()
            store.closeGroup()
            let response = try savepointed(request, alone: alone, at: now)
            if isGrouping { store.openGroup() }
            return response
        }
        let before = state
        do throws(DatabaseError) {
            let response = try answer(request, at: now)
            store.group?.keepRequest()
            return response
        } catch {
            // A server has given up the whole transaction.
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
            // What failed of it must be known before the next one begins.
            try store.database.settle()
            try store.database.execute("RELEASE SAVEPOINT request")
            return response
        } catch {
            // Not this request's own failure, but one of the connection or of the whole transaction.
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
        let proved = try gate.caller(request.headers, certificate: request.certificateDevice, at: endpoint)
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
        // Not 413, even for a bomb: a mutation that was damaged on its way must not be given up as too large. An agent sends
        // the same once more as it is, and hears then what is wrong with it.
        guard let inflated else {
            throw HubRefusal(
                Problem("malformed", status: 400, detail: "the body is not whole, valid gzip, or inflates beyond all measure"))
        }
        return inflated
    }

    /// Adds what every answer carries. Strangers learn the time and the version, not how much happens here.
    private func finish(_ response: HubResponse, _ caller: HubGate.Caller?, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        var headers = HubHeaders()
        if let caller {
            headers.epoch = state.epoch
            headers.head = state.head
            headers.config = settings.config?.version
            headers.tokenEndsAt = caller.token?.endsAt
            headers.tokenRefreshAt = caller.token?.refreshAt
            if let replica = caller.replica {
                let seq = try store.replica(caller.device, replica)?.maxSeq ?? 0
                headers.deviceSeq = seq
                if response.givesReceipt { headers.receipt = receipt(for: caller, seq: seq) }
                headers.twins = try twins(of: caller.device, replica, at: now)
            }
        }
        return Hub.finish(response, headers, at: now)
    }

    static func finish(_ response: HubResponse, _ headers: HubHeaders = HubHeaders(), at now: Timestamp) -> HubResponse {
        var (response, headers) = (response, headers)
        headers.time = now
        // What the answer itself says stays.
        let own = [HubHeader.retryAfter, HubHeader.tokenEnds, HubHeader.tokenRefresh].map { ($0, response.headers[$0]) }
        headers.write(to: &response.headers)
        for case (let name, let value?) in own { response.headers[name] = value }
        return response
    }
}

// MARK: Refusals

extension Hub {
    /// Runs a step of an endpoint; its errors end the request.
    func reading<T>(_ body: () throws(Problem) -> T) throws(HubRefusal) -> T {
        do throws(Problem) { return try body() } catch { throw HubRefusal(error) }
    }

    func querying<T>(_ body: () throws(DatabaseError) -> T) throws(HubRefusal) -> T {
        do throws(DatabaseError) { return try body() } catch { throw HubRefusal(error) }
    }

    static let notFound = Problem("not-found", status: 404, detail: "there is nothing at this path")
    static func wrongMethod(at endpoint: Endpoint) -> HubResponse {
        var response = HubResponse(Problem("method-not-allowed", status: 405, detail: "this path takes another method"))
        response.headers["Allow"] = endpoint.methods.joined(separator: ", ")
        return response
    }
    static let bodyTooLarge = Problem(
        "too-large", status: 413, detail: "a request may have at most \(Limits.hubRequestBytes) bytes, inflated")

    /// The detail of the failure stays here; a device can only wait.
    static func unavailable(_ error: DatabaseError) -> Problem {
        let detail = "the hub cannot use its database at the moment (\(error.kind.rawValue))"
        return switch error.kind {
        case .busy, .contended: Problem("overloaded", status: 503, detail: detail, retryAfter: 2)
        // A server that takes over from another one does so within seconds.
        case .lost: Problem("maintenance", status: 503, detail: detail, retryAfter: 5)
        default: Problem("maintenance", status: 503, detail: detail, retryAfter: 30)
        }
    }
}

extension Hub.Place {
    var database: any DatabasePlace {
        switch self {
        case .memory: SQLiteDatabase.Place.memory
        case .file(let path): SQLiteDatabase.Place.file(path)
        case .shared(let place): place
        }
    }
}
