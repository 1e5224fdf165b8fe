package import SyncCore

/// All that decides whether a device receives a record, and where it comes from, as one moment of the database has it.
package struct DeliveryFacts: Hashable, Sendable {
    package var device: DeviceID
    package var record: RecordName
    package var entity = Entity()
    package var stored = Stored.absent(forgetsDeletions: false)
    /// The record's scopes; the last ones of a deleted record.
    package var scopes: [Scope] = []
    package var share: DeviceAccess
    /// The scopes and roles of the device. One that it has from two places is there twice.
    package var grants: [Grant] = []
    /// Grants by commands that would give the record to the device, and were taken back, oldest first.
    package var takenBack: [TokenBook.Grant] = []
    package var standing = Standing.admitted
    /// Time of its last request that the hub has noted: a greeting, a push or an upload.
    package var lastSeen: Timestamp?
    /// The entity of which it gets no records, because its agent would keep those that have left its share.
    package var keepingEntity: EntityName?
    /// The device may have dropped the document, because the record is old (``KeepRule``).
    package var mayBeDropped = false
    /// The values of the record's scopes that are ids of devices. They cannot be granted.
    package var namesOfDevices: Set<String> = []

    package init(_ device: DeviceID, _ record: RecordName) {
        (self.device, self.record) = (device, record)
        share = AccessBook().share(of: device)
    }

    package struct Entity: Hashable, Sendable {
        /// The settings name it, or it has a record or a deletion.
        package var isKnown = true
        /// The known entity that was probably meant.
        package var near: EntityName?
        package var kind = EntityRules.Kind.record
        /// The fields by which the records are shared out; `nil`: every device receives all of them.
        package var scope: [String]?
        package var keep: KeepRule?

        package init() {}
    }

    package enum Stored: Hashable, Sendable {
        /// - Parameter forgetsDeletions: The hub has forgotten deletions of the entity, so it may have been there.
        case absent(forgetsDeletions: Bool)
        case present(Change)
        case deleted(Change)
        case damaged(version: Int64, detail: String)
    }

    /// The last change of a record.
    package struct Change: Hashable, Sendable {
        package var version: Int64
        /// Time of its acceptance.
        package var at: Timestamp
        package var writer: DeviceID
        package var author: String?

        package init(version: Int64, at: Timestamp, writer: DeviceID, author: String? = nil) {
            (self.version, self.at, self.writer, self.author) = (version, at, writer, author)
        }
    }

    /// A scope or a role, and the place that it comes from.
    package struct Grant: Hashable, Sendable {
        package enum Right: Hashable, Sendable {
            case scope(Scope)
            case role(String)
        }

        package var right: Right
        package var source: GrantOrigin
        /// The group of the settings that it belongs to.
        package var group: String?

        package init(_ right: Right, _ source: GrantOrigin, group: String? = nil) {
            (self.right, self.source, self.group) = (right, source, group)
        }
    }

    /// The reason for which the hub answers the device, or refuses it.
    package enum Standing: Hashable, Sendable {
        /// It has a valid token, or has connected without one.
        case admitted
        /// No token, grant, setting or request names it.
        ///
        /// - Parameter near: The known device that was probably meant.
        case unknown(near: DeviceID?)
        /// It has never had a token, and has never connected.
        ///
        /// - Parameter enrolment: The time until which it may use an enrolment token.
        case noToken(enrolment: Timestamp?)
        case revoked
        case expired(Timestamp)
    }
}

extension DeliveryFacts.Grant {
    /// The rights that are granted by name or by a group of the settings. A group that the settings do not have gives none.
    static func rights(_ grants: Grants, _ source: GrantOrigin, _ groups: [String: Grants]) -> [DeliveryFacts.Grant] {
        func own(_ grants: Grants, group: String?) -> [DeliveryFacts.Grant] {
            let scopes = grants.scopes.flatMap { field, values in values.map { Scope(field, $0) } }.sorted()
            return (scopes.map { .scope($0) } + grants.roles.map { .role($0) }).map { DeliveryFacts.Grant($0, source, group: group) }
        }
        return own(grants, group: nil) + grants.groups.flatMap { group in groups[group].map { own($0, group: group) } ?? [] }
    }
}

extension DeliveryFacts.Grant.Right: CustomStringConvertible {
    package var description: String {
        switch self {
        case .scope(let scope): scope.description
        case .role(let role): "role=" + role
        }
    }
}
