import CSyncLinux
import Glibc
import Synchronization

/// Finds the hub's addresses, for the route lookups of ``NetlinkMonitor``.
///
/// `getaddrinfo` blocks for as long as name servers are silent (half a minute and more) and cannot be interrupted, so it has
/// a thread of its own. Requests that come meanwhile are answered together, by one further question.
package final class HubResolver: Sendable {
    /// Route lookups for more addresses than that would say nothing new.
    package static let maxAddresses = 16

    /// Numeric addresses in the order in which they are to be tried; or why there are none, for people.
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
        // Nobody waits for this thread: it may be in the middle of a question. It ends after that.
        _ = try OwnThread(name: "resolver") { Self.run(host, mailbox) }
    }

    deinit {
        mailbox.post(.stop)
    }

    /// The host is an address already, and will never be another.
    package var isLiteral: Bool { NumericAddress(host) != nil }

    /// - Parameter onAnswer: Called once, on the resolver's thread; for a literal address at once, on the caller's. Not called
    ///   when the resolver is gone before the answer.
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
        let addresses = (0..<Int(count)).map { row in
            String(decoding: text[(row * size)..<((row + 1) * size)].prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
        return .success(addresses)
    }
}

/// Why a name has no address now. Asking again can help.
package struct HubResolverError: Error, Hashable, Sendable, CustomStringConvertible {
    package var host: String
    /// The system resolver's own words.
    package var detail: String

    package var description: String { "resolve \(host): \(detail)" }
}
