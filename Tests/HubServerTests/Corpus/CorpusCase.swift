import Foundation
import SyncCore

/// One file of `deploy/api/corpus`: a request, the hub's answer to it, and what an agent reads in the answer.
///
/// The format is described in `deploy/api/README.md`. Files are read strictly, so that a slip of the pen is an error and
/// not a check that is never made.
struct CorpusCase: Sendable {
    let name: String
    let shows: String
    /// `entities`, `strict_entities`, `tokens`, `gzip`: how the hub is set up.
    let hub: JSONObject
    /// The requests before the one that the case is about.
    let before: [Step]
    let request: Request
    let response: Response
    /// What the agent's readers make of the answer, a line for each thing; `nil` where no agent asks.
    let agent: [String]?

    enum Step: Sendable {
        /// Without an expected answer, any 200 will do.
        case exchange(Request, Response?)
        /// What an operator does: `start-epoch`, `collect-tombstones`, or what happens to one: `fail-commits`.
        case event(String)
    }

    struct Request: Sendable {
        let method: String
        var target: String
        var headers: JSONObject
        var body: JSON?
        /// A body that is no JSON.
        let text: String?
        let isGzipped: Bool
        /// Blanks are added to the body up to this size.
        let padding: Int

        var path: String { String(target.prefix { $0 != "?" }) }
    }

    struct Response: Sendable {
        let status: Int
        let headers: JSONObject
        let body: JSON?
        let text: String?
    }

    struct Mistake: Error, CustomStringConvertible {
        let description: String
    }

    // MARK: Files

    static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().appendingPathComponent("../../../deploy/api").standardizedFileURL

    /// The names of all cases; empty when there is no corpus, which a test of its own notices.
    static let names: [String] = {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: folder.appendingPathComponent("corpus").path)) ?? []
        return files.filter { $0.hasSuffix(".json") }.map { String($0.dropLast(5)) }.sorted()
    }()

    init(named name: String) throws {
        let data = try Data(contentsOf: Self.folder.appendingPathComponent("corpus/\(name).json"))
        var limits = JSONReader.Limits()
        // Steps, requests and bodies around a document.
        limits.depth = 48
        var file = try Members(JSONReader.read(Array(data), limits: limits), name)
        self.name = name
        shows = try file.take("shows", \.text)
        hub = try file.takeIfPresent("hub", \.object) ?? [:]
        before = try (file.takeIfPresent("before", \.array) ?? []).map { try Step($0, name) }
        request = try Request(file.take("request") { $0 }, name)
        response = try Response(file.take("response") { $0 }, name)
        agent = try file.takeIfPresent("agent", \.array).map { lines in
            try lines.map { line in
                guard let text = line.text else { throw Mistake(description: "\(name): agent: expected lines of text") }
                return text
            }
        }
        try file.end()
    }
}

extension CorpusCase.Step {
    init(_ json: JSON, _ name: String) throws {
        var members = try CorpusCase.Members(json, name)
        if let event = try members.takeIfPresent("operator", \.text) {
            self = .event(event)
        } else {
            let request = try CorpusCase.Request(members.take("request") { $0 }, name)
            let response = try members.takeIfPresent("response") { $0 }.map { try CorpusCase.Response($0, name) }
            self = .exchange(request, response)
        }
        try members.end()
    }
}

extension CorpusCase.Request {
    init(_ json: JSON, _ name: String) throws {
        var members = try CorpusCase.Members(json, name)
        method = try members.take("method", \.text)
        target = try members.take("path", \.text)
        headers = try members.takeIfPresent("headers", \.object) ?? [:]
        body = try members.takeIfPresent("body") { $0 }
        text = try members.takeIfPresent("text", \.text)
        isGzipped = try members.takeIfPresent("gzip", \.bool) ?? false
        padding = try members.takeIfPresent("pad_to_bytes", \.int).map { Int($0) } ?? 0
        try members.end()
    }
}

extension CorpusCase.Response {
    init(_ json: JSON, _ name: String) throws {
        var members = try CorpusCase.Members(json, name)
        status = Int(try members.take("status", \.int))
        headers = try members.take("headers", \.object)
        body = try members.takeIfPresent("body") { $0 }
        text = try members.takeIfPresent("text", \.text)
        try members.end()
    }
}

extension CorpusCase {
    /// The members of an object, each to be taken once; what is left over at the end is a mistake.
    fileprivate struct Members {
        private var rest: JSONObject
        private let place: String

        init(_ json: JSON, _ place: String) throws {
            guard let object = json.object else { throw Mistake(description: "\(place): expected an object") }
            rest = object
            self.place = place
        }

        mutating func takeIfPresent<T>(_ name: String, _ read: (JSON) -> T?) throws -> T? {
            guard let json = rest[name] else { return nil }
            guard let value = read(json) else { throw Mistake(description: "\(place): \(name) is \(json.kind)") }
            rest[name] = nil
            return value
        }

        mutating func take<T>(_ name: String, _ read: (JSON) -> T?) throws -> T {
            guard let value = try takeIfPresent(name, read) else { throw Mistake(description: "\(place): \(name) is missing") }
            return value
        }

        func end() throws {
            guard rest.isEmpty else { throw Mistake(description: "\(place): nobody knows \(rest.names)") }
        }
    }
}
