import LocalAPI
import SyncCore
import Testing

@Suite("The status document") struct StatusDocumentTests {
    @Test("Each situation reads as it was written", arguments: StatusSamples.all.map(\.document))
    func roundTrips(_ document: StatusDocument) throws {
        #expect(try StatusDocument(JSONReader.read(document.answer.body)) == normal(document))
    }

    /// Counts that are 0 may be left out where they are made; on the way they are spelled.
    private func normal(_ document: StatusDocument) -> StatusDocument {
        var document = document
        for state in MutationState.allCases { document.outbox.counts[state] = document.outbox.count(state) }
        for priority in Priority.allCases { document.outbox.pending[priority] = document.outbox.pending[priority] ?? 0 }
        // Only the short form of a problem is part of the status.
        for index in document.attention.indices { document.attention[index].problem?.status = 0 }
        return document
    }

    @Test("The members that monitoring reads are where they are documented")
    func members() throws {
        let json = try JSONReader.read(StatusSamples.offline.answer.body)
        func at(_ path: String...) -> JSON? { path.reduce(json) { $0?.object?[$1] } }
        #expect(at("schema") == "status/1")
        #expect(at("agent", "version") == "1.0.0")
        #expect(at("agent", "db", "durability") == "full")
        #expect(at("overall", "level") == "degraded")
        #expect(at("overall", "reasons") == ["hub_unreachable"])
        #expect(at("connectivity", "state") == "degraded")
        #expect(at("connectivity", "links")?.array?.first?.object?["metered"] == false)
        #expect(at("policy", "verdicts", "critical") == "allow")
        #expect(at("sync", "attempt") == 6)
        #expect(at("sync", "paused") == .null)
        #expect(at("sync", "clock", "offset_ms") == 412)
        #expect(at("sync", "server", "head") == 90_215)
        #expect(at("outbox", "pending") == ["critical": 2, "normal": 14, "bulk": 1])
        #expect(at("outbox", "in_flight") == 1)
        #expect(at("outbox", "done") == 1_184)
        #expect(at("outbox", "enqueued") == 1_222)
        #expect(at("outbox", "oldest_s") == 2_460)
        #expect(at("outbox", "deferred")?.array?.count == 3)
        #expect(at("usage", "today", "up") == 2_411_000)
    }

    @Test("Links, power, breaker and events are where they are documented, and what was there stays")
    func surroundings() throws {
        let json = try JSONReader.read(StatusSamples.metered.answer.body)
        func at(_ path: String...) -> JSON? { path.reduce(json) { $0?.object?[$1] } }
        let modem = try #require(at("connectivity", "links")?.array?.last?.object)
        #expect(modem["name"] == "wwan0")
        #expect(modem["kind"] == "wwan")
        #expect(modem["state"] == "routed")
        #expect(modem["metered"] == true)
        #expect(modem["metered_by"] == "devtype")
        #expect(modem["roaming"] == false)
        #expect(modem["rtt_ms"] == 42)
        #expect(modem["budget"]?.object?["day"]?.object?["used"] == 3_100_000)
        #expect(modem["budget"]?.object?["month"]?.object?["limit"] == 500_000_000)
        #expect(at("power")?.json == #"{"source":"battery","percent":64,"discharging":true,"level":"ample"}"#)
        #expect(at("policy", "verdicts", "normal", "defer") == "metered")
        #expect(at("policy", "verdicts", "pull") == "allow")
        #expect(at("sync", "breaker") == "closed")
        #expect(at("sync", "stalls") == 0)
        let deferral = try #require(at("outbox", "deferred")?.array?.first?.object)
        #expect(deferral["reason"] == "metered")
        #expect(deferral["until"] == "2026-11-21T20:59:00.000Z")
        #expect(deferral["event"] == "when an unmetered link is up")
    }

    @Test("Times of events that never happened say so, and missing parts are absent")
    func absent() throws {
        let json = try #require(JSONReader.read(StatusSamples.fresh.answer.body).object)
        #expect(json["sync"]?.object?["last_success"] == .null)
        #expect(json["sync"]?.object?["last_error"] == .null)
        #expect(json["outbox"]?.object?["oldest_s"] == .null)
        for name in ["power", "blobs", "conflicts", "checklist", "usage"] { #expect(json[name] == nil) }
        for name in ["breaker", "stalls"] { #expect(json["sync"]?.object?[name] == nil) }
    }

    @Test("A device that waits for news says so, in JSON and in one line of the screen, and one that does not has no such member")
    func waitingForNews() throws {
        var document = StatusSamples.settled
        #expect(try JSONReader.read(document.answer.body).object?["sync"]?.object?["waiting_for_news"] == nil)
        document.sync.isWaitingForNews = true
        #expect(try StatusDocument(JSONReader.read(document.answer.body))?.sync.isWaitingForNews == true)
        let lines = StatusScreen.render(document, now: StatusSamples.now, color: false)
        #expect(lines.contains("SYNC      waiting for news: changes of others arrive within a second"))
        document.sync.pause = .init(until: nil, reason: "", uid: 0)
        #expect(!StatusScreen.render(document, now: StatusSamples.now, color: false).contains { $0.contains("waiting for news") })
    }

    struct Judged: Sendable, CustomTestStringConvertible {
        var reasons: [String]
        var level: StatusJudgement.Level
        var change: @Sendable (inout StatusDocument) -> Void
        var testDescription: String { "\(level): \(reasons)" }

        init(
            _ level: StatusJudgement.Level, _ reasons: [String],
            _ change: @escaping @Sendable (inout StatusDocument) -> Void
        ) {
            (self.level, self.reasons, self.change) = (level, reasons, change)
        }
    }

    @Test(
        "Each fact that an operator must know of has its level and reason",
        arguments: [
            Judged(.ok, []) { _ in },
            Judged(.ok, []) { $0.connectivity.state = "connecting" },
            Judged(.ok, []) {
                $0.outbox.counts[.pending] = 5
                $0.outbox.enqueued += 5
            },
            Judged(.degraded, ["offline"]) {
                $0.connectivity.state = "offline"
                $0.sync.attempt = 3
            },
            Judged(.degraded, ["captive"]) { $0.connectivity.state = "captive" },
            Judged(.degraded, ["hub_unreachable"]) { $0.connectivity.state = "degraded" },
            Judged(.degraded, ["backoff"]) { $0.sync.attempt = 1 },
            Judged(.degraded, ["backoff"]) { $0.sync.notBefore = StatusSamples.now },
            Judged(.degraded, ["paused"]) { $0.sync.pause = .init(until: nil, reason: "", uid: 0) },
            Judged(.degraded, ["rejected"]) {
                $0.outbox.counts[.rejected] = 1
                $0.outbox.enqueued += 1
            },
            Judged(.degraded, ["parked"]) {
                $0.outbox.counts[.held] = 1
                $0.outbox.enqueued += 1
            },
            Judged(.degraded, ["recovered"]) { $0.database.recovery = "recovered from corruption, 3 rows set aside" },
            Judged(.degraded, ["deferred"]) {
                $0.outbox.deferred = [.init(priority: .bulk, count: 1, reason: "metered")]
            },
            Judged(.ok, []) { $0.power = PowerState(source: "battery", percent: 28, isDischarging: true, level: "saver") },
            Judged(.degraded, ["low_battery"]) {
                $0.power = PowerState(source: "battery", percent: 12, isDischarging: true, level: "low")
                $0.outbox.deferred = [.init(priority: .bulk, count: 1, reason: "low_battery")]
            },
            Judged(.degraded, ["budget"]) {
                $0.connectivity.uplink = "wwan0"
                $0.connectivity.links = [SurroundingsSamples.modem]
            },
            Judged(.ok, []) { $0.connectivity.links = [SurroundingsSamples.modem] },
            Judged(.degraded, ["breaker"]) { $0.sync.breaker = "open" },
            Judged(.ok, []) { $0.sync.breaker = "half_open" },
            Judged(.degraded, ["offline", "rejected"]) {
                $0.connectivity.state = "offline"
                $0.outbox.counts[.rejected] = 1
                $0.outbox.enqueued += 1
                $0.outbox.deferred = [.init(priority: .bulk, count: 1, reason: "offline")]
            },
            Judged(.attention, ["auth"]) {
                $0.connectivity.state = "auth"
                $0.sync.attempt = 9
            },
            // A state of a newer agent.
            Judged(.degraded, ["asleep"]) { $0.connectivity.state = "asleep" },
            Judged(.attention, ["conflicts"]) {
                $0.outbox.counts[.conflicted] = 1
                $0.outbox.enqueued += 1
            },
            Judged(.attention, ["disk_full"]) { $0.database.state = .diskFull },
            Judged(.attention, ["read_only"]) { $0.database.state = .readOnly },
            Judged(.attention, ["queue_full"]) { $0.database.state = .queueFull },
            Judged(.attention, ["integrity"]) { $0.database.integrity = "row 7 is damaged" },
            Judged(.attention, ["durability"]) { $0.database.durability = "normal" },
            Judged(.attention, ["config"]) { $0.configuration.error = "x" },
            Judged(.attention, ["config"]) { $0.configuration.source = "last_good" },
            Judged(.attention, ["clock"]) { $0.sync.clock?.state = "suspect" },
            Judged(.attention, ["counters"]) { $0.outbox.enqueued += 1 },
            Judged(.attention, ["counters", "paused"]) {
                $0.outbox.enqueued -= 1
                $0.sync.pause = .init(until: nil, reason: "", uid: 0)
            },
        ])
    func judges(_ example: Judged) {
        var document = StatusSamples.settled
        example.change(&document)
        #expect(document.overall == StatusJudgement(level: example.level, reasons: example.reasons))
    }

    @Test("The level is the exit status")
    func exitStatus() {
        #expect(StatusJudgement.Level.ok.exitStatus == 0)
        #expect(StatusJudgement.Level.degraded.exitStatus == 1)
        #expect(StatusJudgement.Level.attention.exitStatus == 3)
    }

    @Test("A status of another agent, older or newer, is read as far as it goes")
    func lenient() throws {
        let json = try JSONReader.read(
            #"{"agent":{},"outbox":{"pending":{"normal":3},"new_state":7},"sync":{},"later":{}}"#)
        let document = try #require(StatusDocument(json))
        #expect(document.agent.version == "unknown")
        #expect(document.outbox.count(.pending) == 3)
        #expect(StatusDocument(["agent": [:]]) == nil)
        #expect(StatusDocument(["error": 1]) == nil)
    }
}
