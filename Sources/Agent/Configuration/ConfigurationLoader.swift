package import SyncCore
package import SyncYAML

/// A configuration that was read without errors, with the origin of each key.
package struct LoadedConfiguration: Sendable {
    package var configuration: AgentConfiguration
    /// Every key with its value in force, in the order of the tables.
    package var settings: [EffectiveSetting]
    /// Names of the files, in the order in which they override each other.
    package var files: [String]
    /// Contents of the files whose stamps can be used.
    package var sources: [ConfigurationSource] = []
}

/// Reads a configuration from files. The main file comes first, then `conf.d/*.yaml` beside it in the order of their names. Later files
/// override earlier ones key by key, and replace lists as a whole.
package enum ConfigurationLoader {
    package static func load(main path: String, accounts: Accounts) throws(ConfigurationErrors) -> LoadedConfiguration {
        try read(files(main: path), accounts: accounts)
    }

    package static func files(main path: String) -> [ConfigurationFile] {
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        return [.read(path)] + ConfigurationFile.readAll(in: folder + "conf.d")
    }

    /// - Throws: All faults, in the order of the files. Each file must be correct by itself, also where a later one overrides it; only
    ///   missing and contradicting keys are checked over all files together.
    package static func read(
        _ files: [ConfigurationFile], accounts: Accounts, server: ServerConfiguration? = nil
    ) throws(ConfigurationErrors) -> LoadedConfiguration {
        let attempt = ConfigurationAttempt(files, accounts: accounts, server: server)
        guard let loaded = attempt.loaded else { throw ConfigurationErrors(attempt.errors) }
        return loaded
    }
}

/// One attempt to read a configuration, successful or not.
struct ConfigurationAttempt {
    /// The result; set if and only if there are no errors.
    private(set) var loaded: LoadedConfiguration?
    private(set) var errors: [ConfigurationError] = []
    /// The only fault is that the hub's address is missing.
    private(set) var lacksOnlyHub = false
    private var isComplete = true

    /// - Precondition: At least one file.
    init(_ files: [ConfigurationFile], accounts: Accounts, server: ServerConfiguration? = nil) {
        precondition(!files.isEmpty)
        let format = AgentConfiguration.format(accounts: accounts)
        let start = YAMLPosition(file: files[0].name, line: 1, column: 1)
        // `hub` is added even when no file contains it, so that its missing keys are named.
        let hub = YAMLMember(key: "hub", position: start, value: YAMLNode(position: start, content: .mapping([])))
        var whole = YAMLNode(position: start, content: .mapping([hub]))
        for file in files {
            // A missing key may be in the file that cannot be read, so the whole cannot be checked.
            if let root = read(file, format) { whole = whole.overlaid(by: root) } else { isComplete = false }
        }
        guard isComplete else { return }
        whole = Self.withAddressOfBackend(whole)
        if let server {
            // `locked` is a list of texts, or an error that is found below.
            let locked = whole["locked"].flatMap { $0.json.array }?.compactMap(\.text) ?? []
            whole = whole.overlaid(by: server.root(without: locked))
        }
        var reading = Reading(isWhole: true)
        let value = format.read(whole, &reading)
        // An error of a single file appears again in the whole, at the same place.
        func withoutHelp(_ error: ConfigurationError) -> ConfigurationError {
            var error = error
            (error.expected, error.nearest) = (nil, nil)
            return error
        }
        let known = Set(errors.map(withoutHelp))
        errors += reading.errors.filter { !known.contains(withoutHelp($0)) }
        lacksOnlyHub = errors.map(\.key) == ["hub.url"] && whole["hub"]?["url"] == nil
        guard let value, errors.isEmpty else { return }
        loaded = LoadedConfiguration(
            configuration: value, settings: EffectiveSetting.list(format.write(value), whole), files: files.map(\.name),
            sources: files.compactMap { ConfigurationSource($0) })
    }

    /// Puts the address of an existing backend in the place of the hub's, because all code that watches the connection uses that.
    private static func withAddressOfBackend(_ root: YAMLNode) -> YAMLNode {
        guard case .scalar("rest", _)? = root["adapter"]?.content, let url = root["rest"]?["base_url"], root["hub"]?["url"] == nil
        else { return root }
        let hub = YAMLNode(
            position: url.position, content: .mapping([YAMLMember(key: "url", position: url.position, value: url)]))
        return root.overlaid(
            by: YAMLNode(position: url.position, content: .mapping([YAMLMember(key: "hub", position: url.position, value: hub)])))
    }

    /// Records the faults of one file by itself.
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
        /// Set by the hub.
        case server

        package var description: String {
            switch self {
            case .standard: "default"
            case .file(let name, let line): "\(name):\(line)"
            case .server: "server"
            }
        }
    }

    /// Dotted name of the key.
    package var key: String
    /// The value as it would be written; `null` when it is not set. A list is one value. No key holds a secret: secrets are in files, and
    /// only their paths are here.
    package var value: JSON
    package var origin: Origin

    /// The settings as JSON: `{"sync.pull_interval":{"value":"60s","origin":"/etc/agentd/agentd.yaml:12"},…}`.
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
            // An empty key (`links:`) sets nothing; the default is in force.
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
