package import SyncCore
import Synchronization

/// Carries the engine's calls to the hub: address, credentials, headers, gzip. It decides nothing about sync.
package final class HubClient: Sendable {
    package struct Settings: Sendable {
        /// URL of the hub, without a slash at the end.
        package var baseURL: String
        package var device: DeviceID
        package var tls: TLSIdentity
        package var proxy: HTTPProxy?
        package var compressOver: Int
        /// User agent: `agentd/` and the version.
        package var userAgent: String

        package init(
            baseURL: String, device: DeviceID, tls: TLSIdentity, proxy: HTTPProxy? = nil, compressOver: Int, userAgent: String
        ) {
            self.baseURL = baseURL
            self.device = device
            self.tls = tls
            self.proxy = proxy
            self.compressOver = compressOver
            self.userAgent = userAgent
        }
    }

    /// Reads the bearer token again for each call, because it may be replaced at run time, and reading a small file is cheap. `nil` when
    /// the device has none and uses a client certificate instead.
    package typealias TokenReader = @Sendable () throws -> String?

    let transport: any HTTPTransport
    private let compressor: any Compressor
    let time: any TimeSource
    private let token: TokenReader
    private let keeper: TokenKeeper
    private let state: Mutex<State>

    /// Storage of the token that the hub issued, for use after a restart.
    package struct TokenKeeper: Sendable {
        /// Reads the token; `nil` when there is none, or it is incomplete.
        package var read: @Sendable () -> KeptToken?
        /// Stores the token; it is on flash when this returns.
        package var keep: @Sendable (KeptToken) throws -> Void

        package init(read: @escaping @Sendable () -> KeptToken?, keep: @escaping @Sendable (KeptToken) throws -> Void) {
            self.read = read
            self.keep = keep
        }

        /// Stores nothing: only the operator's token is used.
        package static let none = TokenKeeper(read: { nil }, keep: { _ in throw NoKeeper() })

        private struct NoKeeper: Error, CustomStringConvertible {
            let description = "no folder is configured to store it"
        }
    }

    private struct State {
        var settings: Settings
        var coding: RequestCoding
        /// Digest of the token in the latest request, to detect a new token in the file.
        var shown: [UInt8]?
        /// The hub refused the preferred token, so the other one is used until it is refused too.
        var showsOther = false
        /// Digest of the operator's token that the hub has accepted in this run.
        var accepted: [UInt8]?
        /// Version of the hub's configuration that is in force.
        var config: Int64?
        /// Number of mutations that wait for the hub; `nil`: not counted yet.
        var waiting: Int64?
    }

    package init(
        settings: Settings, transport: any HTTPTransport, compressor: any Compressor, time: any TimeSource,
        token: @escaping TokenReader, keeper: TokenKeeper = .none
    ) {
        self.keeper = keeper
        self.transport = transport
        self.compressor = compressor
        self.time = time
        self.token = token
        state = Mutex(State(settings: settings, coding: RequestCoding(compressOver: settings.compressOver)))
    }

    package func use(_ settings: Settings) {
        state.withLock { state in
            // Another server may accept gzip where the old one did not.
            if settings.baseURL != state.settings.baseURL || settings.compressOver != state.settings.compressOver {
                state.coding = RequestCoding(compressOver: settings.compressOver)
            }
            state.settings = settings
        }
    }

    /// Returns whether the token has changed since the latest request. A replaced certificate is not noticed.
    package func hasNewToken() -> Bool {
        // `try?`: a file that cannot be read is no new token; the request that needs it reports the reason.
        guard let token = try? shownToken() else { return false }
        return state.withLock { $0.shown != SHA256.hash(Array(token.utf8)) }
    }

    var baseURL: String { state.withLock { $0.settings.baseURL } }

    /// The operator's token.
    func provisioned() throws -> String? { try token() }

    func keepToken(_ token: KeptToken) throws {
        try keeper.keep(token)
        state.withLock { $0.showsOther = false }
    }

    /// `true` when the preferred token was refused and the other one is used instead.
    package var showsOtherToken: Bool { state.withLock(\.showsOther) }

    /// The token in use: the kept token if it derives from the operator's, otherwise the operator's; after a refusal the other one.
    private func shownToken() throws -> String? {
        guard let provisioned = try token() else { return nil }
        guard let kept = keeper.read() else { return provisioned }
        let usual = KeptToken.choose(provisioned: provisioned, kept: kept)
        guard state.withLock(\.showsOther) else { return usual }
        return usual == kept.token ? provisioned : kept.token
    }

    /// Records whether the hub accepts the token. If it does not know one, the other may work: a restored hub knows the older token, and
    /// where an operator has installed a wrong one, the last working token is still here.
    private func recordVerdict(_ result: Result<HTTPResponse, TransportError>) {
        // A server in the hub's place knows nothing about tokens: its answer neither refuses nor confirms one.
        guard case .success(let response) = result, response.isHubs(at: time.now().wall),
            // `try?`: the file was read for the request; if it cannot be read now, the next request reports it.
            let provisioned = try? token()
        else { return }
        let kept = keeper.read()
        if response.status == 401 {
            guard let kept, kept.token != provisioned else { return }
            state.withLock { $0.showsOther.toggle() }
        } else if (200...299).contains(response.status), kept.map({ !$0.belongs(to: provisioned) }) ?? true {
            keepAccepted(provisioned)
        }
    }

    /// Stores the operator's working token, for use when the next one fails.
    private func keepAccepted(_ provisioned: String) {
        let digest = SHA256.hash(Array(provisioned.utf8))
        let isNews = state.withLock { state in
            guard state.shown == digest, state.accepted != digest else { return false }
            state.accepted = digest
            return true
        }
        // `try?`: this is only a copy; the token itself is where the operator put it.
        if isNews { try? keeper.keep(KeptToken(provisioned)) }
    }

    /// - Parameter bodyBegan: See ``HTTPRequest/bodyBegan``.
    /// - Returns: The answer, whatever its status, or the reason why there is none. A device with only a one-time token exchanges that for
    ///   its own first.
    package func send(
        _ call: HubCall, replica: ReplicaID, over uplink: Uplink? = nil, bodyBegan: (@Sendable () -> Void)? = nil
    ) async -> Result<HTTPResponse, TransportError> {
        var traffic = Traffic()
        // `try?`: a file that cannot be read ends the request itself, in `carry`, with its reason.
        if let token = try? shownToken(), DeviceMessages.isEnrolment(token) {
            do {
                var request = try plainRequest(replica: replica)
                request.interface = uplink?.boundInterface
                if let failure = await enroll(token, request, &traffic) {
                    recordVerdict(failure)
                    return failure
                }
            } catch {
                return .failure(TransportError(.credentials, doing: "enrol at the hub", detail: "\(error)"))
            }
        }
        var result = await carry(call, replica: replica, over: uplink, bodyBegan)
        if case .success(let refusal) = result, mayReturn(after: refusal) {
            traffic.add(refusal.traffic)
            let next = await refreshToken(replica: replica, over: uplink)
            if case .success(let response) = next, response.status == 200 {
                traffic.add(next.traffic)
                result = await carry(call, replica: replica, over: uplink, bodyBegan)
            } else {
                result = next
            }
        }
        recordVerdict(result)
        switch result {
        case .success(var response):
            response.traffic.add(traffic)
            return .success(response)
        case .failure(var error):
            error.traffic.add(traffic)
            return .failure(error)
        }
    }

    /// Returns whether the token has expired while this device was silent, but may still be used to request the next one, as the hub says.
    private func mayReturn(after response: HTTPResponse) -> Bool {
        guard response.status == 401 else { return false }
        let facts = HubHeaders(reading: response.headers, now: time.now().wall)
        return facts.version != nil && facts.tokenRefreshAt != nil
    }

    /// A request with all common parts, without a body.
    func plainRequest(replica: ReplicaID) throws -> HTTPRequest {
        var request = try request(
            for: HubCall(id: 0, kind: .hello, session: "", body: []), replica: replica, state.withLock(\.settings))
        request.headers["Sync-Session"] = nil
        return request
    }

    private func carry(
        _ call: HubCall, replica: ReplicaID, over uplink: Uplink?, _ bodyBegan: (@Sendable () -> Void)?
    ) async -> Result<HTTPResponse, TransportError> {
        let (settings, wantsGzip) = state.withLock { state in
            (state.settings, state.coding.compresses(call.body.count, now: time.now().instant))
        }
        var request: HTTPRequest
        do {
            request = try self.request(for: call, replica: replica, settings)
            request.keep(to: uplink)
            request.expectedBytes = max(request.expectedBytes, call.answerBytes)
            request.bodyBegan = bodyBegan
        } catch {
            return .failure(TransportError(.credentials, doing: call.doing, detail: "\(error)"))
        }
        guard wantsGzip, let packed = compressor.gzip(call.body) else { return await transport.answer(to: request) }
        request.body = .bytes(packed)
        request.headers["Content-Encoding"] = "gzip"
        let first = await transport.answer(to: request)
        guard case .success(let response) = first,
            state.withLock({ $0.coding.shouldRepeatPlain(status: response.status) })
        else { return first }
        request.body = .bytes(call.body)
        request.headers["Content-Encoding"] = nil
        let second = await transport.answer(to: request)
        switch second {
        case .success(var answer):
            state.withLock { $0.coding.repeatedPlain(status: answer.status, now: time.now().instant) }
            answer.traffic.add(response.traffic)
            return .success(answer)
        case .failure(var error):
            error.traffic.add(response.traffic)
            return .failure(error)
        }
    }

    /// Sets the version of the hub's configuration in use, which is sent with every request.
    package func useConfig(_ version: Int64?) {
        state.withLock { $0.config = version }
    }

    /// Sets the number of waiting mutations, which is sent with the requests that the hub records: the hub's operator sees it.
    package func useWaiting(_ count: Int64) {
        state.withLock { $0.waiting = count }
    }

    /// Requests `GET /v1/config`; 304 when the known version is still valid.
    package func config(
        known: Int64?, replica: ReplicaID, over uplink: Uplink? = nil
    ) async -> Result<HTTPResponse, TransportError> {
        let settings = state.withLock(\.settings)
        var request: HTTPRequest
        do {
            request = try self.request(for: HubCall(id: 0, kind: .hello, session: "", body: []), replica: replica, settings)
        } catch {
            return .failure(TransportError(.credentials, doing: "fetch the hub's configuration", detail: "\(error)"))
        }
        request.method = .get
        request.url = settings.baseURL + "/v1/config"
        request.body = .none
        request.headers["Content-Type"] = nil
        request.headers["Sync-Session"] = nil
        request.headers[HubHeader.waiting] = nil
        request.headers["If-None-Match"] = known.map { "\"\($0)\"" }
        request.keep(to: uplink)
        return await transport.answer(to: request)
    }

    /// Asks for a page of a listing, besides those of the engine.
    ///
    /// - Parameter epoch: The history that the versions of this device belong to.
    package func list(
        _ page: SnapshotRequest, epoch: String?, schemas: SchemaNumbers, replica: ReplicaID, over uplink: Uplink? = nil
    ) async -> Result<HTTPResponse, TransportError> {
        var call = HubCall(
            id: 0, kind: .snapshot, session: "", body: [], query: SnapshotMessages.query(page), epoch: epoch)
        call.schemas = schemas
        var request: HTTPRequest
        do {
            request = try self.request(for: call, replica: replica, state.withLock(\.settings))
        } catch {
            return .failure(TransportError(.credentials, doing: "ask the hub for a record", detail: "\(error)"))
        }
        request.headers["Sync-Session"] = nil
        request.keep(to: uplink)
        return await transport.answer(to: request)
    }

    /// Sends `POST /v1/diagnostics`: compressed lines about this agent. 202 when the hub accepts them.
    package func report(
        _ packed: [UInt8], replica: ReplicaID, over uplink: Uplink? = nil
    ) async -> Result<HTTPResponse, TransportError> {
        let settings = state.withLock(\.settings)
        var request: HTTPRequest
        do {
            request = try self.request(for: HubCall(id: 0, kind: .hello, session: "", body: packed), replica: replica, settings)
        } catch {
            return .failure(TransportError(.credentials, doing: "send diagnostics", detail: "\(error)"))
        }
        request.url = settings.baseURL + "/v1/diagnostics"
        request.headers["Content-Type"] = "application/x-ndjson"
        request.headers["Content-Encoding"] = "gzip"
        request.headers["Sync-Session"] = nil
        request.keep(to: uplink)
        return await transport.answer(to: request)
    }

    /// A request about a file to the hub itself, with credentials and without a body.
    package func fileRequest(
        _ method: HTTPRequest.Method, _ url: String, replica: ReplicaID, over uplink: Uplink? = nil
    ) throws(TransportError) -> HTTPRequest {
        let settings = state.withLock(\.settings)
        do {
            var request = try self.request(for: HubCall(id: 0, kind: .hello, session: "", body: []), replica: replica, settings)
            request.method = method
            request.url = url
            request.body = .none
            for name in ["Content-Type", "Accept", "Sync-Session", HubHeader.waiting] { request.headers[name] = nil }
            request.acceptsGzip = false
            request.interface = uplink?.boundInterface
            return request
        } catch {
            throw TransportError(.credentials, doing: "send a file", detail: "\(error)")
        }
    }

    /// A request to another file server, which gets none of the hub's credentials.
    package func foreignFileRequest(_ method: HTTPRequest.Method, _ url: String, over uplink: Uplink? = nil) -> HTTPRequest {
        let settings = state.withLock(\.settings)
        var tls = TLSIdentity()
        tls.caFile = settings.tls.caFile
        var request = HTTPRequest(method, url, headers: ["User-Agent": settings.userAgent], tls: tls, proxy: settings.proxy)
        request.interface = uplink?.boundInterface
        return request
    }

    /// Asks the hub the smallest request that there is (PROTOCOL E4). It needs no credentials, and the nonce proves that the answer is the
    /// hub's own.
    package func probe(nonce: String, over uplink: Uplink? = nil) async -> (isGood: Bool, traffic: Traffic) {
        switch await look(nonce: nonce, over: uplink) {
        case .success(let response):
            return (response.status == 204 && response.headers[HubHeader.probe] == nonce, response.traffic)
        case .failure(let error): return (false, error.traffic)
        }
    }

    /// The same with the whole answer, for callers that need more of it.
    package func look(nonce: String, over uplink: Uplink? = nil) async -> Result<HTTPResponse, TransportError> {
        let settings = state.withLock(\.settings)
        var deadlines = HTTPRequest.Deadlines()
        (deadlines.connect, deadlines.total) = (.seconds(3), .seconds(5))
        var request = HTTPRequest(
            .get, settings.baseURL + "/v1/probe?n=" + nonce, headers: ["User-Agent": settings.userAgent], tls: settings.tls,
            proxy: settings.proxy, deadlines: deadlines, maxResponseBytes: 1_024)
        request.interface = uplink?.boundInterface
        return await transport.answer(to: request)
    }

    private func request(for call: HubCall, replica: ReplicaID, _ settings: Settings) throws -> HTTPRequest {
        var headers: HTTPHeaders = [
            "Content-Type": "application/json", "Accept": "application/json", "User-Agent": settings.userAgent,
            "Sync-Version": "1", "Sync-Device": settings.device.text, "Sync-Replica": replica.text,
            "Sync-Session": call.session,
        ]
        if let epoch = call.epoch { headers[HubHeader.epoch] = epoch }
        headers[HubHeader.receipt] = call.receipt
        headers[HubHeader.schema] = call.schemas.text
        if call.method == .get { headers["Content-Type"] = nil }
        state.withLock { $0.shown = nil }
        // A one-time token is no bearer token; it is sent in the body of one request only.
        if let token = try shownToken(), !DeviceMessages.isEnrolment(token) {
            state.withLock { $0.shown = SHA256.hash(Array(token.utf8)) }
            headers["Authorization"] = "Bearer \(token)"
        }
        headers[HubHeader.config] = state.withLock(\.config).map { String($0) }
        switch call.kind {
        case .hello, .push, .settle: headers[HubHeader.waiting] = state.withLock(\.waiting).map { String($0) }
        case .pull, .snapshot, .known, .verify: break
        }
        switch call.kind {
        case .hello, .pull, .snapshot, .verify: headers[HubHeader.can] = AgentAbility.text(AgentAbility.all)
        case .push, .settle, .known: break
        }
        var deadlines = HTTPRequest.Deadlines()
        deadlines.total = call.timeLimit
        if let seconds = call.waitSeconds {
            headers[WaitPreference.field] = WaitPreference.text(seconds)
            deadlines.firstByte = deadlines.firstByte.map { $0 + .seconds(Int64(seconds)) }
            deadlines.idle = deadlines.idle.map { $0 + .seconds(Int64(seconds)) }
        }
        return HTTPRequest(
            call.method, settings.baseURL + call.target, headers: headers,
            body: call.method == .get ? .none : .bytes(call.body), tls: settings.tls, proxy: settings.proxy,
            deadlines: deadlines, maxResponseBytes: Limits.hubResponseBytes, maxInflateRatio: Limits.inflateRatio, acceptsGzip: true)
    }
}

extension HTTPResponse {
    /// Returns whether `Sync-Version` shows that the answer is the hub's own. Other answers decide nothing.
    func isHubs(at now: Timestamp) -> Bool {
        HubHeaders(reading: headers, now: now).version != nil
    }
}

extension HTTPTransport {
    func answer(to request: HTTPRequest) async -> Result<HTTPResponse, TransportError> {
        do throws(TransportError) {
            return .success(try await send(request))
        } catch {
            return .failure(error)
        }
    }
}

extension HTTPRequest {
    /// Keeps the request to the interface and the rate of an uplink.
    fileprivate mutating func keep(to uplink: Uplink?) {
        interface = uplink?.boundInterface
        bytesPerSecond = uplink?.bytesPerSecond
    }
}
