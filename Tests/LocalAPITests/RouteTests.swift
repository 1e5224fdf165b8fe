import LocalAPI
import SyncCore
import Testing

private let key = MutationKey(trusted: "0199c3f3-2")
private let audits = EntityName(trusted: "audits")
private let file = BlobDigest(hex: String(repeating: "ab", count: 32))!
private let wwan0 = link("wwan0")

@Suite("Routes") struct RouteTests {
    struct Good: Sendable, CustomTestStringConvertible {
        var method: String
        var target: String
        var route: Route
        var role: Role?
        var testDescription: String { "\(method) \(target)" }

        init(_ method: String, _ target: String, _ route: Route, _ role: Role?) {
            (self.method, self.target, self.route, self.role) = (method, target, route, role)
        }
    }

    static let good: [Good] = [
        Good("POST", "/v1/mutations", .enqueue(wait: nil), .enqueue),
        Good("POST", "/v1/mutations?wait=acked", .enqueue(wait: .seconds(20)), .enqueue),
        Good("POST", "/v1/mutations?wait=acked&timeout=300", .enqueue(wait: .seconds(300)), .enqueue),
        Good("POST", "/v1/mutations/bulk", .enqueueLines, .enqueue),
        Good("GET", "/v1/mutations", .mutations(MutationListQuery()), .read),
        Good(
            "GET", "/v1/mutations?state=pending,in_flight&entity=audits&record_id=a-1&app=me&after=7&limit=1000",
            .mutations(
                MutationListQuery(
                    states: [.pending, .inFlight], entity: audits, recordID: RecordID(trusted: "a-1"), app: .me,
                    after: 7,
                    limit: 1_000)), .read),
        Good(
            "GET", "/v1/mutations?app=inspector",
            .mutations(MutationListQuery(app: .named(AppName(trusted: "inspector")))), .read),
        Good("GET", "/v1/rejected", .mutations(MutationListQuery(states: [.rejected, .failed, .held])), .read),
        Good("GET", "/v1/rejected?state=held", .mutations(MutationListQuery(states: [.held])), .read),
        Good("GET", "/v1/rejected/0199c3f3-2", .mutation(key), .read),
        Good("GET", "/v1/mutations/0199c3f3-2", .mutation(key), .read),
        Good("DELETE", "/v1/mutations/0199c3f3-2", .cancelMutation(key), .enqueue),
        Good("DELETE", "/v1/blobs/b-31", .removeBlob(BlobID(31), isForced: false), .enqueue),
        Good("DELETE", "/v1/blobs/b-31?force=true", .removeBlob(BlobID(31), isForced: true), .enqueue),
        Good("GET", "/v1/blobs/b-31/content", .blobContent(.id(BlobID(31))), .read),
        Good("GET", "/v1/blobs/b-31/content?wait=30s", .blobContent(.id(BlobID(31)), wait: .seconds(30)), .read),
        Good("GET", "/v1/blobs/\(file)/content?wait=5m", .blobContent(.digest(file), wait: .seconds(300)), .read),
        Good("POST", "/v1/blobs/\(file)/fetch", .fetchBlob(.digest(file)), .enqueue),
        Good("POST", "/v1/blobs/b-31/pin", .pinBlob(.id(BlobID(31))), .enqueue),
        Good("POST", "/v1/blobs/\(file)/unpin", .unpinBlob(.digest(file)), .enqueue),
        Good("GET", "/v1/blobs?state=fetching,failed", .blobs(BlobListQuery(states: ["fetching", "failed"])), .read),
        Good("POST", "/v1/mutations/0199c3f3-2/retry", .retryMutation(key), .enqueue),
        Good("POST", "/v1/mutations/0199c3f3-2/undo", .undoMutation(key), .enqueue),
        Good("POST", "/v1/mutations/0199c3f3-2/discard", .discardMutation(key), .enqueue),
        Good(
            "GET", "/v1/records/audits/a-17", .record(RecordName(audits, RecordID(trusted: "a-17")), view: .merged),
            .read),
        Good(
            "GET", "/v1/records/audits/a%3A17?view=both",
            .record(RecordName(audits, RecordID(trusted: "a:17")), view: .both), .read),
        Good(
            "GET", "/v1/records/audits/a-17?fetch=1",
            .record(RecordName(audits, RecordID(trusted: "a-17")), view: .merged, fetches: true), .read),
        Good("GET", "/v1/records/audits/a-17/progress", .progress(RecordName(audits, RecordID(trusted: "a-17"))), .read),
        Good("GET", "/v1/records/audits", .records(RecordListQuery(audits)), .read),
        Good(
            "GET",
            "/v1/records/audits?filter=status:eq:open&filter=due:lt:2026-12-01&sort=-updated_at,status&fields=id,site.name"
                + "&limit=5&cursor=abc%3D&include_deleted=true&explain=true&sync_status=pending,error",
            .records(
                RecordListQuery(
                    audits,
                    filter: .all([
                        .test(path("status"), .eq("open")), .test(path("due"), .lt("2026-12-01")),
                    ]),
                    sort: [.init(.updatedAt, isDescending: true), .init(.field(path("status")))],
                    fields: [path("id"), path("site", "name")], limit: 5, cursor: "abc=", includesDeleted: true,
                    statuses: [.pending, .error], explains: true)), .read),
        Good("GET", "/v1/conflicts", .conflicts(ConflictListQuery()), .read),
        Good(
            "GET", "/v1/conflicts?entity=audits&state=open,moot&after=7&limit=5",
            .conflicts(ConflictListQuery(states: [.open, .moot], entity: audits, after: ConflictID(number: 7), limit: 5)), .read),
        Good("GET", "/v1/conflicts/c-12", .conflict(ConflictID(number: 12)), .read),
        Good("POST", "/v1/conflicts/c-12/resolve", .resolveConflict(ConflictID(number: 12)), .enqueue),
        Good("POST", "/v1/query", .query, .read),
        Good("GET", "/v1/entities", .entities, .read),
        Good("GET", "/", .welcome, nil),
        Good("GET", "/v1/openapi.yaml", .reference, nil),
        Good("GET", "/v1/status", .status, .read),
        Good("GET", "/v1/healthz", .health, nil),
        Good("GET", "/v1/readyz", .ready, nil),
        Good("GET", "/v1/metrics", .metrics, .read),
        Good("GET", "/v1/events", .events(EventQuery()), .read),
        Good(
            "GET", "/v1/events?types=mutation,sync&entity=audits",
            .events(EventQuery(types: [.mutation, .sync], entity: audits)), .read),
        Good("POST", "/v1/sync", .sync, .enqueue),
        Good("POST", "/v1/pause", .pause, .operate),
        Good("POST", "/v1/resume", .resume, .operate),
        Good("POST", "/v1/acknowledge", .acknowledge, .operate),
        Good("GET", "/v1/config", .config, .operate),
        Good("POST", "/v1/config/check", .checkConfig, .admin),
        Good("POST", "/v1/config/reload", .reloadConfig, .admin),
        Good("GET", "/v1/checklist", .checklist, .operate),
        Good("GET", "/v1/links", .links, .read),
        Good("PUT", "/v1/links/wwan0", .hintLink(wwan0), .operate),
        Good("DELETE", "/v1/links/wwan0", .clearLinkHint(wwan0), .operate),
        Good("GET", "/v1/power", .power, .read),
        Good("GET", "/v1/usage", .ledger(LedgerQuery()), .read),
        Good(
            "GET", "/v1/usage?link=wwan0&from=2026-11-19&to=2026-11-20&by=month",
            .ledger(
                LedgerQuery(link: wwan0, from: CalendarDay("2026-11-19"), to: CalendarDay("2026-11-20"), by: .month)),
            .read),
        Good("GET", "/v1/ledger?by=day", .ledger(LedgerQuery()), .read),
        Good("GET", "/v1/why/0199c3f3-2", .why(key), .read),
        Good("POST", "/v1/plan", .plan, .read),
    ]

    @Test("Method and target name a route with its parameters and the role it takes", arguments: good)
    func reads(_ example: Good) throws {
        let route = try Route.parse(method: example.method, target: example.target)
        #expect(route == example.route)
        #expect(route.role == example.role)
    }

    @Test("A client's request for a route reads as that route", arguments: good)
    func roundTrips(_ example: Good) throws {
        let sent = RouteTarget(example.route)
        #expect(try Route.parse(method: sent.method.rawValue, target: sent.target) == example.route)
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        var method: String
        var target: String
        var code: LocalProblem
        /// Part of the sentence for people.
        var says: String
        var testDescription: String { "\(method) \(target.prefix(60))" }

        init(_ method: String, _ target: String, _ code: LocalProblem, _ says: String = "") {
            (self.method, self.target, self.code, self.says) = (method, target, code, says)
        }
    }

    static let bad: [Bad] = [
        Bad("GET", "/v1/foo", .notFound, "/v1/foo"),
        Bad("GET", "/v1", .notFound),
        Bad("GET", "/v2/status", .notFound),
        Bad("GET", "/V1/status", .notFound),
        Bad("GET", "/v1/status/now", .notFound),
        Bad("GET", "/v1/mutations/a/b/c", .notFound),
        Bad("PUT", "/v1/foo", .notFound),
        // Paths that a file server would follow.
        Bad("GET", "/v1/../etc/passwd", .notFound, "dot segment"),
        Bad("GET", "/v1/./status", .notFound),
        Bad("GET", "/v1/%2e%2e/status", .notFound, "dot segment"),
        Bad("GET", "/v1/%2E/status", .notFound),
        Bad("GET", "/v1//status", .notFound),
        Bad("GET", "/v1/status/", .notFound),
        Bad("GET", "//v1/status", .notFound),
        Bad("GET", "/v1/records/audits/a%2Fb", .malformed, "encoded / or %"),
        Bad("GET", "/v1/records/audits/%252e%252e", .malformed, "encoded / or %"),
        Bad("GET", "/v1/records/audits/a%00", .malformed, "control character"),
        Bad("GET", "/v1/records/audits/a%0a", .malformed, "control character"),
        Bad("GET", "/v1/records/audits/a%7F", .malformed, "control character"),
        Bad("GET", "/v1/records/audits/%ff", .malformed, "UTF-8"),
        Bad("GET", "/v1/records/audits/%C0%AE", .malformed, "UTF-8"),
        Bad("GET", "/v1/records/audits/a%2", .malformed, "two hexadecimal digits"),
        Bad("GET", "/v1/records/audits/a%+1", .malformed, "two hexadecimal digits"),
        Bad("GET", "/v1/records/audits/a%", .malformed, "two hexadecimal digits"),
        Bad("GET", "/v1/records/audits/a\\b", .malformed, "0x5c"),
        Bad("GET", "/v1/records/audits/a b", .malformed, "0x20"),
        Bad("GET", "/v1/records/audits/ü", .malformed, "0xc3"),
        Bad("GET", "/v1/records/audits/%C3%BC", .malformed, "record id"),
        Bad("GET", "/v1/records/au%20dits", .malformed, "entity"),
        Bad("GET", "/v1/records/audits/" + String(repeating: "a", count: 65), .malformed, "1 to 64"),
        Bad("GET", "/v1/mutations/%21", .malformed, "mutation id"),
        Bad("GET", "/v1/status#top", .malformed, "0x23"),
        Bad("GET", "http://localhost/v1/status", .malformed, "path"),
        Bad("OPTIONS", "*", .malformed, "path"),
        Bad("GET", "", .malformed, "path"),
        Bad("GET", "/v1/status?" + String(repeating: "a", count: 8 << 10), .malformed, "longer than 8192"),
        // Methods
        Bad("POST", "/v1/status", .methodNotAllowed, "only GET"),
        Bad("get", "/v1/status", .methodNotAllowed),
        Bad("HEAD", "/v1/status", .methodNotAllowed),
        Bad("TRACE", "/v1/mutations", .methodNotAllowed, "only GET, POST"),
        Bad("PUT", "/v1/mutations/x", .methodNotAllowed, "only GET, DELETE"),
        Bad("DELETE", "/v1/rejected/x", .methodNotAllowed, "only GET"),
        Bad("GET", "/v1/mutations/bulk", .methodNotAllowed, "only POST"),
        // Parameters
        Bad("GET", "/v1/status?verbose=1", .malformed, "takes none"),
        Bad("GET", "/v1/mutations?staet=pending", .malformed, "did you mean state?"),
        Bad("GET", "/v1/mutations?state=lost", .malformed, "one of pending"),
        Bad("GET", "/v1/mutations?state=", .malformed, "one of pending"),
        Bad("GET", "/v1/mutations?state=pending,", .malformed, "one of pending"),
        Bad("GET", "/v1/mutations?limit=1&limit=2", .malformed, "once"),
        Bad("GET", "/v1/mutations?limit=0", .malformed, "1 to 1000"),
        Bad("GET", "/v1/mutations?limit=1001", .malformed, "1 to 1000"),
        Bad("GET", "/v1/mutations?limit=+5", .malformed, "whole number"),
        Bad("GET", "/v1/mutations?limit=1.0", .malformed, "whole number"),
        Bad("GET", "/v1/mutations?after=-1", .malformed, "whole number"),
        Bad("GET", "/v1/mutations?after=9223372036854775808", .malformed, "whole number"),
        Bad("GET", "/v1/mutations?entity=a%20b", .malformed, "1 to 64"),
        Bad("GET", "/v1/mutations?app=", .malformed, "1 to 64"),
        Bad("GET", "/v1/mutations?limit", .malformed, "name=value"),
        Bad("GET", "/v1/mutations?=5", .malformed, "name=value"),
        Bad("GET", "/v1/mutations?limit=5&", .malformed, "name=value"),
        Bad("GET", "/v1/mutations?a%00b=1", .malformed, "control"),
        Bad(
            "GET", "/v1/mutations?" + Array(repeating: "a=1", count: 65).joined(separator: "&"), .malformed,
            "more than 64"),
        Bad("POST", "/v1/mutations?wait=done", .malformed, "one of acked"),
        Bad("POST", "/v1/mutations?timeout=5", .malformed, "wait=acked"),
        Bad("POST", "/v1/mutations?wait=acked&timeout=301", .malformed, "1 to 300"),
        Bad("GET", "/v1/records/audits/a?view=base", .malformed, "merged, server, both"),
        Bad("GET", "/v1/records/audits?filter=status", .malformed, "field:op:value"),
        Bad("GET", "/v1/records/audits?filter=status:like:x", .malformed, "field:op:value"),
        Bad("GET", "/v1/records/audits?filter=:eq:x", .malformed, "field:op:value"),
        Bad("GET", "/v1/records/audits?filter=n:lt:true", .malformed, "field:op:value"),
        Bad("GET", "/v1/records/audits?filter=n:exists:maybe", .malformed, "field:op:value"),
        Bad("GET", "/v1/records/audits?filter=n:in:%22a", .malformed, "field:op:value"),
        Bad("GET", "/v1/records/audits?sort=a,b,c,d,e", .malformed, "1 to 4"),
        Bad("GET", "/v1/records/audits?sort=", .malformed, "1 to 4"),
        Bad("GET", "/v1/records/audits?fields=a,,b", .malformed, "1 to 64"),
        Bad("GET", "/v1/records/audits?include_deleted=1", .malformed, "true or false"),
        Bad("GET", "/v1/records/audits?cursor=" + String(repeating: "a", count: 4_097), .malformed, "cursor"),
        Bad("GET", "/v1/records/audits?sync_status=done", .malformed, "synced, pending, conflict, error"),
        Bad("GET", "/v1/events?types=mutations", .malformed, "one of mutation"),
        // Links, power, cost and reasons
        Bad("GET", "/v1/links/wwan0", .methodNotAllowed, "only PUT, DELETE"),
        Bad("PUT", "/v1/links", .methodNotAllowed, "only GET"),
        Bad("PUT", "/v1/links/enx00e04c3600155", .malformed, "name of an interface"),
        Bad("PUT", "/v1/links/eth0:1", .malformed, "name of an interface"),
        Bad("PUT", "/v1/links/wwan0/hint", .notFound),
        Bad("POST", "/v1/power", .methodNotAllowed, "only GET"),
        Bad("GET", "/v1/plan", .methodNotAllowed, "only POST"),
        Bad("GET", "/v1/why", .notFound),
        Bad("GET", "/v1/why/a%20b", .malformed, "the id must be"),
        Bad("GET", "/v1/usage?link=a%20b", .malformed, "name of an interface"),
        Bad("GET", "/v1/usage?from=yesterday", .malformed, "such as 2026-11-19"),
        Bad("GET", "/v1/usage?from=2026-02-30", .malformed, "such as 2026-11-19"),
        Bad("GET", "/v1/usage?from=2026-11-20&to=2026-11-19", .malformed, "before from"),
        Bad("GET", "/v1/usage?by=week", .malformed, "day, month"),
        Bad("GET", "/v1/usage?until=2026-11-19", .malformed, "known are link, from, to, by"),
    ]

    @Test("Everything else is refused with its code and a sentence that helps", arguments: bad)
    func refuses(_ example: Bad) throws {
        let problem = try #require(throws: Problem.self) {
            try Route.parse(method: example.method, target: example.target)
        }
        #expect(problem.code == example.code.rawValue)
        #expect(problem.status == example.code.status)
        #expect(
            problem.detail.contains(example.says) || problem.errors.contains { $0.detail.contains(example.says) },
            "\(problem.detail)")
    }

    @Test("A wrong method is answered with the ones that exist")
    func allows() throws {
        let problem = try #require(throws: Problem.self) { try Route.parse(method: "PATCH", target: "/v1/mutations/x") }
        #expect(problem.localAnswer.headers["Allow"] == "GET, DELETE")
    }

    @Test("No bytes of a target trap, hang or find a file, whatever they are")
    func survivesNoise() {
        var random = SeededRandom(seed: 7)
        let alphabet = Array("/v1mutationsrecords%2e.?&=:,-+#\\ \u{0}é".unicodeScalars)
        for _ in 0..<20_000 {
            var target = "/v1/"
            for _ in 0..<Int.random(in: 0..<24, using: &random) {
                target.unicodeScalars.append(alphabet.randomElement(using: &random) ?? "/")
            }
            // Only what throws or names a route is of interest: that nothing else happens.
            _ = try? Route.parse(method: "GET", target: target)
        }
    }

    @Test("Only what changes or reads much takes a body, and of a bounded size")
    func bodies() throws {
        #expect(Route.enqueue(wait: nil).body == .json(maxBytes: 1 << 20, isRequired: true))
        #expect(Route.enqueueLines.body == .lines(maxBytes: 128 << 10))
        #expect(Route.pause.body == .json(maxBytes: 128 << 10, isRequired: false))
        #expect(Route.status.body == .none)
        #expect(Route.reloadConfig.body == .none)
        #expect(Route.hintLink(wwan0).body == .json(maxBytes: 128 << 10, isRequired: true))
        #expect(Route.plan.body == .json(maxBytes: 128 << 10, isRequired: false))
    }
}
