package import SyncCore
package import SyncYAML

/// What the hub tells this agent to work by (PROTOCOL A12): laid over the files like one more, but for the keys that the
/// files lock. An operator on site outranks the cloud.
package struct ServerConfiguration: Hashable, Sendable {
    package let version: Int64
    /// As it came.
    package let text: String
    let root: YAMLNode

    /// Stands in messages and as the origin of keys.
    static let name = "server"
    /// What a hub may say. Never who may use the socket, where the hub is, or where files lie.
    static let keys: Set<String> = ["entities", "strict_entities", "sync", "metered", "links"]
    static let bytesMax = 1 << 20

    /// - Parameter release: Of this program. An entity that asks for a newer one is mirrored, and nobody changes it here: its
    ///   rules may say what this program does not understand.
    /// - Throws: What is wrong with it as a document; what its keys say is checked with the files.
    package init(_ bytes: [UInt8], release: AgentRelease?) throws(ConfigurationErrors) {
        func refusal(_ problem: String, _ expected: String) -> ConfigurationErrors {
            ConfigurationErrors([
                ConfigurationError(at: YAMLPosition(file: Self.name, line: 1, column: 1), problem: problem, expected: expected)
            ])
        }
        guard bytes.count <= Self.bytesMax else { throw refusal("\(bytes.count) bytes", "at most \(Self.bytesMax)") }
        // Where it is no JSON does not matter to an agent, which cannot correct it: the old one stays in force, and that is told.
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
        // JSON is YAML.
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
        // It would let whoever holds the hub run programs on every device.
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

    /// Without the keys that are locked, and all below them.
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
