/// When a program of the operator is run because nothing has answered over a link for long.
///
/// A modem that hangs looks like a place without coverage. Only a reset brings it back, and nobody is there to do it. What resets it
/// is the operator's to say (``LinkRule/recover``). The program is run while nothing at all answers: a portal, or a hub that refuses,
/// shows that the link works. (A hub that is down for everybody cannot be told from that; ``LinkRule/recoverEvery`` bounds what it
/// costs.) It is run for the uplink, else for the first link that its rule matches, else, when the interface itself is gone, for the
/// pattern.
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

    /// Since when nothing has answered; `nil`: something does.
    private var silentSince: Instant?
    /// By the patterns of the rules.
    private var ranAt: [String: Instant] = [:]
    /// The next moment at which a program is due, should nothing answer until then.
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
