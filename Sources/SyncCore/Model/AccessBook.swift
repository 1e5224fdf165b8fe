/// The grants of scopes and roles that the owner of the data has written down (PROTOCOL A16).
package struct AccessBook: Hashable, Sendable {
    package var devices: [DeviceID: Grants] = [:]
    package var groups: [String: Grants] = [:]
    package var sources: [GrantSource] = []

    package init() {}

    package var isEmpty: Bool { devices.isEmpty && groups.isEmpty && sources.isEmpty }

    /// Returns the device or the group to which a value is granted, as `devices.NAME` or `groups.NAME`, the first one by name.
    ///
    /// - Parameter device: Its own grants are left out: its id is its own scope in any case.
    package func holder(of value: String, besides device: DeviceID? = nil) -> String? {
        func holds(_ grants: Grants) -> Bool { grants.scopes.values.contains { $0.contains(value) } }
        let devices = devices.filter { $0.key != device && holds($0.value) }.keys.min()
        if let devices { return "devices.\(devices)" }
        return groups.filter { holds($0.value) }.keys.min().map { "groups.\($0)" }
    }

    /// The share of a device by this book and by further grants, such as those of commands.
    package func share(of device: DeviceID, adding further: [Grants] = []) -> DeviceAccess {
        var share = DeviceAccess(device)
        for grants in (devices[device].map { [$0] } ?? []) + further {
            share.add(grants)
            // A group names no group, so this ends.
            for group in grants.groups { if let its = groups[group] { share.add(its) } }
        }
        return share
    }
}

/// Scopes, roles and groups that are granted together.
package struct Grants: Hashable, Sendable {
    /// Values by the name of the scope field.
    package var scopes: [String: [String]] = [:]
    package var roles: [String] = []
    package var groups: [String] = []

    package init() {}

    package init(_ scope: Scope) { scopes = [scope.field: [scope.value]] }
}

/// An entity whose records grant scopes: the record's field `device` names the device, and the field `scope` has the values.
package struct GrantSource: Hashable, Sendable {
    package var entity: EntityName
    /// The field with the id of the device, or a list of ids.
    package var device: String
    /// The field with the value, or a list of values. It is also the name of the scope field that they grant.
    package var scope: String

    package init(entity: EntityName, device: String, scope: String) {
        self.entity = entity
        self.device = device
        self.scope = scope
    }

    /// The fields with which a record grants scopes.
    package var fields: [String] { [device, scope] }

    /// The fields that a device could change without a right that the owner of the data gives to it. With any of them it could grant itself
    /// every scope, so there may be none.
    ///
    /// - Parameter rules: The rules of the source's entity.
    package func openFields(under rules: EntityRules) -> [String] {
        if rules.write == .nobody || rules.kind == .reference { return [] }
        return fields.filter { rules.fieldRights[$0]?.isGiven != true }
    }

    /// Largest number of grants of one record; further ones count as absent.
    package static let ofRecordMax = 64

    /// The devices and scopes that a document grants, each pair once, in order.
    package func grants(of data: JSONObject) -> [(device: DeviceID, scope: Scope)] {
        var found: [(device: DeviceID, scope: Scope)] = []
        var rules = EntityRules()
        rules.declaredScope = [scope]
        let scopes = rules.scopes(of: data)
        for name in data[device].map({ $0.array ?? [$0] }) ?? [] {
            guard let device = name.text.flatMap({ DeviceID($0) }) else { continue }
            for scope in scopes where found.count < Self.ofRecordMax && !found.contains(where: { $0 == (device, scope) }) {
                found.append((device, scope))
            }
        }
        return found
    }
}

extension DeviceAccess {
    fileprivate mutating func add(_ grants: Grants) {
        for (field, values) in grants.scopes {
            for value in values { grant(Scope(field, value)) }
        }
        for role in grants.roles { grant(role: role) }
    }
}
