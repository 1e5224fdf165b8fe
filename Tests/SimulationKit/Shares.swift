import HubServer
import SyncCore

/// Entities of the simulated world whose records are shared among the devices, and the hub's settings for them.
///
/// | entity | receives it | changes it |
/// |---|---|---|
/// | `orders` | devices of its sites, and its assignee | they; its price: the office alone |
/// | `jobs` | devices of its sites, and its assignee | its assignee |
/// | `assignments` | every device | the office alone; each of them grants sites to a device |
enum Shares {
    static let orders = EntityName(trusted: "orders")
    /// An update restores a deleted record.
    static let jobs = EntityName(trusted: "jobs")
    static let assignments = EntityName(trusted: "assignments")

    static let entities = [assignments, jobs, orders]
    /// Entities of which a device receives only its share.
    static let scoped: Set = [jobs, orders]
    static let sites = ["s0", "s1", "s2"]

    /// Device of the office. It always has every site and the role `office`.
    static let office = DeviceID(trusted: "agent-0")
    /// Devices other than the office.
    static let field = [1, 2].map { DeviceID(trusted: "agent-\($0)") }
    static let observer = DeviceID(trusted: "observer")

    static func rules(ofHub: Bool) -> [EntityName: EntityRules] {
        var orders = EntityRules()
        orders.fields = ["v": .server, "c": .client, "n": .counter, "a": .append]
        var jobs = orders
        jobs.onDeleted = .updateWins
        var assignments = orders
        if ofHub {
            orders.declaredScope = ["site", "assignee"]
            orders.fieldRights = ["price": .role("office")]
            jobs.declaredScope = ["site", "assignee"]
            jobs.declaredWrite = .own
            assignments.fieldRights = ["device": .role("office"), "site": .role("office")]
        }
        return [self.orders: orders, self.jobs: jobs, self.assignments: assignments]
    }

    /// The grants that the hub has at the beginning.
    static var access: AccessBook {
        var access = AccessBook()
        access.sources = [GrantSource(entity: assignments, device: "device", scope: "site")]
        access.devices[office] = Grants()
        access.devices[office]?.scopes = ["site": sites]
        access.devices[office]?.roles = ["office"]
        // The observer receives everything.
        access.devices[observer] = Grants()
        access.devices[observer]?.scopes = ["site": sites, "assignee": [office.text] + field.map(\.text)]
        for (device, site) in zip(field, sites) {
            access.devices[device] = Grants()
            access.devices[device]?.scopes = ["site": [site]]
        }
        return access
    }

    /// Sites without records. A device with so many sites gets a cursor with a digest in place of its scopes.
    static let emptySites = (0..<70).map { "empty-\($0)" }

    /// The sites of the groups at the beginning.
    static let groupsAtFirst: [String: Set<String>] = ["g0": ["s0", "s2"], "g1": ["s1"]]
    static var groups: [String] { groupsAtFirst.keys.sorted() }

    static func grants(of sites: Set<String>) -> Grants {
        var grants = Grants()
        grants.scopes = ["site": sites.sorted()]
        return grants
    }

    /// The place where an operator writes a grant. Grants of both places add up.
    enum Book: CaseIterable, Sendable {
        /// The entities file.
        case file
        /// `agenthub grant`.
        case commands
    }
}

extension SimHub {
    /// An operator adds a device to a group, or removes it.
    func join(_ group: String, _ device: DeviceID, in book: Shares.Book, isMember: Bool, at now: Timestamp) {
        change { settings in
            switch book {
            case .file:
                settings.access.devices[device, default: Grants()].groups.removeAll { $0 == group }
                if isMember { settings.access.devices[device, default: Grants()].groups.append(group) }
            case .commands:
                if isMember {
                    _ = settings.tokens?.grant(.group(group), to: device, by: "operator", at: now)
                } else {
                    _ = settings.tokens?.takeBack(.group(group), from: device, by: "operator", at: now)
                }
            }
        }
    }

    /// The owner of the data gives a group other sites.
    func set(_ sites: Set<String>, of group: String) {
        change { $0.access.groups[group] = Shares.grants(of: sites) }
    }

    /// An operator grants a site to a device, or revokes it.
    func grant(_ site: String, to device: DeviceID, in book: Shares.Book, isGranted: Bool, at now: Timestamp) {
        change { settings in
            switch book {
            case .file:
                settings.access.devices[device, default: Grants()].scopes["site", default: []].removeAll { $0 == site }
                if isGranted { settings.access.devices[device, default: Grants()].scopes["site", default: []].append(site) }
            case .commands:
                let kind = TokenBook.Grant.Kind.scope(Scope("site", site))
                if isGranted {
                    _ = settings.tokens?.grant(kind, to: device, by: "operator", at: now)
                } else {
                    _ = settings.tokens?.takeBack(kind, from: device, by: "operator", at: now)
                }
            }
        }
    }
}
