import CSyncLinux
import Glibc
import SyncThreads
import Synchronization

/// Finds the hub's addresses, for the route lookups of ``NetlinkMonitor``.
///
/// `getaddrinfo` blocks for as long as name servers are silent (half a minute and more) and cannot be interrupted, so it runs on a separate
/// thread. Requests that come meanwhile are answered together, by one further query.
package final class HubResolver: Sendable {
    /// Limit of addresses; route lookups for more would show nothing new.
    package static let maxAddresses = 16

    /// Numeric addresses in the order in which to try them, or the reason why there are none, as text for people.
    package typealias Answer = Result<[String], HubResolverError>

    private enum Command: Sendable {
        case resolve(@Sendable (Answer) -> Void)
        case stop
    }

    private let host: String
    private let mailbox: Mailbox<Command>

    /// - Parameter host: A name, or an address without brackets.
    package init(host: String) throws(LinuxError) {
        self.host = host
        let mailbox = try Mailbox<Command>()
        self.mailbox = mailbox
        guard NumericAddress(host) == nil else { return }
        // No other thread joins this one: it may be in the middle of a query, and ends after it.
        _ = try OwnThread.start("resolver") { Self.run(host, mailbox) }
    }

    deinit {
        mailbox.post(.stop)
    }

    /// `true` when the host is an address already and so never changes.
    package var isLiteral: Bool { NumericAddress(host) != nil }

    /// - Parameter onAnswer: Called once, on the resolver's thread; for a literal address at once, on the caller's. It is not called when
    ///   the resolver is gone before the answer.
    package func resolve(_ onAnswer: @escaping @Sendable (Answer) -> Void) {
        if let literal = NumericAddress(host) {
            onAnswer(.success([literal.text]))
        } else {
            mailbox.post(.resolve(onAnswer))
        }
    }

    private static func run(_ host: String, _ mailbox: Mailbox<Command>) {
        while true {
            _ = csl_wait_readable(mailbox.descriptor, -1, -1)
            var waiting: [@Sendable (Answer) -> Void] = []
            for command in mailbox.take() {
                switch command {
                case .resolve(let onAnswer): waiting.append(onAnswer)
                case .stop: return
                }
            }
            guard !waiting.isEmpty else { continue }
            let answer = ask(host)
            for onAnswer in waiting { onAnswer(answer) }
        }
    }

    private static func ask(_ host: String) -> Answer {
        let size = Int(INET6_ADDRSTRLEN)
        var text = [CChar](repeating: 0, count: maxAddresses * size)
        let count = csl_resolve(host, &text, Int32(maxAddresses))
        guard count >= 0 else {
            return .failure(HubResolverError(host: host, detail: String(cString: csl_resolve_error_text(count))))
        }
        let rows = (0..<Int(count)).map { text[($0 * size)..<(($0 + 1) * size)].prefix { $0 != 0 } }
        return .success(rows.map { String(decoding: $0.map(UInt8.init(bitPattern:)), as: UTF8.self) })
    }
}

/// The reason why a name has no address now. A retry can help.
package struct HubResolverError: Error, Hashable, Sendable, CustomStringConvertible {
    package var host: String
    /// Message of the system resolver.
    package var detail: String

    package var description: String { "resolve \(host): \(detail)" }
}
