import Logging
import NIOCore
import NIOSSL
import SyncCore
import Synchronization

/// The hub's certificate, read again when its files change. Certificates are renewed every few weeks, and with an expired one the hub loses
/// its whole fleet.
///
/// Certificate and key are two files, and a renewal writes one after the other. Files that do not match change nothing: the hub keeps the
/// identity that it has, and reads them again later. Open connections keep the identity that they were made with.
final class ServerIdentity: Sendable {
    /// The result of reading the files.
    enum Look: Hashable, Sendable {
        case unchanged
        /// The new certificate is used from now on; `endsAt` is the earliest end in its chain.
        case renewed(endsAt: Timestamp)
        /// The files changed and cannot be used.
        case unusable(String)
    }

    /// Time between two periodic reads.
    static let interval: Duration = .seconds(60)
    /// Time before its end at which an unrenewed certificate is reported, once a day.
    static let warningTime: Duration = .seconds(14 * 86_400)

    private struct State {
        var context: HubTLS.Context
        var contents: HubTLS.Contents
        /// The contents that could not be used, so that they are reported once.
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

    /// Reads the files, and logs the result for the operator.
    func renew(at now: Timestamp, _ log: Logger) {
        switch look() {
        case .unchanged: break
        case .renewed(let end):
            log.notice("certificate renewed", metadata: ["file": "\(files.certificateFile)", "ends": "\(RFC3339.text(end))"])
        case .unusable(let detail):
            log.error("the new certificate cannot be used; the hub keeps the present one", metadata: ["error": "\(detail)"])
        }
        guard isWarningDue(at: now) else { return }
        let end = endsAt
        log.warning(
            end <= now ? "the certificate has expired: no device can reach this hub" : "the certificate expires soon",
            metadata: [
                "file": "\(files.certificateFile)", "ends": "\(RFC3339.text(end))",
                "hint": "renew \(files.certificateFile) and \(files.keyFile); the hub reads them again automatically",
            ])
    }

    private func isWarningDue(at now: Timestamp) -> Bool {
        state.withLock { state in
            guard now.duration(to: state.context.endsAt) <= Self.warningTime else { return false }
            // A clock that went back must not silence the warning for longer than a day either.
            if let last = state.warnedAt, last.duration(to: now).magnitude < .seconds(86_400) { return false }
            state.warnedAt = now
            return true
        }
    }
}

extension Duration {
    fileprivate var magnitude: Duration { self < .zero ? .zero - self : self }
}
