/// The name of a share of an entity's records: a field, and the value that the records of the share have there, such as `site=s-3`.
///
/// A record has one scope for each value of its scope fields (``EntityRules/scope``). A device receives a record if one of the record's
/// scopes is one of the device's.
package struct Scope: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The field, as the rules of an entity name it.
    package var field: String
    /// The value: 1 to 256 bytes.
    package var value: String

    /// Largest size of a value, bytes. A longer value in a record names no scope.
    package static let valueBytesMax = 256
    /// Largest number of scopes of one record; further values name none.
    package static let ofRecordMax = 64

    package init(_ field: String, _ value: String) {
        self.field = field
        self.value = value
    }

    package var description: String { field + "=" + value }

    /// By bytes, as in the codes and rows of the hub. Canonically equivalent values name two scopes.
    package static func == (a: Scope, b: Scope) -> Bool { sameBytes(a.value, b.value) && sameBytes(a.field, b.field) }

    package static func < (a: Scope, b: Scope) -> Bool {
        sameBytes(a.field, b.field) ? precedesInBytes(a.value, b.value) : precedesInBytes(a.field, b.field)
    }

    /// Returns whether the value is the id of a device.
    package func isOwn(of device: DeviceID) -> Bool { sameBytes(value, device.text) }
}

extension EntityRules {
    /// The right to change a record of an entity that has scopes.
    package enum WriteRight: String, Sendable, CaseIterable {
        /// Devices that receive the record.
        case scope
        /// The device that one of the scope fields names by its id.
        case own
        /// The hub alone.
        case nobody
        /// Every device may create records in every scope. It may change only those that it receives.
        case everybody
    }

    /// The records of the entity are shared out among the devices.
    package var isScoped: Bool { !scope.isEmpty }

    /// The scopes of a document: each once, in order. A text, a number, or a list of them names scopes; other values name none.
    package func scopes(of data: JSONObject) -> [Scope] {
        var found: [Scope] = []
        for field in scope {
            guard let value = data[field] else { continue }
            for part in value.array ?? [value] {
                guard let text = part.scopeText, found.count < Scope.ofRecordMax else { continue }
                let scope = Scope(field, text)
                if !found.contains(scope) { found.append(scope) }
            }
        }
        return found.sorted()
    }
}

extension JSON {
    fileprivate var scopeText: String? {
        let text = text ?? int.map { String($0) }
        return text.flatMap { $0.isEmpty || $0.utf8.count > Scope.valueBytesMax ? nil : $0 }
    }
}

/// The scopes and roles that an operator has granted to a device, and the scopes of its own.
package struct DeviceAccess: Hashable, Sendable {
    package var device: DeviceID
    /// Granted scopes by the name of their field.
    package private(set) var granted: [String: Set<Scope>] = [:]
    package private(set) var roles: Set<String> = []

    init(_ device: DeviceID) {
        self.device = device
    }

    /// Largest number of granted values of one device; the hub refuses a grant beyond it.
    package static let grantsMax = 1_000

    package mutating func grant(_ scope: Scope) { granted[scope.field, default: []].insert(scope) }
    package mutating func grant(role: String) { roles.insert(role) }

    /// The share that the device is told: the grants, without the scopes that are its own by its id.
    package var told: DeviceShare {
        DeviceShare(
            scopes: granted.sorted { $0.key < $1.key }.map { DeviceShare.Scope($0.key, $0.value.sorted().map(\.value)) },
            roles: roles.sorted())
    }

    /// Returns whether a scope is the device's: by a grant, or because its value is the device's own id.
    package func includes(_ scope: Scope) -> Bool {
        scope.isOwn(of: device) || granted[scope.field]?.contains(scope) == true
    }

    package func includesAny(of scopes: [Scope]) -> Bool { scopes.contains { includes($0) } }

    /// The scopes of the device in an entity, in order.
    package func scopes(under rules: EntityRules) -> [Scope] {
        rules.scope.flatMap { field in (granted[field] ?? []).union([Scope(field, device.text)]) }.sorted()
    }
}

/// Decides whether a device may change a record (PROTOCOL A16), by the record's state before and after the change.
package struct WriteDecision: Sendable {
    package let share: DeviceAccess
    package let rules: EntityRules
    /// The fields of the entity whose values grant scopes. Without a right that the owner of the data gives to devices, only the hub
    /// changes them, whatever else the rules say. A deletion takes a grant back, so it needs the right on the fields as any change does.
    package let grantFields: Set<String>

    package init(_ share: DeviceAccess, _ rules: EntityRules, grantFields: Set<String> = []) {
        self.share = share
        self.rules = rules
        self.grantFields = grantFields
    }

    private var fieldRights: [String: FieldRight] {
        var rights = rules.fieldRights
        for field in grantFields where rights[field]?.isGiven != true { rights[field] = .nobody }
        return rights
    }

    /// - Parameters:
    ///   - old: Document before the change; `nil` when the record does not exist, or is deleted.
    ///   - new: Document after it; `nil` for a deletion.
    ///   - scopesBefore: Scopes of the record before the change, which a deleted record keeps; `nil`: there is no record that the device
    ///     receives.
    /// - Returns: The reason for which the change is refused, or `nil`.
    package func fault(old: JSONObject?, new: JSONObject?, scopesBefore: [Scope]?) -> Problem? {
        if rules.write == .nobody { return forbidden("only the hub changes records of this entity") }
        if let fault = scopeFault(new: new, scopesBefore: scopesBefore) { return fault }
        guard new != nil || !grantFields.isEmpty else { return nil }
        for (field, right) in fieldRights.sorted(by: { $0.key < $1.key }) where Self.differ(old, new, in: field[...]) {
            if let fault = fault(of: field, right, scopesBefore ?? new.map { rules.scopes(of: $0) } ?? []) { return fault }
        }
        return nil
    }

    /// Returns whether a field has another value. A dotted name is also that of a member of an object, such as `address.zip`.
    private static func differ(_ old: JSONObject?, _ new: JSONObject?, in name: Substring) -> Bool {
        if old == nil, new == nil { return false }
        if old?[String(name)] != new?[String(name)] { return true }
        return name.indices.contains { dot in
            guard name[dot] == "." else { return false }
            let field = String(name[..<dot])
            return differ(old?[field]?.object, new?[field]?.object, in: name[name.index(after: dot)...])
        }
    }

    private func scopeFault(new: JSONObject?, scopesBefore: [Scope]?) -> Problem? {
        guard rules.isScoped else { return nil }
        // A record that does not exist and one that the device does not receive have the same answer.
        let unknown = "there is no such record among those that this device may change"
        if let before = scopesBefore, !isWritable(before) { return forbidden(unknown) }
        guard let new else { return scopesBefore == nil ? forbidden(unknown) : nil }
        if rules.write == .everybody { return nil }
        let after = rules.scopes(of: new)
        let added = after.filter { scopesBefore?.contains($0) != true }
        if let foreign = added.first(where: { !share.includes($0) }) {
            return forbidden("this device may not put a record into \(foreign)")
        }
        if after.isEmpty || scopesBefore == nil && !isWritable(after) {
            return scopesBefore == nil && new.isEmpty
                ? forbidden(unknown) : forbidden("the record would belong to no scope in which this device may write")
        }
        return nil
    }

    private func isWritable(_ scopes: [Scope]) -> Bool {
        rules.write == .own ? scopes.contains { $0.isOwn(of: share.device) } : share.includesAny(of: scopes)
    }

    private func fault(of field: String, _ right: FieldRight, _ scopes: [Scope]) -> Problem? {
        let isAllowed =
            switch right {
            case .everybody, .scope: true
            case .nobody: false
            case .own: scopes.contains { $0.isOwn(of: share.device) }
            case .role(let role): share.roles.contains(role)
            }
        return isAllowed ? nil : forbidden("only \(right.holder) may change the field \(field)")
    }

    private func forbidden(_ detail: String) -> Problem { Problem("forbidden", status: 403, detail: detail) }
}

/// The right to change one field, beyond the right to change its record.
package enum FieldRight: Hashable, Sendable {
    case scope, own, nobody, everybody
    /// Devices with this role.
    case role(String)

    /// No device has the right by itself. It has `own` where it writes its own id into a scope field, and `scope` and `everybody` anyway.
    package var isGiven: Bool {
        switch self {
        case .scope, .own, .everybody: false
        case .nobody, .role: true
        }
    }

    /// Whom a refusal names.
    fileprivate var holder: String {
        switch self {
        case .everybody, .scope: "a device that receives the record"
        case .own: "the device that the record names"
        case .nobody: "the hub"
        case .role(let role): "a device with the role \(role)"
        }
    }

    /// Reads the word of a right, or the name of a role: 1 to 64 letters, digits, `-`, `_`, `.`, `:`.
    package init?(_ text: String) {
        switch text {
        case "scope": self = .scope
        case "own": self = .own
        case "nobody": self = .nobody
        case "everybody": self = .everybody
        default:
            guard let role = Identifier<FieldRight>(text) else { return nil }
            self = .role(role.text)
        }
    }

    package var text: String {
        switch self {
        case .scope: "scope"
        case .own: "own"
        case .nobody: "nobody"
        case .everybody: "everybody"
        case .role(let role): role
        }
    }
}
