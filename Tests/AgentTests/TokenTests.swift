import Agent
import HubServer
import LocalAPI
import SyncCore
import SyncLinux
import Synchronization
import Testing

/// Enrolment and refresh as the agent does them, cut at each of their steps. After every cut the device must come in again by
/// itself.
@Suite("A device and its token")
struct TokenTests {
    /// The folder of the agent: what is kept survives the agent.
    final class Disk: Sendable {
        private let kept = Mutex<[UInt8]?>(nil)
        private let fails = Mutex(false)

        var keeper: HubClient.TokenKeeper {
            HubClient.TokenKeeper(
                read: { [self] in kept.withLock { $0 }.flatMap { KeptToken(reading: $0) } },
                keep: { [self] token in
                    if fails.withLock({ $0 }) { throw Full() }
                    kept.withLock { $0 = token.bytes }
                })
        }

        var isFull: Bool {
            get { fails.withLock { $0 } }
            set { fails.withLock { $0 = newValue } }
        }

        var token: String? { keeper.read()?.token }

        struct Full: Error {}
    }

    /// A hub that knows tokens, with a network before it.
    final class Network: HTTPTransport {
        private struct Unguarded: @unchecked Sendable { let hub: Hub }

        private let hub: Mutex<Unguarded>
        private let cut = Mutex<(path: String, isBefore: Bool)?>(nil)
        let clock = SettableClock()

        init(_ book: TokenBook) throws {
            hub = Mutex(Unguarded(hub: try Hub(.memory, settings: Hub.Settings(tokens: book), random: SeededRandom(seed: 1))))
        }

        /// Once, the next request to that path is lost before the hub, or its answer behind it.
        func lose(_ path: String, before isBefore: Bool) { cut.withLock { $0 = (path, isBefore) } }

        var book: TokenBook? {
            get { hub.withLock { $0.hub.settings.tokens } }
            set { hub.withLock { $0.hub.settings.tokens = newValue } }
        }

        func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
            let path = String(request.url.dropFirst("http://hub".count))
            let lost = TransportError(.broken, doing: "exchange", detail: "connection reset")
            let loses = cut.withLock { cut -> Bool? in
                guard let wanted = cut, wanted.path == path else { return nil }
                defer { cut = nil }
                return wanted.isBefore
            }
            if loses == true { throw lost }
            var body: [UInt8] = []
            if case .bytes(let bytes) = request.body { body = bytes }
            let now = clock.now().wall
            let answer = hub.withLock {
                $0.hub.handle(HubRequest(request.method.rawValue, path, headers: request.headers, body: body), at: now)
            }
            if loses == false { throw lost }
            return HTTPResponse(status: answer.status, headers: answer.headers, body: answer.body)
        }

        func stream(
            _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void, onBody: @escaping @Sendable ([UInt8]) -> Bool
        ) async throws(TransportError) -> HTTPResponse {
            throw TransportError(.malformed, doing: "stream", detail: "nothing is streamed here")
        }
    }

    final class SettableClock: TimeSource {
        private let wall = Mutex(Timestamp(milliseconds: 1_795_208_400_000))

        func now() -> Moment { Moment(instant: Instant(nanoseconds: 0), wall: wall.withLock { $0 }) }
        func advance(_ duration: Duration) { wall.withLock { $0 = $0.advanced(by: duration) } }
    }

    private let oneTime: String
    private let network: Network
    private let disk = Disk()

    init() throws {
        var book = TokenBook()
        var random = SystemRandomNumberGenerator()
        oneTime = book.add(
            DeviceID(trusted: "gw-1"), .enrolment, life: .seconds(7 * 86_400), at: Timestamp(milliseconds: 1_795_208_400_000),
            using: &random)
        network = try Network(book)
    }

    /// A client as a started agent has it; each is a life of its own over the same disk.
    private func client(_ token: String? = nil) -> HubClient {
        let oneTime = token ?? oneTime
        return HubClient(
            settings: .init(
                baseURL: "http://hub", device: DeviceID(trusted: "gw-1"), tls: TLSIdentity(), compressOver: 1 << 20, userAgent: "test"),
            transport: network, compressor: ZlibCompressor(), time: network.clock, token: { oneTime }, keeper: disk.keeper)
    }

    private func pull(_ client: HubClient) async -> Int? {
        let call = HubCall(id: 1, kind: .pull, session: "s", body: Array(#"{"streams":[]}"#.utf8))
        return try? await client.send(call, replica: ReplicaID(trusted: "r-1")).get().status
    }

    @Test("With a one-time token the first request gets the device's own, which is shown from then on")
    func enrols() async throws {
        #expect(await pull(client()) == 200)
        #expect(disk.token?.hasPrefix("est_") == true)
        // The one-time token is used up, and not needed.
        #expect(await pull(client()) == 200)
    }

    @Test("A device that was silent for longer than its token's life comes back alone, also when an answer is lost on the way")
    func returns() async throws {
        #expect(await pull(client()) == 200)
        let before = disk.token
        network.clock.advance(.seconds(120 * 86_400))
        network.lose("/v1/devices/token", before: false)
        #expect(await pull(client()) == nil)
        #expect(await pull(client()) == 200)
        #expect(disk.token != before)
        #expect(await pull(client()) == 200)
        // Much longer: only when an operator lets it in.
        network.clock.advance(.seconds(400 * 86_400))
        #expect(await pull(client()) == 401)
        let now = network.clock.now().wall
        #expect(network.book?.readmit(DeviceID(trusted: "gw-1"), until: now.advanced(by: .seconds(86_400)), at: now) == true)
        #expect(await pull(client()) == 200)
    }

    enum Cut: CaseIterable, Sendable {
        case requestLost, answerLost, diskFull, diedAfterKeeping, shownAndAnswerLost, diskWentBack
    }

    @Test("An enrolment that is cut at any step is made again, and ends well", arguments: Cut.allCases)
    func enrolmentCut(_ cut: Cut) async throws {
        switch cut {
        case .requestLost:
            network.lose("/v1/devices/enroll", before: true)
            #expect(await pull(client()) == nil)
        case .answerLost:
            network.lose("/v1/devices/enroll", before: false)
            #expect(await pull(client()) == nil)
        case .diskFull:
            disk.isFull = true
            #expect(await pull(client()) == nil)
            disk.isFull = false
        case .diedAfterKeeping:
            network.lose("/v1/sync/pull", before: true)
            #expect(await pull(client()) == nil)
        case .shownAndAnswerLost:
            network.lose("/v1/sync/pull", before: false)
            #expect(await pull(client()) == nil)
        case .diskWentBack: return
        }
        #expect(await pull(client()) == 200)
        #expect(await pull(client()) == 200)
    }

    @Test("A refresh that is cut at any step leaves a token that works, and the next one succeeds", arguments: Cut.allCases)
    func refreshCut(_ cut: Cut) async throws {
        #expect(await pull(client()) == 200)
        let first = try #require(disk.token)
        let replica = ReplicaID(trusted: "r-1")
        let life = client()
        switch cut {
        case .requestLost:
            network.lose("/v1/devices/token", before: true)
            _ = await life.refreshToken(replica: replica)
        case .answerLost:
            network.lose("/v1/devices/token", before: false)
            _ = await life.refreshToken(replica: replica)
        case .diskFull:
            disk.isFull = true
            _ = await life.refreshToken(replica: replica)
            disk.isFull = false
            #expect(disk.token == first)
        case .diedAfterKeeping:
            _ = await life.refreshToken(replica: replica)
            #expect(disk.token != first)
        case .shownAndAnswerLost:
            _ = await life.refreshToken(replica: replica)
            network.lose("/v1/sync/pull", before: false)
            #expect(await pull(life) == nil)
        case .diskWentBack:
            let before = try #require(disk.keeper.read())
            _ = await life.refreshToken(replica: replica)
            #expect(await pull(life) == 200)
            try disk.keeper.keep(before)
        }
        // By itself, in a new life.
        #expect(await pull(client()) == 200)
        let refreshed = await client().refreshToken(replica: replica)
        #expect((try? refreshed.get().status) == 200)
        #expect(disk.token != first)
        #expect(await pull(client()) == 200)
    }

    @Test("A hub that was restored and does not know the newer token is shown the older one, and then that is refreshed")
    func hubWentBack() async throws {
        let backup = network.book
        #expect(await pull(client()) == 200)
        network.book = backup
        let life = client()
        // The kept token is unknown; the one-time token behind it is good again in that book.
        #expect(await pull(life) == 401)
        #expect(await pull(life) == 200)
        #expect(await pull(client()) == 200)
    }

    @Test("A wrong token put in place by hand gives way to the last one that the hub took; a right one is taken at once")
    func wrongToken() async throws {
        var book = try #require(network.book)
        var random = SystemRandomNumberGenerator()
        let good = book.add(DeviceID(trusted: "gw-1"), at: network.clock.now().wall, using: &random)
        let better = book.add(DeviceID(trusted: "gw-1"), at: network.clock.now().wall, using: &random)
        network.book = book
        #expect(await pull(client(good)) == 200)
        let mistaken = client("est_wrong")
        #expect(await pull(mistaken) == 401)
        #expect(await pull(mistaken) == 200)
        #expect(mistaken.showsOtherToken)
        // A restart changes nothing, and neither does a repeat.
        let restarted = client("est_wrong")
        #expect(await pull(restarted) == 401)
        #expect(await pull(restarted) == 200)
        #expect(disk.token == good)
        #expect(await pull(client(better)) == 200)
        #expect(disk.token == better)
    }

    @Test("The one-time token goes into the body of one request, and never into a header")
    func neverShown() async throws {
        let watched = Watched(network)
        let oneTime = oneTime
        let client = HubClient(
            settings: .init(
                baseURL: "http://hub", device: DeviceID(trusted: "gw-1"), tls: TLSIdentity(), compressOver: 1 << 20, userAgent: "test"),
            transport: watched, compressor: ZlibCompressor(), time: network.clock, token: { oneTime }, keeper: disk.keeper)
        _ = await pull(client)
        #expect(watched.requests.count == 2)
        for request in watched.requests {
            for field in request.headers.fields { #expect(!field.value.contains(oneTime)) }
        }
    }

    final class Watched: HTTPTransport {
        private let inner: Network
        private let seen = Mutex<[HTTPRequest]>([])

        init(_ inner: Network) { self.inner = inner }

        var requests: [HTTPRequest] { seen.withLock { $0 } }

        func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
            seen.withLock { $0.append(request) }
            return try await inner.send(request)
        }

        func stream(
            _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void, onBody: @escaping @Sendable ([UInt8]) -> Bool
        ) async throws(TransportError) -> HTTPResponse {
            try await inner.stream(request, onHead: onHead, onBody: onBody)
        }
    }
}
