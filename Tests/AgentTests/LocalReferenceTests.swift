import Foundation
import LocalAPI
import SyncCore
import SyncHTTP
import SyncYAML
import Testing

/// `deploy/api/agent-v1.openapi.yaml` tells of every route of the socket, and of no other: its role, its parameters, its body and its
/// refusals. `ReferenceExampleTests` compares it with the answers of the built agent.
@Suite("Reference of the local API")
struct LocalReferenceTests {
    private struct Operation: Hashable {
        var method: String
        var path: String
        var name: String
        var node: YAMLNode

        var label: String { "\(method) \(path)" }
        /// The route of the code.
        var route: Route? { LocalNumberTests.routes.first { $0.name == name } }
        /// The codes of `x-problems`, in their order.
        var problems: [String] { node["x-problems"].map(LocalReferenceTests.texts) ?? [] }
    }

    /// The whole document.
    private static func document() throws -> YAMLNode {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..").standardizedFileURL
        let file = ConfigurationFile.read(root.appendingPathComponent("deploy/api/agent-v1.openapi.yaml").path)
        let document = YAMLDocument(try file.contents.get(), file: file.name)
        try #require(document.errors.isEmpty, "\(document.errors.map(\.description))")
        return try #require(document.root)
    }

    private static func operations(_ document: YAMLNode) -> [Operation] {
        var found: [Operation] = []
        for path in document["paths"]?.members ?? [] {
            for method in path.value.members ?? [] where ["get", "put", "post", "delete"].contains(method.key) {
                // A second path of a route has a name of its own, and tells which route it is.
                let named = method.value["x-route"] ?? method.value["operationId"]
                guard case .scalar(let name, _)? = named?.content else { continue }
                found.append(Operation(method: method.key.uppercased(), path: path.key, name: name, node: method.value))
            }
        }
        return found
    }

    private static func text(_ node: YAMLNode?) -> String? {
        if case .scalar(let text, _)? = node?.content { text } else { nil }
    }

    private static func texts(_ list: YAMLNode) -> [String] {
        if case .sequence(let nodes) = list.content { nodes.compactMap { text($0) } } else { [] }
    }

    /// The names of an operation's parameters that are at `place`: `path`, `query` or `header`.
    private static func parameters(_ operation: Operation, in place: String, _ document: YAMLNode) -> [String] {
        guard case .sequence(let nodes)? = operation.node["parameters"]?.content else { return [] }
        return nodes.compactMap { node in
            let component = text(node["$ref"])?.split(separator: "/").last.map(String.init)
            let parameter = component.flatMap { document["components"]?["parameters"]?[$0] } ?? node
            return text(parameter["in"]) == place ? text(parameter["name"]) : nil
        }
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
        let operations = try Self.operations(Self.document())
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

    /// The path of an operation with names that a route accepts in place of those in braces.
    private static func example(_ operation: Operation) -> String {
        let key = "0199c3f2-0000-7000-8000-00000000beef"
        let examples = ["c-": "conflicts", "b-": "blobs"]
        let parts = segments(operation.path)
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
        return path.isEmpty ? "/" : path
    }

    @Test("Every operation in it is a route of the code")
    func real() throws {
        for operation in Self.operations(try Self.document()) {
            do throws(Problem) {
                let route = try Route.parse(method: operation.method, target: Self.example(operation))
                #expect(route.name == operation.name, "\(operation.label)")
            } catch {
                // A route that lacks a parameter answers with an error of its own: it exists.
                #expect(error.code != "not-found" && error.code != "method-not-allowed", "\(operation.label): \(error)")
            }
        }
    }

    @Test("Every operation tells the role that its route needs")
    func roles() throws {
        for operation in Self.operations(try Self.document()) {
            let route = try #require(operation.route, "\(operation.label)")
            #expect(Self.text(operation.node["x-role"]) == route.role?.rawValue ?? "none", "\(operation.label)")
        }
    }

    @Test("Every operation has the query parameters that the parser of its route knows, and no other")
    func queries() throws {
        let document = try Self.document()
        for operation in Self.operations(document) {
            let described = Self.parameters(operation, in: "query", document)
            #expect(Set(described).count == described.count, "\(operation.label): a parameter comes twice")
            // The refusal of an unknown parameter lists the known ones.
            let unknown = "no-route-has-this"
            var known: Set<String>?
            do throws(Problem) {
                _ = try Route.parse(method: operation.method, target: Self.example(operation) + "?\(unknown)=1")
            } catch {
                #expect(error.members["parameter"] == .string(unknown), "\(operation.label): \(error)")
                let detail = error.errors.first?.detail ?? ""
                if detail == "this route takes none" { known = [] }
                if detail.hasPrefix("known are ") { known = Set(detail.dropFirst(10).components(separatedBy: ", ")) }
            }
            #expect(known == Set(described), "\(operation.label)")
        }
    }

    @Test("Every operation has a name in its path for each pair of braces")
    func paths() throws {
        let document = try Self.document()
        for operation in Self.operations(document) {
            let braces = operation.path.matches(of: /\{([a-z_]+)\}/).map { String($0.1) }
            #expect(Self.parameters(operation, in: "path", document) == braces, "\(operation.label)")
        }
    }

    @Test("Every operation has a body where its route accepts one, and of the media types that it accepts")
    func bodies() throws {
        for operation in Self.operations(try Self.document()) {
            let route = try #require(operation.route, "\(operation.label)")
            let body = operation.node["requestBody"]
            let media = Set((body?["content"]?.members ?? []).map(\.key))
            let isRequired = Self.text(body?["required"]) == "true"
            switch route.body {
            case .none: #expect(body == nil, "\(operation.label)")
            case .json(_, let mustBeThere):
                #expect(media == ["application/json"] && isRequired == mustBeThere, "\(operation.label)")
            case .lines: #expect(media == ["application/x-ndjson"] && !isRequired, "\(operation.label)")
            // The bytes of the file, or the place of a file on this machine.
            case .file: #expect(media == ["application/octet-stream", "application/json"] && !isRequired, "\(operation.label)")
            }
        }
    }

    @Test("The refusals of every operation are those of its codes, and follow from its role and its body")
    func refusals() throws {
        let document = try Self.document()
        for operation in Self.operations(document) {
            let route = try #require(operation.route, "\(operation.label)")
            let problems = operation.problems
            #expect(Set(problems).count == problems.count, "\(operation.label): a code comes twice")
            // The HTTP server itself answers `busy`, for every path.
            for code in ["malformed", "not-configured", "busy"] { #expect(problems.contains(code), "\(operation.label): \(code)") }
            for code in ["forbidden", "rate"] {
                #expect(problems.contains(code) == (route.role != nil), "\(operation.label): \(code)")
            }
            let mayBeRead: Set<String> = ["unknown-member", "too-large", "unsupported-media-type", "validation"]
            switch route.body {
            case .json, .file: #expect(mayBeRead.isSubset(of: problems), "\(operation.label)")
            // A wrong line is answered by a line.
            case .lines: #expect(mayBeRead.intersection(problems) == ["unsupported-media-type"], "\(operation.label)")
            // A file that is retried, a query and a new configuration are judged without a body.
            case .none: #expect(mayBeRead.intersection(problems).isSubset(of: ["validation"]), "\(operation.label)")
            }
            var statuses: [String: [String]] = [:]
            for code in problems {
                let status = try #require(code == "busy" ? 503 : LocalProblem(rawValue: code)?.status, "\(operation.label): \(code)")
                statuses[String(status), default: []].append(code)
            }
            // A range that lies outside of the file is refused with 416, and its code is `malformed` all the same.
            let described = (operation.node["responses"]?.members ?? []).filter { $0.key >= "400" && $0.key != "416" }
            #expect(Set(described.map(\.key)) == Set(statuses.keys), "\(operation.label)")
            for response in described {
                let named = (Self.text(response.value["description"]) ?? "").matches(of: /`([a-z-]+)`/).map { String($0.1) }
                #expect(named == statuses[response.key], "\(operation.label) \(response.key)")
            }
        }
    }

    @Test("The document has every code of the local API, and no other")
    func codes() throws {
        let document = try Self.document()
        let problem = document["components"]?["schemas"]?["Problem"]?["properties"]?["type"]?["enum"]
        let described = Self.texts(try #require(problem)).map { String($0.split(separator: ":").last ?? "") }
        let server = HTTPProblem.ServerCode.allCases.map(\.rawValue)
        #expect(Set(described) == Set(LocalProblem.allCases.map(\.rawValue)).union(server))
        // Every path can answer these two, so no operation lists them.
        let operations = Set(Self.operations(document).flatMap(\.problems))
        let missing = LocalProblem.allCases.map(\.rawValue).filter { !operations.contains($0) }
        #expect(missing == ["method-not-allowed", "timeout"])
    }

    @Test("The document has every state, type and class of the code, and no other")
    func words() throws {
        let document = try Self.document()
        let schemas = document["components"]?["schemas"]
        func words(_ node: YAMLNode?) -> Set<String> { Set(node?["enum"].map(Self.texts) ?? []) }
        #expect(words(schemas?["MutationState"]) == Set(MutationState.allCases.map(\.name)))
        #expect(words(schemas?["ConflictState"]) == Set(ConflictState.allCases.map(\.rawValue)))
        #expect(words(schemas?["BlobState"]) == Set(BlobListState.words))
        #expect(words(schemas?["Priority"]) == Set(Priority.allCases.map(\.name)))
        let classes = schemas?["TrafficClass"]?["examples"].map(Self.texts) ?? []
        #expect(Set(classes) == Set(TrafficClass.allCases.map(\.name)))
        let events = try #require(Self.operations(document).first { $0.name == "events" }?.node["parameters"])
        guard case .sequence(let parameters) = events.content else {
            Issue.record("the events have no list of parameters")
            return
        }
        let types = parameters.first { Self.text($0["name"]) == "types" }?["schema"]?["items"]
        #expect(words(types) == Set(EventType.allCases.map(\.rawValue)))
    }
}
