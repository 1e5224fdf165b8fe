import HubServer
import SyncCore
import SyncYAML

/// The files of entities, for the hub: it keeps their texts, and this program reads them.
enum EntitiesFile {
    static let reader: EntityReader = { text, name in
        do throws(ConfigurationErrors) {
            let read = try EntitySettings.readHub(ConfigurationFile(name: name, text: text))
            return .success(
                HubEntities(rules: read.rules, access: read.access, config: HubConfiguration(EntitySettings.written(read.rules))))
        } catch {
            return .failure(EntityFault(error.description))
        }
    }

    /// Reads and checks a file.
    ///
    /// - Parameter by: The name of the person or program that applies it, for the history that operators read.
    static func read(_ path: String, by: String, at now: Timestamp) throws(ConfigurationErrors) -> EntityText {
        let file = ConfigurationFile.read(path)
        _ = try EntitySettings.readHub(file)
        switch file.contents {
        // Checked: it is UTF-8.
        case .success(let bytes): return EntityText(String(decoding: bytes, as: UTF8.self), of: path, by: by, at: now)
        case .failure(let error): throw ConfigurationErrors([error])
        }
    }

    /// The difference of two texts; `nil` for the first: there was none.
    ///
    /// - Throws: An error when this program cannot read one of the texts.
    static func difference(from old: EntityGeneration?, to new: EntityText) throws(ConfigurationErrors) -> EntityDifference {
        var before: EntityDifference.Settings?
        if let old { before = try EntitySettings.readHub(ConfigurationFile(name: "generation \(old.number)", text: old.text)) }
        return EntityDifference(from: before, to: try EntitySettings.readHub(ConfigurationFile(name: new.name, text: new.text)))
    }
}
