package import SyncCore

/// The meaning of a file of entities for a hub.
package struct HubEntities: Sendable {
    package var rules: RuleBook
    /// Grants of scopes and roles that the file has.
    package var access: AccessBook
    /// The configuration for agents, which have the same rules.
    package var config: HubConfiguration
    /// The reason why the hub takes the file no more. Where it is in force it stays; `nil`: there is none.
    package var objection: EntityFault?

    package init(rules: RuleBook, access: AccessBook, config: HubConfiguration, objection: EntityFault? = nil) {
        (self.rules, self.access, self.config, self.objection) = (rules, access, config, objection)
    }
}

/// Reads the text of a file of entities. The hub itself knows no YAML.
///
/// It must be fast and block on nothing: each hub and each reader over the database calls it once for a generation.
package typealias EntityReader = @Sendable (_ text: String, _ name: String) -> Result<HubEntities, EntityFault>

/// The reason why a text is no file of entities, in lines for people.
package struct EntityFault: Error, Sendable, Hashable {
    package var detail: String

    package init(_ detail: String) {
        self.detail = detail
    }
}

/// A text of entity settings that is to count.
package struct EntityText: Sendable, Hashable {
    /// The file as it was written, byte for byte.
    package var text: String
    /// The name of the file, for messages about its lines.
    package var name: String
    /// The person or program that wants it, for people.
    package var by: String
    package var at: Timestamp

    package init(_ text: String, of name: String, by: String, at: Timestamp) {
        (self.text, self.name, self.by, self.at) = (text, name, by, at)
    }

    var digest: String { EntityText.digest(of: text) }

    /// Hexadecimal digits of SHA-256.
    package static func digest(of text: String) -> String {
        BlobDigest(bytes: SHA256.hash(Array(text.utf8)))?.hex ?? ""
    }
}

/// Entity settings that count, or have counted: a row of `entity_settings`. The newest one counts.
package struct EntityGeneration: Sendable, Hashable {
    /// Numbered from 1.
    package var number: Int64
    package var appliedAt: Timestamp
    package var appliedBy: String
    package var digest: String
    /// Digest of the file of `serve --entities` that a hub has read last; `nil`: none. While a file has this digest, it is older than the
    /// generation, and a restart does not take the generation back.
    package var fileDigest: String?
    /// The file as it was written.
    package var text: String

    /// Largest number of generations that are kept.
    package static let keptMax = 50
}

/// The outcome for entity settings.
package enum EntityOutcome: Sendable, Hashable {
    /// They count from now on.
    case applied(generation: Int64)
    /// They counted already.
    case unchanged(generation: Int64)
    /// They are those of a file that was read before, and what was applied after that counts.
    case outranked(by: EntityGeneration)
    /// They are those of a file that this version takes no more (``HubEntities/objection``), and this generation counts as before.
    case refused(EntityFault, generation: Int64)
}

/// The reason why entity settings do not count.
package enum EntityFailure: Error, Sendable {
    /// They cannot be read, or would hand records to devices that have no right to them.
    case settings(EntityFault)
    /// They were compared with another generation than the one that counts by now; 0: none counts.
    case superseded(by: Int64)
    case hub(HubError)
}

extension EntityFailure {
    /// - Parameter detail: The generation that counts.
    static func superseded(detail number: Int64) -> String {
        "other settings were applied meanwhile, and generation \(number) is in force now. Run the command again to see the difference"
    }

    /// The cause, for people.
    package var detail: String {
        switch self {
        case .settings(let fault): fault.detail
        case .superseded(let number): EntityFailure.superseded(detail: number)
        case .hub(let error): error.description
        }
    }
}
