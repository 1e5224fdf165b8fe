import SyncCore
import SyncLinux
import Synchronization
import Testing

extension EndToEnd {
    /// The reference of the local API, compared with the answers of the built agent. `deploy/api/check-agent` does the same with tools of
    /// others.
    @Suite("Reference of the local API, at a running agent")
    struct ReferenceExampleTests {
        /// The parameters that stand for something that an example makes, by the operation that makes it. No example makes a conflict.
        private static let makers = ["enqueue": ["mutation"], "blobs_add": ["blob", "blobName"]]
        /// The parameters whose example is good for every agent, once the examples before have been sent.
        private static let given: Set<String> = ["entityInPath", "record", "link"]
        /// Refusals that do not depend on the request: the hub was not met yet, and the document is not installed beside a build.
        private static let refusals: [String: Int] = ["readyz": 503, "openapi": 404]

        @Test("Each example fits its schema, and each request example can be sent or tells why not")
        func examples() throws {
            let reference = try ReferenceDocument()
            var count = 0
            for operation in reference.operations {
                for (media, entry) in operation.requestContent.map({ ($0.name.text, $0.value.object ?? [:]) }) {
                    let place = "\(operation.label) request \(media)"
                    let isRunnable = entry["x-runnable"] == true
                    #expect(isRunnable != (entry["x-not-runnable"]?.text != nil), "\(place): either x-runnable or x-not-runnable")
                    // A line of the example for lines is wrong on purpose.
                    if media != "application/x-ndjson" { count += try Self.judge(entry, media, reference, place) }
                }
                for response in operation.responses.members {
                    for content in reference.resolved(response.value)["content"]?.object?.members ?? [] {
                        let place = "\(operation.label) \(response.name.text) \(content.name.text)"
                        count += try Self.judge(content.value.object ?? [:], content.name.text, reference, place)
                    }
                }
            }
            #expect(count > 60, "only \(count) examples were found")
        }

        /// - Returns: The number of values in the example of a body.
        private static func judge(_ entry: JSONObject, _ media: String, _ reference: ReferenceDocument, _ place: String) throws -> Int {
            guard let example = entry["example"] else {
                #expect(!media.hasSuffix("json") || media == "application/problem+json", "\(place): there is no example")
                return 0
            }
            let values = if let text = example.text { try ReferenceDocument.values(media, text) } else { [example] }
            for value in values {
                let faults = try reference.faults(value, entry["schema"] ?? true)
                #expect(faults == [], "\(place)")
            }
            return values.count
        }

        @Test("The agent answers every example, and every question that needs nothing else, as the reference says")
        func answers() async throws {
            let reference = try ReferenceDocument()
            try await Stand.with { stand in
                var made: [String: String] = [:]
                var unasked: [String] = []
                var sent = 0
                for operation in reference.operations {
                    guard let target = Self.target(operation, reference, made) else {
                        if operation.method == "GET" { unasked.append(operation.name) }
                        continue
                    }
                    var requests: [(media: String?, body: String)] = operation.method == "GET" ? [(nil, "")] : []
                    for content in operation.requestContent where content.value.object?["x-runnable"] == true {
                        let example = try #require(content.value.object?["example"])
                        requests.append((content.name.text, example.text ?? example.json))
                    }
                    for (media, body) in requests {
                        sent += 1
                        let answer = try await Self.send(operation, target, media, body, stand)
                        try Self.compare(answer, operation, reference)
                        for kind in Self.makers[operation.name] ?? [] {
                            made[kind] = try JSONReader.read(answer.body).object?["id"]?.text
                        }
                    }
                }
                // No example makes what these ask for.
                #expect(unasked == ["conflict"])
                #expect(sent > 30, "only \(sent) requests were sent")
            }
        }

        /// The path with real names; `nil` when it names something that no example has made.
        private static func target(
            _ operation: ReferenceDocument.Operation, _ reference: ReferenceDocument, _ made: [String: String]
        ) -> String? {
            var target = operation.path
            for parameter in operation.json["parameters"]?.array ?? [] {
                let described = reference.resolved(parameter), component = ReferenceDocument.component(parameter)
                guard described["in"] == "path", let name = described["name"]?.text else { continue }
                // `why` takes the id of a mutation or of a file.
                let isOfAny = operation.name == "why"
                guard let value = made[isOfAny ? "mutation" : component] ?? (given.contains(component) ? described["example"]?.text : nil)
                else { return nil }
                target = target.replacing("{\(name)}", with: value)
            }
            return target
        }

        private static func send(
            _ operation: ReferenceDocument.Operation, _ target: String, _ media: String?, _ body: String, _ stand: Stand
        ) async throws -> HTTPResponse {
            let method = try #require(HTTPRequest.Method(rawValue: operation.method))
            var request = HTTPRequest(method, "http://agent" + target, socketPath: stand.socketPath)
            if let media {
                request.headers["Content-Type"] = media
                request.body = .bytes(Array(body.utf8))
            }
            guard operation.name == "events" else { return try await stand.transport.send(request) }
            // The stream has no end, so only its head is compared.
            let head = Mutex<HTTPResponse?>(nil)
            do {
                _ = try await stand.transport.stream(
                    request, onHead: { status, headers in head.withLock { $0 = HTTPResponse(status: status, headers: headers) } },
                    onBody: { _ in false })
            } catch {
                // The end came from here, after the first bytes. Without a head the next line tells the failure.
            }
            return try #require(head.withLock { $0 }, "GET /v1/events did not begin")
        }

        /// Compares status, header fields, media type and body of an answer with the document.
        private static func compare(
            _ answer: HTTPResponse, _ operation: ReferenceDocument.Operation, _ reference: ReferenceDocument
        ) throws {
            let text = String(decoding: answer.body, as: UTF8.self), place = "\(operation.label): \(answer.status)"
            guard (200..<300).contains(answer.status) || refusals[operation.name] == answer.status else {
                Issue.record("\(place) \(text.prefix(200))")
                return
            }
            guard let response = operation.responses[String(answer.status)] else {
                Issue.record("\(place) is not described")
                return
            }
            let described = reference.resolved(response)
            let fields = described["headers"]?.object ?? [:]
            for field in fields.members {
                guard let value = answer.headers[field.name.text] else { continue }
                let faults = try reference.faults(.string(JSONString(value)), reference.resolved(field.value)["schema"] ?? true)
                #expect(faults == [], "\(place): the field \(field.name.text)")
            }
            let known = Set(fields.members.map { $0.name.text.lowercased() })
                .union(["content-type", "content-length", "transfer-encoding", "connection", "date"])
            let undescribed = Set(answer.headers.fields.map { $0.name.lowercased() }).subtracting(known)
            #expect(undescribed == [], "\(place): fields that are not described")
            let content = described["content"]?.object ?? [:]
            if content["*/*"] != nil { return }
            let media = answer.headers["Content-Type"] ?? ""
            guard let entry = content[media]?.object else {
                Issue.record("\(place): the content type \(media) is not described")
                return
            }
            guard media.hasSuffix("json") else { return }
            for value in try ReferenceDocument.values(media, text) {
                let faults = try reference.faults(value, entry["schema"] ?? true)
                #expect(faults == [], "\(place)")
            }
        }
    }
}
