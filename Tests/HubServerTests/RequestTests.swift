import HubServer
import SyncCore
import SyncLinux
import Testing

/// PROTOCOL A1, A2, A5, A9 and A10: what is around the bodies.
@Suite("Requests", .eachEngine)
struct RequestTests {
    static func header(_ response: HubResponse, _ name: String) -> String? { response.headers[name] }

    // MARK: Headers

    @Test("Every answer to a device carries version, time, epoch and head; refusals too")
    func answerHeaders() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create))
        let answers = [
            bench.send("POST", "/v1/sync/pull", ["streams": []]), bench.send("POST", "/v1/sync/pull", "nonsense"),
            bench.send("POST", "/v1/sync/hello", [:]), bench.send("POST", "/v1/sync/known", ["keys": []]),
            bench.send("GET", "/v1/sync/snapshot?entity=a"), bench.push([Sent("k-2", seq: 2, .create, id: "b")]),
        ]
        #expect(answers.map(\.status) == [200, 400, 200, 200, 200, 200])
        for answer in answers {
            #expect(answer.headers["Sync-Version"] == "1" && answer.headers["Sync-Versions"] == "1")
            #expect(answer.headers["Sync-Time"] == "1795208400000")
            #expect(answer.headers["Sync-Epoch"] == bench.hub.epoch)
        }
        #expect(answers.map { $0.headers["Sync-Head"] } == ["1", "1", "1", "1", "1", "2"])
        #expect(answers[0].headers["Content-Type"] == "application/json")
        #expect(answers[1].headers["Content-Type"] == "application/problem+json")
    }

    @Test("Strangers learn the time and the version, not how much happens here", arguments: ["/v1/probe", "/healthz", "/nothing"])
    func strangers(_ path: String) throws {
        let answer = try HubBench().send("GET", path)
        #expect(answer.headers["Sync-Time"] != nil && answer.headers["Sync-Version"] == "1")
        #expect(answer.headers["Sync-Epoch"] == nil && answer.headers["Sync-Head"] == nil)
    }

    @Test("A Sync-Version that the hub does not speak is refused with the ones it does", arguments: ["0", "2", "one", "", nil])
    func unsupportedVersion(_ version: String?) throws {
        let bench = try HubBench()
        var headers: HTTPHeaders = ["Sync-Device": "gw-1"]
        headers["Sync-Version"] = version
        let answer = bench.hub.handle(HubRequest("POST", "/v1/sync/pull", headers: headers, body: []), at: bench.now)
        #expect(answer.status == 400 && answer.problem?.code == "unsupported-sync-version")
        #expect(answer.problem?.members["supported"] == [1])
    }

    @Test("The version may come under its literal name")
    func literalVersion() throws {
        let bench = try HubBench()
        let request = HubRequest(
            "POST", "/v1/sync/pull", headers: ["sync_version": "1", "Sync-Device": "gw-1"], body: Array(#"{"streams":[]}"#.utf8))
        #expect(bench.hub.handle(request, at: bench.now).status == 200)
    }

    // MARK: Paths

    @Test(
        "A missing path is 404, a wrong method 405 with the right ones",
        arguments: [
            ("GET", "/", 404, nil), ("GET", "/v1", 404, nil), ("POST", "/v1/sync/push/", 404, nil), ("GET", "/v1/sync/../probe", 404, nil),
            ("GET", "/v1/%70robe", 204, nil), ("GET", "/v1/probe%00", 404, nil), ("GET", "/v1/prob%zz", 404, nil),
            ("GET", "/v1/sync/pull?entity=%f", 404, nil),
            ("GET", "/V1/PROBE", 404, nil), ("DELETE", "/v1/probe", 405, "GET"), ("GET", "/v1/sync/push", 405, "POST"),
            ("PUT", "/v1/sync/pull", 405, "GET, POST"), ("get", "/healthz", 405, "GET"), ("POST", "/metrics", 405, "GET"),
        ] as [(String, String, Int, String?)])
    func paths(_ method: String, _ target: String, _ status: Int, _ allow: String?) throws {
        let answer = try HubBench().send(method, target)
        #expect(answer.status == status)
        #expect(answer.headers["Allow"] == allow)
    }

    @Test("The probe echoes its nonce without a body, without a credential and without a word of SQL")
    func probe() throws {
        let bench = try HubBench(tokens: TokenBook())
        let answer = bench.hub.handle(HubRequest("GET", "/v1/probe?n=4f1e09ab"), at: bench.now)
        #expect(answer.status == 204 && answer.body.isEmpty && answer.headers["Sync-Probe"] == "4f1e09ab")
        let odd = bench.hub.handle(HubRequest("GET", "/v1/probe?n=a%0d%0aSet-Cookie:%20x"), at: bench.now)
        #expect(odd.status == 204 && odd.headers["Sync-Probe"] == nil)
    }

    @Test("Health, readiness and metrics are plain text")
    func operations() throws {
        let bench = try HubBench()
        _ = try bench.verdicts([Sent("k-1", .create), Sent("k-2", seq: 2, .update, id: "none")])
        _ = try bench.verdict(Sent("k-1", .create))
        #expect(bench.send("GET", "/healthz").body == Array("ok\n".utf8))
        #expect(bench.send("GET", "/readyz").status == 200)
        let text = String(decoding: bench.send("GET", "/metrics").body, as: UTF8.self)
        for line in [
            "agenthub_head 1", #"agenthub_mutations_total{verdict="accepted"} 1"#, #"agenthub_mutations_total{verdict="duplicate"} 1"#,
            #"agenthub_mutations_total{verdict="rejected"} 1"#, #"agenthub_requests_total{path="/v1/sync/push",status="200"} 2"#,
        ] { #expect(text.split(separator: "\n").contains(Substring(line)), "\(line)") }
    }

    @Test("Hello tells device, history, limits and what the hub can")
    func hello() throws {
        let bench = try HubBench(compressor: ZlibCompressor())
        _ = try bench.verdict(Sent("k-1", seq: 412, .create))
        let body = HelloMessages.request(HelloRequest(agent: "1.0.0", platform: "linux/arm64", replica: "r-1", maxSentSeq: 412))
        let answer = try HelloMessages.readResponse(bench.send("POST", "/v1/sync/hello", try JSONReader.read(body)).body)
        #expect(
            answer
                == HelloResponse(
                    device: "gw-1", epoch: bench.hub.epoch, head: 1, time: bench.now, deviceSeq: 412,
                    capabilities: ["gzip", "groups", "digest", "unreadable", "entities"], spread: .seconds(30)))
        #expect(try bench.hub.stats().devices.map(\.agent) == ["1.0.0"])
        let plain = try HelloMessages.readResponse(try HubBench().send("POST", "/v1/sync/hello", [:]).body)
        #expect(plain.capabilities == ["groups", "digest", "unreadable", "entities"])
    }

    // MARK: Credentials

    struct Credential: Sendable, CustomStringConvertible {
        let description: String
        var authorization: String?
        var device: String? = "gw-1"
        var certificate: DeviceID?
        let status: Int
        var code: String?
    }

    static let tokens: (book: TokenBook, one: String, two: String, revoked: String) = {
        var book = TokenBook()
        var random = SeededRandom(seed: 3)
        let time = Timestamp(milliseconds: 1_000)
        let gone = book.add("gw-9", at: time, using: &random)
        _ = book.revoke("gw-9", at: time)
        let (one, two) = (book.add("gw-1", at: time, using: &random), book.add("gw-2", at: time, using: &random))
        return (book, one, two, gone)
    }()

    @Test(
        "A credential speaks for its device alone",
        arguments: [
            Credential(description: "good", authorization: "Bearer \(tokens.one)", status: 200),
            Credential(description: "scheme in small letters", authorization: "bearer \(tokens.one)", status: 200),
            Credential(description: "without Sync-Device", authorization: "Bearer \(tokens.one)", device: nil, status: 200),
            Credential(description: "none", status: 401, code: "auth"),
            Credential(description: "unknown", authorization: "Bearer est_AAAA", status: 401, code: "auth"),
            Credential(description: "empty", authorization: "Bearer ", status: 401, code: "auth"),
            Credential(description: "another scheme", authorization: "Basic \(tokens.one)", status: 401, code: "auth"),
            Credential(description: "two tokens", authorization: "Bearer \(tokens.one) \(tokens.two)", status: 401, code: "auth"),
            Credential(description: "of another device", authorization: "Bearer \(tokens.two)", status: 401, code: "auth"),
            Credential(description: "odd Sync-Device", authorization: "Bearer \(tokens.one)", device: "gw 1", status: 401, code: "auth"),
            Credential(
                description: "revoked", authorization: "Bearer \(tokens.revoked)", device: "gw-9", status: 403, code: "device-blocked"),
            Credential(description: "certificate", certificate: "gw-1", status: 200),
            Credential(description: "certificate of another device", certificate: "gw-2", status: 401, code: "auth"),
            Credential(
                description: "certificate of a blocked device", device: "gw-9", certificate: "gw-9", status: 403, code: "device-blocked"),
            Credential(description: "certificate and token", authorization: "Bearer \(tokens.one)", certificate: "gw-1", status: 200),
            Credential(
                description: "certificate and token of two devices", authorization: "Bearer \(tokens.one)", certificate: "gw-2",
                status: 401,
                code: "auth"),
        ])
    func credentials(_ example: Credential) throws {
        let bench = try HubBench(tokens: Self.tokens.book)
        var headers: HTTPHeaders = ["Sync-Version": "1", "Sync-Replica": "r-1"]
        headers["Authorization"] = example.authorization
        headers["Sync-Device"] = example.device
        let body = PushMessages.request(Batch(mutations: [], ackedSeq: 0, maxSentSeq: 0), config: nil)
        let answer = bench.hub.handle(
            HubRequest("POST", "/v1/sync/push", headers: headers, body: body, certificateDevice: example.certificate), at: bench.now)
        #expect(answer.status == example.status)
        if let code = example.code { #expect(answer.problem?.code == code) }
        #expect((answer.headers["WWW-Authenticate"] != nil) == (answer.status == 401))
        #expect(try bench.hub.stats().devices.map(\.id) == (example.status == 200 ? ["gw-1"] : []))
    }

    @Test("A hub without tokens takes the device at its word, but wants one")
    func openHub() throws {
        let bench = try HubBench()
        let answer = bench.hub.handle(
            HubRequest("POST", "/v1/sync/hello", headers: ["Sync-Version": "1"], body: Array("{}".utf8)), at: bench.now)
        #expect(answer.status == 401 && answer.problem?.code == "auth")
    }

    // MARK: Content codings

    static func gzipped(_ json: JSON) throws -> [UInt8] { try #require(ZlibCompressor().gzip(json.bytes)) }

    static func post(_ bench: HubBench, _ body: [UInt8], coding: String?) -> HubResponse {
        var headers: HTTPHeaders = ["Sync-Version": "1", "Sync-Device": "gw-1", "Sync-Replica": "r-1"]
        headers["Content-Encoding"] = coding
        return bench.hub.handle(HubRequest("POST", "/v1/sync/push", headers: headers, body: body), at: bench.now)
    }

    static let batch: JSON = ["mutations": .array((1...50).map { .object(Sent("k-\($0)", seq: Int64($0), .create, id: "a-\($0)").json) })]

    @Test("A gzipped body is read like a plain one", arguments: ["gzip", "GZIP"])
    func gzip(_ coding: String) throws {
        let bench = try HubBench(compressor: ZlibCompressor())
        #expect(Self.post(bench, try Self.gzipped(Self.batch), coding: coding).status == 200)
        #expect(bench.hub.head == 50)
        #expect(Self.post(bench, Self.batch.bytes, coding: "identity").status == 200)
        #expect(bench.hub.head == 50)
    }

    @Test(
        "A coding that the hub cannot read is 415 and says which it can", arguments: ["br", "zstd", "deflate", "gzip, gzip", "x-gzip", ""])
    func otherCodings(_ coding: String) throws {
        let bench = try HubBench(compressor: ZlibCompressor())
        let answer = Self.post(bench, try Self.gzipped(Self.batch), coding: coding)
        #expect(answer.status == 415 && answer.problem?.code == "encoding-unsupported")
        #expect(answer.headers["Accept-Encoding"] == "gzip, identity")
        let plain = Self.post(try HubBench(), try Self.gzipped(Self.batch), coding: "gzip")
        #expect(plain.status == 415 && plain.headers["Accept-Encoding"] == "identity")
    }

    @Test("A gzip that is cut, false or a bomb is refused before it costs memory")
    func bombs() throws {
        let bench = try HubBench(compressor: ZlibCompressor())
        let good = try Self.gzipped(Self.batch)
        for cut in [0, 1, 10, good.count / 2, good.count - 1] {
            #expect(Self.post(bench, Array(good.prefix(cut)), coding: "gzip").problem?.code == "malformed")
        }
        #expect(Self.post(bench, good + good, coding: "gzip").status != 200)
        #expect(Self.post(bench, Self.batch.bytes, coding: "gzip").problem?.code == "malformed")
        let bomb = try #require(ZlibCompressor().gzip([UInt8](repeating: 0x20, count: 64 << 20)))
        #expect(Self.post(bench, bomb, coding: "gzip").problem?.code == "malformed")
        #expect(bench.hub.head == 0)
    }

    @Test("More than 4 MiB are not read")
    func largeBody() throws {
        let bench = try HubBench()
        let answer = Self.post(bench, [UInt8](repeating: 0x20, count: (4 << 20) + 1), coding: nil)
        #expect(answer.status == 413 && answer.problem?.code == "too-large")
    }

    // MARK: Hostile bodies

    @Test(
        "No body makes the hub fail, and what is refused leaves no trace",
        arguments: [
            "", " ", "null", "true", "0", "\"\"", "[]", "{", "}", "{}", "{\"mutations\":null}", "{\"mutations\":[null]}",
            "{\"mutations\":[[]]}",
            "{\"streams\":null}", "{\"streams\":[null]}", "{\"keys\":{}}", "{\"keys\":[1]}", "{\"mutations\":[{\"idempotency_key\":\"\"}]}",
            "{\"a\":1e999999999}", "{\"a\":-}", "{\"a\":01}", "{\"a\":\"\\x\"}", "{\"a\":\"\u{1}\"}", "// comment\n{}", "{'a':1}",
            "{\"a\":1,}",
            "{\"replica\":\"a b\"}", "{\"agent\":5}", "{\"entities\":\"x\"}", "{\"config\":-1}",
        ])
    func hostile(_ body: String) throws {
        let bench = try HubBench()
        for path in ["/v1/sync/push", "/v1/sync/pull", "/v1/sync/known"] {
            let answer = bench.hub.handle(
                HubRequest(
                    "POST", path, headers: ["Sync-Version": "1", "Sync-Device": "gw-1", "Sync-Replica": "r-1"], body: Array(body.utf8)),
                at: bench.now)
            #expect(answer.status == 400, "\(path)")
            #expect(answer.problem?.code == "malformed")
        }
        #expect(try bench.hub.stats().devices.isEmpty)
    }

    @Test("Random bytes, and good requests with random bytes changed, never make the hub fail")
    func fuzz() throws {
        let bench = try HubBench(compressor: ZlibCompressor())
        var random = SeededRandom(seed: 77)
        let good = Self.batch.bytes
        for round in 0..<400 {
            var body = round % 2 == 0 ? good : try Self.gzipped(Self.batch)
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                body[Int.random(in: 0..<body.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            let answer = Self.post(bench, body, coding: round % 2 == 0 ? nil : "gzip")
            #expect([200, 400, 409, 413].contains(answer.status))
            if answer.status == 200 { _ = try PushMessages.readResponse(answer.body) }
        }
    }
}
