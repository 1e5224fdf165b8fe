package import SyncCore

/// The reference hub: requests in, answers out, over one SQLite database (PROTOCOL A1-A7, A9, A10).
///
/// Everything is synchronous and deterministic: time comes with each call, randomness with `init`. Whoever owns a hub calls
/// it from one thread; an HTTP server, a test and the simulation drive the same code.
///
/// One call is one transaction and at most one fsync, however many requests it carries, and no answer exists before the
/// commit. If the process dies before that, nothing has happened, and the devices repeat their requests.
package final class Hub {
    package enum Place: Sendable, Hashable {
        case memory
        /// The database file; its folder must exist.
        case file(String)
    }

    package struct Settings: Sendable {
        package var rules: RuleBook
        /// `nil` asks for no credential at all: tests, and a hub on a loopback address.
        package var tokens: TokenBook?
        /// Changes the tokens where they are kept, and gives back the book as it is then; `nil`: ``tokens`` are all there is.
        package var changeTokens: TokenChange?
        /// Of tokens that are given for an enrolment or a refresh; `nil`: they do not end.
        package var tokenLife: Duration? = .seconds(90 * 86_400)
        /// Opens request bodies; without one, gzip is refused with 415.
        package var compressor: (any Compressor)?
        /// Told to agents: how long to spread out after the hub was away. About fleet size / capacity.
        package var spread: Duration = .seconds(30)
        /// Told to agents. What this hub itself refuses is larger and fixed (``Limits``).
        package var limits = HelloResponse.Announced()
        package var ablations: Ablations = .none
        /// Where files are kept; `nil`: this hub takes none.
        package var uploads: HubUploads?
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
    private let place: Place
    private var random: SeededRandom
    private(set) var store: HubStore
    /// What the database says, kept at hand. Goes back with a transaction that fails.
    private(set) var state: HubStore.HubRow
    /// Counted since the start, for `/metrics`.
    private(set) var traffic = HubTraffic()
    /// The last commit failed and the database could not be opened again yet.
    private var isDown = false

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
        do throws(DatabaseError) {
            store = HubStore(try HubSchema.open(place.database))
            if settings.ablations.contains(.commitUnsynced) { try store.database.execute("PRAGMA synchronous=NORMAL") }
            state = try Hub.loadOrMake(store, &self.random)
        } catch {
            throw HubError(error)
        }
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
        if isDown { reopen() }
        let before = state
        var responses: [HubResponse] = []
        do throws(DatabaseError) {
            if isDown { throw DatabaseError(.io, doing: "open the database", detail: "it is not open") }
            try store.database.execute(requests.contains { $0.writes } ? "BEGIN IMMEDIATE" : "BEGIN")
            for request in requests { responses.append(try isolated(request, alone: requests.count == 1, at: now)) }
            try commit()
        } catch {
            abandon(error)
            state = before
            responses = requests.map { _ in finish(HubResponse(Hub.unavailable(error)), nil, at: now) }
        }
        for (request, response) in zip(requests, responses) { traffic.count(request, response) }
        return responses
    }

    /// A failure of one request takes back its own writes only.
    private func isolated(_ request: HubRequest, alone: Bool, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        if alone || !request.writes { return try answer(request, at: now) }
        let before = state
        try store.database.execute("SAVEPOINT request")
        do throws(DatabaseError) {
            let response = try answer(request, at: now)
            try store.database.execute("RELEASE request")
            return response
        } catch {
            report?(HubError(error))
            try store.database.execute("ROLLBACK TO request; RELEASE request")
            state = before
            return finish(HubResponse(Hub.unavailable(error)), nil, at: now)
        }
    }

    private func answer(_ request: HubRequest, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        var caller: HubGate.Caller?
        let response: HubResponse
        do throws(HubRefusal) {
            response = try respond(request, &caller, at: now)
        } catch {
            response = try error.answer()
        }
        return finish(response, caller, at: now)
    }

    private func respond(
        _ request: HubRequest, _ caller: inout HubGate.Caller?, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        guard let endpoint = Endpoint.find(request.path) else { throw HubRefusal(Hub.notFound) }
        guard endpoint.methods.contains(request.method) else {
            var response = HubResponse(Hub.wrongMethod)
            response.headers["Allow"] = endpoint.methods.joined(separator: ", ")
            throw HubRefusal(response)
        }
        if endpoint == .enroll { return try enroll(request, at: now) }
        guard endpoint.isForDevices else { return open(endpoint, request) }
        let gate = HubGate(tokens: settings.tokens, now: now)
        let proved = try gate.caller(request.headers, certificate: request.certificateDevice, isTus: endpoint.isTus)
        caller = proved
        if let token = proved.token, token.replaces != nil { try confirm(token, at: now) }
        return try serve(endpoint, request, proved, at: now)
    }

    private func serve(
        _ endpoint: Endpoint, _ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        switch endpoint {
        case .hello: try hello(request, caller, at: now)
        case .pull: try pull(request)
        case .push: try push(request, caller, at: now)
        case .snapshot: try snapshot(request)
        case .known: try known(request, caller)
        case .config: config(request)
        case .verify: try verify(request)
        case .diagnostics: try diagnostics(request, caller, at: now)
        case .token: try refreshToken(request, at: now)
        case .files, .file, .blob: try files(endpoint, request, caller, at: now)
        case .enroll, .probe, .healthz, .readyz, .metrics: open(endpoint, request)
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
    private func finish(_ response: HubResponse, _ caller: HubGate.Caller?, at now: Timestamp) -> HubResponse {
        var headers = HubHeaders()
        if let caller {
            headers.epoch = state.epoch
            headers.head = state.head
            headers.config = settings.config?.version
            headers.tokenEndsAt = caller.token?.endsAt
            headers.tokenRefreshAt = caller.token?.refreshAt
            if let replica = caller.replica {
                // A hint beside the answer: if it cannot be read, neither could the rest.
                headers.deviceSeq = (try? store.replica(caller.device, replica))?.maxSeq ?? 0
                headers.twins = twins(of: caller.device, at: now)
            }
        }
        return Hub.finish(response, headers, at: now)
    }

    static func finish(_ response: HubResponse, _ headers: HubHeaders = HubHeaders(), at now: Timestamp) -> HubResponse {
        var (response, headers) = (response, headers)
        headers.time = now
        let retryAfter = response.headers[HubHeader.retryAfter]
        headers.write(to: &response.headers)
        response.headers[HubHeader.retryAfter] = retryAfter
        return response
    }

    // MARK: Transactions

    /// Takes the commit numbers and verdicts of a push into account; they count once the transaction is through.
    func advance(to head: Int64, adding counted: HubCounters) throws(DatabaseError) {
        try store.advance(to: head, adding: counted)
        state.head = head
        state.counters.add(counted)
    }

    /// Runs `body` in a transaction of its own.
    func transact<T>(_ body: () throws(DatabaseError) -> T) throws(HubError) -> T {
        let before = state
        do throws(DatabaseError) {
            try store.database.execute("BEGIN IMMEDIATE")
            let result = try body()
            try commit()
            return result
        } catch {
            abandon(error)
            state = before
            throw HubError(error)
        }
    }

    func renewEpoch() throws(DatabaseError) {
        state.epoch = Hub.makeEpoch(&random)
        try store.setEpoch(state.epoch)
    }

    private func commit() throws(DatabaseError) {
        #if ABLATIONS
            if let beforeCommit, !beforeCommit() {
                throw DatabaseError(.other, doing: "commit", detail: "the process died, says the test")
            }
        #endif
        try store.database.execute("COMMIT")
    }

    /// Leaves a transaction that failed. After an error of the disk nobody knows what was written, so the connection, whose
    /// cache may be wrong, is given up as well.
    private func abandon(_ error: DatabaseError) {
        report?(HubError(error))
        do throws(DatabaseError) {
            if !isDown, store.database.isInTransaction { try store.database.execute("ROLLBACK") }
        } catch {
            isDown = true
        }
        if error.kind == .io || error.kind == .corrupt { isDown = true }
    }

    private func reopen() {
        guard case .file = place else { return }
        do throws(DatabaseError) {
            let fresh = try HubSchema.open(place.database)
            // After a failed sync, what is read back may be in the kernel's cache only, and later verdicts would stand behind
            // it in the log. From the database file, written and synced anew, it cannot vanish.
            guard try fresh.number("PRAGMA wal_checkpoint(TRUNCATE)") == 0 else {
                throw DatabaseError(.busy, doing: "write the log into the database", detail: "somebody reads from it")
            }
            store = HubStore(fresh)
            state = try Hub.loadOrMake(store, &random)
            isDown = false
        } catch {
            // Still down: the next request tries again.
            isDown = true
        }
    }

    private static func loadOrMake(
        _ store: HubStore, _ random: inout SeededRandom
    ) throws(DatabaseError) -> HubStore.HubRow {
        if let row = try store.hub() { return row }
        var secret: [UInt8] = []
        for _ in 0..<4 { withUnsafeBytes(of: random.next().bigEndian) { secret.append(contentsOf: $0) } }
        let row = HubStore.HubRow(epoch: makeEpoch(&random), secret: secret, head: 0, counters: HubCounters())
        try store.create(row)
        return row
    }

    func drawUploadID() -> String {
        var bytes: [UInt8] = []
        for _ in 0..<2 { withUnsafeBytes(of: random.next().bigEndian) { bytes.append(contentsOf: $0) } }
        return hex(bytes)
    }

    private static func makeEpoch(_ random: inout SeededRandom) -> String {
        hex(withUnsafeBytes(of: random.next().bigEndian) { Array($0) })
    }

    /// Writes the log of the database back into its file: less to do for the next start, and a copy of the one file is whole
    /// then. Nothing is lost without it.
    package func checkpoint() {
        // A reader in another process may hold it up, which only means later.
        _ = try? store.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Replaces what the database holds by a copy made earlier.
    func install(_ copy: [UInt8]) throws(DatabaseError) {
        store.database.forgetStatements()
        try store.database.deserialize(copy)
        state = try Hub.loadOrMake(store, &random)
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
    static let wrongMethod = Problem("method-not-allowed", status: 405, detail: "this path takes another method")
    static let bodyTooLarge = Problem(
        "too-large", status: 413, detail: "a request may have at most \(Limits.hubRequestBytes) bytes, inflated")

    /// The detail of the failure stays here; a device can only wait.
    private static func unavailable(_ error: DatabaseError) -> Problem {
        let code = error.kind == .busy ? "overloaded" : "maintenance"
        let detail = "the hub cannot use its database at the moment (\(error.kind.rawValue))"
        return Problem(code, status: 503, detail: detail, retryAfter: error.kind == .busy ? 2 : 30)
    }
}

extension Hub.Place {
    var database: Database.Place {
        switch self {
        case .memory: .memory
        case .file(let path): .file(path)
        }
    }
}
