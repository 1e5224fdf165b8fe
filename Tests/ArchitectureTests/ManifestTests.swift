import Foundation
import Testing

/// The targets of `Package.swift`, as its text declares them.
private struct Manifest {
    struct Target {
        var name: String
        var path: String
        var dependencies: Set<String>
    }

    /// Products of other packages, by the name that the text gives them.
    var products: [String: String] = [:]
    var targets: [Target] = []

    init(_ text: String) throws {
        for match in text.matches(of: /let (\w+): Target\.Dependency = \.product\(name: "(\w+)"/) {
            products[String(match.1)] = String(match.2)
        }
        for match in text.matches(of: /\.(target|testTarget|executableTarget)\(\s*name: "(\w+)"/) {
            let declaration = Manifest.declaration(text[match.range.lowerBound...])
            let name = String(match.2)
            let folder = match.1 == "testTarget" ? "Tests" : "Sources"
            let path = declaration.firstMatch(of: /path: "([^"]+)"/).map { String($0.1) } ?? "\(folder)/\(name)"
            let listed = declaration.firstMatch(of: /dependencies: \[([^\]]*)\]/).map { String($0.1) } ?? ""
            let words = listed.split(separator: ",").map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
            let dependencies = try words.filter { !$0.isEmpty }.map { word in
                if word.hasPrefix("\"") { return String(word.dropFirst().dropLast()) }
                return try #require(products[word], "\(name): \(word) is no product that the file names")
            }
            targets.append(Target(name: name, path: path, dependencies: Set(dependencies)))
        }
    }

    /// The text up to the parenthesis that closes the first one.
    private static func declaration(_ text: Substring) -> Substring {
        var depth = 0
        for index in text.indices {
            if text[index] == "(" { depth += 1 }
            if text[index] == ")" { depth -= 1 }
            if depth == 0, text[index] == ")" { return text[...index] }
        }
        return text
    }
}

/// SwiftPM compiles a target again only when a module changes that the target names. After a change of a module that it imports without
/// naming it, its code goes on by the old sizes of that module's types, and the program damages its own memory.
@Test("Package.swift names every module of the project and of its packages that a target imports")
func manifestNamesEveryImport() throws {
    let manifest = try Manifest(Checkout.text("Package.swift"))
    let known = Set(manifest.targets.map(\.name)).union(manifest.products.values)
    var lines = 0
    for target in manifest.targets {
        for file in Checkout.files(target.path) where file.path.hasSuffix(".swift") {
            for module in importedModules(in: file.text) where known.contains(module) {
                lines += 1
                #expect(target.dependencies.contains(module), "\(target.name) does not name \(module), which \(file.path) imports")
            }
        }
    }
    #expect(manifest.targets.count > 40 && lines > 1_000, "\(manifest.targets.count) targets and \(lines) imports were found")
}
