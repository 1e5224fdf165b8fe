import SyncCore
import Testing

/// One mutation and a backend that answers as the test says.
struct ExchangeRig {
    static let audits = EntityName(trusted: "audits")
    var exchange: RestExchange
    var step: RestExchange.Step
    private(set) var sent: [String] = []
    private(set) var kept: [RestAttempt] = []

    static func mapping(_ change: (inout RestEntity) -> Void = { _ in }, key: RestMapping.Idempotency? = nil) -> RestMapping {
        var entity = RestEntity()
        func path(_ text: String) -> PathTemplate { PathTemplate(text)! }
        entity.create = .init(method: .post, path: path("/audits"), body: .document, ok: [200, 201])
        entity.create?.id = AnswerSource("$.id")
        entity.update = .init(method: .patch, path: path("/audits/{server_id}"), body: .changed, ok: [200])
        entity.update?.document = .whole
        entity.update?.version = AnswerSource("header:ETag")
        entity.delete = .init(method: .delete, path: path("/audits/{server_id}"), body: .none, ok: [204, 404])
        entity.read = .init(path: path("/audits/{server_id}"))
        entity.read?.version = AnswerSource("header:ETag")
        change(&entity)
        var mapping = RestMapping()
        mapping.idempotency = key
        mapping.entities = [audits: entity]
        return mapping
    }

    init(_ content: MutationContent, _ mapping: RestMapping, _ change: (inout RestTask) -> Void = { _ in }) {
        var task = RestTask(content, base: ["n": 7, "title": "old"], serverID: 17, etag: "\"e1\"")
        if content.action == .create { (task.base, task.serverID, task.etag) = (nil, nil, nil) }
        change(&task)
        var mutation = OutgoingMutation(
            seq: 1, key: MutationKey(trusted: "k-1"), record: RecordName(Self.audits, RecordID(trusted: "a-1")), action: content.action,
            data: nil, baseVersion: 0, hlc: "", clock: .synced, clientUpdatedAt: Timestamp(milliseconds: 0), priority: .normal)
        mutation.rest = task
        exchange = RestExchange(mutation, mapping)
        step = exchange.begin()
        settle()
    }

    /// Writes down what is to be written down, and notes what goes.
    private mutating func settle() {
        while case .keep(let attempt) = step {
            kept.append(attempt)
            step = exchange.kept(true)
        }
        if case .request(let request) = step {
            sent.append("\(request.method.rawValue) \(request.target) \(request.body.map { String(decoding: $0, as: UTF8.self) } ?? "")")
        }
    }

    var request: RestRequest? { if case .request(let request) = step { request } else { nil } }

    mutating func answer(_ status: Int, _ body: String = "{}", etag: String? = nil) {
        var headers: HTTPHeaders = ["Content-Type": "application/json"]
        headers["ETag"] = etag
        step = exchange.answered(
            .success(HTTPResponse(status: status, headers: headers, body: Array(body.utf8))), now: Timestamp(milliseconds: 0))
        settle()
    }

    mutating func fail(_ code: TransportError.Code) {
        step = exchange.answered(.failure(TransportError(code, doing: "ask", detail: "no")), now: Timestamp(milliseconds: 0))
        settle()
    }

    var verdict: RestResult.Verdict? { if case .end(let verdict, _) = step { verdict } else { nil } }
    var refusal: HubReply.Kind? { if case .end(_, let refusal) = step { refusal?.kind } else { nil } }
    var hasEnded: Bool { if case .end = step { true } else { false } }
    var isHeld: Bool { if case .held(let problem)? = verdict { problem.code == Problem.outcomeUnknown } else { false } }
}

@Suite("One mutation at a backend")
struct RestExchangeTests {
    private static let creation = MutationContent(.create, data: ["title": "new"])
    private static let change = MutationContent(.update, data: ["title": "new"])
    private static let count = MutationContent(.update, operations: [FieldOperation("n", .increment, 1)])

    @Test(
        "A removal and an added text that meet another value go back to the store; a count does not",
        arguments: [
            (FieldOperation("n", .remove, 1), true), (FieldOperation("title", .append, "!"), true),
            (FieldOperation("n", .increment, 1), false),
        ])
    func contested(_ operation: FieldOperation, goesBack: Bool) {
        var rig = ExchangeRig(MutationContent(.update, operations: [operation]), ExchangeRig.mapping { $0.update?.ifMatch = true })
        rig.answer(200, #"{"id":17,"n":8,"title":"theirs"}"#, etag: "\"e9\"")
        var isMoved = false
        if case .moved? = rig.verdict { isMoved = true }
        #expect(isMoved == goesBack && rig.sent.count == (goesBack ? 1 : 2))
    }

    @Test("A creation is written down, sent, and known by the id of its answer")
    func creates() {
        var rig = ExchangeRig(Self.creation, ExchangeRig.mapping(key: .init(isQuoted: true)))
        #expect(rig.sent == [#"POST /audits {"title":"new"}"#] && rig.kept.count == 1)
        #expect(rig.request?.headers["Idempotency-Key"] == "\"k-1\"")
        rig.answer(201, #"{"id":17}"#)
        #expect(rig.verdict == .accepted(RestRemote(id: 17)))
    }

    @Test("The id of a creation may be the last part of its Location, and without any it is held")
    func locations() {
        var rig = ExchangeRig(Self.creation, ExchangeRig.mapping { $0.create?.id = AnswerSource("header:Location") })
        rig.step = rig.exchange.answered(
            .success(HTTPResponse(status: 201, headers: ["Location": "https://x/audits/a%2017/?v=1"])), now: Timestamp(milliseconds: 0))
        #expect(rig.verdict == .accepted(RestRemote(id: "a%2017")))
        var nameless = ExchangeRig(Self.creation, ExchangeRig.mapping())
        nameless.answer(201, #"{"uuid":1}"#)
        #expect(nameless.isHeld)
        var ours = ExchangeRig(Self.creation, ExchangeRig.mapping { $0.create?.id = nil })
        ours.answer(201)
        #expect(ours.verdict == .accepted(RestRemote(id: "a-1")))
    }

    @Test("A change goes with the version that it was made on, and its answer is the record now")
    func changes() {
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping { $0.update?.ifMatch = true })
        #expect(rig.sent == [#"PATCH /audits/17 {"title":"new"}"#] && rig.request?.headers["If-Match"] == "\"e1\"")
        rig.answer(200, #"{"id":17,"n":7,"title":"new"}"#, etag: "\"e2\"")
        #expect(rig.verdict == .accepted(RestRemote(id: nil, etag: "\"e2\"", document: ["id": 17, "n": 7, "title": "new"])))
    }

    @Test("412: the record is read, and nothing was done")
    func moved() {
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping { $0.update?.ifMatch = true })
        rig.answer(412)
        #expect(rig.sent.last == "GET /audits/17 ")
        rig.answer(200, #"{"id":17,"title":"theirs"}"#, etag: "\"e9\"")
        #expect(rig.verdict == .moved(RestRemote(id: 17, etag: "\"e9\"", document: ["id": 17, "title": "theirs"])))
        var gone = ExchangeRig(Self.change, ExchangeRig.mapping { $0.update?.ifMatch = true })
        gone.answer(412)
        gone.answer(404)
        #expect(gone.verdict == .moved(nil))
    }

    @Test("409 about something else than the version is a refusal")
    func business() {
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping())
        rig.answer(409, #"{"detail":"the audit is closed"}"#)
        rig.answer(200, #"{"n":7,"title":"old"}"#, etag: "\"e1\"")
        guard case .rejected(let problem)? = rig.verdict else {
            Issue.record("\(String(describing: rig.verdict))")
            return
        }
        #expect(problem.status == 409 && problem.detail.contains("closed"))
    }

    @Test("A count is computed on what is read a moment before, under its version")
    func counts() {
        var rig = ExchangeRig(Self.count, ExchangeRig.mapping { $0.update?.ifMatch = true })
        #expect(rig.sent == ["GET /audits/17 "] && rig.kept.isEmpty)
        rig.answer(200, #"{"id":17,"n":41,"title":"old"}"#, etag: "\"e5\"")
        #expect(rig.sent.last == #"PATCH /audits/17 {"n":42}"# && rig.request?.headers["If-Match"] == "\"e5\"")
        #expect(rig.kept.first?.before == ["n": 41] && rig.kept.first?.counts == true)
    }

    @Test("A field that another client changed meanwhile is not overwritten: the present record is read first")
    func contested() {
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping { $0.update?.ifMatch = true }) { $0.etag = nil }
        #expect(rig.sent == ["GET /audits/17 "])
        rig.answer(200, #"{"id":17,"n":7,"title":"theirs"}"#, etag: "\"e5\"")
        #expect(rig.verdict == .moved(RestRemote(id: 17, etag: "\"e5\"", document: ["id": 17, "n": 7, "title": "theirs"])))
    }

    @Test("A whole document keeps the fields that this agent does not know, and leaves out what only the backend writes")
    func documents() {
        let mapping = ExchangeRig.mapping {
            $0.update?.method = .put
            $0.update?.body = .document
            $0.readOnly = ["stamp"]
            $0.fields = ["title": "name"]
        }
        var rig = ExchangeRig(Self.change, mapping)
        rig.answer(200, #"{"id":17,"name":"old","n":7,"other":[1],"stamp":"x"}"#)
        #expect(rig.sent.last == #"PUT /audits/17 {"name":"new","n":7,"other":[1]}"#)
    }

    enum End: Sendable { case notSent, nothing, unsure, retry, rejected, gone }

    struct Trouble: Sendable {
        let status: Int?
        let code: TransportError.Code?
        let end: End
        let stops: Bool

        init(_ status: Int, _ end: End, stops: Bool) { (self.status, code, self.end, self.stops) = (status, nil, end, stops) }
        init(_ code: TransportError.Code, _ end: End) { (status, self.code, self.end, stops) = (nil, code, end, true) }
    }

    @Test(
        "Conclusions about a creation after a failure, and whether the next request may go",
        arguments: [
            Trouble(.unreachable, .notSent), Trouble(.unresolved, .notSent), Trouble(.untrusted, .notSent), Trouble(.credentials, .notSent),
            Trouble(.timedOut, .nothing), Trouble(.broken, .nothing), Trouble(.malformed, .nothing), Trouble(.cancelled, .nothing),
            Trouble(500, .unsure, stops: true), Trouble(503, .unsure, stops: true), Trouble(202, .unsure, stops: false),
            Trouble(429, .retry, stops: true),
            Trouble(425, .retry, stops: false), Trouble(421, .retry, stops: false), Trouble(401, .notSent, stops: true),
            Trouble(307, .notSent, stops: true), Trouble(422, .rejected, stops: false),
            Trouble(413, .rejected, stops: false), Trouble(501, .rejected, stops: false), Trouble(409, .rejected, stops: false),
        ])
    func trouble(_ trouble: Trouble) {
        var rig = ExchangeRig(Self.creation, ExchangeRig.mapping())
        if let status = trouble.status { rig.answer(status) } else if let code = trouble.code { rig.fail(code) }
        let end: End? =
            switch rig.verdict {
            case nil: rig.hasEnded ? .nothing : nil
            case .notSent?: .notSent
            case .unsure?: .unsure
            case .retry?: .retry
            case .rejected?: .rejected
            case .moved(nil)?: .gone
            case .accepted?, .moved?, .held?: nil
            }
        #expect(end == trouble.end)
        #expect((rig.refusal != nil) == trouble.stops)
    }

    @Test("403 is asked once more with credentials that are read again")
    func forbidden() {
        var rig = ExchangeRig(Self.creation, ExchangeRig.mapping())
        rig.answer(403)
        #expect(rig.request?.refreshesCredentials == true)
        rig.answer(403)
        guard case .rejected(let problem)? = rig.verdict else {
            Issue.record("\(String(describing: rig.verdict))")
            return
        }
        #expect(problem.code == "forbidden")
    }

    private static func lost(_ content: MutationContent, _ mapping: RestMapping, since: Duration = .seconds(100)) -> ExchangeRig {
        let first = ExchangeRig(content, mapping)
        return ExchangeRig(content, mapping) { task in
            task.attempt = first.kept.last
            (task.sinceFirst, task.sinceLast) = (since, since)
        }
    }

    @Test("After a lost answer: the same bytes under a key, a lookup, or held")
    func lostCreations() throws {
        let keyed = Self.lost(Self.creation, ExchangeRig.mapping(key: .init(window: .seconds(3_600))))
        #expect(keyed.sent == [#"POST /audits {"title":"new"}"#] && keyed.kept.isEmpty)
        #expect(Self.lost(Self.creation, ExchangeRig.mapping()).isHeld)
        #expect(Self.lost(Self.creation, ExchangeRig.mapping(key: .init(window: .seconds(60)))).isHeld)

        let mapping = ExchangeRig.mapping {
            $0.clientID = "ref"
            $0.lookup = .init(path: PathTemplate("/audits?ref={id}")!)
        }
        var found = Self.lost(Self.creation, mapping)
        #expect(found.sent == ["GET /audits?ref=a-1 "])
        found.answer(200, #"[{"id":3,"ref":"other"},{"id":4,"ref":"a-1"}]"#)
        #expect(found.verdict == .accepted(RestRemote(id: 4, document: ["id": 4, "ref": "a-1"])))
        var missing = Self.lost(Self.creation, mapping)
        missing.answer(200, #"[{"id":3,"ref":"other"}]"#)
        #expect(
            missing.sent.last == #"POST /audits {"title":"new","ref":"a-1"}"# && missing.kept.count == 1,
            "it never arrived, and is a new attempt")
        var early = Self.lost(Self.creation, mapping, since: .seconds(10))
        early.answer(200, "[]")
        guard case .unsure(_, let after, counts: false)? = early.verdict else {
            Issue.record("\(String(describing: early.verdict))")
            return
        }
        #expect(after == .seconds(20), "it may still be under way")
        var blind = Self.lost(Self.creation, mapping)
        blind.answer(200, #"{"ref":"x","count":0}"#)
        #expect(blind.sent.count == 2, "one document that is not ours is not ours")
        var wrong = Self.lost(Self.creation, mapping)
        wrong.answer(200, "7")
        guard case .unsure? = wrong.verdict else {
            Issue.record("an answer that shows nothing proves nothing: \(String(describing: wrong.verdict))")
            return
        }
    }

    @Test("A record under the id of a creation counts as created only with the sent content, or if an earlier attempt may have made it")
    func takenID() {
        let mapping = ExchangeRig.mapping {
            $0.clientID = "ref"
            $0.lookup = .init(path: PathTemplate("/audits?ref={id}")!)
        }
        func refused(_ content: MutationContent, shows document: String) -> RestResult.Verdict? {
            var rig = ExchangeRig(content, mapping)
            rig.answer(409, #"{"detail":"it exists"}"#)
            rig.answer(200, document)
            return rig.verdict
        }
        let theirs = RestRemote(id: 4, document: ["id": 4, "ref": "a-1", "title": "theirs"])
        #expect(refused(Self.creation, shows: #"[{"id":4,"ref":"a-1","title":"theirs"}]"#) == .moved(theirs))
        let ours = RestRemote(id: 4, document: ["id": 4, "ref": "a-1", "title": "new"])
        #expect(refused(Self.creation, shows: #"[{"id":4,"ref":"a-1","title":"new"}]"#) == .accepted(ours))
        // An attempt before may have made it.
        func lost(_ content: MutationContent, shows document: String) -> RestResult.Verdict? {
            var rig = ExchangeRig(content, mapping) { task in
                var attempt = RestAttempt(.post, "/audits")
                attempt.sent = ["title": "new", "n": 1, "ref": "a-1"]
                task.attempt = attempt
                (task.sinceFirst, task.sinceLast) = (.seconds(100), .seconds(100))
            }
            rig.answer(200, document)
            return rig.verdict
        }
        #expect(lost(Self.creation, shows: #"[{"id":4,"ref":"a-1","title":"theirs"}]"#) == .moved(theirs))
        let changed = RestRemote(id: 4, document: ["id": 4, "ref": "a-1", "title": "changed", "n": 1])
        #expect(lost(Self.creation, shows: #"[{"id":4,"ref":"a-1","title":"changed","n":1}]"#) == .accepted(changed))
        var counting = Self.creation
        counting.operations = [FieldOperation("n", .increment, 1)]
        guard case .held? = lost(counting, shows: #"[{"id":4,"ref":"a-1","title":"theirs"}]"#) else {
            Issue.record("what may be in there already must not be added again")
            return
        }
    }

    @Test("A count whose answer is lost is never added twice")
    func lostCounts() {
        let mapping = ExchangeRig.mapping { $0.update?.ifMatch = true }
        func lost() -> ExchangeRig {
            var attempt = RestAttempt(.patch, "/audits/17")
            (attempt.sent, attempt.before, attempt.counts, attempt.ifMatch) = (["n": 8], ["n": 7], true, "\"e1\"")
            return ExchangeRig(Self.count, mapping) { task in
                task.attempt = attempt
                (task.sinceFirst, task.sinceLast) = (.seconds(100), .seconds(100))
            }
        }
        var same = lost()
        same.answer(200, #"{"id":17,"n":8}"#, etag: "\"e2\"")
        #expect(same.isHeld)
        var other = lost()
        other.answer(200, #"{"id":17,"n":12}"#, etag: "\"e2\"")
        #expect(other.isHeld)
        var untouched = lost()
        untouched.answer(200, #"{"id":17,"n":7}"#, etag: "\"e1\"")
        #expect(untouched.verdict == .moved(RestRemote(id: 17, etag: "\"e1\"", document: ["id": 17, "n": 7])), "it is made anew")
    }

    @Test("Mutations that the database has lost are sent again only where that is harmless")
    func lostDatabase() {
        func lost(_ content: MutationContent, _ mapping: RestMapping) -> ExchangeRig {
            ExchangeRig(content, mapping) { task in
                task.isLost = true
                task.sinceFirst = .seconds(100)
            }
        }
        #expect(lost(Self.creation, ExchangeRig.mapping()).isHeld)
        #expect(lost(Self.creation, ExchangeRig.mapping(key: .init())).sent.count == 1)
        #expect(lost(Self.change, ExchangeRig.mapping()).sent.count == 1)
        #expect(lost(Self.count, ExchangeRig.mapping()).isHeld)
        #expect(lost(MutationContent(.delete), ExchangeRig.mapping()).sent == ["DELETE /audits/17 "])
    }

    @Test("A field that is not mapped, or that only the backend writes, is refused with a reason")
    func refused() {
        func problem(_ content: MutationContent, _ mapping: RestMapping) -> String? {
            if case .rejected(let problem)? = ExchangeRig(content, mapping).verdict { problem.code } else { nil }
        }
        #expect(problem(Self.change, ExchangeRig.mapping { $0.update = nil }) == "unsupported")
        #expect(problem(Self.change, ExchangeRig.mapping { $0.readOnly = ["title"] }) == "validation")
        #expect(problem(Self.creation, RestMapping()) == "unknown-entity")
        #expect(problem(Self.creation, ExchangeRig.mapping { $0.create?.path = PathTemplate("/sites/{site}/audits")! }) == "validation")
    }
}

@Suite("Promises of a hub that a backend lacks")
struct RestWeaknessTests {
    private static func kinds(
        _ change: (inout RestEntity) -> Void, key: RestMapping.Idempotency? = nil, _ rules: (inout EntityRules) -> Void = { _ in }
    ) -> Set<RestWeakness.Kind> {
        var entity = EntityRules()
        rules(&entity)
        return Set(RestWeakness.list(ExchangeRig.mapping(change, key: key), RuleBook([ExchangeRig.audits: entity])).map(\.kind))
    }

    @Test("Each is said where it holds, and not where it does not")
    func kinds() {
        #expect(Self.kinds({ _ in }) == [.creationParked, .unconditional, .notListed])
        #expect(Self.kinds({ $0.update?.ifMatch = true }, key: .init()) == [.notListed])
        #expect(Self.kinds({ $0.read = nil }) == [.creationParked, .changeParked, .unconditional, .notListed])
        #expect(Self.kinds({ $0.create = nil }) { $0.fields = ["n": .counter] } == [.unconditional, .operationsAsValues, .notListed])
        #expect(Self.kinds({ ($0.create, $0.update) = (nil, nil) }) { $0.kind = .event } == [])
        var list = RestEntity.List(path: PathTemplate("/audits")!, items: .whole)
        #expect(Self.kinds({ ($0.create, $0.update, $0.list) = (nil, nil, list) }) == [.listedWhole])
        list.cursorFrom = JSONPath("$[*].at:max")
        #expect(Self.kinds({ ($0.create, $0.update, $0.list) = (nil, nil, list) }) == [.listedByTime, .lateDeletions])
        list.deleted = JSONPath("$.gone")
        #expect(Self.kinds({ ($0.create, $0.update, $0.list) = (nil, nil, list) }) == [.listedByTime])
    }
}
