import Foundation
import Testing

/// The map in `Sources/README.md` has every target, and every folder of a target that has a table.
@Suite("The map of the sources")
struct MapTests {
    /// Names that a map lacks: targets, and folders as `Target/Folder`.
    private static func missing(in map: String, _ paths: [String]) -> [String] {
        var folders: [String: Set<String>] = [:]
        for path in paths where path.hasSuffix(".swift") {
            let parts = path.split(separator: "/").map(String.init)
            folders[parts[1], default: []].formUnion(parts.count > 3 ? [parts[2]] : [])
        }
        return folders.sorted { $0.key < $1.key }.flatMap { target, folders in
            guard map.has("`\(target)`") || map.has("### \(target),") else { return [target] }
            // A small target has a line and no table.
            guard let start = map.range(of: "### \(target),")?.upperBound else { return [String]() }
            let table = map[start...].prefix(upTo: map[start...].range(of: "\n### ")?.lowerBound ?? map.endIndex)
            return folders.sorted().filter { !table.has("`\($0)`") }.map { "\(target)/\($0)" }
        }
    }

    @Test("Every target and every folder is on the map")
    func complete() throws {
        let page = try Checkout.text("Sources/README.md")
        let start = try #require(page.range(of: "\n## Map\n")?.upperBound)
        let end = try #require(page.range(of: "\n## Glossary\n")?.lowerBound)
        #expect(Self.missing(in: String(page[start..<end]), Checkout.sources.map(\.path)) == [])
    }

    @Test("A folder and a target that the map lacks are named")
    func lacking() {
        let map = "### Agent, the shell\n| `API` | routes |\n### LocalAPI, the language\n| `Rooms` | x |\n- `agentd` is one.\n"
        let paths = ["Agent/API/A.swift", "Agent/Rooms/B.swift", "Agent/C.swift", "agentd/Any/D.swift", "Other/E.swift"]
        #expect(Self.missing(in: map, paths.map { "Sources/" + $0 }) == ["Agent/Rooms", "Other"])
    }
}
