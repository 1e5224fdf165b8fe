import LocalAPI
import Logging
import SyncCore
import SyncStore

/// The attempts to let the store work by the rules of the configuration. A later attempt replaces those before it, so that after failures
/// only one is repeated, whatever asked for them.
package struct RulesAttempts: Sendable {
    private var newest = 0

    package init() {}

    /// - Returns: Number of the attempt that begins.
    package mutating func begin() -> Int {
        newest += 1
        return newest
    }

    /// Returns whether no later attempt has begun.
    package func isNewest(_ attempt: Int) -> Bool { attempt == newest }
}

extension Agent {
    /// Converts what is stored under other versions of the schemas. It is queued before whatever the engine asks of the store from now on.
    func useRules(_ rules: RuleBook) {
        let attempt = rulesAttempts.begin()
        let server = offers.inForce?.text
        fromStore { store, now throws(StoreError) in
            try store.use(rules, keeping: server, at: now)
        } then: { agent, result in
            // A later attempt has its own result.
            guard agent.rulesAttempts.isNewest(attempt) else { return }
            guard case .failure(let error) = result else {
                agent.alarms.end(.schemaPending)
                return
            }
            agent.log.error("the documents were not converted", metadata: ["error": "\(error)"])
            agent.raise(
                .schemaPending,
                "the documents on this device do not have the version of their schema that the configuration asks for: \(error). The "
                    + "agent tries again to convert them")
            // A command of the engine may have converted them by then; this one ends the alarm.
            agent.schedule(after: agent.environment.diskRetryAfter) { agent in
                if agent.rulesAttempts.isNewest(attempt) { agent.useRules(agent.loaded.configuration.rules) }
            }
        }
    }
}
