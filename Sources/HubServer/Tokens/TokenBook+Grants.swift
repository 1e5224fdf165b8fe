package import SyncCore

// The grants that commands give to devices. They are kept with the tokens, so that they reach all hubs in the same way and moment.
extension TokenBook {
    /// A scope, a role or a group that a device was granted.
    package struct Grant: Sendable, Hashable {
        package enum Kind: Sendable, Hashable {
            case scope(Scope)
            case role(String)
            case group(String)
        }

        package var kind: Kind
        package var at: Timestamp
        /// The user who gave it; `nil`: not known, because a program of an earlier version gave it, or wrote the book since.
        package var by: String?
        /// Time at which it was taken back; the grant stays as a record of what was.
        package var revokedAt: Timestamp?
        /// The user who took it back; `nil`: not known, or it is in force.
        package var revokedBy: String?

        init(_ kind: Kind, at: Timestamp, by: String? = nil, revokedAt: Timestamp? = nil, revokedBy: String? = nil) {
            self.kind = kind
            self.at = at
            self.by = by
            self.revokedAt = revokedAt
            self.revokedBy = revokedBy
        }
    }

    /// Largest number of grants of a device that were taken back and are kept. Beyond it the one that was taken back first is dropped.
    package static let pastGrantsMax = 200

    /// The grants of a device that were taken back, as far as the book has them.
    package enum PastGrants: Hashable, Sendable {
        case complete
        /// There are as many as are kept. A program of an earlier version did not note that it dropped older ones.
        case full
        /// Older ones were dropped.
        case cut
    }

    /// The grants of a device that are in force; `nil`: there are none.
    package func grants(of device: DeviceID) -> Grants? {
        let present = grantHistory(of: device).filter { $0.revokedAt == nil }
        return present.isEmpty ? nil : Grants(present.map(\.kind))
    }

    /// All grants of a device, oldest first, with those that were taken back.
    package func grantHistory(of device: DeviceID) -> [Grant] { entry(ofGrantsOf: device)?.grants ?? [] }

    /// Another device that was granted the id of this one as a value of a scope, by a command that was not taken back; the first by name.
    package func holder(ofNameOf device: DeviceID) -> DeviceID? {
        grantedDevices.first { other in
            other != device && grants(of: other).map { $0.scopes.values.contains { $0.contains(device.text) } } ?? false
        }
    }

    /// Returns whether the device has a token that was not revoked.
    package func hasToken(_ device: DeviceID) -> Bool {
        entries.contains { $0.device == device && $0.isToken && $0.revokedAt == nil }
    }

    package func pastGrants(of device: DeviceID) -> PastGrants {
        guard let entry = entry(ofGrantsOf: device) else { return .complete }
        if entry.hasDroppedGrants { return .cut }
        return entry.grants.count { $0.revokedAt != nil } < TokenBook.pastGrantsMax ? .complete : .full
    }

    /// The devices that have or had a grant.
    package var grantedDevices: [DeviceID] { entries.filter { $0.use == .grants }.map(\.device).sorted() }

    package enum GrantOutcome: Hashable, Sendable {
        case given, hadBefore
        /// The device has as many grants as it may have.
        case refused
    }

    /// - Parameter user: The person who gives it, for the history that operators read.
    package mutating func grant(_ kind: Grant.Kind, to device: DeviceID, by user: String, at now: Timestamp) -> GrantOutcome {
        var entry = entry(ofGrantsOf: device) ?? Entry(device: device, hash: TokenBook.grantsHash(of: device), createdAt: now, use: .grants)
        let present = entry.grants.filter { $0.revokedAt == nil }
        if present.contains(where: { $0.kind == kind }) { return .hadBefore }
        guard present.count < DeviceAccess.grantsMax else { return .refused }
        entry.grants.append(Grant(kind, at: now, by: user))
        replace(entry)
        return .given
    }

    /// - Parameter user: The person who takes it back, for the history that operators read.
    /// - Returns: `false` when the device does not have it from a command.
    package mutating func takeBack(_ kind: Grant.Kind, from device: DeviceID, by user: String, at now: Timestamp) -> Bool {
        guard var entry = entry(ofGrantsOf: device),
            let place = entry.grants.firstIndex(where: { $0.kind == kind && $0.revokedAt == nil })
        else { return false }
        entry.grants[place].revokedAt = now
        entry.grants[place].revokedBy = user
        // By a clock that went back, the present one may have the earliest time.
        let past = entry.grants.indices.filter { $0 != place && entry.grants[$0].revokedAt != nil }
        if past.count >= TokenBook.pastGrantsMax,
            let oldest = past.min(by: { entry.grants[$0].revokedAt ?? now < entry.grants[$1].revokedAt ?? now })
        {
            entry.grants.remove(at: oldest)
            entry.hasDroppedGrants = true
        }
        replace(entry)
        return true
    }

    private func entry(ofGrantsOf device: DeviceID) -> Entry? { find(hash: TokenBook.grantsHash(of: device)) }

    /// No header field can carry the NUL, so no token has this hash.
    private static func grantsHash(of device: DeviceID) -> [UInt8] { SHA256.hash([0] + Array("grants/\(device)".utf8)) }
}

extension TokenBook.Grant.Kind: CustomStringConvertible {
    /// Reads `site=s-3`, `role=inspector` or `group=north`.
    package init?(_ text: String) {
        guard let sign = text.firstIndex(of: "=") else { return nil }
        let (name, value) = (String(text[..<sign]), String(text[text.index(after: sign)...]))
        guard !name.isEmpty, !value.isEmpty, value.utf8.count <= Scope.valueBytesMax, name.utf8.count <= 256 else { return nil }
        switch name {
        case "role": self = .role(value)
        case "group": self = .group(value)
        default: self = .scope(Scope(name, value))
        }
    }

    package var description: String {
        switch self {
        case .scope(let scope): scope.description
        case .role(let role): "role=" + role
        case .group(let group): "group=" + group
        }
    }
}

extension Grants {
    init(_ kinds: [TokenBook.Grant.Kind]) {
        self.init()
        for kind in kinds {
            switch kind {
            case .scope(let scope): scopes[scope.field, default: []].append(scope.value)
            case .role(let role): roles.append(role)
            case .group(let group): groups.append(group)
            }
        }
    }
}

extension TokenBook.Grant {
    /// - Returns: `nil` when it is invalid.
    init?(_ json: JSON) {
        guard let object = json.object, let kind = object["grant"]?.text.flatMap({ Kind($0) }),
            let at = object["at"]?.text.flatMap({ RFC3339.timestamp($0) })
        else { return nil }
        let revoked = object["revoked_at"]?.text.flatMap { RFC3339.timestamp($0) }
        guard revoked != nil || object["revoked_at"] == nil else { return nil }
        // Members that this program does not know are left out, and so an earlier program does with the users.
        self.init(kind, at: at, by: object["by"]?.text, revokedAt: revoked, revokedBy: object["revoked_by"]?.text)
    }

    var json: JSON {
        var object: JSONObject = ["grant": .string(kind.description), "at": .string(at.description)]
        if let by { object["by"] = .string(by) }
        if let revokedAt { object["revoked_at"] = .string(revokedAt.description) }
        if let revokedBy { object["revoked_by"] = .string(revokedBy) }
        return .object(object)
    }
}
