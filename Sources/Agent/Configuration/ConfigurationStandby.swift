import LocalAPI
package import SyncCore
import SyncYAML

/// What a process does that has no configuration to serve with.
///
/// Under systemd the socket is open before the agent runs. An app that asks there must get an answer: what nobody takes from the socket
/// has systemd start the agent again and again, until it gives the socket up for good.
package struct ConfigurationStandby: Sendable {
    /// What each app is told.
    package var problem: Problem
    /// Whether the start has succeeded, as far as the service manager is concerned.
    package var isStarted: Bool
    /// How long apps are answered before the process ends with 78; `nil`: until there is a configuration.
    package var patience: Duration?

    /// Below `TimeoutStartSec=`, and long enough that an app that asks all the time causes two starts a minute.
    package static let patience: Duration = .seconds(30)

    /// - Parameters:
    ///   - isActivated: The service manager has handed over the socket.
    ///   - isAsked: An app waits there.
    ///   - config: The main file.
    /// - Returns: `nil` when there is nothing to wait for: with a configuration the agent serves, and without one it ends with 78 at
    ///   once where nobody would be left without an answer.
    package init?(_ start: ConfigurationStart, isActivated: Bool, isAsked: Bool, config: String) {
        guard isActivated else { return nil }
        switch start {
        case .loaded, .lastGood: return nil
        case .unconfigured:
            problem = LocalProblem.notConfigured.problem(
                "agentd is not configured yet: set hub.url in \(config) (or, as root: agentctl join URL TOKEN)")
            isStarted = true
            patience = nil
        case .refused(let errors):
            guard isAsked else { return nil }
            let more = errors.errors.count > 1 ? " (and \(errors.errors.count - 1) more)" : ""
            problem = LocalProblem.notConfigured.problem("the configuration is not accepted: \(errors.errors[0])\(more)")
            isStarted = false
            patience = Self.patience
        }
    }
}
