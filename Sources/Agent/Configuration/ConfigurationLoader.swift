package import SyncCore
package import SyncYAML

/// A configuration that was read without an error, and where each key of it came from.
package struct LoadedConfiguration: Sendable {
    package var configuration: AgentConfiguration
    /// Every key with its value in force, in the order of the tables.
    package var settings: [EffectiveSetting]
    /// The files in the order they were laid over one another.
    package var files: [String]
    /// What stood in those of them whose stamps say anything.
    package var sources: [ConfigurationSource] = []
}

/// From files to a configuration. The main file comes first, then `conf.d/*.yaml` beside it in the order of their
/// names; later files win, key by key, and replace lists as a whole.
package enum ConfigurationLoader {
    package static func load(main path: String, accounts: Accounts) throws(ConfigurationErrors) -> LoadedConfiguration {
        try read(files(main: path), accounts: accounts)
    }

    package static func files(main path: String) -> [ConfigurationFile] {
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        return [.read(path)] + ConfigurationFile.readAll(in: folder + "conf.d")
    }

    /// - Throws: Everything that is wrong, in the order of the files. Each file must be right by itself, also where
    ///   a later one overrides it; only what is missing and what contradicts is looked at in all of them together.
    package static func read(
        _ files: [ConfigurationFile], accounts: Accounts, server: ServerConfiguration? = nil
    ) throws(ConfigurationErrors) -> LoadedConfiguration {
        let attempt = ConfigurationAttempt(files, accounts: accounts, server: server)
        guard let loaded = attempt.loaded else { throw ConfigurationErrors(attempt.errors) }
        return loaded
    }
}

/// One try at reading a configuration, successful or not.
struct ConfigurationAttempt {
    /// Set if and only if there are no errors.
    private(set) var loaded: LoadedConfiguration?
    private(set) var errors: [ConfigurationError] = []
    /// Nothing is wrong but that nobody has said where the hub is.
    private(set) var lacksOnlyHub = false
    private var isComplete = true

    /// - Precondition: At least one file.
    init(_ files: [ConfigurationFile], accounts: Accounts, server: ServerConfiguration? = nil) {
        precondition(!files.isEmpty)
        let format = AgentConfiguration.format(accounts: accounts)
        let start = YAMLPosition(file: files[0].name, line: 1, column: 1)
        // `hub` is there even when nobody wrote it, so that what is missing in it is named.
        let hub = YAMLMember(key: "hub", position: start, value: YAMLNode(position: start, content: .mapping([])))
        var whole = YAMLNode(position: start, content: .mapping([hub]))
        for file in files {
            // What is missing may stand in the file that cannot be read, so nothing can be said about the whole.
            if let root = read(file, format) { whole = whole.overlaid(by: root) } else { isComplete = false }
        }
        guard isComplete else { return }
        whole = Self.withAddressOfBackend(whole)
        if let server {
            // What is locked is a list of texts, or else an error that is found below.
            let locked = whole["locked"].flatMap { $0.json.array }?.compactMap(\.text) ?? []
            whole = whole.overlaid(by: server.root(without: locked))
        }
        var reading = Reading(isWhole: true)
        let value = format.read(whole, &reading)
        // An error that a file has by itself shows again in the whole, at the same place.
        func withoutGuess(_ error: ConfigurationError) -> ConfigurationError {
            var error = error
            error.nearest = nil
            return error
        }
        let known = Set(errors.map(withoutGuess))
        errors += reading.errors.filter { !known.contains(withoutGuess($0)) }
        lacksOnlyHub = errors.map(\.key) == ["hub.url"] && whole["hub"]?["url"] == nil
        guard let value, errors.isEmpty else { return }
        loaded = LoadedConfiguration(
            configuration: value, settings: EffectiveSetting.list(format.write(value), whole), files: files.map(\.name),
            sources: files.compactMap { ConfigurationSource($0) })
    }

    /// The address of an existing backend stands where the hub's would: everything that watches the way there asks for that.
    private static func withAddressOfBackend(_ root: YAMLNode) -> YAMLNode {
        guard case .scalar("rest", _)? = root["adapter"]?.content, let url = root["rest"]?["base_url"], root["hub"]?["url"] == nil
        else { return root }
        let hub = YAMLNode(
            position: url.position, content: .mapping([YAMLMember(key: "url", position: url.position, value: url)]))
        return root.overlaid(
            by: YAMLNode(position: url.position, content: .mapping([YAMLMember(key: "hub", position: url.position, value: hub)])))
    }

    /// Notes what is wrong with one file by itself.
    private mutating func read(_ file: ConfigurationFile, _ format: Format<AgentConfiguration>) -> YAMLNode? {
        let bytes: [UInt8]
        switch file.contents {
        case .success(let read): bytes = read
        case .failure(let error):
            errors.append(error)
            return nil
        }
        let document = YAMLDocument(bytes, file: file.name)
        var reading = Reading(isWhole: false)
        if let root = document.root { _ = format.read(root, &reading) }
        errors += document.errors + reading.errors
        return document.root
    }
}

/// One key in force.
package struct EffectiveSetting: Hashable, Sendable {
    package enum Origin: Hashable, Sendable, CustomStringConvertible {
        case standard
        case file(String, line: Int)
        /// The hub has said so.
        case server

        package var description: String {
            switch self {
            case .standard: "default"
            case .file(let name, let line): "\(name):\(line)"
            case .server: "server"
            }
        }
    }

    /// Dotted.
    package var key: String
    /// As it would be written; `null` when nothing is set. A list is one value. No key holds a secret: what is secret
    /// is in a file, and only its path is here.
    package var value: JSON
    package var origin: Origin

    /// `{"sync.pull_interval":{"value":"60s","origin":"/etc/agentd/agentd.yaml:12"},…}`
    package static func json(_ settings: [EffectiveSetting]) -> JSON {
        .object(
            settings.reduce(into: JSONObject()) { object, setting in
                object[setting.key] = ["value": setting.value, "origin": .string(setting.origin.description)]
            })
    }

    static func list(_ value: JSON, _ root: YAMLNode) -> [EffectiveSetting] {
        leaves(value, root, key: "")
    }

    private static func leaves(_ value: JSON, _ node: YAMLNode?, key: String) -> [EffectiveSetting] {
        guard case .object(let object) = value, !object.isEmpty else {
            // What was left empty (`links:`) says nothing; the default is in force.
            let given = node.flatMap { $0.isNull ? nil : $0.position }
            return [
                EffectiveSetting(
                    key: key, value: value,
                    origin: given.map { $0.file == ServerConfiguration.name ? .server : .file($0.file, line: $0.line) } ?? .standard)
            ]
        }
        return object.members.flatMap { member in
            let name = member.name.text
            return leaves(member.value, node?[name], key: key.isEmpty ? keyText(name) : key + "." + keyText(name))
        }
    }
}
