/// Decides when to run an operator's program because no server has answered over a link for long.
///
/// A modem that hangs looks like a place without coverage. Only a reset brings it back, and no person is there to do it. The operator
/// configures the program for that (``LinkRule/recover``). It is run while no server answers at all: a portal, or a hub that refuses, shows
/// that the link works. A general outage of the hub looks the same; ``LinkRule/recoverEvery`` limits the cost of that. The program is run
/// for the uplink, otherwise for the first link that its rule matches. If the interface itself is gone, it is run for the pattern.
package struct LinkRecovery: Sendable {
    package struct Run: Hashable, Sendable {
        /// Path of the program; its only argument is ``link``.
        package var program: String
        package var link: String

        package init(program: String, link: String) {
            self.program = program
            self.link = link
        }
    }

    /// Time since which no server has answered; `nil`: one does.
    private var silentSince: Instant?
    /// Times of the last runs, by the patterns of the rules.
    private var ranAt: [String: Instant] = [:]
    /// Next moment at which a program is due if no server answers until then.
    package private(set) var nextWake: Instant?

    package init() {}

    package mutating func look(
        _ reachability: Reachability, _ rules: [LinkRule], links: [String], uplink: String?, now: Instant
    ) -> [Run] {
        nextWake = nil
        switch reachability {
        case .online, .auth, .captive:
            silentSince = nil
            return []
        case .offline, .connecting, .degraded: break
        }
        let since = silentSince ?? now
        silentSince = since
        var runs: [Run] = []
        for rule in rules {
            guard let program = rule.recover else { continue }
            var due = since.advanced(by: rule.recoverAfter)
            if let last = ranAt[rule.match.text] { due = max(due, last.advanced(by: rule.recoverEvery)) }
            if due <= now {
                let own = links.filter { rules.rule(for: $0)?.match == rule.match }
                let link = own.first { $0 == uplink } ?? own.first ?? rule.match.text
                runs.append(Run(program: program, link: link))
                ranAt[rule.match.text] = now
                due = now.advanced(by: rule.recoverEvery)
            }
            nextWake = min(nextWake ?? due, due)
        }
        return runs
    }
}
