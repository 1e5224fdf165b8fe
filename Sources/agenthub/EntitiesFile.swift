import HubServer
import SyncCore
import SyncYAML

/// The files of entities, for the hub: it keeps their texts, and this program reads them.
enum EntitiesFile {
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

    /// Reads and checks a file. What only new settings may not have is left to the hub, because the file may be in force already.
    ///
    /// - Parameter by: The name of the person or program that applies it, for the history that operators read.
    static func read(_ path: String, by: String, at now: Timestamp) throws(ConfigurationErrors) -> EntityText {
        let file = ConfigurationFile.read(path)
        _ = try EntitySettings.readHub(inForce: file)
        switch file.contents {
        // Checked: it is UTF-8.
        case .success(let bytes): return EntityText(String(decoding: bytes, as: UTF8.self), of: path, by: by, at: now)
        case .failure(let error): throw ConfigurationErrors([error])
        }
    }

    /// The reason why a hub would refuse these settings as new ones; `nil`: it would take them.
    static func objection(to new: EntityText) -> EntityFault? {
        switch reader(new.text, new.name) {
        case .success(let entities): entities.objection
        case .failure(let fault): fault
        }
    }

    /// The settings of a generation.
    ///
    /// - Throws: An error when this program cannot read it.
    static func settings(of generation: EntityGeneration) throws(ConfigurationErrors) -> EntityDifference.Settings {
        try EntitySettings.readHub(inForce: ConfigurationFile(name: "generation \(generation.number)", text: generation.text)).settings
    }

    /// The difference of two texts; `nil` for the first: there was none.
    ///
    /// - Throws: An error when this program cannot read one of the texts.
    static func difference(from old: EntityGeneration?, to new: EntityText) throws(ConfigurationErrors) -> EntityDifference {
        var before: EntityDifference.Settings?
        if let old { before = try settings(of: old) }
        let after = try EntitySettings.readHub(inForce: ConfigurationFile(name: new.name, text: new.text)).settings
        return EntityDifference(from: before, to: after)
    }
}
