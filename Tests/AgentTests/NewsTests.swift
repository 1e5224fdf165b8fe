import Agent
import SyncCore
import Synchronization
import Testing

/// A pull that waits at the hub, with a whole agent behind it. The hub of these tests holds such a pull until the test lets it go.
@Suite("Waiting for news, with a whole agent")
struct NewsTests {
    /// Holds the answer to a pull that may wait and has no news.
    final class WaitingHub: HTTPTransport {
        typealias Waiter = CheckedContinuation<Bool, Never>

        private let base: any HTTPTransport
        private let state = Mutex(State())

        private struct State {
            var waiters: [Int: Waiter] = [:]
            var last = 0
            var gone: Set<Int> = []
            /// Tells the sender of the last pull that its answer begins to arrive.
            var bodyBegan: (@Sendable () -> Void)?
        }

        init(_ base: any HTTPTransport) { self.base = base }

        /// Number of pulls that wait.
        var waiting: Int { state.withLock { $0.waiters.count } }

        /// Lets the first bytes of the answer to the last pull arrive.
        func beginAnswer() { state.withLock(\.bodyBegan)?() }

        /// Answers them.
        func letGo() { end(true) { _ in true } }

        private func end(_ isAnswered: Bool, _ isChosen: (Int) -> Bool) {
            let chosen = state.withLock { state in
                let chosen = state.waiters.filter { isChosen($0.key) }
                for id in chosen.keys { state.waiters[id] = nil }
                return chosen
            }
            for waiter in chosen.values { waiter.resume(returning: isAnswered) }
        }

        func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
            guard let seconds = request.headers["Prefer"].flatMap({ WaitPreference.seconds(in: $0) }) else {
                return try await base.send(request)
            }
            state.withLock { $0.bodyBegan = request.bodyBegan }
            var response = try await base.send(request)
            // `try?`: an answer that is no page is passed on.
            if let pages = try? PullMessages.readResponse(response.body), pages.pages.isEmpty {
                guard await wait() else { throw TransportError(.cancelled, doing: "wait", detail: "cancelled") }
                response = try await base.send(request)
            }
            response.headers["Preference-Applied"] = WaitPreference.text(seconds)
            return response
        }

        private func wait() async -> Bool {
            let id = state.withLock { state in
                state.last += 1
                return state.last
            }
            return await withTaskCancellationHandler {
                await withCheckedContinuation { (waiter: Waiter) in
                    let isGone = state.withLock { state in
                        if state.gone.contains(id) { return true }
                        state.waiters[id] = waiter
                        return false
                    }
                    if isGone { waiter.resume(returning: false) }
                }
            } onCancel: {
                state.withLock { _ = $0.gone.insert(id) }
                end(false) { $0 == id }
            }
        }

        func stream(
            _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void,
            onBody: @escaping @Sendable ([UInt8]) -> Bool
        ) async throws(TransportError) -> HTTPResponse {
            try await base.stream(request, onHead: onHead, onBody: onBody)
        }
    }

    private static let settings = "entities: { audits: { kind: record } }\nsync: { debounce: 0s, wait_for_news: auto }\n"

    private static func with(_ body: (AgentStand, WaitingHub) async throws -> Void) async throws {
        let hub = try LoopbackHub()
        let waiting = WaitingHub(hub)
        let stand = try await AgentStand.start(settings, hub: hub) { $0.transport = waiting }
        try await stand.sync()
        try await until { waiting.waiting == 1 }
        try await body(stand, waiting)
        try await stand.stop()
    }

    private static func until(_ isSo: () async throws -> Bool) async throws {
        while try await !isSo() { await Task.yield() }
    }

    @Test("A change of others is here as soon as the hub answers the waiting pull, and then the next pull waits")
    func news() async throws {
        try await Self.with { stand, waiting in
            #expect(try await stand.send(.get, "/v1/status")["sync"]?.object?["waiting_for_news"] == true)
            try stand.hub.publish("audits", "a-1", ["n": 1])
            waiting.letGo()
            try await Self.until { try await stand.send(.get, "/v1/records/audits/a-1")["data"] == ["n": 1] }
            try await Self.until { waiting.waiting == 1 }
        }
    }

    @Test("A sync by hand does not end a pull whose answer has begun to arrive, and reads once more after it")
    func syncWhileArriving() async throws {
        try await Self.with { stand, waiting in
            try stand.hub.publish("audits", "a-1", ["n": 1])
            waiting.beginAnswer()
            let before = stand.hub.requests.count
            #expect(try await stand.send(.post, "/v1/sync", "{}").status == 202)
            #expect(waiting.waiting == 1 && stand.hub.requests.count == before)
            waiting.letGo()
            try await Self.until { try await stand.send(.get, "/v1/records/audits/a-1")["data"] == ["n": 1] }
            try await Self.until { waiting.waiting == 1 }
            let pulls = stand.hub.requests.dropFirst(before).filter { $0.url.hasSuffix("/pull") }
            #expect(pulls.map { $0.headers["Prefer"] != nil } == [true, false, true])
        }
    }

    @Test("A change of an app is sent while a pull waits, and does not end the wait")
    func localWork() async throws {
        try await Self.with { stand, waiting in
            _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a-2","action":"create","data":{"n":2}}"#)
            try await Self.until { try stand.hub.document("audits", "a-2") == ["n": 2] }
            let pulls = stand.hub.requests.filter { $0.headers["Prefer"] != nil }.count
            #expect(waiting.waiting == 1 && pulls == 1)
            waiting.letGo()
            try await Self.until { waiting.waiting == 1 && stand.hub.requests.filter { $0.headers["Prefer"] != nil }.count > pulls + 1 }
        }
    }

    @Test("A pause ends the wait, and after it the next pull waits")
    func pause() async throws {
        try await Self.with { stand, waiting in
            #expect(try await stand.send(.post, "/v1/pause", "{}").status == 200)
            try await Self.until { waiting.waiting == 0 }
            try await Self.until { try await stand.send(.get, "/v1/status")["sync"]?.object?["waiting_for_news"] == nil }
            #expect(try await stand.send(.post, "/v1/resume").status == 200)
            try await stand.sync()
            try await Self.until { waiting.waiting == 1 }
        }
    }

    @Test("Without the setting no pull waits")
    func never() async throws {
        let hub = try LoopbackHub()
        let stand = try await AgentStand.start("entities: { audits: { kind: record } }\n", hub: hub)
        try await stand.sync()
        try await stand.sync()
        #expect(hub.requests.allSatisfy { $0.headers["Prefer"] == nil })
        try await stand.stop()
    }
}
