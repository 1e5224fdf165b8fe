import Agent
import LocalAPI
import SyncCore
import SyncYAML
import Testing

struct ConfigurationAccessTests {
    struct Peer: Sendable {
        var uid: UInt32
        var gid: UInt32
        var groups: [UInt32] = []
        /// Role and app of the caller; `nil` when it has no access.
        var access: String?
    }

    @Test(
        "Without rules root and the agent itself are admin, the group agentd enqueues, and others have no access",
        arguments: [
            Peer(uid: 0, gid: 0, access: "admin uid:0"),
            Peer(uid: 991, gid: 991, access: "admin uid:991"),
            Peer(uid: 1_001, gid: 900, access: "enqueue uid:1001"),
            Peer(uid: 1_001, gid: 100, groups: [27, 900], access: "enqueue uid:1001"),
            Peer(uid: 1_001, gid: 100, groups: [27], access: nil),
            Peer(uid: 65_534, gid: 900, groups: [900], access: nil),
            Peer(uid: 65_534, gid: 65_534, access: nil),
            Peer(uid: .max, gid: .max, access: nil),
        ])
    func standard(_ peer: Peer) {
        let rules = AccessRules.standard(ConfigurationFixtures.accounts)
        #expect(
            rules.decide(uid: peer.uid, gid: peer.gid, groups: peer.groups).map { "\($0.role) \($0.app)" }
                == peer.access)
    }

    @Test("Where the group agentd does not exist it opens nothing, and root as the agent's user is one rule")
    func otherMachines() {
        let bare = Accounts(ownUser: 0, user: { _ in nil }, group: { _ in nil })
        #expect(AccessRules.standard(bare).rules == [AccessRule(.user(Account(name: "root", id: 0)), .admin)])
    }

    @Test("An agent that runs as the user 65534 may repeat its default rule; every other agent may let this user only read")
    func nobody() throws {
        func role(ownUser: UInt32) throws -> Role? {
            let accounts = Accounts(ownUser: ownUser, user: { ["nobody": 65_534][$0] }, group: { _ in nil })
            let text = "hub: { url: https://h }\naccess: [{ user: nobody, role: admin }]\n"
            let loaded = try ConfigurationLoader.read([ConfigurationFile(name: "agentd.yaml", text: text)], accounts: accounts)
            return loaded.configuration.access.decide(uid: 65_534, gid: 1, groups: [])?.role
        }
        #expect(try role(ownUser: 65_534) == .admin)
        let error = try #require(throws: ConfigurationErrors.self) { try role(ownUser: 991) }
        #expect(error.errors.map(\.description) == ["agentd.yaml:2:32: access[0].role: is too much for user 65534, expected read"])
    }

    @Test(
        "The first rule that matches decides, by user, group or supplementary group",
        arguments: [
            Peer(uid: 1_001, gid: 901, access: "operate uid:1001"),
            Peer(uid: 1_002, gid: 901, access: "enqueue inspector"),
            Peer(uid: 1_002, gid: 5, groups: [900, 901], access: "enqueue inspector"),
            Peer(uid: 1_002, gid: 900, access: "read uid:1002"),
            Peer(uid: 0, gid: 0, access: nil),
            Peer(uid: 991, gid: 991, access: nil),
            // Named by number, and by the user's own number as the kernel shows strangers.
            Peer(uid: 7, gid: 7, access: "admin uid:7"),
            Peer(uid: 65_534, gid: 901, groups: [901], access: "read uid:65534"),
        ])
    func order(_ peer: Peer) throws {
        let rules = try ConfigurationFixtures.configuration(
            """
            access:
              - { user: ines, role: operate }
              - { group: inspectors, role: enqueue, app: inspector }
              - { group: agentd, role: read }
              - { user: "7", role: admin }
              - { user: nobody, role: read }

            """
        ).access
        #expect(
            rules.decide(uid: peer.uid, gid: peer.gid, groups: peer.groups).map { "\($0.role) \($0.app)" }
                == peer.access)
    }

    @Test("A rule limits entities, priority, rate and open mutations")
    func limits() throws {
        let rules = try ConfigurationFixtures.configuration(
            "access: [{ user: ines, role: enqueue, entities: [audits], max_priority: normal, app: insp, rate: 50, quota_mutations: 7 }]\n"
        ).access
        let access = try #require(rules.decide(uid: 1_001, gid: 1, groups: []))
        #expect(access.allows(Role.read) && access.allows(Role.enqueue))
        #expect(!access.allows(Role.operate) && !access.allows(Role.admin))
        #expect(access.allows(EntityName(trusted: "audits")) && !access.allows(EntityName(trusted: "sites")))
        #expect(!access.allows(Priority.critical) && access.allows(Priority.normal) && access.allows(Priority.bulk))
        #expect(access.requestsPerSecond == 50)
        #expect(access.requester == Requester(app: AppName(trusted: "insp"), uid: 1_001, quotaMutations: 7))
    }

    @Test("Without limits in the rule an app may use all entities, any priority and 200 requests a second")
    func noLimits() throws {
        let rules = try ConfigurationFixtures.configuration("access: [{ user: ines, role: enqueue }]\n").access
        let access = try #require(rules.decide(uid: 1_001, gid: 1, groups: []))
        #expect(access.allows(EntityName(trusted: "anything")) && access.allows(Priority.critical))
        #expect(access.requestsPerSecond == 200 && access.quotaMutations == nil)
    }
}
