package import SyncCore

/// Which of a server's addresses answer.
///
/// libcurl tries the addresses of a name one after the other, gives the first one half of the time, and knows nothing of it the next
/// time: one dead address of two costs seconds at each new connection, and of six the good one may never get its turn. Here an address
/// that was silent is left out for a while, for longer each time; and where several are known, none gets more than ``patience`` while
/// another has not been tried. Nothing is ever left out that might be all there is: a transfer to which all that was tried was silent
/// tries every address again, with all of its time (``CurlTransfer/triesEveryAddress``); where what was tried refuses, one of those that
/// were left out is tried with the next request (``giveTurn(of:now:)``).
package struct AddressBook {
    /// For an answer to the first packet, where there are other addresses. A satellite takes less than a second.
    package static let patience: Duration = .seconds(2)
    /// What ends sooner was no silence: it was refused, had no route, or nobody wanted it any more.
    package static let silence: Duration = .milliseconds(1_500)
    package static let turn: Duration = .seconds(60)
    package static let leftOutMin: Duration = .seconds(600)
    package static let leftOutMax: Duration = .seconds(2 * 3_600)
    /// Silent addresses, servers, and addresses of one of them; more are not remembered.
    package static let max = 64

    private struct Mark {
        var until: Instant
        var length: Duration
    }

    private struct Attempt {
        var server: String
        var address: String
        var since: Instant
        /// It may take as long as its transfer has.
        var isPatient = false
    }

    private var silent: [String: Mark] = [:]
    private var known: [String: Set<String>] = [:]
    private var attempts: [Int32: Attempt] = [:]
    private var turnAt: Instant?

    package init() {}

    /// Whether a connection to it is worth trying now.
    ///
    /// - Parameters:
    ///   - address: With its port, in any form that is always the same.
    ///   - server: The name that has this address among others.
    package mutating func allows(_ address: String, of server: String, now: Instant) -> Bool {
        if known[server] == nil, known.count >= Self.max { known.removeAll() }
        if (known[server]?.count ?? 0) < Self.max { known[server, default: []].insert(address) }
        guard known[server].map({ $0.count > 1 }) ?? false else { return true }
        return silent[address].map { $0.until <= now } ?? true
    }

    package mutating func began(_ socket: Int32, to address: String, of server: String, now: Instant) {
        attempts[socket] = Attempt(server: server, address: address, since: now)
    }

    /// The connection stands.
    package mutating func connected(_ socket: Int32) {
        if let attempt = attempts.removeValue(forKey: socket) { silent[attempt.address] = nil }
    }

    /// Its connection does not stand, and is closed or given up.
    package mutating func closed(_ socket: Int32, now: Instant) {
        guard let attempt = attempts.removeValue(forKey: socket), attempt.since.duration(to: now) >= Self.silence else { return }
        if silent[attempt.address] == nil, silent.count >= Self.max { silent.removeAll() }
        let length = silent[attempt.address].map { min(Self.leftOutMax, $0.length * 2) } ?? Self.leftOutMin
        silent[attempt.address] = Mark(until: now.advanced(by: length), length: length)
    }

    /// The one of a server's addresses that has been left out for longest is tried with the next request; one in ``turn``, because each
    /// may cost ``patience``.
    package mutating func giveTurn(of server: String, now: Instant) {
        guard turnAt.map({ $0.duration(to: now) >= Self.turn }) ?? true else { return }
        turnAt = now
        let out = (known[server] ?? []).filter { silent[$0].map { $0.until > now } ?? false }
        guard let next = out.min(by: { (silent[$0]?.until ?? now, $0) < (silent[$1]?.until ?? now, $1) }) else { return }
        silent[next]?.until = now
    }

    /// Connections to one address of several that have had their time.
    package func late(now: Instant) -> [Int32] { attempts.filter { limit($0.value).map { $0 <= now } ?? false }.map(\.key) }

    /// When the next of them is late; `nil`: none will be.
    package var nextLate: Instant? { attempts.values.compactMap(limit).min() }

    private func limit(_ attempt: Attempt) -> Instant? {
        !attempt.isPatient && (known[attempt.server]?.count ?? 0) > 1 ? attempt.since.advanced(by: Self.patience) : nil
    }

    /// This one may take as long as its transfer has.
    package mutating func wait(for socket: Int32) { attempts[socket]?.isPatient = true }

    /// Addresses that take up memory.
    package var remembered: Int { silent.count + attempts.count + known.values.reduce(0) { $0 + $1.count } }

    /// Another link: other addresses answer.
    package mutating func forget() { silent = [:] }
}
