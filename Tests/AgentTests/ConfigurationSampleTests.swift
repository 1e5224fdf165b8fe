import Agent
import SyncCore
import SyncYAML
import Testing

/// `etc/agentd.yaml` is documentation that is executed: what it says about defaults, ranges and keys is what the code does.
struct ConfigurationSampleTests {
    @Test("The installed configuration lacks only the hub's address")
    func installedConfigurationLacksOnlyTheAddress() throws {
        let errors = ConfigurationFixtures.errors(try ConfigurationFixtures.projectFile("etc/agentd.yaml"))
        #expect(errors.count == 1)
        #expect(errors.first?.hasSuffix(" hub.url: is missing, expected https://HOST or https://HOST:PORT") == true)
    }

    @Test("The installed configuration with the hub's address in conf.d means the defaults")
    func installedConfigurationMeansTheDefaults() throws {
        let loaded = try ConfigurationFixtures.loaded([
            ConfigurationFile(name: "agentd.yaml", text: try ConfigurationFixtures.projectFile("etc/agentd.yaml")), hub,
        ])
        #expect(loaded.configuration == (try ConfigurationFixtures.defaults()))
    }

    @Test("With every documented default taken at its word, it means the defaults, and no default is left out")
    func documentedDefaults() throws {
        let text = try uncommented { !$0.hasSuffix("# example") }
        let loaded = try ConfigurationFixtures.loaded([ConfigurationFile(name: "agentd.yaml", text: text), hub])
        #expect(loaded.configuration == (try ConfigurationFixtures.defaults()))
        let silent = loaded.settings.filter {
            $0.origin == .standard && !$0.value.isNull && $0.value != [:] && $0.value != []
        }
        #expect(silent.map(\.key) == ["access"])
    }

    @Test("With its examples too it is a valid configuration that names every key there is, and no other")
    func everyKey() throws {
        let text = try uncommented { _ in true }
        _ = try ConfigurationFixtures.loaded([ConfigurationFile(name: "agentd.yaml", text: text)])
        let root = try #require(YAMLDocument(Array(text.utf8), file: "agentd.yaml").root)
        let known = AgentConfiguration.knownKeys.map(\.name)
        #expect(known.count > 50)
        // A header that is no secret is a plain text instead of a mapping.
        #expect(Set(keys(in: root, known: Set(known))).subtracting(["rest.headers.*"]) == Set(known))
    }

    @Test("Each range is told where its key is explained")
    func ranges() throws {
        let lines = try ConfigurationFixtures.projectFile("etc/agentd.yaml").split(
            separator: "\n", omittingEmptySubsequences: false)
        var checked = 0
        for key in AgentConfiguration.knownKeys {
            guard let range = range(key.expected) else { continue }
            let parts = key.name.split(separator: ".").map { $0.filter { $0 != "[" && $0 != "]" } }
            let section = try #require(lines.firstIndex(of: "\(parts[0]):"))
            let name = try #require(parts.last)
            let end =
                lines[(section + 1)...].firstIndex { $0.first.map { $0 != " " && $0 != "#" } ?? false }
                ?? lines.endIndex
            let place = try #require(
                lines[section..<end].firstIndex {
                    $0.hasPrefix("  #\(name):") || $0.hasPrefix("  # \(name):") || $0.contains("  \(name): ")
                        || $0.contains(" \(name): first") || $0.contains("day, \(name):") || $0.contains("# \(name),")
                        || $0.contains("   \(name),")
                },
                "\(key.name) is not explained")
            // The explanation: the lines with it, up and down to an empty one.
            let above = lines[..<place].lastIndex(of: "") ?? lines.startIndex
            let below = lines[place...].firstIndex(of: "") ?? lines.endIndex
            let words = lines[above..<below].joined(separator: " ").split(whereSeparator: { $0 == " " || $0 == "#" })
                .joined(separator: " ")
            #expect(words.contains(range), "\(key.name): \(range)")
            checked += 1
        }
        #expect(checked > 25)
    }

    @Test("The example of entities serves agent and hub, and is what SPEC calls the rules of these entities")
    func entities() throws {
        let file = ConfigurationFile(
            name: "entities", text: try ConfigurationFixtures.projectFile("etc/entities.example.yaml"))
        let book = try EntitySettings.readEntities(file)
        #expect(book.entities.keys.map(\.text).sorted() == ["alarms", "readings", "sites", "templates", "work_orders"])
        #expect(book.isStrict)
        let loaded = try ConfigurationFixtures.loaded([hub, file])
        #expect(loaded.configuration.rules == book)
    }

    private let hub = ConfigurationFile(name: "10-hub.yaml", text: "hub: { url: https://hub.example.com }\n")

    /// The file with the # taken away from lines that are keys.
    private func uncommented(_ isWanted: (Substring) -> Bool) throws -> String {
        let lines = try ConfigurationFixtures.projectFile("etc/agentd.yaml").split(
            separator: "\n", omittingEmptySubsequences: false)
        return lines.map { line in
            let indent = line.prefix { $0 == " " }
            let rest = line.dropFirst(indent.count)
            guard rest.hasPrefix("#"), isWanted(line) else { return String(line) }
            let after = rest.dropFirst()
            let isKey = after.first?.isLowercase == true && after.contains(":")
            return isKey || line.hasSuffix("# example") ? String(indent + after) : String(line)
        }.joined(separator: "\n")
    }

    /// `a duration from 1s to 7d, such as 30s`: the part `from 1s to 7d`.
    private func range(_ expected: String) -> String? {
        let words = expected.split(whereSeparator: { $0 == " " || $0 == "," })
        guard let from = words.firstIndex(of: "from"), words.count > from + 3, words[from + 2] == "to" else {
            return nil
        }
        return words[from...(from + 3)].joined(separator: " ")
    }

    /// Dotted names of everything in the tree, in the way known keys are named.
    private func keys(in node: YAMLNode, known: Set<String>, at path: String = "") -> [String] {
        if known.contains(path) { return [path] }
        switch node.content {
        case .mapping(let members):
            return members.flatMap { member in
                let name = ["entities", "rest.entities", "rest.headers"].contains(path) ? "*" : member.key
                return keys(in: member.value, known: known, at: path.isEmpty ? name : path + "." + name)
            }
        case .sequence(let nodes): return nodes.flatMap { keys(in: $0, known: known, at: path + "[]") }
        case .scalar, .refused: return [path]
        }
    }
}
