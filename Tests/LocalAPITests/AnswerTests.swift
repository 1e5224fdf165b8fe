import LocalAPI
import SyncCore
import Testing

@Suite("Answers") struct AnswerTests {
    private let name = RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-17"))
    private let key = MutationKey(trusted: "0199c3f3-2")

    private func snapshot(view: String? = #"{"value":"fail","n":1.10}"#) -> RecordSnapshot {
        RecordSnapshot(
            name: name, serverID: "A-2231", version: 90_102, status: .pending, isDeleted: false, view: view,
            base: #"{"value":"pass"}"#, syncedAt: time("2026-11-20T21:04:05.120Z"),
            createdAt: time("2026-11-19T08:00:00Z"), updatedAt: time("2026-11-20T21:05:00Z"), pending: [key], etag: #""7.4.9f3a-90102.402""#
        )
    }

    private func enqueued(
        record: RecordSnapshot?, isRepeat: Bool = false, state: MutationState = .pending,
        durability: EntityRules.Durability = .flash
    ) -> Enqueued {
        Enqueued(
            key: key, seq: 402, state: state, record: record, recordName: name, isRepeat: isRepeat,
            durability: durability)
    }

    // MARK: Records

    @Test("A record is written with its document as stored, digit for digit")
    func record() {
        let answer = RecordAnswer.answer(snapshot())
        #expect(answer.status == 200)
        #expect(answer.contentType == "application/json")
        #expect(answer.headers["ETag"] == #""7.4.9f3a-90102.402""#)
        #expect(
            text(answer)
                == #"{"entity":"audits","id":"a-17","server_id":"A-2231","version":90102,"sync_status":"pending","deleted":false,"#
                + #""data":{"value":"fail","n":1.10},"synced_at":"2026-11-20T21:04:05.120Z","created_at":"2026-11-19T08:00:00.000Z","updated_at":"2026-11-20T21:05:00.000Z","#
                + #""pending":["0199c3f3-2"],"etag":"\"7.4.9f3a-90102.402\""}"#)
    }

    @Test("The client reads a record as it was written")
    func recordRoundTrips() throws {
        let read = try #require(RecordAnswer(JSONReader.read(RecordAnswer.answer(snapshot(), view: .both).body)))
        #expect(read.name == name)
        #expect(read.serverID == "A-2231")
        #expect(read.version == 90_102)
        #expect(read.status == "pending")
        #expect(read.data == #"{"value":"fail","n":1.10}"#)
        #expect(read.base == #"{"value":"pass"}"#)
        #expect(read.syncedAt == time("2026-11-20T21:04:05.120Z"))
        #expect(read.createdAt == time("2026-11-19T08:00:00Z"))
        #expect(read.pending == ["0199c3f3-2"])
        #expect(read.etag == #""7.4.9f3a-90102.402""#)
    }

    @Test("Each view shows its side; a record that is in neither has null for data")
    func views() throws {
        func data(_ answer: LocalAnswer) throws -> String? { try JSONReader.read(answer.body).object?["data"]?.json }
        #expect(try data(RecordAnswer.answer(snapshot(), view: .server)) == #"{"value":"pass"}"#)
        #expect(try data(RecordAnswer.answer(snapshot(view: nil))) == "null")
        #expect(try JSONReader.read(RecordAnswer.answer(snapshot()).body).object?["base"] == nil)
    }

    // Fault: a record whose creation was refused, or was not sent yet, was called deleted by this device.
    @Test(
        "A record without a document says why it has none",
        arguments: [
            (7, "synced", [], RecordView.merged, "was deleted at 2026-11-20T21:05:00.000Z (version 7)"),
            (
                0, "error", ["m-1"], .merged,
                "does not exist, because its creation was refused. To see the refused changes: agentctl rejected"
            ),
            (
                0, "error", ["m-1"], .server,
                "does not exist, because its creation was refused. To see the refused changes: agentctl rejected"
            ),
            (7, "error", ["m-1"], .merged, "was deleted, and a change of it was refused. To see the refused changes: agentctl rejected"),
            (0, "pending", ["m-1"], .server, "is not at the hub yet"),
            (7, "pending", ["m-1"], .merged, "was deleted here at 2026-11-20T21:05:00.000Z; the hub has not confirmed it yet"),
        ])
    func absences(_ version: Int64, _ status: String, _ pending: [String], _ view: RecordView, _ text: String) throws {
        var record = try #require(RecordAnswer(JSONReader.read(RecordAnswer.answer(snapshot()).body)))
        (record.version, record.status, record.pending) = (version, status, pending)
        #expect(record.absence(in: view) == "\(name) \(text)")
    }

    @Test(
        "A reader that has the record already is told so, and nothing else",
        arguments: [
            (#"W/"7.4.9f3a-90102.402""#, true), (#""7.4.9f3a-90102.402""#, true), (#"W/"1", W/"7.4.9f3a-90102.402""#, true), ("*", true),
            (#""7.4.9f3a-90102.403""#, false), (#""7.4.9f3a""#, false), ("7.4.9f3a-90102.402", false), ("", false),
        ])
    func notModified(_ header: String, _ isKnown: Bool) {
        let answer = RecordAnswer.answer(snapshot(), ifNoneMatch: header)
        #expect(answer.status == (isKnown ? 304 : 200))
        #expect(answer.body.isEmpty == isKnown)
        #expect(answer.headers["ETag"] == #""7.4.9f3a-90102.402""#)
        #expect((answer.contentType == nil) == isKnown)
    }

    @Test("A list shows the wanted parts of each document, nested as they were, and where it goes on")
    func list() throws {
        let view = #"{"id":1,"site":{"name":"Nord","city":"Kiel"},"n":1.10,"x":null}"#
        let answer = RecordAnswer.list(
            [snapshot(view: view), snapshot(view: nil)],
            fields: [path("n"), path("site", "name"), path("x"), path("gone"), path("n", "deeper")], next: "abc")
        let items = try #require(JSONReader.read(answer.body).object?["items"]?.array)
        #expect(items.map { $0.object?["data"]?.json } == [#"{"n":1.10,"site":{"name":"Nord"},"x":null}"#, "null"])
        #expect(try JSONReader.read(answer.body).object?["next"] == "abc")
        #expect(text(RecordAnswer.list([], next: nil)) == #"{"items":[],"next":null}"#)
    }

    // Fault: the answer has a record without a document, which says that it was deleted.
    @Test("A record whose document is not kept is a problem that tells how to get it, and no news for a reader that has it")
    func notKept() throws {
        var record = snapshot(view: nil)
        record.isNotKept = true
        let answer = RecordAnswer.answer(record)
        #expect(answer.status == 409 && answer.problemCode == "not-kept")
        let problem = try #require(try JSONReader.read(answer.body).object)
        #expect(problem["fetch"] == "/v1/records/audits/a-17?fetch=1")
        #expect(problem["entity"] == "audits" && problem["record_id"] == "a-17")
        #expect(RecordAnswer.answer(record, ifNoneMatch: record.etag).status == 304)
        #expect(
            LocalProblem.hint(RecordSnapshot.notKept(record.name)) == "`agentctl get --fetch audits a-17` brings it back from the hub")
    }

    @Test("A list tells how many records it cannot contain, where there are any")
    func incompleteList() throws {
        #expect(text(RecordAnswer.list([], next: nil, notKept: 0)) == #"{"items":[],"next":null}"#)
        let answer = RecordAnswer.list([], next: nil, notKept: 12)
        #expect(text(answer) == #"{"items":[],"next":null,"not_kept":12}"#)
        #expect(RecordListPage(try JSONReader.read(answer.body))?.notKept == 12)
    }

    // MARK: Enqueue

    @Test("An accepted mutation is 201 with its place and the merged view")
    func accepted() {
        let answer = EnqueueAnswer.answer(enqueued(record: snapshot()))
        #expect(answer.status == 201)
        #expect(answer.headers["Location"] == "/v1/mutations/0199c3f3-2")
        #expect(
            text(answer)
                == #"{"id":"0199c3f3-2","seq":402,"state":"pending","record":{"entity":"audits","id":"a-17","#
                + #""sync_status":"pending","version":90102,"etag":"\"7.4.9f3a-90102.402\"","data":{"value":"fail","n":1.10}}}"#)
    }

    @Test("An event has no view; less than flash says so; a repeat is 200")
    func variants() {
        #expect(
            text(EnqueueAnswer.answer(enqueued(record: nil, durability: .relaxed)))
                == #"{"id":"0199c3f3-2","seq":402,"state":"pending","durability":"relaxed","record":{"entity":"audits","id":"a-17"}}"#
        )
        #expect(EnqueueAnswer.answer(enqueued(record: nil, isRepeat: true)).status == 200)
        #expect(EnqueueAnswer.answer(atomic: [enqueued(record: nil), enqueued(record: nil)]).status == 201)
        #expect(EnqueueAnswer.answer(atomic: [enqueued(record: nil, isRepeat: true)]).status == 200)
    }

    @Test(
        "A caller that waits for the verdict gets 201 when it is there, 202 when the time ran out",
        arguments: MutationState.allCases)
    func waited(_ state: MutationState) {
        let isFinal = ![.pending, .inFlight, .conflicted].contains(state)
        #expect(EnqueueAnswer.waited(enqueued(record: nil, state: state)).status == (isFinal ? 201 : 202))
    }

    @Test("The client reads an accepted mutation as it was written")
    func enqueueRoundTrips() throws {
        let answer = EnqueueAnswer.answer(enqueued(record: snapshot(), durability: .relaxed))
        let read = try #require(EnqueueAnswer(JSONReader.read(answer.body)))
        #expect(read.id == key)
        #expect(read.seq == 402)
        #expect(read.state == "pending")
        #expect(read.record == name)
        #expect(read.durability == .relaxed)
        #expect(read.warnings.isEmpty)
        var warned = enqueued(record: snapshot())
        warned.warnings = [Problem.Pointer("/data/status", "must be one of open, closed")]
        warned.kept = ["peak": 7]
        #expect(EnqueueAnswer(try JSONReader.read(EnqueueAnswer.answer(warned).body))?.warnings == warned.warnings)
        #expect(EnqueueAnswer(try JSONReader.read(EnqueueAnswer.answer(warned).body))?.kept == ["peak": 7] && read.kept.isEmpty)
        #expect(EnqueueAnswer(["seq": 1]) == nil)
    }

    @Test(
        "Lines of a bulk answer read as they were written",
        arguments: [
            BulkAnswer.accepted(line: 1, ref: "17", id: MutationKey(trusted: "k"), state: "pending", isRepeat: false),
            .accepted(line: 2, ref: nil, id: MutationKey(trusted: "k"), state: "pending", isRepeat: true),
            .accepted(line: 2, ref: nil, id: MutationKey(trusted: "k"), state: "pending", isRepeat: false, kept: ["peak": 7]),
            .refused(line: 3, ref: 18, LocalProblem.validation.problem("no", errors: [Problem.Pointer("/ttl", "bad")])),
            .summary(accepted: 998, failed: 2),
        ])
    func bulkRoundTrips(_ answer: BulkAnswer) throws {
        var bytes = answer.bytes
        #expect(bytes.popLast() == UInt8(ascii: "\n"))
        #expect(!bytes.contains(UInt8(ascii: "\n")))
        let position: Int64 =
            switch answer {
            case .accepted(let line, _, _, _, _, _), .refused(let line, _, _): line
            case .summary: 4
            }
        #expect(try BulkAnswer(JSONReader.read(bytes), position: position) == answer)
    }

    @Test("The lines of a bulk answer look as documented")
    func bulkShapes() {
        let accepted = BulkAnswer.accepted(line: 9, ref: "17", id: key, state: "pending", isRepeat: false)
        #expect(
            String(decoding: accepted.bytes, as: UTF8.self)
                == "{\"ref\":\"17\",\"id\":\"0199c3f3-2\",\"state\":\"pending\"}\n")
        let summary = BulkAnswer.summary(accepted: 998, failed: 2)
        #expect(String(decoding: summary.bytes, as: UTF8.self) == "{\"summary\":{\"accepted\":998,\"failed\":2}}\n")
        #expect(BulkAnswer(["x": 1], position: 1) == nil)
    }

    // MARK: Mutations

    private var item: MutationItem {
        MutationItem(
            id: "0199c3f3-2", seq: 402, record: name, action: "update", state: "rejected", priority: "normal",
            attempts: 2,
            createdAt: time("2026-11-20T21:04:05Z"), nextAttemptAt: time("2026-11-20T21:05:00Z"),
            deferral: .init(reason: "backoff", until: time("2026-11-20T21:05:00Z")),
            problem: Problem("validation", status: 0, detail: "no", errors: [Problem.Pointer("/value", "one of")]),
            app: "inspector",
            author: "ines", into: "i", supersedes: "s", data: #"{"n":1.10}"#, unset: #"["a"]"#,
            operations: #"[{"field":"a","op":"inc","value":1}]"#,
            history: [
                .init(at: time("2026-11-20T21:04:05Z"), state: "pending", detail: nil),
                .init(at: time("2026-11-20T21:04:09Z"), state: "rejected", detail: "no"),
            ])
    }

    @Test("A mutation with all it can carry reads as it was written, and so does one with nothing")
    func itemRoundTrips() throws {
        #expect(try MutationItem(JSONReader.read(item.answer.body)) == item)
        let bare = MutationItem(id: "k", seq: 1, record: name, action: "create", state: "pending", priority: "bulk")
        #expect(try MutationItem(JSONReader.read(bare.answer.body)) == bare)
        #expect(MutationItem(["id": "k"]) == nil)
    }

    @Test("A list of mutations says where it goes on, as text, because it is a parameter")
    func mutationList() throws {
        #expect(text(MutationItem.list([], next: nil)) == #"{"items":[],"next":null}"#)
        #expect(try JSONReader.read(MutationItem.list([item], next: 402).body).object?["next"] == "402")
    }

    // MARK: Control

    @Test("Answers of control read as they were written")
    func controlRoundTrips() throws {
        let queued = SyncAnswer(cycle: "6f1c")
        #expect(queued.answer.status == 202)
        #expect(try SyncAnswer(JSONReader.read(queued.answer.body)) == queued)
        let ended = SyncAnswer(
            cycle: "6f1c",
            outcome: .init(
                result: "ok", detail: "d", pushed: 17, pulled: 3, deferred: ["bulk": "metered"], bytesUp: 5_120,
                bytesDown: 2_210))
        #expect(ended.answer.status == 200)
        #expect(try SyncAnswer(JSONReader.read(ended.answer.body)) == ended)
        let paused = PauseAnswer(
            pause: EngineMemory.Pause(until: time("2026-11-21T06:00:00Z"), reason: "window", uid: 1_001))
        #expect(try PauseAnswer(JSONReader.read(paused.answer.body)) == paused)
        #expect(text(PauseAnswer(pause: nil).answer) == #"{"paused":[]}"#)
        let config = ConfigAnswer(
            version: 3,
            values: [
                .init(key: "hub.url", value: "https://x", origin: "file", place: "agentd.yaml:2:8"),
                .init(key: "sync.debounce", value: "2s", origin: "default"),
            ])
        #expect(try ConfigAnswer(JSONReader.read(config.answer.body)) == config)
        let reload = ReloadAnswer(changed: ["sync.debounce"], restartNeeded: ["socket.path"])
        #expect(try ReloadAnswer(JSONReader.read(reload.answer.body)) == reload)
    }

    @Test("Health, readiness and states look as documented")
    func small() {
        #expect(text(ControlAnswer.health) == #"{"ok":true}"#)
        let first = StatusDocument.FirstSync(phase: "seeding", done: 214, total: 9_149)
        let waiting = ControlAnswer.ready(reason: "seeding", firstSync: first)
        #expect(waiting.status == 503)
        #expect(waiting.headers["Retry-After"] == "1")
        #expect(
            text(waiting)
                == #"{"ready":false,"reason":"seeding","first_sync":{"phase":"seeding","done":214,"total":9149}}"#)
        #expect(ControlAnswer.ready(reason: nil, firstSync: nil).status == 200)
        #expect(text(ControlAnswer.state(key, .cancelled)) == #"{"id":"0199c3f3-2","state":"cancelled"}"#)
    }

    @Test("Entities come as a list with their rules")
    func entities() {
        var rules = EntityRules()
        rules.fields = ["notes": .append, "visits": .counter]
        let item = EntityItem(
            name: "audits", kind: .record, access: "write", records: 8_123, pending: 3, cursorAge: .seconds(41),
            rules: rules)
        #expect(
            text(EntityItem.list([item]))
                == #"[{"name":"audits","kind":"record","access":"write","records":8123,"pending":3,"cursor_age_s":41,"#
                + #""strategy":{"record":"fields","fields":{"notes":"append","visits":"counter"}}}]"#)
    }

    @Test("An entity tells how many of its records are not kept, where there are any")
    func notKeptOfEntity() {
        var item = EntityItem(
            name: "audits", kind: .record, access: "write", records: 3, pending: 0, cursorAge: nil, rules: EntityRules())
        item.notKept = 40
        #expect(text(EntityItem.list([item])).contains(#""records":3,"not_kept":40,"pending":0"#))
    }

    // MARK: Problems

    @Test("Each code has its status, a hint and an exit status that exists", arguments: LocalProblem.allCases)
    func codes(_ code: LocalProblem) {
        #expect((400...507).contains(code.status))
        #expect(!code.hint.isEmpty)
        #expect([1, 2, 64, 77].contains(code.exitStatus))
        #expect(LocalProblem(code.problem("x")) == code)
    }

    @Test(
        "A request that comes too late is told what has happened before it",
        arguments: [
            ("in_flight", "on its way"), ("done", "at the hub"), ("discarded", "nothing is left to do"),
            ("resolved", "another change has taken its place"),
            ("pending", "cancel"), ("rejected", "rejected show"), ("conflicted", "conflicts"), ("of a newer agent", "on its way"),
        ])
    func tooLate(_ state: String, _ says: String) throws {
        let problem = LocalProblem.alreadySent.problem("x", members: ["state": .string(state)])
        #expect(LocalProblem.hint(Problem(try JSONReader.read(problem.localAnswer.body))).contains(says))
    }

    @Test(
        "The way to have an undone change again depends on where the undo is",
        arguments: [
            ("pending", "`agentctl mutations cancel k-2` before it is sent"), ("in_flight", "`agentctl undo k-2` once the hub has it"),
            ("done", "again: `agentctl undo k-2`"), ("failed", "it is failed: `agentctl mutations show k-2`"),
            ("of an older agent", "again: `agentctl undo k-2`"),
        ])
    func undone(_ state: String, _ says: String) {
        let problem = LocalProblem.alreadyUndone.problem("x", members: ["by": "k-2", "state": .string(state)])
        #expect(LocalProblem.hint(problem).contains(says))
    }

    @Test("The report of an undo that falls at once says so")
    func fallenUndo() throws {
        let made = #"{"id": "0199c3f2-0000-7000-8000-00000000beef", "state": "rejected"}"#
        let json = #"{"entity": "visit", "id": "w", "fields": [], "left": [], "mutation": \#(made)}"#
        let report = try #require(try UndoReport(JSONReader.read(json)))
        #expect(report.lines.count == 1 && report.lines[0].contains("was to take back the record visit/w, and is rejected"))
    }

    @Test("A caller that is refused for want of room is told the setting of the limit")
    func settings() {
        let problem = LocalProblem.queueFull.problem("full", members: ["setting": "access[].quota_mutations"])
        #expect(LocalProblem.hint(problem) == "wait until the hub has accepted some of the queue, or raise access[].quota_mutations")
        #expect(LocalProblem.hint(LocalProblem.queueFull.problem("full")) == "wait until the hub has accepted some of the queue")
        #expect(LocalProblem.hint(LocalProblem.rate.problem("x", members: ["setting": "x"])) == LocalProblem.rate.hint)
    }

    @Test("The codes of the protocol have the status that it gives them")
    func statuses() {
        let table: [(Int, [LocalProblem])] = [
            (400, [.malformed, .unknownMember]), (403, [.forbidden, .entityNotAllowed]), (404, [.notFound]),
            (405, [.methodNotAllowed]),
            (409, [.exists, .alreadySent, .versionMismatch, .idempotencyMismatch, .paused]),
            (413, [.tooLarge]), (415, [.unsupportedMediaType]), (422, [.validation]), (429, [.rate]),
            (503, [.starting, .readOnly]), (507, [.queueFull, .diskFull]),
        ]
        for (status, codes) in table {
            for code in codes { #expect(code.status == status) }
        }
    }

    @Test("A problem is an RFC 9457 document with Retry-After where it has one")
    func problem() throws {
        let answer = LocalProblem.rate.problem("too many requests", retryAfter: 3).localAnswer
        #expect(answer.status == 429)
        #expect(answer.contentType == "application/problem+json")
        #expect(answer.headers["Retry-After"] == "3")
        #expect(
            text(answer)
                == #"{"type":"urn:edge-sync:local:rate","title":"Rate","status":429,"detail":"too many requests","retry_after":3}"#
        )
    }

    private func text(_ answer: LocalAnswer) -> String { String(decoding: answer.body, as: UTF8.self) }

    @Test("JSON for people has the numbers and strings as they were sent")
    func pretty() {
        #expect(
            exactly(#"{"a":1.10,"b":[],"c":{},"d":[1,{"e":"\u00e9"}]}"#).pretty == """
                {
                  "a": 1.10,
                  "b": [],
                  "c": {},
                  "d": [
                    1,
                    {
                      "e": "\\u00e9"
                    }
                  ]
                }
                """)
        #expect(exactly("null").pretty == "null")
    }
}
