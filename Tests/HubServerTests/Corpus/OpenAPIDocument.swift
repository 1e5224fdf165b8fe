import Foundation
import SyncYAML

/// As much of `deploy/api/hub-v1.openapi.yaml` as it takes to hold it against the hub.
struct OpenAPIDocument: Sendable {
    struct Operation {
        var responses: [Int: Response]
    }

    struct Response {
        var headers: Set<String>
        var contentTypes: [String]
    }

    private let root: YAMLNode

    /// Read once: a hundred cases are held against it.
    static let shared = Result { try OpenAPIDocument() }

    private init() throws {
        let file = ConfigurationFile.read(CorpusCase.folder.appendingPathComponent("hub-v1.openapi.yaml").path)
        let document = YAMLDocument(try file.contents.get(), file: file.name)
        guard let root = document.root, document.errors.isEmpty else {
            throw CorpusCase.Mistake(description: "\(document.errors.map(\.description))")
        }
        self.root = root
    }

    var paths: [String] { root["paths"]?.members?.map(\.key) ?? [] }

    func methods(_ path: String) -> [String] { root["paths"]?[path]?.members?.map { $0.key.uppercased() } ?? [] }

    func operation(_ method: String, _ path: String) -> Operation? {
        guard let node = root["paths"]?[path]?[method.lowercased()] else { return nil }
        var responses: [Int: Response] = [:]
        for member in node["responses"]?.members ?? [] {
            let response = resolved(member.value)
            responses[Int(member.key) ?? 0] = Response(
                headers: Set(response["headers"]?.members?.map(\.key) ?? []),
                contentTypes: response["content"]?.members?.map(\.key) ?? [])
        }
        return Operation(responses: responses)
    }

    /// Follows `$ref: "#/components/responses/Name"`; a reference that leads nowhere is an empty response, and fails the test.
    private func resolved(_ node: YAMLNode) -> YAMLNode {
        guard case .scalar(let reference, _)? = node["$ref"]?.content, reference.hasPrefix("#/") else { return node }
        return root.deepest(reference.dropFirst(2).split(separator: "/").map(String.init))
    }
}
