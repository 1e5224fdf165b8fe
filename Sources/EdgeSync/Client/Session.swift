import Synchronization

/// The state that the calls of one client share.
final class Session: Sendable {
    let socketPath: String
    /// Fields that every request has besides its own.
    private let fields: [(name: String, value: String)]
    /// Time that a call may take, unless it names its own.
    let deadline: Duration
    let policy: RetryPolicy
    let environment: Environment
    let places = Places(Limits.connections)
    private let connected = Mutex(false)

    init(
        socketPath: String, fields: [(name: String, value: String)], deadline: Duration, policy: RetryPolicy, environment: Environment
    ) {
        self.socketPath = socketPath
        self.fields = fields
        self.deadline = deadline
        self.policy = policy
        self.environment = environment
    }

    /// A connection came about before.
    var wasConnected: Bool { connected.withLock { $0 } }

    func call(_ deadline: Duration?) throws(EdgeSyncError) -> Call {
        let time = deadline ?? self.deadline
        guard time > .zero else { throw .invalidArgument("a deadline is more than 0 seconds, and not \(time)") }
        return Call(time, environment)
    }

    /// Sends a request until it is answered, and reads the answer.
    ///
    /// - Parameter read: Makes the result from an answer that is no refusal.
    func perform<Value>(
        _ request: Request, _ deadline: Duration?, _ read: (Response) throws(EdgeSyncError) -> Value
    ) async throws(EdgeSyncError) -> Value {
        let call = try call(deadline)
        var tries = Tries(call, request, self)
        while true {
            var wasSent = false
            do {
                let response = try await attempt(request, call, &wasSent)
                try response.checkStatus()
                return try read(response)
            } catch {
                try await tries.failed(error, wasSent: wasSent)
            }
        }
    }

    /// One request whose answer is an object.
    func ask<Value>(
        _ request: Request, _ deadline: Duration?, _ read: (Members) throws(EdgeSyncError) -> Value
    ) async throws(EdgeSyncError) -> Value {
        try await perform(request, deadline) { response throws(EdgeSyncError) in try read(try response.members()) }
    }

    private func attempt(_ request: Request, _ call: Call, _ wasSent: inout Bool) async throws(EdgeSyncError) -> Response {
        try await places.acquire(within: call.left(), environment)
        defer { places.release() }
        let connection = try Connection()
        let exchange = try await open(connection, request, end: .monotonicNow() + call.left())
        let result = await connection.perform { () throws(EdgeSyncError) in try exchange.readAll() }
        wasSent = exchange.wasSent
        return try result.get()
    }

    /// - Parameter end: Time of the monotonic clock at which the exchange fails; `nil` if it may take any time.
    func open(_ connection: Connection, _ request: Request, end: Duration?) async throws(EdgeSyncError) -> Exchange {
        let exchange = try await connection.begin(request.with(fields), at: socketPath, end: end).get()
        connected.withLock { $0 = true }
        return exchange
    }

    func pause(_ time: Duration) async throws(EdgeSyncError) {
        guard time > .zero else { return }
        do { try await environment.sleep(time) } catch { throw .cancelled }
    }
}

/// The time of one call.
struct Call: Sendable {
    let deadline: Duration
    private let environment: Environment
    private var began: Duration

    init(_ deadline: Duration, _ environment: Environment) {
        self.deadline = deadline
        self.environment = environment
        began = environment.now()
    }

    var elapsed: Duration { environment.now() - began }

    /// - Throws: `deadlinePassed` if the time is over.
    func left() throws(EdgeSyncError) -> Duration {
        let left = deadline - elapsed
        guard left > .zero else { throw .deadlinePassed("there was no answer within \(deadline)") }
        return left
    }

    /// There was progress that the caller has seen: the time begins again.
    mutating func restart() { began = environment.now() }

    /// This time was spent on a wait that the caller has asked for, and does not count.
    mutating func exempt(_ time: Duration) { began += time }
}

/// Counts the tries of one call, and waits between them.
struct Tries {
    var call: Call
    private let request: Request
    private let session: Session
    private var failures = 0
    /// The error of the last try, since the last success.
    private var last: EdgeSyncError?

    init(_ call: Call, _ request: Request, _ session: Session) {
        self.call = call
        self.request = request
        self.session = session
    }

    /// There was progress: the next failure is the first one again.
    mutating func succeeded() {
        failures = 0
        last = nil
        call.restart()
    }

    /// Waits for the next try.
    ///
    /// - Throws: The error itself, if there is none.
    mutating func failed(_ error: EdgeSyncError, wasSent: Bool) async throws(EdgeSyncError) {
        failures += 1
        var error = RetryPolicy.cause(of: error, wasSent: wasSent, after: last)
        error.request = error.request ?? request.name
        last = error
        let failure = RetryPolicy.Failure(
            error: error, tries: failures, wasSent: wasSent, isRepeatable: request.isRepeatable,
            wasConnected: session.wasConnected, elapsed: call.elapsed, left: call.deadline - call.elapsed)
        guard let wait = session.policy.decide(failure, draw: session.environment.draw()) else { throw error }
        try await session.pause(wait)
    }
}
