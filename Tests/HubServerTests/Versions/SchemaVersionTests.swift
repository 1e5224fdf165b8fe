import HubServer
import SyncCore
import Testing

/// PROTOCOL D7 at the hub: work written under an older version of a schema is accepted, and records are shown in the caller's version.
@Suite("Versions of schemas at the hub", .eachEngine)
struct SchemaVersionTests {
    private static let first: JSON = [
        "type": "object", "properties": ["site": ["type": "string"], "severity": ["enum": ["minor", "major"]]], "required": ["site"],
    ]
    private static let second: JSON = [
        "type": "object", "additionalProperties": false,
        "properties": ["site_id": ["type": "string"], "severity": ["enum": ["low", "high"]], "inspector": ["type": "string"]],
        "required": ["site_id", "inspector"],
    ]

    private static func versions(upTo present: Int, accepts: [Int]? = nil) throws -> SchemaVersions {
        var versions: [Int: SchemaVersions.Version] = [1: .init(schema: try DocumentSchema(first))]
        if present > 1 {
            versions[2] = .init(
                schema: try DocumentSchema(second),
                up: [
                    .rename("site", to: "site_id"), .values("severity", ["minor": "low", "major": "high"]),
                    .fill("inspector", "unknown"),
                ])
        }
        return try SchemaVersions(present: present, versions: versions, accepts: accepts)
    }

    static func rules(_ present: Int, accepts: [Int]? = nil, _ change: (inout EntityRules) -> Void = { _ in }) throws -> RuleBook {
        var rules = EntityRules()
        rules.versions = try versions(upTo: present, accepts: accepts)
        rules.validation = .reject
        change(&rules)
        return RuleBook(["audits": rules])
    }

    private func bench(_ rows: HubRows, _ present: Int, accepts: [Int]? = nil, _ change: (inout EntityRules) -> Void = { _ in }) throws
        -> HubBench
    {
        try HubBench(rules: try Self.rules(present, accepts: accepts, change), seed: UInt64(present), place: rows.place)
    }

    private static let inSecond = [("Schema", "audits=2")]

    @Test("Fifty audits written under version 1 are accepted by version 2, and shown right to devices of both")
    func fifty() throws {
        let rows = try HubRows()
        let bench = try bench(rows, 2)
        let sent = (0..<50).map { number in
            Sent("k-\(number)", seq: Int64(number + 1), .create, id: "a-\(number)", data: ["site": "s-1", "severity": "minor"])
        }
        let results = try bench.verdicts(sent)
        #expect(results.count == 50 && results.allSatisfy { $0.verdict.word == "accepted" })
        #expect(try bench.data("audits", "a-7") == ["site": "s-1", "severity": "minor"])
        let shown = try page(bench, Self.inSecond)
        #expect(shown.records.count == 50)
        #expect(shown.records.allSatisfy { $0.record.data == ["site_id": "s-1", "severity": "low", "inspector": "unknown"] })
    }

    @Test("The records of version 1 are converted when the hub starts with version 2, and keep their versions")
    func stored() throws {
        let rows = try HubRows()
        let before = try bench(rows, 1)
        _ = try before.verdicts([Sent("k-1", .create, data: ["site": "s-1", "severity": "major"])])
        _ = try before.verdicts([Sent("k-2", seq: 2, .update, data: ["severity": "minor"], base: 1, ms: 300)])
        let after = try bench(rows, 2)
        let record = try #require(try page(after, Self.inSecond).records.first)
        #expect(record.record.data == ["site_id": "s-1", "severity": "low", "inspector": "unknown"] && record.record.version == 2)
        // The new field has the time of the old one, and a filled-in value has no writer.
        #expect(try after.verdict(Sent("k-3", .update, data: ["site": "older"], base: 0, ms: 50), device: .two).word == "accepted")
        #expect(try after.data("audits", "a-1")?["site"] == "s-1")
        #expect(try after.verdict(Sent("k-4", .update, data: ["severity": "major"], base: 2, ms: 400), device: .two).word == "accepted")
        #expect(try page(after, Self.inSecond).records[0].record.data["severity"] == "high")
    }

    @Test("A change of an older device that set a field before the step filled it in wins over the filled value")
    func filledValueLoses() throws {
        let rows = try HubRows()
        _ = try bench(rows, 1).verdicts([Sent("k-1", .create, data: ["site": "s-1"], ms: 900)])
        let after = try bench(rows, 2)
        let change = Sent("k-2", .update, data: ["inspector": "Ann"], base: 0, ms: 500)
        #expect(try after.verdict(change, device: .two).word == "accepted")
        #expect(try page(after, Self.inSecond).records[0].record.data["inspector"] == "Ann")
    }

    @Test("A version that is not accepted is answered with a try later, and no record is shown in it")
    func notAccepted() throws {
        let rows = try HubRows()
        let bench = try bench(rows, 2, accepts: [2])
        let results = try bench.verdicts([Sent("k-1", .create, data: ["site": "s-1"])])
        guard case .retry(let problem?, _) = results[0].verdict else {
            Issue.record("\(results[0].verdict)")
            return
        }
        #expect(problem.code == "schema-too-old" && problem.status == 409)
        #expect(try bench.pull([("audits", nil)]).errors.map(\.problem.code) == ["schema-too-old"])
        #expect(bench.send("GET", "/v1/sync/snapshot?entity=audits").status == 409)
        // Nothing is decided: the same mutation is accepted as soon as its version is.
        let open = try self.bench(rows, 2)
        #expect(try open.verdict(Sent("k-1", .create, data: ["site": "s-1"])).word == "accepted")
    }

    @Test("A mutation may name a version of its own, and waits if the hub does not know it")
    func namedVersion() throws {
        let rows = try HubRows()
        let bench = try bench(rows, 2)
        let own = Sent("k-1", .create, data: ["site_id": "s-1", "inspector": "Ann"]).with("schema", 2)
        #expect(try bench.verdict(own).word == "accepted")
        #expect(try bench.data("audits", "a-1") == ["site": "s-1"], "version 1 does not know the inspector")
        guard case .retry = try bench.verdict(Sent("k-2", seq: 2, .create, id: "a-2", data: [:]).with("schema", 9)) else {
            Issue.record("version 9 was accepted")
            return
        }
        guard case .rejected(let problem, _) = try bench.verdict(Sent("k-3", seq: 3, .create, id: "a-3").with("schema", "two")) else {
            Issue.record("a text was taken for a version")
            return
        }
        #expect(problem.errors.map(\.pointer) == ["/mutations/0/schema"])
        #expect(bench.send("POST", "/v1/sync/pull", ["streams": []], headers: [("Schema", "audits:2")]).status == 400)
    }

    @Test("A change that contradicts the present schema is rejected by name")
    func contradiction() throws {
        let bench = try bench(try HubRows(), 2)
        guard case .rejected(let problem, _) = try bench.verdict(Sent("k-1", .create, data: ["site": "s-1", "severity": "huge"])) else {
            Issue.record("a severity that no version knows was accepted")
            return
        }
        #expect(problem.code == "validation" && problem.errors.map(\.pointer) == ["/data/severity"])
    }

    @Test("A conflict names the fields of the caller's version, with its values")
    func conflicts() throws {
        let bench = try bench(try HubRows(), 2) { $0.criticalFields = ["severity", "site_id"] }
        #expect(try bench.verdict(Sent("k-1", .create, data: ["site": "s-1", "severity": "minor"])).word == "accepted")
        #expect(try bench.verdict(Sent("k-2", seq: 2, .update, data: ["site": "s-2"], base: 1)).word == "accepted")
        guard
            case .conflict(let fields, .record(let current)) = try bench.verdict(
                Sent("k-3", .update, data: ["site": "s-3"], base: 1), device: .two)
        else {
            Issue.record("no conflict")
            return
        }
        #expect(fields == ["site"] && current.data == ["site": "s-2", "severity": "minor"])
    }

    @Test("Every answer names the present versions, and an earlier hub's database has version 1")
    func header() throws {
        let bench = try bench(try HubRows(), 2)
        let response = bench.send("POST", "/v1/sync/pull", ["streams": []])
        #expect(HubHeaders(reading: response.headers, now: bench.now).schemas["audits"] == 2)
    }

    @Test("Settings that went back convert the records back, where steps lead there; without versions the hub does not start")
    func back() throws {
        let rows = try HubRows()
        _ = try bench(rows, 2).verdicts([Sent("k-1", .create, data: ["site": "s-1", "severity": "major"])])
        #expect(throws: HubError.self) { try HubBench(rules: RuleBook(["audits": EntityRules()]), seed: 3, place: rows.place) }
        let before = try bench(rows, 1)
        #expect(try before.data("audits", "a-1") == ["site": "s-1", "severity": "major"])
        let again = try bench(rows, 2)
        #expect(try page(again, Self.inSecond).records[0].record.data["site_id"] == "s-1")
    }

    @Test("When settings go back, a device that has missed both changes of them receives what is left of each record")
    func missedBoth() throws {
        let rows = try HubRows()
        let before = try bench(rows, 2)
        _ = try before.verdicts([Sent("k-1", .create, data: ["site": "s-1"])])
        let sent = Sent("k-2", seq: 2, .update, data: ["inspector": "Ann"], base: 1, ms: 300).with("schema", 2)
        #expect(try before.verdict(sent).word == "accepted")
        let seen = try page(before, Self.inSecond)
        #expect(seen.records[0].record.data["inspector"] == "Ann")
        _ = try bench(rows, 1)
        let again = try bench(rows, 2)
        let news = try page(again, Self.inSecond, after: seen.cursor)
        #expect(news.records.map(\.record.data) == [["site_id": "s-1", "inspector": "unknown"]])
        #expect(news.records[0].record.version > seen.records[0].record.version)
        // The conversion counts as no write, so a change of the record as it was meets no other one.
        let late = Sent("k-3", .update, data: ["site": "s-2"], base: seen.records[0].record.version, ms: 400)
        #expect(try again.verdict(late, device: .two).word == "accepted")
    }

    @Test("A scope whose field has another name shares the same records out")
    func scopes() throws {
        let rows = try HubRows()
        var access = AccessBook()
        access.devices[.one, default: Grants()].scopes["site"] = ["s-1"]
        let old = try Self.rules(1) { $0.declaredScope = ["site"] }
        let before = try HubBench(rules: old, place: rows.place, access: access)
        _ = try before.verdicts([Sent("k-1", .create, data: ["site": "s-1"])])
        access.devices[.one]?.scopes = ["site_id": ["s-1"]]
        let new = try Self.rules(2) { $0.declaredScope = ["site_id"] }
        let after = try HubBench(rules: new, seed: 2, place: rows.place, access: access)
        #expect(try after.data("audits", "a-1") == ["site": "s-1"])
        access.devices[.one]?.scopes = ["site_id": ["s-2"]]
        after.hub.settings.access = access
        #expect(try after.follow("audits").pages.flatMap(\.records).isEmpty)
    }

    @Test("A deleted record has no scopes in a field whose values a step has changed while the entity had no scope")
    func scopesOfDeleted() throws {
        let rows = try HubRows()
        var access = AccessBook()
        access.devices[.one, default: Grants()].scopes["severity"] = ["minor"]
        access.devices[.one, default: Grants()].scopes["note"] = ["n-1"]
        let scoped = try Self.rules(1) { $0.declaredScope = ["note", "severity"] }
        let first = try HubBench(rules: scoped, place: rows.place, access: access)
        for (id, data) in [("a-1", ["severity": "minor"]), ("a-2", ["note": "n-1"])] as [(String, JSONObject)] {
            var data = data
            data["site"] = "s-1"
            try first.hub.publish(RecordName("audits", RecordID(trusted: id)), data, at: first.now)
            try first.hub.publish(RecordName("audits", RecordID(trusted: id)), nil, at: first.now)
        }
        do { _ = try HubBench(rules: try Self.rules(2), seed: 2, place: rows.place) { $0.scopesOfDatabase = .dropped } }
        // Other records may have the former value by now, in a newer meaning.
        let again = try Self.rules(2) { $0.declaredScope = ["note", "severity"] }
        let last = try HubBench(rules: again, seed: 3, place: rows.place, access: access)
        func code(_ key: String, _ id: String) throws -> String? {
            let verdict = try last.verdict(Sent(key, .update, id: id, data: ["site": "s-9"], base: 1))
            guard case .rejected(let problem, _) = verdict else { return nil }
            return problem.code
        }
        #expect(try code("k-1", "a-1") == "forbidden")
        #expect(try code("k-2", "a-2") == "deleted")
    }

    @Test("A deleted record that an update brings back has the present version")
    func kept() throws {
        let rows = try HubRows()
        let before = try bench(rows, 1) { $0.onDeleted = .updateWins }
        _ = try before.verdicts([Sent("k-1", .create, data: ["site": "s-1", "severity": "major"])])
        _ = try before.verdicts([Sent("k-2", seq: 2, .delete, base: 1, ms: 300)])
        let after = try bench(rows, 2) { $0.onDeleted = .updateWins }
        #expect(try after.verdict(Sent("k-3", .update, data: ["severity": "minor"], base: 1, ms: 400), device: .two).word == "accepted")
        #expect(try after.data("audits", "a-1") == ["site": "s-1", "severity": "minor"])
    }

    private func page(_ bench: HubBench, _ headers: [(String, String)], after cursor: String? = nil) throws -> StreamPage {
        let request = PullRequest(
            streams: [StreamPosition(entity: "audits", cursor: cursor)], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0)
        let response = bench.send("POST", "/v1/sync/pull", try JSONReader.read(PullMessages.request(request)), headers: headers)
        guard response.status == 200 else { throw HubBench.Unexpected(response) }
        return try #require(try PullMessages.readResponse(response.body).pages.first)
    }
}

/// Several hubs share one database.
@Suite("Versions of schemas and replicas", .needsPostgres)
struct SchemaReplicaTests {
    @Test("A hub of an older version does not take the records of the newer one for its own")
    func replicas() throws {
        try Engine.$current.withValue(.postgres) {
            let rows = try HubRows()
            let old = try HubBench(rules: try SchemaVersionTests.rules(1), place: rows.place)
            _ = try old.verdicts([Sent("k-1", .create, data: ["site": "s-1"])])
            let new = try HubBench(rules: try SchemaVersionTests.rules(2), seed: 2, place: rows.place)
            #expect(old.send("POST", "/v1/sync/pull", ["streams": [["entity": "audits"]]]).status == 503)
            #expect(old.push([Sent("k-2", seq: 2, .create, id: "a-2", data: ["site": "s-1"])]).status == 503)
            #expect(try new.verdict(Sent("k-2", seq: 2, .create, id: "a-2", data: ["site": "s-1"])).word == "accepted")
            old.hub.settings.rules = try SchemaVersionTests.rules(2)
            #expect(try old.data("audits", "a-2") == ["site": "s-1"])
        }
    }
}
