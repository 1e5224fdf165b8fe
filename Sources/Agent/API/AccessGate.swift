import LocalAPI
import SyncCore
import SyncHTTP

/// Admits requests by the access rules, and limits their rate by one token bucket for each app.
struct AccessGate {
    private(set) var rules: AccessRules
    private var buckets: [AppName: TokenBucket] = [:]
    /// Largest number of buckets, more than the apps of any gateway; a flood of user ids must not grow this without limit.
    private static let bucketsMax = 1_000

    init(rules: AccessRules) {
        self.rules = rules
    }

    mutating func use(_ rules: AccessRules) {
        self.rules = rules
        buckets.removeAll()
    }

    /// - Throws: 403 `forbidden` when no rule matches or the role is too low, 429 `rate` with the delay in seconds.
    mutating func admit(_ peer: HTTPPeer, to route: Route, now: Instant) throws(Problem) -> Access? {
        guard let role = route.role else { return nil }
        guard case .local(let local) = peer, let access = rules.decide(uid: local.uid, gid: local.gid, groups: local.groups)
        else { throw LocalProblem.forbidden.problem("no access rule matches this user") }
        guard access.allows(role) else {
            throw LocalProblem.forbidden.problem("this needs the role \(role.rawValue); this user has \(access.role.rawValue)")
        }
        if let wait = takeToken(of: access, now: now) {
            let seconds = Int(max(1, wait.components.seconds + 1))
            throw LocalProblem.rate.problem(
                "more than \(access.requestsPerSecond) requests a second from \(access.app)", retryAfter: seconds)
        }
        return access
    }

    private mutating func takeToken(of access: Access, now: Instant) -> Duration? {
        if buckets[access.app]?.rate != access.requestsPerSecond {
            if buckets.count >= Self.bucketsMax { buckets.removeAll() }
            buckets[access.app] = TokenBucket(rate: access.requestsPerSecond, now: now)
        }
        return buckets[access.app]?.take(now: now)
    }
}
