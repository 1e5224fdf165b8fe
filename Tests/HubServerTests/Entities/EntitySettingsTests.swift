import SyncCore
import Testing

@testable import HubServer

/// The settings of entities as rows of the hub's database.
@Suite("Entity settings", .eachEngine)
struct EntitySettingsTests {
    private typealias T = EntityTexts

    @Test("Applied settings are in force at once, for writers, readers and the configuration of devices")
    func apply() throws {
        let rows = try HubRows()
        let bench = try HubBench(file: nil, place: rows.place)
        let reader = try #require(try bench.hub.reader())
        #expect(try bench.accepts("pass", "k-1") && bench.toldConfig == nil)
        #expect(try bench.hub.apply(T.text(T.audits("pass"))) == .applied(generation: 1))
        #expect(try bench.accepts("pass", "k-2") && !bench.accepts("fail", "k-3"))
        let first = try #require(bench.toldConfig)
        #expect(try bench.hub.apply(T.text(T.audits("pass", "fail"))) == .applied(generation: 2))
        #expect(try bench.accepts("fail", "k-4"))
        let told = try #require(bench.toldConfig)
        #expect(told != first)
        var headers: HTTPHeaders = [:]
        HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
        let read = reader.answer([HubRequest("GET", "/v1/config", headers: headers)], tokens: nil, at: bench.now)?[0]
        #expect(read?.headers[HubHeader.config] == told && read?.body == bench.send("GET", "/v1/config").body)
        #expect(try bench.hub.apply(T.text(T.audits("pass", "fail"))) == .unchanged(generation: 2))
        let metrics = bench.hub.handle(HubRequest("GET", "/metrics"), at: bench.now).body
        #expect(String(decoding: metrics, as: UTF8.self).contains("\nagenthub_entity_generation 2\n"))
        let history = try rows.inspector().entityHistory()
        #expect(history.map(\.number) == [2, 1] && history.map(\.appliedBy) == ["test", "test"])
        #expect(try rows.inspector().entities(1)?.text == T.audits("pass"))
    }

    @Test("They are there after a restart without a file")
    func restart() throws {
        let rows = try HubRows()
        do { _ = try HubBench(file: nil, place: rows.place).hub.apply(T.text(T.audits("pass"))) }
        let bench = try HubBench(file: nil, place: rows.place)
        #expect(try bench.accepts("pass", "k-1") && !bench.accepts("fail", "k-2") && bench.toldConfig != nil)
    }

    @Test("A file counts at a start if it has changed since it was read; what was applied after it is not taken back")
    func file() throws {
        let rows = try HubRows()
        let (a, b, c, d) = (T.audits("a"), T.audits("b"), T.audits("c"), T.audits("d"))
        /// Starts with a file, expects what becomes of it and which settings count, and applies others.
        func start(
            _ file: String?, _ expected: EntityOutcome?, counts: String, applying: String? = nil,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let bench = try HubBench(file: file, place: rows.place)
            if case .outranked(let row)? = bench.hub.fileOutcome {
                #expect(row.number == expected?.generation && row.text == counts, sourceLocation: sourceLocation)
            } else {
                #expect(bench.hub.fileOutcome == expected, sourceLocation: sourceLocation)
            }
            #expect(try bench.toldConfig == T.config(counts), sourceLocation: sourceLocation)
            if let applying { _ = try bench.hub.apply(T.text(applying)) }
        }
        try start(a, .applied(generation: 1), counts: a)
        try start(a, .unchanged(generation: 1), counts: a, applying: b)
        // The file was read before b was applied. (An outranked file is compared by its generation.)
        try start(a, .unchanged(generation: 2), counts: b)
        try start(nil, nil, counts: b)
        try start(c, .applied(generation: 3), counts: c, applying: d)
        // The file follows what was applied, so it is no change.
        try start(d, .unchanged(generation: 4), counts: d, applying: a)
        try start(d, .unchanged(generation: 5), counts: a)
        // A file that goes back has changed, too.
        try start(c, .applied(generation: 6), counts: c)
        #expect(try rows.inspector().entityHistory().map(\.appliedBy) == ["file", "test", "test", "file", "test", "file"])
    }

    @Test("The file of a reload is looked at in the same way")
    func reload() throws {
        let bench = try HubBench(file: T.audits("a"))
        #expect(try bench.hub.offer(T.text(T.audits("a"))) == .unchanged(generation: 1))
        #expect(try bench.hub.offer(T.text(T.audits("b"))) == .applied(generation: 2))
        #expect(try bench.accepts("b", "k-1") && !bench.accepts("a", "k-2"))
        #expect(throws: EntityFailure.self) { try bench.hub.offer(T.text("entities: 7")) }
        #expect(try bench.accepts("b", "k-3"))
    }

    @Test("Settings whose transaction fails are not in force, and the hub continues with those before")
    func failing() throws {
        let rows = try HubRows()
        let bench = try HubBench(file: T.audits("a", scope: "site"), place: rows.place)
        let told = bench.toldConfig
        // The first commit is that of a look at what counts.
        var commits = 0
        bench.hub.beforeCommit = {
            commits += 1
            return commits == 1
        }
        #expect(throws: EntityFailure.self) { try bench.hub.apply(T.text(T.audits("b", scope: "region"))) }
        bench.hub.beforeCommit = nil
        #expect(commits == 2)
        #expect(bench.toldConfig == told && bench.hub.settings.rules["audits"]?.scope == ["site"])
        #expect(bench.hub.scopeIndexes["audits"]?.fields == ["site"])
        #expect(try rows.inspector().entityHistory().map(\.number) == [1])
        #expect(try bench.hub.apply(T.text(T.audits("b", scope: "region"))) == .applied(generation: 2))
        #expect(bench.hub.scopeIndexes["audits"]?.fields == ["region"])
    }

    @Test("Settings that were compared with others than those that count are refused")
    func superseded() throws {
        let bench = try HubBench(file: nil)
        #expect(try bench.hub.apply(T.text(T.audits("a")), over: 0) == .applied(generation: 1))
        do {
            _ = try bench.hub.apply(T.text(T.audits("b")), over: 0)
            Issue.record("it was applied")
        } catch {
            guard case .superseded(by: 1) = error else { throw error }
        }
        #expect(try bench.hub.apply(T.text(T.audits("b")), over: 1) == .applied(generation: 2))
    }

    @Test("The scopes of records follow the settings; a scope that is forgotten is refused, unless it is dropped on purpose")
    func scopes() throws {
        let rows = try HubRows()
        let bench = try HubBench(file: nil, place: rows.place)
        for number in 1...4 {
            let data: JSONObject = ["value": "a", "site": .string("s-\(number % 2)"), "region": .string("r-\(number)")]
            try bench.hub.publish(RecordName("audits", RecordID(trusted: "a-\(number)")), data, at: bench.now)
        }
        let grants = "devices: { gw-1: { site: [s-1], region: [r-2] } }\n"
        func ids() throws -> [String] { try bench.follow("audits").pages.flatMap(\.records).map(\.id.text).sorted() }
        _ = try bench.hub.apply(T.text(T.audits("a", scope: "site") + grants))
        #expect(try ids() == ["a-1", "a-3"])
        let cursor = try bench.follow("audits").cursor
        _ = try bench.hub.apply(T.text(T.audits("a", scope: "region") + grants))
        #expect(try ids() == ["a-2"])
        #expect(try bench.pull([("audits", cursor)]).errors.map(\.problem.code) == ["scope-changed"])
        do {
            _ = try bench.hub.apply(T.text(T.audits("a")))
            Issue.record("it was applied")
        } catch {
            guard case .settings(let fault) = error else { throw error }
            #expect(fault.detail.contains("rules of audits") && fault.detail.contains("--drop-scopes"))
        }
        #expect(try ids() == ["a-2"])
        let region = try bench.follow("audits").cursor
        _ = try bench.hub.apply(T.text(T.audits("a")), droppingScopes: true)
        #expect(try ids() == ["a-1", "a-2", "a-3", "a-4"])
        // Scopes that come back are others: a device must not keep what its cursor was made under.
        _ = try bench.hub.apply(T.text(T.audits("a", scope: "region") + grants))
        _ = try bench.hub.apply(T.text(T.audits("a", scope: "site") + grants))
        #expect(try ids() == ["a-1", "a-3"])
        for cursor in [cursor, region] {
            #expect(try bench.pull([("audits", cursor)]).errors.map(\.problem.code) == ["scope-changed"])
        }
    }

    @Test("A hub starts with a file whose scopes have changed")
    func scopesOfFile() throws {
        let rows = try HubRows()
        do { _ = try HubBench(file: T.audits("a", scope: "site"), place: rows.place) }
        let bench = try HubBench(file: T.audits("a", scope: "region"), place: rows.place)
        #expect(bench.hub.fileOutcome == .applied(generation: 2) && bench.hub.scopeIndexes["audits"]?.fields == ["region"])
        #expect(bench.hub.settings.rules["audits"]?.scope == ["region"])
        #expect(try rows.inspector().scopedEntities() == ["audits"])
        #expect(throws: HubError.self) { try HubBench(file: T.audits("b"), place: rows.place) }
        #expect(try HubBench(file: T.audits("b"), scopes: .dropped, place: rows.place).hub.scopeIndexes.isEmpty)
        #expect(try rows.inspector().scopedEntities() == [])
    }

    @Test("A command beside the hubs works by the settings of the database, and may change them")
    func command() throws {
        let rows = try HubRows()
        do { _ = try HubBench(file: T.audits("a", scope: "site"), place: rows.place) }
        do {
            let command = try HubBench(file: nil, scopes: .adopted, place: rows.place)
            #expect(command.hub.settings.rules["audits"]?.scope == ["site"])
            #expect(try command.hub.apply(T.text(T.audits("b", scope: "region"))) == .applied(generation: 2))
        }
        let bench = try HubBench(file: T.audits("a", scope: "site"), place: rows.place)
        #expect(bench.hub.fileOutcome?.generation == 2 && bench.hub.scopeIndexes["audits"]?.fields == ["region"])
    }

    @Test("Settings that this program cannot read stop it from changing records under other rules")
    func unreadable() throws {
        let rows = try HubRows()
        do { _ = try HubBench(file: T.audits("a"), place: rows.place) }
        try rows.run("UPDATE entity_settings SET text = 'entities: { audits: { colour: red } }', digest = 'x'")
        let error = #expect(throws: HubError.self) { try HubBench(file: nil, place: rows.place) }
        #expect(error?.detail.contains("colour") == true)
        // A command gets over that.
        do {
            let command = try HubBench(file: nil, scopes: .adopted, place: rows.place)
            #expect(try command.hub.apply(T.text(T.audits("b"))) == .applied(generation: 2))
        }
        #expect(try HubBench(file: nil, place: rows.place).toldConfig == T.config(T.audits("b")))
    }

    // Fault: a stricter check of the file would keep the hub from starting after its update.
    @Test("Settings that this version refuses as new ones stay in force, and devices grant themselves nothing by them")
    func refusedLater() throws {
        let rows = try HubRows()
        let text = """
            entities:
              assignments: { scope: [device], fields: { device: { write: own }, site: { write: own } } }
            grants_from:
              - { entity: assignments, device: device, scope: site }

            """
        do { _ = try HubBench(file: T.audits("a"), place: rows.place) }
        try rows.run("UPDATE entity_settings SET text = '\(text)', digest = '\(EntityText.digest(of: text))'")
        for (index, file) in [nil, text].enumerated() {
            let bench = try HubBench(file: file, place: rows.place)
            #expect(bench.hub.fileOutcome == (file == nil ? nil : EntityOutcome.unchanged(generation: 1)))
            #expect(try bench.hub.apply(T.text(text)) == .unchanged(generation: 1))
            #expect(bench.hub.settings.access.sources == [GrantSource(entity: "assignments", device: "device", scope: "site")])
            let grant = Sent("k-\(index)", seq: Int64(index + 1), .create, "assignments", id: "m", data: ["device": "gw-1", "site": "s-9"])
            #expect(try bench.verdict(grant).word == "rejected forbidden")
            do {
                _ = try bench.hub.apply(T.text(text + "# changed\n"))
                Issue.record("it was applied")
            } catch {
                guard case .settings(let fault) = error else { throw error }
                #expect(fault.detail.contains("could grant themselves every scope"))
            }
        }
        #expect(try rows.inspector().entityHistory().map(\.number) == [1])
    }

    // Fault: a file of an old backup kept the hub from starting, though there were settings to work by.
    @Test("A file that this version refuses keeps no hub from starting over settings in force, and does not start one without any")
    func refusedFile() throws {
        let rows = try HubRows(), empty = try HubRows()
        let text = """
            entities: { assignments: { scope: [device], fields: { device: { write: own }, site: { write: own } } } }
            grants_from: [{ entity: assignments, scope: site }]

            """
        func expectRefusal(_ outcome: EntityOutcome?, sourceLocation: SourceLocation = #_sourceLocation) {
            guard case .refused(let fault, generation: 1)? = outcome else {
                Issue.record("\(String(describing: outcome))", sourceLocation: sourceLocation)
                return
            }
            #expect(fault.detail.contains("could grant themselves every scope"), sourceLocation: sourceLocation)
        }
        do { _ = try HubBench(file: T.audits("a"), place: rows.place) }
        // Each start says it.
        for round in 1...2 {
            let bench = try HubBench(file: text, place: rows.place)
            expectRefusal(bench.hub.fileOutcome)
            #expect(try bench.toldConfig == T.config(T.audits("a")) && bench.hub.settings.access.sources.isEmpty)
            let sent = Sent("k-\(round)", seq: Int64(round), .create, "audits", id: "a-\(round)", data: ["value": "a"])
            #expect(try bench.verdict(sent).word == "accepted")
            expectRefusal(try bench.hub.offer(T.text(text)))
        }
        #expect(try rows.inspector().entityHistory().map(\.number) == [1])
        // The file of before is no change after it.
        #expect(try HubBench(file: T.audits("a"), place: rows.place).hub.fileOutcome == .unchanged(generation: 1))
        let error = #expect(throws: HubError.self) { try HubBench(file: text, place: empty.place) }
        #expect(error?.code == .badEntities && error?.detail.contains("could grant themselves every scope") == true)
    }

    @Test("The hub keeps a bounded number of generations, and their numbers go on")
    func historyOfGenerationsIsBounded() throws {
        let rows = try HubRows()
        let bench = try HubBench(file: nil, place: rows.place)
        let count = EntityGeneration.keptMax + 5
        for number in 1...count {
            #expect(try bench.hub.apply(T.text(T.audits("v\(number)"))) == .applied(generation: Int64(number)))
        }
        #expect(try rows.inspector().entityHistory().map(\.number) == (6...count).reversed().map { Int64($0) })
    }
}
