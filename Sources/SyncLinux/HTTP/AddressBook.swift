package import SyncCore

/// Knows which of a server's addresses are silent.
///
/// libcurl tries the addresses of a name one after the other and gives the first one half of the time. It remembers nothing of the result.
/// One dead address of two costs seconds at each new connection, and among six the good one may never get its turn.
///
/// Here a silent address is left out for a while, and for longer after each further silence. Where several addresses are known, none gets
/// more than ``patience`` while another has not been tried.
///
/// The last chance is never left out. When every address that was tried stayed silent, the transfer tries all addresses again with all of
/// its time (``CurlTransfer/triesEveryAddress``). When an address that was tried refuses, the next request tries one of those that were
/// left out (``giveTurn(of:now:)``).
package struct AddressBook {
    /// Time for an answer to the first packet where there are other addresses. A satellite needs less than a second.
    package static let patience: Duration = .seconds(2)
    /// Shortest attempt that counts as silence. A shorter one was refused, had no route, or was cancelled.
    package static let silence: Duration = .milliseconds(1_500)
    package static let turn: Duration = .seconds(60)
    package static let leftOutMin: Duration = .seconds(600)
    package static let leftOutMax: Duration = .seconds(2 * 3_600)
    /// Limit for silent addresses, for servers, and for the addresses of one server; more are not remembered.
    package static let max = 64

    private struct Mark {
        var until: Instant
        var length: Duration
    }

    private struct Attempt {
        var server: String
        var address: String
        var since: Instant
        /// The attempt may take as long as its transfer has.
        var isPatient = false
    }

    private var silent: [String: Mark] = [:]
    private var known: [String: Set<String>] = [:]
    private var attempts: [Int32: Attempt] = [:]
    private var turnAt: Instant?

    package init() {}

    /// Returns whether a connection to the address is worth trying now.
    ///
    /// - Parameters:
    ///   - address: The address with its port, always in the same form.
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

    /// Records that the connection is established.
    package mutating func connected(_ socket: Int32) {
        if let attempt = attempts.removeValue(forKey: socket) { silent[attempt.address] = nil }
    }

    /// Records that an attempt ended without a connection.
    package mutating func closed(_ socket: Int32, now: Instant) {
        guard let attempt = attempts.removeValue(forKey: socket), attempt.since.duration(to: now) >= Self.silence else { return }
        if silent[attempt.address] == nil, silent.count >= Self.max { silent.removeAll() }
        let length = silent[attempt.address].map { min(Self.leftOutMax, $0.length * 2) } ?? Self.leftOutMin
        silent[attempt.address] = Mark(until: now.advanced(by: length), length: length)
    }

    /// Lets the next request try the address of the server that has been left out for longest. It does so once per ``turn``, because each
    /// attempt may cost ``patience``.
    package mutating func giveTurn(of server: String, now: Instant) {
        guard turnAt.map({ $0.duration(to: now) >= Self.turn }) ?? true else { return }
        turnAt = now
        let out = (known[server] ?? []).filter { silent[$0].map { $0.until > now } ?? false }
        guard let next = out.min(by: { (silent[$0]?.until ?? now, $0) < (silent[$1]?.until ?? now, $1) }) else { return }
        silent[next]?.until = now
    }

    /// Sockets of attempts whose time is over, where the server has further addresses.
    package func late(now: Instant) -> [Int32] { attempts.filter { limit($0.value).map { $0 <= now } ?? false }.map(\.key) }

    /// Time at which the next attempt is late; `nil` when none will be.
    package var nextLate: Instant? { attempts.values.compactMap(limit).min() }

    private func limit(_ attempt: Attempt) -> Instant? {
        !attempt.isPatient && (known[attempt.server]?.count ?? 0) > 1 ? attempt.since.advanced(by: Self.patience) : nil
    }

    /// Lets this attempt take as long as its transfer has.
    package mutating func wait(for socket: Int32) { attempts[socket]?.isPatient = true }

    /// Number of entries that take up memory.
    package var remembered: Int { silent.count + attempts.count + known.values.reduce(0) { $0 + $1.count } }

    /// Forgets the silent addresses, because other addresses may answer over another link.
    package mutating func forget() { silent = [:] }
}
