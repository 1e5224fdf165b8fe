import NIOCore
import Synchronization

/// All connections of a server, counted against the limits. Used from the loops of all of them.
final class ConnectionRegistry: Sendable {
    private struct State {
        var connections: [ObjectIdentifier: HTTPConnection] = [:]
        var admitted = 0
        var byUser: [UInt32: Int] = [:]
        var byAddress: [String: Int] = [:]
        var isStopping = false
        var whenEmpty: [EventLoopPromise<Void>] = []
    }

    private let state = Mutex(State())
    private let limits: HTTPServerLimits

    init(limits: HTTPServerLimits) {
        self.limits = limits
    }

    /// Connections that were admitted and are open.
    var count: Int { state.withLock { $0.admitted } }

    /// Finds a place for a connection of `peer`.
    ///
    /// - Parameter make: Makes the connection; with a problem if it is one too many, gets this answer and is closed.
    /// - Returns: `nil` to drop it without a word, because as many are being refused already, or the server stops.
    func admit(_ peer: HTTPPeer, make: (HTTPProblem?) -> HTTPConnection) -> HTTPConnection? {
        state.withLock { state in
            guard !state.isStopping else { return nil }
            let refusal = excess(of: peer, state)
            // A refused connection costs a descriptor, too, until its answer is sent: as many as there are places, no
            // more.
            if refusal != nil, state.connections.count - state.admitted >= limits.connections { return nil }
            let connection = make(refusal)
            state.connections[ObjectIdentifier(connection)] = connection
            if refusal == nil { Self.count(peer, by: 1, &state) }
            return connection
        }
    }

    /// Gives the place back. A second call does nothing.
    func remove(_ connection: HTTPConnection) {
        let waiting: [EventLoopPromise<Void>] = state.withLock { state in
            guard state.connections.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return [] }
            if connection.refusal == nil { Self.count(connection.peer, by: -1, &state) }
            return Self.takeWaiting(&state)
        }
        for promise in waiting { promise.succeed() }
    }

    /// From now on nobody is admitted.
    ///
    /// - Parameter whenEmpty: Succeeds when the last connection is gone.
    func stop(whenEmpty: EventLoopPromise<Void>) -> [HTTPConnection] {
        let (connections, waiting) = state.withLock { state in
            state.isStopping = true
            state.whenEmpty.append(whenEmpty)
            return (Array(state.connections.values), Self.takeWaiting(&state))
        }
        for promise in waiting { promise.succeed() }
        return connections
    }

    var all: [HTTPConnection] { state.withLock { Array($0.connections.values) } }

    private func excess(of peer: HTTPPeer, _ state: State) -> HTTPProblem? {
        guard state.admitted < limits.connections else { return .busy("too many connections are open") }
        switch peer {
        case .local(let local):
            guard state.byUser[local.uid, default: 0] >= limits.connectionsPerUser else { return nil }
            return .busy("too many connections of this user are open")
        case .remote(let address, _, _):
            let count = state.byAddress[address, default: 0]
            guard let most = limits.connectionsPerAddress, count >= most else { return nil }
            return .busy("too many connections from this address are open")
        case .unknown:
            return nil
        }
    }

    private static func count(_ peer: HTTPPeer, by change: Int, _ state: inout State) {
        state.admitted += change
        switch peer {
        case .local(let local):
            let count = state.byUser[local.uid, default: 0] + change
            state.byUser[local.uid] = count == 0 ? nil : count
        case .remote(let address, _, _):
            let count = state.byAddress[address, default: 0] + change
            state.byAddress[address] = count == 0 ? nil : count
        case .unknown:
            break
        }
    }

    private static func takeWaiting(_ state: inout State) -> [EventLoopPromise<Void>] {
        guard state.connections.isEmpty, state.isStopping else { return [] }
        defer { state.whenEmpty = [] }
        return state.whenEmpty
    }
}

extension HTTPProblem {
    fileprivate static func busy(_ why: String) -> HTTPProblem {
        HTTPProblem(.busy, status: 503, "No place for this connection: \(why).", headers: [("Retry-After", "1")])
    }
}
