package import SyncCore
package import SyncYAML

/// Settings that the hub sends to this agent (PROTOCOL A12). They override the files, except for the keys that the files lock: an operator
/// on site takes precedence over the hub.
package struct ServerConfiguration: Hashable, Sendable {
    package let version: Int64
    /// The text as received.
    package let text: String
    let root: YAMLNode

    /// The name in messages, and the origin of keys.
    static let name = "server"
    /// Keys that a hub may set. It may never set the users of the socket, the hub's address, or the place of files.
    static let keys: Set<String> = ["entities", "strict_entities", "sync", "metered", "links"]
    static let bytesMax = 1 << 20

    /// - Parameter release: The release of this program. An entity that requires a newer one is mirrored and cannot be changed here,
    ///   because its rules may contain keys that this program does not know.
    /// - Throws: Faults of the document; its keys are checked together with the files.
    package init(_ bytes: [UInt8], release: AgentRelease?) throws(ConfigurationErrors) {
        func refusal(_ problem: String, _ expected: String) -> ConfigurationErrors {
            ConfigurationErrors([
                ConfigurationError(at: YAMLPosition(file: Self.name, line: 1, column: 1), problem: problem, expected: expected)
            ])
        }
        guard bytes.count <= Self.bytesMax else { throw refusal("\(bytes.count) bytes", "at most \(Self.bytesMax)") }
        // The place of a syntax error does not help an agent, which cannot correct it: the old settings stay in force, and that is
        // reported.
        guard let json = try? JSONReader.read(bytes), var object = json.object else { throw refusal("is not JSON", "a JSON object") }
        guard let version = object["version"]?.int else { throw refusal("version is missing", "a whole number") }
        self.version = version
        text = String(decoding: bytes, as: UTF8.self)
        object["version"] = nil
        if var entities = object["entities"]?.object {
            for member in entities.members {
                guard let least = member.value.object?["min_agent"]?.text.flatMap({ AgentRelease($0) }), let release, release < least
                else { continue }
                entities[member.name.text] = ["kind": "reference"]
            }
            object["entities"] = .object(entities)
        }
        // JSON is valid YAML.
        let document = YAMLDocument(JSON.object(object).bytes, file: Self.name)
        guard document.errors.isEmpty, let root = document.root else { throw ConfigurationErrors(document.errors) }
        let unknown = (root.members ?? []).filter { !Self.keys.contains($0.key) }
        guard unknown.isEmpty else {
            throw ConfigurationErrors(
                unknown.map {
                    ConfigurationError(
                        at: $0.position, key: $0.key, problem: "is not for a hub to say",
                        expected: Self.keys.sorted().joined(separator: ", "))
                })
        }
        // It would let an attacker who controls the hub run programs on every device.
        if case .sequence(let links)? = root["links"]?.content {
            let programs = links.flatMap { ($0.members ?? []).filter { $0.key.hasPrefix("recover") } }
            guard programs.isEmpty else {
                throw ConfigurationErrors(
                    programs.map {
                        ConfigurationError(
                            at: $0.position, key: "links.\($0.key)", problem: "is not for a hub to say",
                            expected: "it in a file of the device, and links among its locked keys")
                    })
            }
        }
        self.root = root
    }

    /// The settings without the locked keys, and all below them.
    func root(without locked: [String]) -> YAMLNode {
        locked.reduce(root) { $0.without($1.split(separator: ".").map(String.init)[...]) }
    }
}

extension YAMLNode {
    fileprivate func without(_ path: ArraySlice<String>) -> YAMLNode {
        guard let first = path.first, case .mapping(var members) = content else { return self }
        if path.count == 1 {
            members.removeAll { $0.key == first }
        } else {
            for index in members.indices where members[index].key == first {
                members[index].value = members[index].value.without(path.dropFirst())
            }
        }
        return YAMLNode(position: position, content: .mapping(members))
    }
}
