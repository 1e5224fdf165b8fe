package import SyncCore
import Synchronization

/// Carries the engine's calls to the hub: address, credentials, headers, gzip. It decides nothing about sync.
package final class HubClient: Sendable {
    package struct Settings: Sendable {
        /// Without a slash at the end.
        package var baseURL: String
        package var device: DeviceID
        package var tls: TLSIdentity
        package var compressOver: Int
        /// `agentd/` and the version.
        package var userAgent: String

        package init(baseURL: String, device: DeviceID, tls: TLSIdentity, compressOver: Int, userAgent: String) {
            self.baseURL = baseURL
            self.device = device
            self.tls = tls
            self.compressOver = compressOver
            self.userAgent = userAgent
        }
    }

    /// Reads the bearer token, anew for each call: it may be replaced while we run, and reading a small file is cheap.
    /// `nil` when the device has none and shows a client certificate instead.
    package typealias TokenReader = @Sendable () throws -> String?

    private let transport: any HTTPTransport
    private let compressor: any Compressor
    private let time: any TimeSource
    private let token: TokenReader
    private let state: Mutex<State>

    private struct State {
        var settings: Settings
        var coding: RequestCoding
        /// Digest of the token of the latest request: whether the file has another one since.
        var shown: [UInt8]?
        /// Version of the hub's configuration that is in force.
        var config: Int64?
    }

    package init(
        settings: Settings, transport: any HTTPTransport, compressor: any Compressor, time: any TimeSource,
        token: @escaping TokenReader
    ) {
        self.transport = transport
        self.compressor = compressor
        self.time = time
        self.token = token
        state = Mutex(State(settings: settings, coding: RequestCoding(compressOver: settings.compressOver)))
    }

    package func use(_ settings: Settings) {
        state.withLock { state in
            // Another server may read gzip where the old one did not.
            if settings.baseURL != state.settings.baseURL || settings.compressOver != state.settings.compressOver {
                state.coding = RequestCoding(compressOver: settings.compressOver)
            }
            state.settings = settings
        }
    }

    /// Whether the token is another one than in the latest request. A certificate that was replaced is not noticed.
    package func hasNewToken() -> Bool {
        guard let token = try? token() else { return false }
        return state.withLock { $0.shown != SHA256.hash(Array(token.utf8)) }
    }

    /// - Returns: The answer, whatever its status, or why there is none.
    package func send(_ call: HubCall, replica: ReplicaID, over uplink: Uplink? = nil) async -> Result<HTTPResponse, TransportError> {
        let (settings, wantsGzip) = state.withLock { state in
            (state.settings, state.coding.compresses(call.body.count, now: time.now().instant))
        }
        var request: HTTPRequest
        do {
            request = try self.request(for: call, replica: replica, settings)
            request.interface = uplink?.boundInterface
            request.bytesPerSecond = uplink?.bytesPerSecond
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

    /// The version of the hub's configuration that this agent works by, told with every request.
    package func useConfig(_ version: Int64?) {
        state.withLock { $0.config = version }
    }

    /// `GET /v1/config`; 304 when it is still the known one.
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
        request.headers["If-None-Match"] = known.map { "\"\($0)\"" }
        request.interface = uplink?.boundInterface
        request.bytesPerSecond = uplink?.bytesPerSecond
        return await transport.answer(to: request)
    }

    /// Whether the hub answers the smallest request that there is (PROTOCOL E4). It needs no credentials, and proves by the
    /// nonce that nobody answers in its place.
    package func probe(nonce: String) async -> (isGood: Bool, traffic: Traffic) {
        let settings = state.withLock(\.settings)
        var deadlines = HTTPRequest.Deadlines()
        (deadlines.connect, deadlines.total) = (.seconds(3), .seconds(5))
        let request = HTTPRequest(
            .get, settings.baseURL + "/v1/probe?n=" + nonce, headers: ["User-Agent": settings.userAgent], tls: settings.tls,
            deadlines: deadlines, maxResponseBytes: 1_024)
        switch await transport.answer(to: request) {
        case .success(let response):
            return (response.status == 204 && response.headers[HubHeader.probe] == nonce, response.traffic)
        case .failure(let error): return (false, error.traffic)
        }
    }

    private func request(for call: HubCall, replica: ReplicaID, _ settings: Settings) throws -> HTTPRequest {
        var headers: HTTPHeaders = [
            "Content-Type": "application/json", "Accept": "application/json", "User-Agent": settings.userAgent,
            "Sync-Version": "1", "Sync-Device": settings.device.text, "Sync-Replica": replica.text,
            "Sync-Session": call.session,
        ]
        if let epoch = call.epoch { headers[HubHeader.epoch] = epoch }
        if call.method == .get { headers["Content-Type"] = nil }
        state.withLock { $0.shown = nil }
        if let token = try token() {
            state.withLock { $0.shown = SHA256.hash(Array(token.utf8)) }
            headers["Authorization"] = "Bearer \(token)"
        }
        headers[HubHeader.config] = state.withLock(\.config).map { String($0) }
        return HTTPRequest(
            call.method, settings.baseURL + call.target, headers: headers,
            body: call.method == .get ? .none : .bytes(call.body), tls: settings.tls,
            maxResponseBytes: Limits.hubResponseBytes, maxInflateRatio: Limits.inflateRatio, acceptsGzip: true)
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
