import Foundation
import LocalAPI
import SyncCore
import SyncYAML
import Testing

/// `deploy/api/agent-v1.openapi.yaml` tells of every route of the socket, and of no other.
@Suite("Reference of the local API")
struct LocalReferenceTests {
    private struct Operation: Hashable {
        var method: String
        var path: String
        var name: String
    }

    private static func operations() throws -> [Operation] {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..").standardizedFileURL
        let file = ConfigurationFile.read(root.appendingPathComponent("deploy/api/agent-v1.openapi.yaml").path)
        let document = YAMLDocument(try file.contents.get(), file: file.name)
        try #require(document.errors.isEmpty, "\(document.errors.map(\.description))")
        var found: [Operation] = []
        for path in document.root?["paths"]?.members ?? [] {
            for method in path.value.members ?? [] where ["get", "put", "post", "delete"].contains(method.key) {
                // A second path of a route has a name of its own, and tells which route it is.
                let named = method.value["x-route"] ?? method.value["operationId"]
                guard case .scalar(let name, _)? = named?.content else { continue }
                found.append(Operation(method: method.key.uppercased(), path: path.key, name: name))
            }
        }
        return found
    }

    private static func segments(_ path: String) -> [String] { path.split(separator: "/").map(String.init) }

    /// Returns whether a path with real names fits a template with names in braces.
    private static func matches(_ path: String, _ template: String) -> Bool {
        let (real, wanted) = (segments(path), segments(template))
        return real.count == wanted.count && zip(real, wanted).allSatisfy { $1.hasPrefix("{") || $0 == $1 }
    }

    private static func braces(_ operation: Operation) -> Int { operation.path.split(separator: "{").count }

    @Test("Every route of the code is in it, under its name, path and method")
    func complete() throws {
        let operations = try Self.operations()
        for route in LocalNumberTests.routes {
            let target = RouteTarget(route)
            let method = target.method.rawValue.uppercased()
            let path = String(target.target.prefix { $0 != "?" })
            let found = operations.filter { $0.method == method && Self.matches(path, $0.path) }
            // A path with fewer braces is the one that is meant: /v1/mutations/bulk and not /v1/mutations/{id}.
            let nearest = found.min { Self.braces($0) < Self.braces($1) }
            #expect(nearest?.name == route.name, "\(target.method) \(path)")
        }
        #expect(Set(operations.map(\.name)).isSuperset(of: LocalNumberTests.routes.map(\.name)))
    }

    @Test("Every operation in it is a route of the code")
    func real() throws {
        let key = "0199c3f2-0000-7000-8000-00000000beef"
        let examples = ["c-": "conflicts", "b-": "blobs"]
        for operation in try Self.operations() {
            let parts = Self.segments(operation.path)
            var path = ""
            for (place, part) in parts.enumerated() {
                guard part.hasPrefix("{") else {
                    path += "/" + part
                    continue
                }
                let before = place > 0 ? parts[place - 1] : ""
                let id = examples.first { $0.value == before }.map { $0.key + "1" }
                path += "/" + (id ?? (before == "mutations" || before == "rejected" || before == "why" ? key : "audits"))
            }
            do throws(Problem) {
                let route = try Route.parse(method: operation.method, target: path)
                #expect(route.name == operation.name, "\(operation.method) \(operation.path)")
            } catch {
                // A route that lacks a parameter answers with an error of its own: it exists.
                #expect(error.code != "not-found" && error.code != "method-not-allowed", "\(operation.method) \(operation.path): \(error)")
            }
        }
    }
}
