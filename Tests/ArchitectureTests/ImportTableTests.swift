import Foundation
import Testing

/// Which modules each target may import. The build does not hold this by itself: an undeclared or indirect import often
/// compiles. A new arrow is a change of the design, and is made here first.
private let table: [String: Set<String>] = [
    "SyncCore": [],
    "SyncThreads": ["CSyncThreads", "Glibc", "Synchronization"],
    "SyncSQLite": ["SyncCore", "CSQLite", "Glibc"],
    "SyncStore": ["SyncCore", "SyncThreads", "SyncSQLite", "Glibc", "Synchronization"],
    "SyncLinux": ["SyncCore", "SyncThreads", "CSyncLinux", "FoundationEssentials", "Glibc", "Logging", "Synchronization"],
    "SyncHTTP": ["CSyncLinux", "NIOCore", "NIOPosix", "NIOHTTP1", "Glibc", "Synchronization"],
    "SyncYAML": ["SyncCore", "CYAML", "Glibc"],
    "LocalAPI": ["SyncCore", "FoundationEssentials", "Synchronization"],
    // The library for apps: nothing of ours, so that an app which uses it builds nothing else.
    "EdgeSync": ["Glibc", "Synchronization"],
    "Agent": [
        "SyncCore", "SyncStore", "SyncHTTP", "SyncYAML", "LocalAPI", "NIOCore", "NIOPosix", "NIOHTTP1", "Logging",
        "Synchronization",
    ],
    "HubServer": [
        "SyncCore", "SyncHTTP", "SyncSQLite", "NIOCore", "NIOPosix", "NIOHTTP1", "NIOSSL", "Logging", "Glibc",
        "Synchronization",
    ],
    "HubPostgres": ["HubServer", "CPostgres", "Glibc"],
    "HubConformance": ["SyncCore"],
    "BenchKit": ["SyncCore", "LocalAPI", "CBenchFloors", "ArgumentParser", "FoundationEssentials", "Glibc"],
]

/// Modules that a program leaves alone: each side works without the other one.
private let apart: [String: Set<String>] = [
    "agenthub": ["Agent", "LocalAPI", "SyncStore"],
    "agentd": ["HubServer", "HubPostgres"],
    "agentctl": ["Agent", "HubServer", "SyncStore"],
]

/// Modules that no shipped target may import: they bring ICU, threads and wake-ups along.
private let forbidden: Set<String> = ["Foundation", "Dispatch", "FoundationNetworking", "FoundationXML"]

private let sources = Checkout.root.appendingPathComponent("Sources")

/// The lines of all targets that import something.
private let importLines: [String: [(file: String, module: String)]] = {
    var found: [String: [(file: String, module: String)]] = [:]
    for file in Checkout.sources where file.path.hasSuffix(".swift") {
        let parts = file.path.split(separator: "/")
        found[String(parts[1]), default: []] += importedModules(in: file.text).map { (String(parts[parts.count - 1]), $0) }
    }
    return found
}()

private func imports(of target: String) -> [(file: String, module: String)] { importLines[target] ?? [] }

func importedModules(in text: String) -> [String] {
    text.utf8.split(separator: UInt8(ascii: "\n")).compactMap { bytes in
        let line = Substring(bytes)
        guard line.has("import ") else { return nil }
        let words = line.split(separator: " ")
        guard let at = words.firstIndex(of: "import"), at <= 2, at + 1 < words.count,
            words[..<at].allSatisfy({ ["package", "public", "internal", "private", "fileprivate"].contains($0) || $0.hasPrefix("@") })
        else { return nil }
        let kinds: Set<Substring> = ["struct", "class", "enum", "protocol", "func", "var", "let", "typealias"]
        let name = kinds.contains(words[at + 1]) && at + 2 < words.count ? words[at + 2] : words[at + 1]
        return String(name.split(separator: ".")[0])
    }
}

@Test("A target imports only what its row of the table names", arguments: table.keys.sorted())
func importsFollowTheTable(_ target: String) {
    let found = imports(of: target)
    if target != "SyncCore" { #expect(!found.isEmpty, "no import line was found at all: the test looks in the wrong place") }
    for line in found {
        #expect(table[target]?.contains(line.module) == true, "\(target)/\(line.file) imports \(line.module)")
    }
}

@Test("A program imports nothing of the other side", arguments: apart.keys.sorted())
func programsKeepApart(_ program: String) {
    let found = imports(of: program)
    #expect(!found.isEmpty, "no import line was found at all: the test looks in the wrong place")
    for line in found {
        #expect(apart[program]?.contains(line.module) != true, "\(program)/\(line.file) imports \(line.module)")
    }
}

/// Words of the page that stand for several modules.
private let shortWords: [String: Set<String>] = [
    "NIO": ["NIOCore", "NIOPosix", "NIOHTTP1"], "NIO with TLS": ["NIOCore", "NIOPosix", "NIOHTTP1", "NIOSSL"], "none": [],
]

@Test("The page about the sources names the modules of each target as the table does")
func pageFollowsTheTable() throws {
    let page = try String(contentsOf: sources.appendingPathComponent("README.md"), encoding: .utf8)
    let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
    let start = try #require(lines.firstIndex { $0.hasPrefix("| target | modules of the project |") })
    var found: [String: Set<String>] = [:]
    for line in lines[start...].dropFirst(2).prefix(while: { $0.hasPrefix("|") }) {
        let cells = line.split(separator: "|").map { $0.filter { $0 != "`" }.trimmingCharacters(in: .whitespaces) }
        try #require(cells.count == 3, "\(line)")
        let words = cells.dropFirst().flatMap { $0.components(separatedBy: ", ") }
        found[cells[0]] = words.reduce(into: Set<String>()) { $0.formUnion(shortWords[$1] ?? [$1]) }
    }
    #expect(found == table)
}

@Test("No shipped target imports what would bring ICU, threads of its own or wake-ups")
func nothingForbiddenIsImported() throws {
    for folder in try FileManager.default.contentsOfDirectory(atPath: sources.path).sorted() {
        for line in imports(of: folder) {
            #expect(!forbidden.contains(line.module), "\(folder)/\(line.file) imports \(line.module)")
        }
    }
}

@Test("Every Swift target of the sources has a row or is a program")
func everyTargetIsKnown() throws {
    let programs: Set<String> = ["agentd", "agentctl", "agenthub", "agentbench"]
    // Beside the folders of the targets there is only the map, README.md.
    let names = try FileManager.default.contentsOfDirectory(atPath: sources.path).filter { $0 != "README.md" }
    for folder in names where !folder.hasPrefix("C") {
        #expect(table[folder] != nil || programs.contains(folder), "\(folder) is in no table")
    }
}
