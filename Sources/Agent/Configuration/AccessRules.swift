package import LocalAPI
package import SyncCore

/// Access through the socket. The first rule that matches a peer decides; without a match there is no access.
package struct AccessRules: Hashable, Sendable {
    package var rules: [AccessRule]

    package init(_ rules: [AccessRule]) {
        self.rules = rules
    }

    /// The rules without a configuration: root and the agent's own user have full access, the group `agentd` (where it exists) may enqueue.
    package static func standard(_ accounts: Accounts) -> AccessRules {
        var rules = [AccessRule(.user(Account(name: "root", id: 0)), .admin)]
        if accounts.ownUser != 0 {
            rules.append(AccessRule(.user(Account(name: String(accounts.ownUser), id: accounts.ownUser)), .admin))
        }
        if let group = accounts.named(group: AgentConfiguration.Socket.defaultGroup) {
            rules.append(AccessRule(.group(group), .enqueue))
        }
        return AccessRules(rules)
    }

    /// The access of a peer, by the credentials that the kernel gave for its connection.
    ///
    /// The number 65534 stands for all users that our user namespace cannot map. As a user it is matched only by a rule that names this
    /// very user (which may grant no more than reading, unless the agent itself runs as this user); as a group it never matches.
    ///
    /// - Parameter groups: Supplementary groups (`SO_PEERGROUPS`).
    /// - Returns: `nil` when no rule matches.
    package func decide(uid: UInt32, gid: UInt32, groups: [UInt32]) -> Access? {
        let rule = rules.first { rule in
            switch rule.peer {
            case .user(let user): user.id == uid
            case .group(let group):
                uid != Account.unmapped && group.id != Account.unmapped
                    && (group.id == gid || groups.contains(group.id))
            }
        }
        return rule.map { Access($0, uid: uid) }
    }
}

package struct AccessRule: Hashable, Sendable {
    package enum Peer: Hashable, Sendable {
        case user(Account)
        case group(Account)
    }

    package var peer: Peer
    package var role: Role
    /// Allowed entities; `nil`: all.
    package var entities: Set<EntityName>?
    /// The most urgent priority that the peer may use.
    package var maxPriority: Priority = .critical
    /// Name of the app; `nil`: derived from the user, see ``Access/app``.
    package var app: AppName?
    package var requestsPerSecond = AccessRule.defaultRequestsPerSecond
    /// Largest number of open mutations of the app; `nil`: no separate limit.
    package var quotaMutations: Int?

    package static let defaultRequestsPerSecond = 200

    package init(_ peer: Peer, _ role: Role) {
        self.peer = peer
        self.role = role
    }
}

/// The access of one connected peer.
package struct Access: Hashable, Sendable {
    package var uid: UInt32
    package var role: Role
    /// The rule's `app`, or `uid:NUMBER`: two users never share keys, quotas and rates unless a rule says so.
    package var app: AppName
    package var entities: Set<EntityName>?
    package var maxPriority: Priority
    package var requestsPerSecond: Int
    package var quotaMutations: Int?

    init(_ rule: AccessRule, uid: UInt32) {
        self.uid = uid
        role = rule.role
        app = rule.app ?? AppName(trusted: "uid:\(uid)")
        entities = rule.entities
        maxPriority = rule.maxPriority
        requestsPerSecond = rule.requestsPerSecond
        quotaMutations = rule.quotaMutations
    }

    package func allows(_ role: Role) -> Bool { self.role >= role }

    package func allows(_ entity: EntityName) -> Bool { entities?.contains(entity) ?? true }

    package func allows(_ priority: Priority) -> Bool { priority >= maxPriority }

    package var requester: Requester { Requester(app: app, uid: uid, quotaMutations: quotaMutations) }
}
