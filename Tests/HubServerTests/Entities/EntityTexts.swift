import SyncCore
import SyncYAML

@testable import HubServer

/// Texts of entity settings, and the reader of them that the program has.
enum EntityTexts {
    static let reader: EntityReader = { text, name in
        do throws(ConfigurationErrors) {
            let (read, objections) = try EntitySettings.readHub(inForce: ConfigurationFile(name: name, text: text))
            let config = HubConfiguration(EntitySettings.written(read.rules))
            let objection = objections.isEmpty ? nil : EntityFault(ConfigurationErrors(objections).description)
            return .success(HubEntities(rules: read.rules, access: read.access, config: config, objection: objection))
        } catch {
            return .failure(EntityFault(error.description))
        }
    }

    /// Audits whose field `value` may have one of these values.
    static func audits(_ values: String..., scope: String? = nil) -> String {
        """
        entities:
          audits:
            schema: { properties: { value: { enum: [\(values.joined(separator: ", "))] } } }
            validate: reject
        \(scope.map { "    scope: [\($0)]\n" } ?? "")
        """
    }

    /// The version of the configuration that devices are told under a text.
    static func config(_ text: String) throws -> String { String(try reader(text, "test").get().config.version) }

    static func text(_ text: String, by: String = "test", at now: Timestamp = Timestamp(milliseconds: 1_795_208_400_000)) -> EntityText {
        EntityText(text, of: "entities.yaml", by: by, at: now)
    }
}

extension HubBench {
    /// A hub that keeps entity settings in its database.
    convenience init(file: String?, scopes: Hub.ScopesOfDatabase = .kept, place: Hub.Place? = nil, seed: UInt64 = 1) throws {
        try self.init(seed: seed, place: place) { settings in
            settings.readEntities = EntityTexts.reader
            settings.entityFile = file.map { EntityTexts.text($0, by: "file") }
            settings.scopesOfDatabase = scopes
        }
    }

    /// Returns whether a new audit with this value is accepted.
    func accepts(_ value: String, _ key: String) throws -> Bool {
        try verdict(Sent(key, .create, id: key, data: ["value": .string(value)])).word == "accepted"
    }

    /// The version of the configuration that devices are told.
    var toldConfig: String? { push([]).headers[HubHeader.config] }
}
