import LocalAPI
import SyncCore
import SyncYAML

extension AccessRules {
    static func format(_ accounts: Accounts) -> Format<AccessRules> {
        Format.list(rule(accounts)).mapped(
            { rules, node, reading in
                if rules.isEmpty {
                    reading.refuse(node, expected: "at least one rule, or no key access for the default rules")
                    return nil
                }
                return AccessRules(rules)
            }, back: \.rules)
    }

    /// With `strict_entities`, a rule for an unknown entity is a typo that would lock an app out.
    func checkEntities(_ book: RuleBook, _ root: YAMLNode, _ reading: inout Reading) {
        guard book.isStrict, case .sequence(let nodes)? = root["access"]?.content else { return }
        for (index, rule) in rules.enumerated() {
            let unknown = (rule.entities ?? []).filter { book[$0] == nil }.sorted()
            for entity in unknown {
                let place = index < nodes.count ? nodes[index].deepest(["entities"]).position : root.position
                reading.report(
                    place, below: "access[\(index)].entities", problem: "names \(entity)",
                    expected: "configured entities, because strict_entities is true")
            }
        }
    }

    /// The keys as written; they become a rule when they fit together.
    private struct Written: Sendable {
        var user: Account?
        var group: Account?
        var role: Role?
        var entities: [EntityName]?
        var maxPriority = Priority.critical
        var app: AppName?
        var requestsPerSecond = AccessRule.defaultRequestsPerSecond
        var quotaMutations: Int?

        var rule: AccessRule? {
            guard let role, let peer = user.map(AccessRule.Peer.user) ?? group.map(AccessRule.Peer.group) else {
                return nil
            }
            var rule = AccessRule(peer, role)
            rule.entities = entities.map(Set.init)
            rule.maxPriority = maxPriority
            rule.app = app
            rule.requestsPerSecond = requestsPerSecond
            rule.quotaMutations = quotaMutations
            return rule
        }

        init() {}

        init(_ rule: AccessRule) {
            switch rule.peer {
            case .user(let account): user = account
            case .group(let account): group = account
            }
            role = rule.role
            entities = rule.entities?.sorted()
            maxPriority = rule.maxPriority
            app = rule.app
            requestsPerSecond = rule.requestsPerSecond
            quotaMutations = rule.quotaMutations
        }
    }

    private static func rule(_ accounts: Accounts) -> Format<AccessRule> {
        let keys: [MappingKey<Written>] = [
            .optional("user", \.user, .user(accounts)),
            .optional("group", \.group, .group(accounts)),
            .optional("role", \.role, .word),
            .optional("entities", \.entities, .list(.identifier())),
            .key("max_priority", \.maxPriority, .priority),
            .optional("app", \.app, .identifier()),
            .key("rate", \.requestsPerSecond, .integer(1...100_000)),
            .optional("quota_mutations", \.quotaMutations, .integer(1...10_000_000)),
        ]
        let ownUser = accounts.ownUser
        return Format.mapping(Written(), keys, check: { check($0, ownUser, $1, &$2) }).mapped(
            { written, _, _ in written.rule }, back: { Written($0) })
    }

    private static func check(_ written: Written, _ ownUser: UInt32, _ node: YAMLNode, _ reading: inout Reading) {
        switch (written.user, written.group) {
        case (nil, nil): reading.report(node.position, problem: "names no user and no group", expected: "user or group")
        case (_?, _?): reading.report(node.position, problem: "has user and group", expected: "one of them")
        case (let user?, nil):
            // The number stands for all users that the kernel cannot tell apart here. An agent that runs as this user is the exception: it
            // has full access without any rule (`AccessRules.standard`), and its kept copy must say so.
            if user.id == Account.unmapped, user.id != ownUser, let role = written.role, role > .read {
                let place = node.deepest(["role"]).position
                reading.report(place, below: "role", problem: "is too much for user \(user.id)", expected: "read")
            }
        case (nil, let group?):
            if group.id == Account.unmapped {
                let place = node.deepest(["group"]).position
                reading.report(
                    place, below: "group", problem: "is the group \(group.id), which stands for every unknown group",
                    expected: "another group")
            }
        }
        if written.role == nil {
            reading.report(
                node.position, below: "role", problem: "is missing", expected: Format<Role>.word.expected)
        }
        if written.entities?.isEmpty == true {
            let place = node.deepest(["entities"]).position
            reading.report(
                place, below: "entities", problem: "is empty", expected: "at least one entity, or no key entities for all of them")
        }
    }
}

extension Format where Value == Account {
    static func user(_ accounts: Accounts) -> Format {
        .text(
            expected: "a user of this machine, by name or number", parse: { accounts.named(user: $0) },
            write: { .string($0.name) })
    }

    static func group(_ accounts: Accounts) -> Format {
        .text(
            expected: "a group of this machine, by name or number", parse: { accounts.named(group: $0) },
            write: { .string($0.name) })
    }
}
