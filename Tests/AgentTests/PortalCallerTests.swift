import Agent
import SyncCore
import SyncLinux
import Synchronization
import Testing

@Suite("Callers that ask for a sync during one that meets a portal")
struct PortalCallerTests {
    /// Holds requests of cycles while it is closed. Probes pass.
    private final class Gate: HTTPTransport {
        private typealias Waiter = CheckedContinuation<Void, Never>

        private let base: any HTTPTransport
        private let state = Mutex(State())

        private struct State {
            var isClosed = false
            var waiters: [Waiter] = []
        }

        init(_ base: any HTTPTransport) { self.base = base }

        /// Number of requests that it holds.
        var held: Int { state.withLock { $0.waiters.count } }

        func close() { state.withLock { $0.isClosed = true } }

        func open() {
            let waiters = state.withLock { state in
                let waiters = state.waiters
                state = State()
                return waiters
            }
            for waiter in waiters { waiter.resume() }
        }

        func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
            if request.url.contains("/v1/sync/") { await pass() }
            return try await base.send(request)
        }

        private func pass() async {
            await withCheckedContinuation { (waiter: Waiter) in
                let isHeld = state.withLock { state in
                    if state.isClosed { state.waiters.append(waiter) }
                    return state.isClosed
                }
                if !isHeld { waiter.resume() }
            }
        }

        func stream(
            _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void,
            onBody: @escaping @Sendable ([UInt8]) -> Bool
        ) async throws(TransportError) -> HTTPResponse {
            try await base.stream(request, onHead: onHead, onBody: onBody)
        }
    }

    /// The system's clock until it stops: from then on nothing comes that is not due already.
    private final class Clock: TimeSource {
        private let stopped = Mutex<Moment?>(nil)

        func now() -> Moment { stopped.withLock { $0 } ?? SystemClocks().now() }
        func stop() { stopped.withLock { $0 = SystemClocks().now() } }
    }

    @Test("The caller is told of the portal at once, and not when the agent looks by itself whether it is gone")
    func told() async throws {
        let hub = try LoopbackHub()
        let (gate, clock, log) = (Gate(hub), Clock(), HeardLog())
        let stand = try await AgentStand.start(hub: hub) { environment in
            environment.transport = gate
            environment.time = clock
            environment.links = FixedSurroundings()
            environment.log = log.logger
        }
        // The link counts only after a moment.
        while try await stand.sync()["result"] != "ok" {}
        // The agent writes this line while it takes such a request.
        func forcedSyncs() -> Int { log.messages.count { $0 == "forced sync" } }
        let before = forcedSyncs()
        // Without work a cycle may ask the hub for nothing.
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{}}"#)
        // The agent would look again after half a minute of this clock.
        clock.stop()
        gate.close()
        async let first = stand.sync()
        while gate.held == 0 { await Task.yield() }
        hub.weather = .says(HTTPResponse(status: 200, headers: ["Content-Type": "text/html"], body: Array("<h1>Log in</h1>".utf8)))
        async let second = stand.sync()
        while forcedSyncs() < before + 2 { await Task.yield() }
        gate.open()
        #expect(try await first["result"] != "ok")
        let outcome = try await second
        #expect(outcome["result"] == "deferred", "\(outcome.text)")
        #expect(outcome["deferred"]?.object?["critical"] == "captive", "\(outcome.text)")
        try await stand.stop()
    }
}
