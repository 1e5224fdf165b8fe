import LocalAPI
package import SyncCore
import SyncYAML

/// The behaviour of a process without a usable configuration.
///
/// Under systemd the socket is open before the agent runs. An app that connects must get an answer: if no process accepts the connection,
/// systemd starts the agent again and again, until it gives the socket up permanently.
package struct ConfigurationStandby: Sendable {
    /// The problem that each app gets.
    package var problem: Problem
    /// `true` when the start counts as successful for the service manager.
    package var isStarted: Bool
    /// Time for which apps are answered before the process ends with 78; `nil`: until there is a configuration.
    package var patience: Duration?

    /// Time limit that is shorter than `TimeoutStartSec=`, and long enough that an app that asks all the time causes two starts a minute.
    package static let patience: Duration = .seconds(30)

    /// - Parameters:
    ///   - isActivated: The service manager has passed the socket.
    ///   - isAsked: An app has connected.
    ///   - config: The main file.
    /// - Returns: `nil` when there is no reason to wait. With a configuration the agent serves. Without one it ends with 78 at once, if no
    ///   app would be left without an answer.
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
