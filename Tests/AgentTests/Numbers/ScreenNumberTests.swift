import LocalAPI
import NumbersKit
import SyncCore
import Testing

/// A lying agent: numbers that break arithmetic in every place of its answers, and what `agentctl` makes of them. A trap ends
/// the run.
@Suite("Numbers from outside, on the screens of agentctl")
struct ScreenNumberTests {
    private static let now = Timestamp(milliseconds: 1_795_216_800_000)
    private static let offsets: [Duration] = [.zero, .seconds(50_400)]

    /// Shows an answer as each command does that asks for it.
    private static func show(_ path: String, _ json: JSON) -> Int {
        var lines = 0
        for offset in offsets {
            switch path {
            case "/v1/status":
                guard let document = StatusDocument(json) else { continue }
                lines += StatusScreen.render(document, now: now, color: true, offset: offset).count
                lines += StatusScreen.brief(document, now: now, offset: offset).count
                var history = WatchHistory()
                history.see(document, at: now)
                history.see(document, at: now.advanced(by: .seconds(2)))
                lines += WatchScreen(width: 100, height: 40, color: true, offset: offset).render(document, history, now: now).count
                lines += document.overall.reasons.count
            case "/v1/mutations":
                guard let items = json.object?["items"]?.array?.compactMap({ MutationItem($0) }) else { continue }
                lines += MutationScreen.list(items, nothing: "none", width: 80, now: now, offset: offset).count
                for item in items { lines += MutationScreen.line(item).count + MutationScreen.choices(item).count }
            case "/v1/conflicts":
                let items = (json.object?["items"]?.array ?? []).compactMap { ConflictItem($0) }
                lines += ConflictScreen.list(items, width: 80).count
                for item in items {
                    lines += ConflictScreen.render(item, width: 80, now: now, offset: offset).count
                    for field in item.fields { lines += ConflictScreen.field(field, width: 80, now: now, offset: offset).count }
                }
            case "/v1/blobs":
                for item in (json.object?["items"]?.array ?? []).compactMap({ BlobItem($0) }) {
                    lines += BlobsScreen.list([item], width: 80).count + BlobsScreen.show(item, width: 80).count + item.percent
                }
            case "/v1/links": lines += LinksAnswer(json).map { LinksScreen.render($0, width: 80, now: now, offset: offset).count } ?? 0
            case "/v1/power": lines += PowerAnswer(json).map { PowerScreen.render($0, width: 80).count } ?? 0
            case "/v1/ledger":
                guard let answer = LedgerAnswer(json) else { continue }
                lines += LedgerScreen.render(answer, width: 80, now: now, offset: offset).count
                var history = WatchHistory()
                history.seed(answer, at: now)
                lines += WatchScreen(width: 100, height: 40, color: false, offset: offset).render(nil, history, now: now).count
            case "/v1/plan": lines += PlanAnswer(json).map { PlanScreen.render($0, width: 80, now: now, offset: offset).count } ?? 0
            case "/v1/why": lines += WhyAnswer(json).map { WhyScreen.render($0, width: 80, now: now, offset: offset).count } ?? 0
            case "/v1/audit": lines += AuditAnswer(json).map { AuditScreen.list($0.items, width: 80, now: now, offset: offset).count } ?? 0
            case "/v1/checklist":
                lines += DoctorAnswer(json).map { DoctorScreen.render($0, width: 80, color: true, showsAll: true).count } ?? 0
            case "/v1/sync": lines += SyncAnswer(json)?.outcome.map { SyncScreen.render($0).count + SyncScreen.line($0).count } ?? 0
            default: Issue.record("no command shows \(path)")
            }
        }
        return lines
    }

    /// Members that an agent may send and this one has nothing to say in, so that their numbers are tried as well.
    private static let more: [String: JSON] = [
        "/v1/status":
            #"{"agent":{"version":"1","uptime_s":5},"outbox":{"enqueued":9,"oldest_s":5,"bytes":100,"limit":1000,"pending":{"critical":1,"normal":2,"bulk":3},"in_flight":1,"done":1,"rejected":1,"failed":1,"held":1,"conflicted":1,"cancelled":1,"deferred":[{"priority":"bulk","count":2,"reason":"window","until":"2026-11-20T21:00:00Z"},{"priority":"normal","count":2,"reason":"window","until":"2026-11-20T21:00:00Z"}]},"blobs":{"pending":1,"uploading":1,"failed":1,"missing":1,"uploaded":2,"bytes_pending":5,"bytes_kept":5},"usage":{"today":{"up":5,"down":6},"up":5,"down":6}}"#,
        "/v1/blobs":
            #"{"items":[{"id":"b-1","digest":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","size":100,"offset":50,"state":"uploading","type":"image/jpeg","attempts":3,"links":2,"created_at":"2026-11-20T21:00:00Z"}],"next":null}"#,
        "/v1/mutations":
            #"{"items":[{"id":"m-1","seq":4,"entity":"audits","record_id":"a","action":"update","state":"pending","priority":"normal","attempts":3,"bytes":10,"base_version":7,"created_at":"2026-11-20T21:00:00Z","next_attempt_at":"2026-11-20T21:00:00Z"}],"next":"5"}"#,
    ].mapValues { (try? JSONReader.read($0)) ?? .null }

    @Test("No number in an answer ends the program that shows it")
    func screens() async throws {
        let stand = try await AgentStand.start()
        _ = try await stand.enqueue(#"{"entity":"audits","record_id":"a","action":"create","data":{"n":1}}"#)
        _ = try await stand.sync()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"b","action":"create","data":{"n":1}}"#)
        let questions: [(HTTPRequest.Method, String, String?)] = [
            (.get, "/v1/status", nil), (.get, "/v1/mutations", nil), (.get, "/v1/conflicts", nil), (.get, "/v1/blobs", nil),
            (.get, "/v1/links", nil),
            (.get, "/v1/power", nil), (.get, "/v1/ledger", nil), (.post, "/v1/plan", "{}"), (.get, "/v1/why/\(id)", nil),
            (.get, "/v1/audit", nil),
            (.get, "/v1/checklist", nil), (.post, "/v1/sync", #"{"wait":true,"force":true}"#),
        ]
        for (method, path, body) in questions {
            let answer = try await stand.send(method, path, body)
            let json = try #require(answer.json, "\(path): \(answer.text)")
            let name = path.hasPrefix("/v1/why") ? "/v1/why" : path
            #expect(Self.show(name, json) >= 0)
            for base in [json] + [Self.more[name]].compactMap({ $0 }) {
                for variant in HostileNumbers.variants(of: base) { _ = Self.show(name, variant.json) }
                // All at once, so that sums of them are met, too.
                for value in HostileNumbers.numbers {
                    _ = Self.show(name, Self.replacing(base, with: try #require(HostileNumbers.number(value))))
                }
            }
        }
        try await stand.stop()
    }

    private static func replacing(_ json: JSON, with other: JSON) -> JSON {
        switch json {
        case .number: return other
        case .array(let elements): return .array(elements.map { replacing($0, with: other) })
        case .object(let object):
            var copy = object
            for member in object.members { copy[member.name.text] = replacing(member.value, with: other) }
            return .object(copy)
        default: return json
        }
    }

    @Test("Numbers of any size have a text", arguments: HostileNumbers.numbers)
    func texts(_ text: String) {
        let value = Int64(text) ?? .max
        for value in [value, .min, .max] {
            #expect(!PlainText.count(value).isEmpty && !SizeText.readable(value).isEmpty)
            for duration in [Duration.seconds(value), .milliseconds(value)] { #expect(!DurationText.readable(duration).isEmpty) }
            #expect(!PlainText.clock(Timestamp(milliseconds: value), now: Timestamp(milliseconds: 0), offset: .seconds(50_400)).isEmpty)
        }
    }
}
