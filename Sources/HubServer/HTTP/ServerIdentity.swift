import Logging
import NIOCore
import NIOSSL
import SyncCore
import Synchronization

/// What the hub shows in TLS, read anew when its files change: certificates are renewed every few weeks, and a hub that shows an ended
/// one is lost for its whole fleet.
///
/// Certificate and key are two files, and whoever renews them writes one after the other. Files that do not fit together change
/// nothing: the hub goes on with what it has, and looks again. Connections that stand keep what they were made with.
final class ServerIdentity: Sendable {
    /// What a look at the files brought.
    enum Look: Hashable, Sendable {
        case unchanged
        /// From now on this is shown; with the end of the first certificate of the chain to end.
        case renewed(endsAt: Timestamp)
        /// They changed, and cannot be used.
        case unusable(String)
    }

    /// Between two looks of its own accord.
    static let interval: Duration = .seconds(60)
    /// So long before its end a certificate that nobody has renewed is told, once a day.
    static let warningTime: Duration = .seconds(14 * 86_400)

    private struct State {
        var context: HubTLS.Context
        var contents: HubTLS.Contents
        /// The ones that could not be used, so that they are told once.
        var refused: HubTLS.Contents?
        var warnedAt: Timestamp?
    }

    private let files: HubTLS
    private let state: Mutex<State>

    /// - Throws: `.badCertificate` with the file that cannot be used.
    init(_ files: HubTLS) throws(HubError) {
        self.files = files
        let contents = try files.read()
        state = Mutex(State(context: try files.context(of: contents), contents: contents))
    }

    func handler() -> NIOSSLServerHandler { state.withLock { $0.context }.handler() }

    var endsAt: Timestamp { state.withLock { $0.context.endsAt } }

    func look() -> Look {
        do throws(HubError) {
            let contents = try files.read()
            let (isKnown, isRefused) = state.withLock { ($0.contents == contents, $0.refused == contents) }
            if isKnown || isRefused { return .unchanged }
            do throws(HubError) {
                let context = try files.context(of: contents)
                state.withLock { state in
                    (state.context, state.contents, state.refused, state.warnedAt) = (context, contents, nil, nil)
                }
                return .renewed(endsAt: context.endsAt)
            } catch {
                state.withLock { $0.refused = contents }
                throw error
            }
        } catch {
            return .unusable(error.description)
        }
    }

    /// Looks, and writes into the log what an operator has to know.
    func renew(at now: Timestamp, _ log: Logger) {
        switch look() {
        case .unchanged: break
        case .renewed(let end):
            log.notice("certificate renewed", metadata: ["file": "\(files.certificateFile)", "ends": "\(RFC3339.text(end))"])
        case .unusable(let detail):
            log.error("the new certificate cannot be used, the hub goes on with the one it has", metadata: ["error": "\(detail)"])
        }
        guard isWarningDue(at: now) else { return }
        let end = endsAt
        log.warning(
            end <= now ? "the certificate has ended: no device can reach this hub" : "the certificate ends soon",
            metadata: [
                "file": "\(files.certificateFile)", "ends": "\(RFC3339.text(end))",
                "hint": "renew \(files.certificateFile) and \(files.keyFile); the hub reads them again by itself",
            ])
    }

    private func isWarningDue(at now: Timestamp) -> Bool {
        state.withLock { state in
            guard now.duration(to: state.context.endsAt) <= Self.warningTime else { return false }
            // A clock that went back must not silence it for longer than a day either.
            if let last = state.warnedAt, last.duration(to: now).magnitude < .seconds(86_400) { return false }
            state.warnedAt = now
            return true
        }
    }
}

extension Duration {
    fileprivate var magnitude: Duration { self < .zero ? .zero - self : self }
}
