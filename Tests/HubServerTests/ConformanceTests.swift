import Foundation
import HubConformance
import HubServer
import Logging
import SyncCore
import SyncLinux
import Synchronization
import Testing
import VersionsKit

/// `agenthub conformance`: the real hub passes every check, and each of many small mistakes of a server is noticed.
@Suite("Conformance", .eachEngine)
struct ConformanceTests {
    struct Clock: TimeSource {
        func now() -> Moment { Moment(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 1_795_208_400_000)) }
    }

    /// Carries requests to a hub in this process, and spoils what a test wants spoiled on its way.
    final class Wire: HTTPTransport {
        typealias Spoil = @Sendable (HTTPRequest, inout HTTPResponse) -> Void
        private let hub: Mutex<HubBox>
        private let alter: @Sendable (inout HTTPRequest) -> Void
        private let spoil: Spoil

        struct HubBox: @unchecked Sendable {
            // Unchecked: used under the lock alone.
            var hub: Hub
            var versions: RecordVersions?

            mutating func answer(_ request: HTTPRequest) -> HTTPResponse {
                let hub = hub
                func ask(_ request: HTTPRequest) -> HTTPResponse {
                    var body: [UInt8] = []
                    if case .bytes(let bytes) = request.body { body = bytes }
                    let target = String(request.url.dropFirst("http://hub".utf8.count))
                    let asked = HubRequest(request.method.rawValue, target, headers: request.headers, body: body)
                    let answer = hub.handle(asked, at: Clock().now().wall)
                    return HTTPResponse(status: answer.status, headers: answer.headers, body: answer.body)
                }
                let received = versions?.atHub(request) ?? request
                let answer = ask(received)
                return versions?.onWire(answer, to: received, asking: ask) ?? answer
            }
        }

        /// - Parameter countsByRecord: The versions of a record are counters of its own.
        init(
            _ hub: Hub, countsByRecord: Bool = false, alter: @escaping @Sendable (inout HTTPRequest) -> Void = { _ in },
            spoil: @escaping Spoil = { _, _ in }
        ) {
            self.hub = Mutex(HubBox(hub: hub, versions: countsByRecord ? RecordVersions() : nil))
            self.alter = alter
            self.spoil = spoil
        }

        func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
            var request = request
            alter(&request)
            let asked = request
            var response = hub.withLock { $0.answer(asked) }
            spoil(request, &response)
            return response
        }

        func stream(
            _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void, onBody: @escaping @Sendable ([UInt8]) -> Bool
        ) async throws(TransportError) -> HTTPResponse {
            throw TransportError(.cancelled, doing: "stream", detail: "it is not asked for here")
        }
    }

    static func hub(ablations: Ablations = .none, rules: EntityRules? = nil) throws -> (hub: Hub, token: String, other: String) {
        let place = try Engine.current.newPlace()
        var book = TokenBook()
        var random = SeededRandom(seed: 5)
        let token = book.add(.one, at: Timestamp(milliseconds: 0), using: &random)
        let other = book.add(.two, at: Timestamp(milliseconds: 0), using: &random)
        var records = rules ?? EntityRules()
        records.onDeleted = .updateWins
        var settings = Hub.Settings(
            rules: RuleBook([EntityName(trusted: "conformance"): records]), tokens: book, compressor: ZlibCompressor())
        settings.ablations = ablations
        settings.config = HubConfiguration(["sync": ["spread": "30s"]])
        if case .shared = place { settings.keepsTokens = true }
        let hub = try Hub(place, settings: settings, random: SeededRandom(seed: 1))
        if settings.keepsTokens { try hub.changeTokens { $0 = book } }
        return (hub, token, other)
    }

    static func report(
        _ transport: any HTTPTransport, token: String?, other: String? = nil, baseURL: String = "http://hub", device: DeviceID? = nil,
        seed: UInt64 = 7
    ) async -> ConformanceReport {
        var settings = ConformanceRun.Settings(baseURL: baseURL, token: token, entity: EntityName(trusted: "conformance"), seed: seed)
        settings.device = device
        if let other { settings.other = .init(token: other, device: nil) }
        return await ConformanceRun.run(settings, transport: transport, compressor: ZlibCompressor(), time: Clock())
    }

    private static func wrong(_ report: ConformanceReport) -> [String] {
        report.results.filter { $0.outcome == .failed }.map { "\($0.name): \($0.seen)" }
    }

    @Test("The hub passes over real sockets, files and all, and is left as it was but for what no protocol takes back")
    func real() async throws {
        let (hub, token, other) = try Self.hub(rules: Self.ofMembers)
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("hub-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        hub.settings.uploads = HubUploads(try BlobFiles(folder.path + "/blobs"))
        let book = try #require(hub.settings.tokens)
        let environment = HubService.Environment(
            time: SystemClocks(), seed: 1, tokens: { book }, compressor: ZlibCompressor(),
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let service = try await HubService.start(hub, HubService.Options(host: "127.0.0.1", port: 0), environment)
        let transport = try CurlTransport(name: "conformance", idleConnections: 2)
        let report = await Self.report(transport, token: token, other: other, baseURL: "http://\(service.address)")
        #expect(Self.wrong(report) == [])
        #expect(report.isConformant && report.results.count >= 60)
        #expect(report.results.allSatisfy { $0.outcome == .passed }, "\(report.results.filter { $0.outcome != .passed })")
        #expect(Set(report.results.map(\.name)).count == report.results.count)
        // Again, beside what the first run left.
        #expect(Self.wrong(await Self.report(transport, token: token, other: other, baseURL: "http://\(service.address)", seed: 8)) == [])
        let listed = try await transport.send(
            HTTPRequest(
                .get, "http://\(service.address)/v1/sync/snapshot?entity=conformance",
                headers: ["Authorization": "Bearer \(token)", "Sync-Version": "1"]))
        #expect(try SnapshotMessages.readResponse(listed.body).records.isEmpty)
        transport.close()
        await service.stop(within: .seconds(5))
    }

    @Test("A capability that is not offered is named and is no failure; without a token no check of tokens runs")
    func optional() async throws {
        let hub = try Hub(try Engine.current.newPlace(), settings: Hub.Settings(), random: SeededRandom(seed: 1))
        let report = await Self.report(Wire(hub), token: nil, device: .one)
        #expect(Self.wrong(report) == [])
        func outcome(_ name: String) -> ConformanceResult.Outcome? { report.results.first { $0.name == name }?.outcome }
        #expect(outcome("files-creation") == .notOffered && outcome("push-gzip-broken") == .notOffered && outcome("config") == .notOffered)
        #expect(outcome("auth-wrong") == .notTried && outcome("push-set-unseen") == .notTried && outcome("push-gzip") == .passed)
        // Here deletions win.
        func seen(_ name: String) -> String? { report.results.first { $0.name == name }?.seen }
        #expect(seen("push-deleted-whole") == "gone" && outcome("push-deletion-order") == .notTried)
        let lines = report.lines()
        #expect(lines.allSatisfy { $0.count <= 80 }, "\(lines.filter { $0.count > 80 })")
        #expect(lines.contains { $0.hasPrefix("files-creation") && $0.contains("not offered") })
        #expect(report.json.object?["conformant"]?.bool == true)
    }

    @Test("A hub that has just begun a new history passes, although changes of records without a trace wait there")
    func newHistory() async throws {
        let hub = try Hub(try Engine.current.newPlace(), settings: Hub.Settings(), random: SeededRandom(seed: 1))
        try hub.startEpoch(at: Clock().now().wall)
        let report = await Self.report(Wire(hub), token: nil, device: .one)
        #expect(Self.wrong(report) == [])
        for name in ["push-delete-absent", "push-deleted-whole"] {
            #expect(report.results.first { $0.name == name }?.seen == "waits for the record's device")
        }
    }

    @Test("A server whose versions are counters of each record passes every check, and its versions are not those of the feed")
    func countsByRecord() async throws {
        var seen: [[String]] = []
        for countsByRecord in [false, true] {
            let (hub, token, other) = try Self.hub(rules: Self.ofMembers)
            let report = await Self.report(Wire(hub, countsByRecord: countsByRecord), token: token, other: other)
            #expect(Self.wrong(report) == [])
            seen.append(report.results.filter { $0.name == "push-versions-rise" || $0.name == "verify-differs" }.map(\.seen))
        }
        #expect(seen[0].count == 2 && seen[0][0] != seen[1][0] && seen[0][1] == seen[1][1], "\(seen)")
    }

    /// An object that is merged, with a count in it.
    private static let ofMembers: EntityRules = {
        var rules = EntityRules()
        rules.fields = ["part": .merge, "part.count": .counter]
        return rules
    }()

    @Test("The hub passes whatever rules the entity has", arguments: ["counter", "merge"])
    func ruled(_ member: String) async throws {
        var rules = EntityRules()
        rules.fields = ["part": .merge, "part.count": member == "counter" ? .counter : .lww, "peak": .max, "marks": .set]
        let (hub, token, other) = try Self.hub(rules: rules)
        let report = await Self.report(Wire(hub), token: token, other: other)
        #expect(Self.wrong(report) == [])
        #expect(report.results.first { $0.name == "push-member-stamps" }?.outcome == (member == "counter" ? .passed : .notTried))
        #expect(report.results.first { $0.name == "push-op-member" }?.seen == (member == "counter" ? "the member" : "refused"))
    }

    // MARK: Mistakes

    /// One mistake of a server, and the check that must notice it.
    struct Mistake: Sendable, CustomTestStringConvertible {
        var what: String
        var noticedBy: String
        /// Rules of the entity; `nil`: it has none.
        var rules: EntityRules?
        var ablations: Ablations = .none
        var alter: @Sendable (inout HTTPRequest) -> Void = { _ in }
        var spoil: Wire.Spoil = { _, _ in }

        var testDescription: String { what }
    }

    private static func path(_ request: HTTPRequest) -> String {
        String(request.url.dropFirst("http://hub".utf8.count).prefix { $0 != "?" })
    }

    /// Rewrites the JSON of answers 200 at a path.
    private static func body(_ path: String, _ change: @escaping @Sendable (inout JSONObject) -> Void) -> Wire.Spoil {
        { request, response in
            guard Self.path(request) == path, response.status == 200, var object = (try? JSONReader.read(response.body))?.object else {
                return
            }
            change(&object)
            response.body = JSON.object(object).bytes
        }
    }

    /// Rewrites each element of a list in an object.
    static func each(_ name: String, in object: inout JSONObject, _ change: (inout JSONObject) -> Void) {
        guard let list = object[name]?.array else { return }
        object[name] = .array(
            list.map { element in
                guard var inner = element.object else { return element }
                change(&inner)
                return .object(inner)
            })
    }

    private static func streams(_ change: @escaping @Sendable (inout JSONObject) -> Void) -> Wire.Spoil {
        body("/v1/sync/pull") { each("streams", in: &$0, change) }
    }

    private static func results(_ change: @escaping @Sendable (inout JSONObject) -> Void) -> Wire.Spoil {
        body("/v1/sync/push") { each("results", in: &$0, change) }
    }

    private static let forgetsParent: @Sendable (inout JSONObject) -> Void = { result in
        guard var problem = result["problem"]?.object, problem["type"] == "urn:edge-sync:parent-rejected" else { return }
        problem["type"] = "urn:edge-sync:deleted"
        result["problem"] = .object(problem)
    }

    static let mistakes: [Mistake] = [
        Mistake(
            what: "knows no keys", noticedBy: "push-duplicate",
            alter: { request in
                // Each repeat gets a new key, so the server treats it as new.
                guard path(request) == "/v1/sync/push", case .bytes(let bytes) = request.body,
                    let text = String(validating: bytes, as: UTF8.self)
                else { return }
                let name = "\"idempotency_key\":\""
                let fresh = repeats.withLock { count -> Int in
                    count += 1
                    return count
                }
                request.body = .bytes(Array(text.replacing(name, with: name + "n\(fresh)-").utf8))
            },
            spoil: body("/v1/sync/push") { object in
                each("results", in: &object) { result in
                    if let key = result["idempotency_key"]?.text, let dash = key.firstIndex(of: "-") {
                        result["idempotency_key"] = .string(String(key[key.index(after: dash)...]))
                    }
                }
            }),
        // Two that the hub itself can be made to make.
        Mistake(what: "forgets keys whose answers have arrived", noticedBy: "push-duplicate-acked", ablations: Ablations([.keysForgotten])),
        Mistake(
            what: "replays what it stored for a repeat", noticedBy: "push-duplicate-current",
            ablations: Ablations([.duplicateReplaysStored])),
        Mistake(
            what: "lets a removal take out of a set what it had not seen", noticedBy: "push-set-unseen",
            ablations: Ablations([.removalBeatsAddition])),
        Mistake(
            what: "names only entities of its configuration", noticedBy: "pull-entities",
            spoil: body("/v1/sync/pull") { if $0["entities"] != nil { $0["entities"] = ["templates"] } }),
        Mistake(what: "forgets what it has rejected", noticedBy: "push-parent-rejected", spoil: results(Self.forgetsParent)),
        Mistake(
            what: "takes a record whose creation it rejected for a deleted one", noticedBy: "push-creation-rejected",
            spoil: results(Self.forgetsParent)),
        Mistake(what: "does not say that a lower value was not taken", noticedBy: "push-max-kept", spoil: results { $0["kept"] = nil }),
        Mistake(
            what: "compares all fields of a mutation by one stamp", noticedBy: "push-field-stamps",
            alter: { request in
                guard path(request) == "/v1/sync/push", case .bytes(let bytes) = request.body,
                    var object = (try? JSONReader.read(bytes))?.object
                else { return }
                each("mutations", in: &object) { $0["field_hlc"] = nil }
                request.body = .bytes(JSON.object(object).bytes)
            }),
        Mistake(
            what: "compares members of an object by the stamp of their field", noticedBy: "push-member-stamps", rules: ofMembers,
            ablations: Ablations([.membersByField])),
        Mistake(
            what: "takes a value that is there already for no change", noticedBy: "push-same-later",
            alter: { request in
                guard path(request) == "/v1/sync/push", case .bytes(let bytes) = request.body,
                    var object = (try? JSONReader.read(bytes))?.object
                else { return }
                each("mutations", in: &object) { mutation in
                    if var data = mutation["data"]?.object, data["again"] != nil {
                        data["l"] = nil
                        mutation["data"] = .object(data)
                    }
                }
                request.body = .bytes(JSON.object(object).bytes)
            }),
        Mistake(
            what: "stores numbers in a spelling of its own", noticedBy: "push-respelled",
            alter: { request in
                guard path(request) == "/v1/sync/push", case .bytes(let bytes) = request.body else { return }
                request.body = .bytes(Array(String(decoding: bytes, as: UTF8.self).replacing("1.50", with: "1.5").utf8))
            }),
        Mistake(
            what: "removes a field after its operations", noticedBy: "push-max-reset",
            alter: { request in
                guard path(request) == "/v1/sync/push", case .bytes(let bytes) = request.body,
                    var object = (try? JSONReader.read(bytes))?.object
                else { return }
                each("mutations", in: &object) { mutation in
                    if mutation["unset"] != nil { mutation["ops"] = nil }
                }
                request.body = .bytes(JSON.object(object).bytes)
            }),
        Mistake(
            what: "takes an operation on a member and does nothing", noticedBy: "push-op-member",
            alter: { request in
                guard path(request) == "/v1/sync/push", case .bytes(let bytes) = request.body,
                    var object = (try? JSONReader.read(bytes))?.object
                else { return }
                each("mutations", in: &object) { mutation in
                    if mutation["ops"]?.array?.first?.object?["field"]?.text == "part.count" { mutation["ops"] = nil }
                }
                request.body = .bytes(JSON.object(object).bytes)
            }),
        Mistake(
            what: "answers a repeat with what it said the first time", noticedBy: "push-duplicate",
            spoil: results { result in
                if result["status"]?.text == "duplicate", result["original"]?.text == "accepted" {
                    result["status"] = "accepted"
                    result["version"] = 1
                }
            }),
        Mistake(
            what: "lets the versions of a record fall", noticedBy: "push-versions-rise",
            spoil: results { result in
                if let version = result["version"]?.int, version > 0 { result["version"] = .int(1 << 40 - version) }
            }),
        Mistake(
            what: "counts the versions of a record anew after its deletion", noticedBy: "push-versions-rise",
            spoil: { request, response in
                guard case .bytes(let bytes) = request.body, let push = (try? JSONReader.read(bytes))?.object else { return }
                let again = (push["mutations"]?.array ?? []).compactMap(\.object).filter {
                    $0["action"]?.text == "create" && $0["base_version"]?.int ?? 0 > 0
                }.compactMap { $0["idempotency_key"]?.text }
                let change = results { if again.contains($0["idempotency_key"]?.text ?? "") { $0["version"] = 1 } }
                change(request, &response)
            }),
        Mistake(what: "has no current record in a duplicate", noticedBy: "push-duplicate", spoil: results { $0["current"] = nil }),
        Mistake(
            what: "takes a key again for other content", noticedBy: "push-key-reused",
            spoil: results { result in
                if result["problem"]?.object?["type"]?.text == "urn:edge-sync:idempotency-mismatch" {
                    result["status"] = "accepted"
                    result["version"] = 1
                    result["problem"] = nil
                }
            }),
        Mistake(
            what: "leaves out the last verdict", noticedBy: "push-each-by-itself",
            spoil: body("/v1/sync/push") { object in
                if let list = object["results"]?.array, list.count > 1 { object["results"] = .array(Array(list.dropLast())) }
            }),
        Mistake(
            what: "answers in another order", noticedBy: "push-each-by-itself",
            spoil: body("/v1/sync/push") { object in
                if let list = object["results"]?.array { object["results"] = .array(list.reversed()) }
            }),
        Mistake(
            what: "refuses the whole push for one bad mutation", noticedBy: "push-each-by-itself",
            spoil: { request, response in
                guard path(request) == "/v1/sync/push", String(decoding: response.body, as: UTF8.self).contains("urn:edge-sync:validation")
                else { return }
                response = HTTPResponse(status: 422, headers: response.headers, body: Array("{}".utf8))
            }),
        Mistake(
            what: "lets what depends on itself wait for ever", noticedBy: "push-dependency-on-itself",
            spoil: results { result in
                guard result["problem"]?.object?["errors"]?.array?.first?.object?["pointer"]?.text == "/depends_on/0" else { return }
                result["status"] = "retry"
                result["problem"] = ["type": "urn:edge-sync:dependency-missing", "title": "Dependency missing", "status": 424]
            }),
        Mistake(
            what: "brings back only what the change carries", noticedBy: "push-deleted-whole",
            spoil: body("/v1/sync/snapshot") { object in
                each("records", in: &object) { record in
                    guard var data = record["data"]?.object else { return }
                    data["kept"] = nil
                    record["data"] = .object(data)
                }
            }),
        Mistake(
            what: "lets a deletion win when it comes last", noticedBy: "push-deletion-order",
            alter: { request in
                // Each mutation claims that its device has seen all.
                guard path(request) == "/v1/sync/push", case .bytes(let bytes) = request.body,
                    var object = (try? JSONReader.read(bytes))?.object
                else { return }
                each("mutations", in: &object) { mutation in
                    if mutation["action"]?.text == "delete" { mutation["base_version"] = .int(head.withLock { $0 }) }
                }
                request.body = .bytes(JSON.object(object).bytes)
            },
            spoil: { _, response in
                if let text = response.headers["Sync-Head"], let number = Int64(text) { head.withLock { $0 = number } }
            }),
        Mistake(what: "never has deletions in its feed", noticedBy: "pull-changes", spoil: streams { $0["deletions"] = [] }),
        Mistake(what: "says that there is more for ever", noticedBy: "pull-changes", spoil: streams { $0["has_more"] = true }),
        Mistake(
            what: "skips the first record of each page", noticedBy: "pull-paging",
            spoil: streams { stream in
                if let list = stream["records"]?.array { stream["records"] = .array(Array(list.dropFirst())) }
            }),
        Mistake(
            what: "ignores the cursor", noticedBy: "pull-nothing-new",
            alter: { request in
                guard path(request) == "/v1/sync/pull", case .bytes(let bytes) = request.body,
                    var object = (try? JSONReader.read(bytes))?.object
                else { return }
                each("streams", in: &object) { stream in
                    if stream["cursor"]?.text?.hasPrefix("conformance") == false { stream["cursor"] = .null }
                }
                request.body = .bytes(JSON.object(object).bytes)
            }),
        Mistake(
            what: "answers a bad cursor with 400", noticedBy: "pull-cursor-bad",
            spoil: { request, response in
                guard path(request) == "/v1/sync/pull", String(decoding: response.body, as: UTF8.self).contains("cursor-expired") else {
                    return
                }
                response.status = 400
            }),
        Mistake(
            what: "rounds numbers to doubles", noticedBy: "push-values-kept",
            spoil: { _, response in
                let text = String(decoding: response.body, as: UTF8.self)
                response.body = Array(text.replacing("9007199254740993", with: "9007199254740992").replacing("1.10", with: "1.1").utf8)
            }),
        Mistake(
            what: "lists what is deleted", noticedBy: "push-delete",
            spoil: body("/v1/sync/snapshot") { object in
                each("records", in: &object) { _ in }
                let ghost: (Int) -> JSON = { ["id": .string("conf-x-\($0)"), "version": 1, "data": [:]] }
                // Each id of this run that could be asked about.
                let prefix = seen.withLock { $0 }
                object["records"] = .array(
                    (1...200).map { number in
                        var record = ghost(number).object ?? [:]
                        record["id"] = .string("\(prefix)-\(number)")
                        return .object(record)
                    }.sorted { ($0.object?["id"]?.text ?? "") < ($1.object?["id"]?.text ?? "") })
            }),
        Mistake(
            what: "counts no deletions", noticedBy: "snapshot-deleted-total",
            spoil: body("/v1/sync/snapshot") { object in
                if object["deleted_total"] != nil { object["deleted_total"] = 7 }
            }),
        Mistake(
            what: "lists without order", noticedBy: "snapshot-paging",
            spoil: body("/v1/sync/snapshot") { object in
                if let list = object["records"]?.array { object["records"] = .array(list.reversed()) }
            }),
        Mistake(
            what: "shows nothing after an id that no record has", noticedBy: "snapshot-one",
            spoil: { request, response in
                guard request.url.contains("zzzzzzzz") else { return }
                body("/v1/sync/snapshot") { ($0["records"], $0["has_more"]) = ([], false) }(request, &response)
            }),
        Mistake(
            what: "takes any token", noticedBy: "auth-wrong",
            alter: { request in
                if request.headers["Authorization"] != nil { request.headers["Authorization"] = "Bearer " + good.withLock { $0 } }
            }),
        Mistake(what: "leaves out Sync-Version", noticedBy: "hello", spoil: { _, response in response.headers["Sync-Version"] = nil }),
        Mistake(what: "speaks every version", noticedBy: "version-unknown", alter: { $0.headers["Sync-Version"] = "1" }),
        Mistake(
            what: "answers errors as plain JSON", noticedBy: "hello-malformed",
            spoil: { _, response in
                if response.status >= 400 { response.headers["Content-Type"] = "application/json" }
            }),
        Mistake(
            what: "says another status in the problem than it answers with", noticedBy: "path-unknown",
            spoil: { _, response in
                if response.status == 404 {
                    response.body = Array(String(decoding: response.body, as: UTF8.self).replacing("404", with: "500").utf8)
                }
            }),
        Mistake(what: "knows every key", noticedBy: "known", spoil: body("/v1/sync/known") { $0["unknown"] = [] }),
        Mistake(what: "finds every bucket the same", noticedBy: "verify-differs", spoil: body("/v1/sync/verify") { $0["differs"] = [] }),
        Mistake(
            what: "sends the configuration although it is known", noticedBy: "config-known", alter: { $0.headers["If-None-Match"] = nil }),
        Mistake(what: "does not echo the nonce", noticedBy: "probe-echo", spoil: { _, response in response.headers["Sync-Probe"] = nil }),
        Mistake(
            what: "has no limit on mutations", noticedBy: "push-many",
            spoil: { request, response in
                if path(request) == "/v1/sync/push", response.status == 413 { response.status = 200 }
            }),
        Mistake(what: "takes work for another history", noticedBy: "push-other-epoch", alter: { $0.headers["Sync-Epoch"] = nil }),
        Mistake(
            what: "does not notice a database that went back", noticedBy: "push-regressed",
            spoil: { request, response in
                if response.status == 409 {
                    response = HTTPResponse(status: 200, headers: response.headers, body: Array("{\"head\":0,\"results\":[]}".utf8))
                }
            }),
        Mistake(
            what: "says that it waits longer than asked", noticedBy: "pull-wait",
            spoil: { request, response in if request.headers["Prefer"] == "wait=1" { response.headers["Preference-Applied"] = "wait=60" } }),
        Mistake(
            what: "has no news for pulls that may wait", noticedBy: "pull-wait-news",
            spoil: { request, response in
                guard request.headers["Prefer"] != nil, var object = (try? JSONReader.read(response.body))?.object else { return }
                object["streams"] = []
                response.body = JSON.object(object).bytes
            }),
        Mistake(
            what: "refuses preferences that it cannot read", noticedBy: "pull-wait-malformed",
            spoil: { request, response in if request.headers["Prefer"] == "wait=soon" { response.status = 400 } }),
        Mistake(what: "loses its clock", noticedBy: "hello-time", spoil: { _, response in response.headers["Sync-Time"] = "1795208400" }),
        Mistake(
            what: "is a captive portal", noticedBy: "hello",
            spoil: { _, response in
                response = HTTPResponse(status: 200, headers: ["Content-Type": "text/html"], body: Array("<html>Welcome</html>".utf8))
            }),
    ]

    private static let repeats = Mutex(0)
    private static let head = Mutex<Int64>(0)
    /// The prefix of all names of the run, and the one good token.
    private static let seen = Mutex("")
    private static let good = Mutex("")

    @Test("A mistake of a server is noticed by the check that is about it", arguments: mistakes)
    func noticed(_ mistake: Mistake) async throws {
        let (hub, token, other) = try Self.hub(ablations: mistake.ablations, rules: mistake.rules)
        Self.good.withLock { $0 = token }
        var random = SeededRandom(seed: 7)
        Self.seen.withLock { $0 = "conf-" + String(random.next() >> 16, radix: 36) }
        let report = await Self.report(Wire(hub, alter: mistake.alter, spoil: mistake.spoil), token: token, other: other)
        let failed = report.results.filter { $0.outcome == .failed }.map(\.name)
        #expect(failed.contains(mistake.noticedBy), "failed: \(failed)")
        #expect(!report.isConformant)
        let lines = report.lines()
        #expect(lines.contains { $0.contains("demanded:") } && lines.contains { $0.contains("seen:") })
    }
}
