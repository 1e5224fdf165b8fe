import NIOCore
import Synchronization

/// All connections of a server, counted against the limits. Used from the loops of all of them.
///
/// **TCP.** A connection begins as a stranger's, and becomes known when the handler has authenticated its client
/// (``HTTPAdmission/known(_:)``). Strangers have a limit in total and one by address, and no part of the rest. When a limit is reached, the
/// new connection is admitted and another one is closed in its place, in this order:
///
/// 1. Over the limit of an address: the stranger of that address that has waited longest for its client.
/// 2. Over the limit of strangers, or over that of all connections: the same among the strangers of the address with the most of them. An
///   address with one connection is the last to lose it.
/// 3. Over the limit of all connections without any stranger: the known connection that has been idle longest between two requests. A
///   client repeats a request that meets a closed connection on a new one.
/// 4. If all of them have a request in progress, the new one is answered 503.
///
/// A silent connection therefore holds no place for good, and a client that opens many connections closes its own first.
///
/// **Unix sockets.** All peers are known, nothing is closed; one connection too many is answered 503. Some places are kept for users that
/// have fewer than two connections, and some for root.
final class ConnectionRegistry: Sendable {
    private enum Standing {
        case known
        case stranger
        /// Gets an answer that there is no place.
        case refused
        /// Closed for another connection; it holds no place any more.
        case leaving
    }

    private struct Entry {
        let connection: HTTPConnection
        let group: PeerGroup
        var standing: Standing
        /// The client has begun a handshake, and has not shown a credential yet.
        var owesHandshake = false
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var known = 0
        var strangers = 0
        var refused = 0
        var byUser: [PeerGroup: Int] = [:]
        var strangersByGroup: [PeerGroup: Int] = [:]
        var counts = HTTPServerCounts()
        var handshakes: HandshakeLimit?
        var isStopping = false
        var whenEmpty: [EventLoopPromise<Void>] = []

        var admitted: Int { known + strangers }
    }

    private let state = Mutex(State())
    private let limits: HTTPServerLimits
    private let closedForRoom: @Sendable (HTTPPeer) -> Void

    init(limits: HTTPServerLimits, closedForRoom: @escaping @Sendable (HTTPPeer) -> Void) {
        self.limits = limits
        self.closedForRoom = closedForRoom
        state.withLock { $0.handshakes = limits.handshakesPerAddress.map { HandshakeLimit($0) } }
    }

    /// Connections that were admitted and are open.
    var count: Int { state.withLock { $0.admitted } }

    var counts: HTTPServerCounts {
        state.withLock { state in
            var counts = state.counts
            counts.known = state.known
            counts.strangers = state.strangers
            return counts
        }
    }

    /// Finds a place for a connection of `peer`.
    ///
    /// - Parameter make: Creates the connection; with a problem, it gets this answer and is closed.
    /// - Returns: `nil` to drop it without an answer, because too many are being refused already, or the server stops.
    func admit(_ peer: HTTPPeer, make: (HTTPProblem?) -> HTTPConnection) -> HTTPConnection? {
        let group = PeerGroup(peer)
        let (connection, victims): (HTTPConnection?, [HTTPConnection]) = state.withLock { state in
            guard !state.isStopping else { return (nil, []) }
            state.counts.accepted += 1
            var victims: [HTTPConnection] = []
            let isRemote = if case .remote = peer { true } else { false }
            let refusal = isRemote ? makeRoom(in: group, &state, &victims) : excess(of: group, state)
            if refusal != nil {
                state.counts.refused += 1
                // A refused connection also costs a descriptor until its answer is sent.
                if state.refused >= limits.refusals { return (nil, victims) }
            }
            let connection = make(refusal)
            let standing: Standing = refusal != nil ? .refused : isRemote ? .stranger : .known
            state.entries[ObjectIdentifier(connection)] = Entry(connection: connection, group: group, standing: standing)
            Self.count(group, standing, by: 1, &state)
            return (connection, victims)
        }
        // Done without the lock: a connection of this loop closes at once, and reports that here.
        for victim in victims {
            victim.onLoop { [closedForRoom] victim in
                closedForRoom(victim.peer)
                victim.cut()
            }
        }
        return connection
    }

    /// Releases the place. A second call does nothing.
    func remove(_ connection: HTTPConnection) {
        let waiting: [EventLoopPromise<Void>] = state.withLock { state in
            guard let entry = state.entries.removeValue(forKey: ObjectIdentifier(connection)) else { return [] }
            Self.count(entry.group, entry.standing, by: -1, &state)
            return Self.takeWaiting(&state)
        }
        for promise in waiting { promise.succeed() }
    }

    /// The client of a TCP connection was authenticated, or is unknown again.
    func mark(_ connection: HTTPConnection, isKnown: Bool) {
        state.withLock { state in
            guard let entry = state.entries[ObjectIdentifier(connection)] else { return }
            let wanted: Standing = isKnown ? .known : .stranger
            if isKnown, entry.owesHandshake {
                state.entries[ObjectIdentifier(connection)]?.owesHandshake = false
                state.handshakes?.giveBack(entry.group)
            }
            switch (entry.standing, wanted) {
            case (.known, .stranger), (.stranger, .known):
                Self.count(entry.group, entry.standing, by: -1, &state)
                Self.count(entry.group, wanted, by: 1, &state)
                state.entries[ObjectIdentifier(connection)]?.standing = wanted
            default: break
            }
        }
    }

    /// Counts the first byte of a connection over TLS.
    ///
    /// - Returns: `false` when its address has begun too many handshakes; the connection is then closed.
    func beginHandshake(_ connection: HTTPConnection, at now: NIODeadline) -> Bool {
        state.withLock { state in
            guard let entry = state.entries[ObjectIdentifier(connection)], state.handshakes != nil else { return true }
            guard state.handshakes?.begin(entry.group, at: now) != false else {
                state.counts.refusedHandshakes += 1
                return false
            }
            state.entries[ObjectIdentifier(connection)]?.owesHandshake = true
            return true
        }
    }

    /// Admits no further connection from now on.
    ///
    /// - Parameter whenEmpty: Succeeds when the last connection is closed.
    func stop(whenEmpty: EventLoopPromise<Void>) -> [HTTPConnection] {
        let (connections, waiting) = state.withLock { state in
            state.isStopping = true
            state.whenEmpty.append(whenEmpty)
            return (state.entries.values.map(\.connection), Self.takeWaiting(&state))
        }
        for promise in waiting { promise.succeed() }
        return connections
    }

    var all: [HTTPConnection] { state.withLock { $0.entries.values.map(\.connection) } }

    // MARK: Unix sockets

    private func excess(of group: PeerGroup, _ state: State) -> HTTPProblem? {
        let own = state.byUser[group, default: 0]
        guard own < limits.connectionsPerUser else { return .busy("too many connections of this user are open") }
        let places = limits.localPlaces(own: own, isRoot: group == .user(0))
        return state.admitted < places ? nil : .busy("too many connections are open")
    }

    // MARK: TCP

    /// Makes room for one more stranger of `group`.
    private func makeRoom(in group: PeerGroup, _ state: inout State, _ victims: inout [HTTPConnection]) -> HTTPProblem? {
        if let most = limits.strangersPerAddress, state.strangersByGroup[group, default: 0] >= most {
            guard close(&state, &victims, among: { $0.standing == .stranger && $0.group == group }) else {
                return .busy("too many connections from this address are open")
            }
        } else if let most = limits.strangers, state.strangers >= most {
            guard closeStranger(&state, &victims) else { return .busy("too many connections of unknown callers are open") }
        }
        guard state.admitted >= limits.connections else { return nil }
        if closeStranger(&state, &victims) { return nil }
        let isClosed = close(&state, &victims) { $0.standing == .known && $0.connection.waiting.isIdle }
        return isClosed ? nil : .busy("too many connections are open")
    }

    private func closeStranger(_ state: inout State, _ victims: inout [HTTPConnection]) -> Bool {
        guard let most = state.strangersByGroup.max(by: { $0.value < $1.value })?.key else { return false }
        return close(&state, &victims) { $0.standing == .stranger && $0.group == most }
    }

    /// Closes the connection that has waited longest; those with a request in progress come last.
    private func close(
        _ state: inout State, _ victims: inout [HTTPConnection], among isCandidate: (Entry) -> Bool
    ) -> Bool {
        var longest: (id: ObjectIdentifier, waiting: WaitingState)?
        for (id, entry) in state.entries where isCandidate(entry) {
            let waiting = entry.connection.waiting
            if longest.map({ waiting < $0.waiting }) ?? true { longest = (id, waiting) }
        }
        guard let victim = longest?.id, let entry = state.entries[victim] else { return false }
        Self.count(entry.group, entry.standing, by: -1, &state)
        if entry.standing == .known { state.counts.closedIdle += 1 } else { state.counts.closedStrangers += 1 }
        state.entries[victim]?.standing = .leaving
        victims.append(entry.connection)
        return true
    }

    // MARK: Counting

    private static func count(_ group: PeerGroup, _ standing: Standing, by change: Int, _ state: inout State) {
        func add(_ counts: inout [PeerGroup: Int]) {
            let count = counts[group, default: 0] + change
            counts[group] = count == 0 ? nil : count
        }
        switch standing {
        case .known:
            state.known += change
            if case .user = group { add(&state.byUser) }
        case .stranger:
            state.strangers += change
            add(&state.strangersByGroup)
        case .refused: state.refused += change
        case .leaving: break
        }
    }

    private static func takeWaiting(_ state: inout State) -> [EventLoopPromise<Void>] {
        guard state.entries.isEmpty, state.isStopping else { return [] }
        defer { state.whenEmpty = [] }
        return state.whenEmpty
    }
}

/// The activity of a connection, as the registry sees it from other threads.
struct WaitingState: Comparable, Sendable {
    /// In the order in which connections are given up.
    enum Kind: UInt64 {
        /// Between two requests, before the first one, or while an answer stands by (``HTTPExchange/standBy()``).
        case idle = 0
        /// Within an incomplete request, or discarding unwanted bytes.
        case receiving = 1
        /// A request is being answered.
        case busy = 2
    }

    let rawValue: UInt64

    init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// - Parameter since: Time of the last received byte or sent answer.
    init(_ kind: Kind, since: NIODeadline) {
        // 2^61 ns are 73 years of uptime.
        rawValue = kind.rawValue << 62 | since.uptimeNanoseconds & (1 << 62 - 1)
    }

    var isIdle: Bool { rawValue >> 62 == Kind.idle.rawValue }

    static func < (one: WaitingState, other: WaitingState) -> Bool {
        // Idle and receiving count the same: an occasional byte gives no advantage.
        let (isBusy, otherIsBusy) = (one.rawValue >> 62 == Kind.busy.rawValue, other.rawValue >> 62 == Kind.busy.rawValue)
        guard isBusy == otherIsBusy else { return otherIsBusy }
        return one.rawValue & (1 << 62 - 1) < other.rawValue & (1 << 62 - 1)
    }
}

/// Connections of a server, for status and metrics.
package struct HTTPServerCounts: Sendable, Hashable {
    /// Open connections of authenticated callers.
    package var known = 0
    /// Other open connections.
    package var strangers = 0
    /// Since the start: all connections that the kernel passed on, whatever happened to them.
    package var accepted: Int64 = 0
    /// Since the start: strangers' connections that were closed to make room.
    package var closedStrangers: Int64 = 0
    /// Since the start: known connections that were closed to make room, while idle between two requests.
    package var closedIdle: Int64 = 0
    /// Since the start: connections that were answered 503, or dropped, because there was no place.
    package var refused: Int64 = 0
    /// Since the start: connections that were closed with their first byte, because their address had begun too many TLS handshakes.
    package var refusedHandshakes: Int64 = 0
}

extension HTTPProblem {
    fileprivate static func busy(_ why: String) -> HTTPProblem {
        HTTPProblem(.busy, status: 503, "No place for this connection: \(why).", headers: [("Retry-After", "1")])
    }
}
