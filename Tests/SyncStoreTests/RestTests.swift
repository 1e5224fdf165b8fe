import SyncCore
import SyncStore
import Testing

@Suite("Requests to an existing backend, and their outcomes")
struct RestTests {
    private static let rules: RuleBook = {
        var order = EntityRules()
        order.refs = ["site": EntityName(trusted: "site")]
        order.fields = ["visits": .counter]
        return RuleBook([EntityName(trusted: "audit"): order, EntityName(trusted: "site"): EntityRules()])
    }()

    private static func mapping() -> RestMapping {
        func entity(_ name: String) -> RestEntity {
            var entity = RestEntity()
            entity.create = .init(method: .post, path: PathTemplate("/\(name)")!, body: .document, ok: [201])
            entity.create?.id = AnswerSource("$.id")
            entity.update = .init(method: .patch, path: PathTemplate("/\(name)/{server_id}")!, body: .changed, ok: [200])
            entity.update?.ifMatch = true
            entity.delete = .init(method: .delete, path: PathTemplate("/\(name)/{server_id}")!, body: .none, ok: [204])
            entity.read = .init(path: PathTemplate("/\(name)/{server_id}")!)
            entity.read?.version = AnswerSource("header:ETag")
            entity.list = .init(path: PathTemplate("/\(name)")!, items: .whole)
            if name == "audits" { entity.list?.cursorFrom = JSONPath("$[*].at:max") }
            return entity
        }
        var mapping = RestMapping()
        mapping.idempotency = .init()
        mapping.entities = [EntityName(trusted: "audit"): entity("audits"), EntityName(trusted: "site"): entity("sites")]
        return mapping
    }

    private static let lost = RestResult.Verdict.unsure(Problem("failed-alone", status: 500, detail: "no"), after: nil, counts: true)

    static func agent() throws -> TestAgent {
        try TestAgent(rules: rules) { $0.rest = mapping() }
    }

    static func page(_ entity: String, _ rows: [JSONObject], more: Bool = false) -> PullResponse {
        var page = StreamPage(entity: EntityName(trusted: entity), cursor: "{}", hasMore: more, records: [], deletions: [])
        for row in rows {
            let mark = RestMark(serverID: row["id"] ?? 0, etag: row["etag"]?.text)
            var record = StreamPage.Record(id: mark.plainID, record: HubRecord(version: 0, data: row))
            record.mark = mark
            page.records.append(record)
        }
        return PullResponse(epoch: nil, head: 0, pages: [page])
    }

    @discardableResult
    static func apply(_ agent: TestAgent, _ results: RestResult...) throws -> ResultsSummary {
        agent.wait(.seconds(1))
        return try agent.store.applyRest(results, next: nil, at: agent.now).summary
    }

    @Test("A child waits for its parent, and then names it as the backend does; here both keep their names")
    func references() throws {
        let agent = try Self.agent()
        let child = try agent.enqueue(TestAgent.mutation(.create, "o-1", ["site": "s-1"])).key
        let parent = try agent.enqueue(TestAgent.mutation(.create, "s-1", ["name": "Yard"], entity: "site")).key
        let first = try agent.claim()
        #expect(first.map(\.key) == [parent] && first[0].rest?.attempt?.body == #"{"name":"Yard"}"#)
        #expect(first[0].rest?.isFresh == true && first[0].rest?.attempt?.key == parent.text)
        #expect(try Self.apply(agent, RestResult(parent, .accepted(RestRemote(id: 17)))).done == 1)
        let second = try agent.claim()
        #expect(second.map(\.key) == [child] && second[0].rest?.attempt?.body == #"{"site":17}"#, "the number that the backend gave")
        let shown: JSONObject = ["id": 5, "site": 17, "title": ""]
        _ = try Self.apply(agent, RestResult(child, .accepted(RestRemote(id: 5, etag: "e1", document: shown))))
        #expect(try agent.view("o-1") == #"{"id":5,"site":"s-1","title":""}"#)
        #expect(try agent.store.verify() == [])
        // The listed record is the same one, under the name that it has here.
        let summary = try agent.store.applyPull(
            Self.page("audit", [["id": 5, "site": 17, "title": "theirs"], ["id": 6, "site": 17]]), at: agent.now)
        #expect(summary.upserts == 2)
        #expect(try agent.view("o-1") == #"{"id":5,"site":"s-1","title":"theirs"}"#)
        #expect(try agent.view("6") == #"{"id":6,"site":"s-1"}"#)
        #expect(try agent.store.applyPull(Self.page("audit", [["id": 5, "site": 17, "title": "theirs"]]), at: agent.now).unchanged == 1)
    }

    @Test("At most one mutation of a record is under way, and of an atomic list one after the other")
    func oneByOne() throws {
        let agent = try Self.agent()
        try agent.create("a")
        try agent.update("a", ["n": 2])
        try agent.create("b")
        #expect(try agent.claim().map(\.record.id.text) == ["a", "b"])
        let list = try Self.agent()
        let keys = try list.list([TestAgent.mutation(.create, "x"), TestAgent.mutation(.create, "y")]).map(\.key)
        #expect(try list.claim().map(\.key) == [keys[0]])
        _ = try Self.apply(list, RestResult(keys[0], .accepted(RestRemote(id: 1))))
        #expect(try list.claim().map(\.key) == [keys[1]])
        _ = try Self.apply(list, RestResult(keys[1], .accepted(RestRemote(id: 2))))
        #expect(try list.store.verify() == [])
    }

    @Test("After a crash it is known what may have arrived, to the byte")
    func crash() throws {
        let agent = try Self.agent()
        try agent.create("a", ["n": 1])
        let sent = try #require(try agent.claim().first?.rest?.attempt)
        try agent.crash()
        let task = try #require(try agent.inFlight().first?.rest)
        #expect(task.attempt == sent && !task.isFresh && task.sinceFirst >= .seconds(1))
    }

    @Test(
        "Mutations that never left are as before; those that were refused for now go again; those that may have arrived keep their request")
    func verdicts() throws {
        let agent = try Self.agent()
        let key = try agent.create("a", ["n": 1]).key
        _ = try agent.claim()
        _ = try Self.apply(agent, RestResult(key, .notSent))
        #expect(try agent.store.cancel(key, at: agent.now) == [key], "nothing of it was sent")
        let next = try agent.create("b", ["n": 1]).key
        _ = try agent.claim()
        _ = try Self.apply(agent, RestResult(next, .retry(Problem("busy", status: 429, detail: "later"), after: .seconds(3))))
        #expect(try agent.claim().isEmpty)
        agent.wait(.seconds(10))
        #expect(try agent.claim().first?.rest?.isFresh == true)
        _ = try Self.apply(agent, RestResult(next, .unsure(Problem("failed-alone", status: 500, detail: "no"), after: nil, counts: true)))
        agent.wait(.seconds(10))
        let again = try #require(try agent.claim().first?.rest)
        #expect(again.attempt != nil && !again.isFresh, "it may be there")
        _ = try Self.apply(agent, RestResult(next, .held(Problem(Problem.outcomeUnknown, status: 409, detail: "?"))))
        #expect(try agent.states([next]) == ["held"])
        let retried = try agent.store.retry(next, by: agent.app, at: agent.now)
        let sent = try #require(try agent.claim().first)
        #expect(sent.key == retried.key && sent.rest?.isFresh == true)
        #expect(try agent.store.verify() == [])
    }

    @Test("A change that met another version is made anew on that, under another key; a count adds up")
    func moved() throws {
        let agent = try Self.agent()
        _ = try agent.store.applyPull(Self.page("audit", [["id": 5, "visits": 7, "title": "old", "etag": "e1"]]), at: agent.now)
        let key = try agent.update("5", ["visits": 8, "title": "ours"]).key
        let first = try #require(try agent.claim().first?.rest)
        #expect(first.attempt == nil && first.etag == "e1", "a count is computed on what is read")
        let attempt = RestAttempt(.patch, "/audits/5")
        #expect(try agent.store.keepAttempt(attempt, of: key, at: agent.now))
        let theirs: JSONObject = ["id": 5, "visits": 20, "title": "old", "etag": "e1"]
        _ = try Self.apply(agent, RestResult(key, .moved(RestRemote(id: 5, etag: "e2", document: theirs))))
        #expect(try agent.view("5") == #"{"id":5,"visits":21,"title":"ours","etag":"e1"}"#)
        let second = try #require(try agent.claim().first)
        #expect(second.key == key && second.rest?.generation == 1 && second.rest?.etag == "e2" && second.rest?.attempt == nil)
        _ = try Self.apply(agent, RestResult(key, .moved(nil)))
        #expect(try agent.states([key]) == ["rejected"], "it is deleted there, and deletions win")
        #expect(try agent.store.verify() == [])
    }

    @Test("A member of a merged object that both sides changed is decided by its own rule: no hub does it later")
    func members() throws {
        var rules = EntityRules()
        rules.fields = ["form": .merge, "form.count": .counter, "form.finding": .manual]
        let agent = try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): rules])) { $0.rest = Self.mapping() }
        _ = try agent.store.applyPull(
            Self.page("audit", [["id": 5, "form": ["count": 7, "finding": "open"], "etag": "e1"]]), at: agent.now)
        let count = try agent.update("5", ["form": ["count": 8, "finding": "open"]]).key
        _ = try agent.claim()
        let counted: JSONObject = ["id": 5, "form": ["count": 20, "finding": "open"], "etag": "e1"]
        _ = try Self.apply(agent, RestResult(count, .moved(RestRemote(id: 5, etag: "e2", document: counted))))
        #expect(try agent.view("5") == #"{"id":5,"form":{"count":21,"finding":"open"},"etag":"e1"}"#)
        _ = try agent.claim()
        _ = try Self.apply(agent, RestResult(count, .accepted(RestRemote(id: 5, etag: "e3"))))
        let finding = try agent.update("5", ["form": ["count": 21, "finding": "pass"]]).key
        _ = try agent.claim()
        let found: JSONObject = ["id": 5, "form": ["count": 21, "finding": "fail"], "etag": "e1"]
        _ = try Self.apply(agent, RestResult(finding, .moved(RestRemote(id: 5, etag: "e4", document: found))))
        #expect(try agent.states([finding]) == ["conflicted"])
        #expect(try agent.store.verify() == [])
    }

    @Test("A complete list ends what it does not show, but not what was made meanwhile")
    func sweep() throws {
        let agent = try Self.agent()
        _ = try agent.store.applyPull(Self.page("audit", [["id": 1], ["id": 2]]), at: agent.now)
        let key = try agent.create("new").key
        _ = try agent.claim()
        try agent.store.restartStreams([EntityName(trusted: "audit")], at: agent.now)
        #expect(
            try agent.store.loadStreams(at: agent.now).first { $0.entity.text == "audit" }
                == StreamPosition(entity: EntityName(trusted: "audit"), cursor: nil))
        _ = try agent.store.applyPull(Self.page("audit", [["id": 1]], more: true), at: agent.now)
        _ = try Self.apply(agent, RestResult(key, .accepted(RestRemote(id: 9, document: ["id": 9]))))
        let summary = try agent.store.applyPull(Self.page("audit", [["id": 3]]), at: agent.now)
        #expect(summary.deletions == 1)
        #expect(try ["1", "2", "3", "new"].map { try agent.view($0) != nil } == [true, false, true, true])
        #expect(try agent.store.verify() == [])
    }

    @Test("Where every list is a complete one, what is not shown any more is gone with the next")
    func wholeLists() throws {
        let agent = try Self.agent()
        _ = try agent.store.applyPull(Self.page("site", [["id": 1], ["id": 2]]), at: agent.now)
        let summary = try agent.store.applyPull(Self.page("site", [["id": 2]]), at: agent.now)
        #expect(summary.deletions == 1 && summary.unchanged == 1)
        #expect(try agent.store.applyPull(Self.page("site", [["id": 2]]), at: agent.now).deletions == 0)
    }

    @Test("An id of the backend that an app has given to another record stays apart from it")
    func names() throws {
        let agent = try Self.agent()
        let ours = try agent.create("17", ["n": 1]).key
        _ = try agent.store.applyPull(Self.page("audit", [["id": 17, "n": 2]]), at: agent.now)
        #expect(try agent.view("17") == #"{"n":1}"# && (try agent.view("rest:17")) == #"{"id":17,"n":2}"#)
        _ = try agent.claim()
        _ = try Self.apply(agent, RestResult(ours, .accepted(RestRemote(id: 42))))
        try agent.update("17", ["n": 3])
        try agent.update("rest:17", ["n": 4])
        #expect(Set(try agent.claim().compactMap { $0.rest?.serverID }) == [42, 17])
    }

    @Test("A creation that a list shows before its lost answer is known becomes one record, and what refers to it names it as apps do")
    func listedBeforeItsAnswer() throws {
        let agent = try Self.agent()
        let key = try agent.enqueue(TestAgent.mutation(.create, "s-1", ["name": "Yard"], entity: "site")).key
        _ = try agent.claim()
        _ = try Self.apply(agent, RestResult(key, Self.lost))
        _ = try agent.store.applyPull(Self.page("site", [["id": 8, "name": "Yard, theirs"], ["id": 9, "name": "Other"]]), at: agent.now)
        _ = try agent.store.applyPull(
            Self.page(
                "audit",
                [
                    ["id": 5, "site": 8, "title": "a"], ["id": 6, "site": 9], ["id": 18, "site": 88], ["id": 80, "n": 8],
                    ["id": 7, "site": "8"],
                ]),
            at: agent.now)
        let others = try ["6", "18", "80"].map { try agent.record($0) }
        let referring = try ["5", "7"].map { try agent.record($0)?.version }
        let change = try agent.update("5", ["title": "b"]).key
        agent.wait(.seconds(10))
        #expect(try Set(agent.claim().map(\.key)) == [key, change])
        // A backend that knows its key gives the first answer once more.
        let remote = RestRemote(id: 8, document: ["id": 8, "name": "Yard"])
        _ = try Self.apply(agent, RestResult(key, .accepted(remote)))
        #expect(try agent.states([key]) == ["done"])
        #expect(try agent.view("s-1", "site") == #"{"id":8,"name":"Yard, theirs"}"#, "the list was read after the first answer")
        #expect(try agent.view("8", "site") == nil)
        #expect(try agent.view("5") == #"{"id":5,"site":"s-1","title":"b"}"#)
        #expect(try agent.view("7") == #"{"id":7,"site":"s-1"}"#)
        #expect(try ["5", "7"].map { try agent.record($0)?.version } == referring, "the backend has said nothing new about them")
        #expect(try ["6", "18", "80"].map { try agent.record($0) } == others)
        #expect(try agent.store.verify() == [])
        let summary = try agent.store.applyPull(
            Self.page("site", [["id": 8, "name": "Yard, theirs"], ["id": 9, "name": "Other"]]), at: agent.now)
        #expect(summary.unchanged == 2)
    }

    @Test("A record whose reference is renamed in the middle of a complete list is gone with its end, if the list does not show it")
    func renamedWhileListed() throws {
        let agent = try Self.agent()
        let key = try agent.enqueue(TestAgent.mutation(.create, "s-1", ["name": "Yard"], entity: "site")).key
        _ = try agent.claim()
        _ = try Self.apply(agent, RestResult(key, Self.lost))
        _ = try agent.store.applyPull(Self.page("site", [["id": 8, "name": "Yard"]]), at: agent.now)
        _ = try agent.store.applyPull(Self.page("audit", [["id": 1], ["id": 5, "site": 8]]), at: agent.now)
        try agent.store.restartStreams([EntityName(trusted: "audit")], at: agent.now)
        _ = try agent.store.applyPull(Self.page("audit", [["id": 1]], more: true), at: agent.now)
        agent.wait(.seconds(10))
        _ = try agent.claim()
        _ = try Self.apply(agent, RestResult(key, .accepted(RestRemote(id: 8))))
        #expect(try agent.view("5") == #"{"id":5,"site":"s-1"}"#)
        #expect(try agent.store.applyPull(Self.page("audit", [["id": 2]]), at: agent.now).deletions == 1)
        #expect(try agent.view("5") == nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("An id that belongs to another record is not taken: the record was known before, was sent once, or an app has changed it")
    func takenIDs() throws {
        let remote = RestRemote(id: 8, document: ["id": 8])
        for (isKnownBefore, isRepeated, isChanged) in [(true, true, false), (false, false, false), (false, true, true)] {
            let agent = try Self.agent()
            let page = Self.page("site", [["id": 8, "name": "Theirs"]])
            if isKnownBefore { _ = try agent.store.applyPull(page, at: agent.now) }
            let key = try agent.enqueue(TestAgent.mutation(.create, "s-1", ["name": "Yard"], entity: "site")).key
            _ = try agent.claim()
            if isRepeated { _ = try Self.apply(agent, RestResult(key, Self.lost)) }
            _ = try agent.store.applyPull(page, at: agent.now)
            if isChanged { try agent.enqueue(TestAgent.mutation(.update, "8", ["name": "Ours"], entity: "site")) }
            agent.wait(.seconds(10))
            if isRepeated { _ = try agent.claim() }
            _ = try Self.apply(agent, RestResult(key, .accepted(remote)))
            #expect(try agent.states([key]) == ["held"], "\(isKnownBefore) \(isRepeated) \(isChanged)")
            #expect(try agent.view("8", "site") != nil)
            #expect(try agent.store.verify() == [])
        }
    }

    @Test("Mutations that a lost database may have sent count as unknown")
    func lost() throws {
        let agent = try Self.agent()
        try agent.create("a")
        try agent.store.adoptReplica(ReplicaID(trusted: "0199c3f2-0000-7000-8000-000000000001"), at: agent.now)
        #expect(try agent.inFlight().first?.rest?.isLost == true)
    }
}
