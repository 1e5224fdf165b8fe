import LocalAPI
import SyncCore

/// Situations that an operator meets, as the agent would tell them.
enum StatusSamples {
    static let now = time("2026-11-20T21:40:50Z")

    static let all: [(name: String, document: StatusDocument)] = [
        ("fresh", fresh), ("offline", offline), ("syncing", syncing), ("settled", settled), ("rejected", rejected),
        ("parked", parked), ("auth", auth), ("paused", paused), ("nonsense", nonsense), ("disk full", diskFull),
        ("metered", metered), ("low battery", lowBattery), ("crowded", crowded),
    ]

    static var fresh: StatusDocument {
        StatusDocument(
            agent: .init(
                version: "1.0.0", device: "gw-17", replica: "r-1", hub: "https://hub.example.org", uptime: .seconds(3)),
            database: .init(bytes: 49_152, walBytes: 0, freeBytes: 12_000_000_000, schema: 1, sqlite: "3.40.1"),
            configuration: .init(version: 1),
            connectivity: .init(
                state: "connecting", since: time("2026-11-20T21:40:47Z"), uplink: "eth0",
                links: [.init(name: "eth0", state: "up", isMetered: false, meteredBy: "config")]),
            verdicts: [
                .init("critical", .allow), .init("normal", .allow), .init("bulk", .allow), .init("pull", .allow),
            ],
            sync: .init(nextAt: time("2026-11-20T21:40:52Z"), firstSync: .init(phase: "waiting")),
            entities: [.init(name: "audits", kind: "record", records: 0, pending: 0)])
    }

    static var settled: StatusDocument {
        var status = fresh
        status.agent.uptime = .seconds(274_320)
        status.database.bytes = 4_610_000
        status.database.walBytes = 212_992
        status.connectivity.state = "online"
        status.connectivity.since = time("2026-11-18T17:28:50Z")
        status.sync = .init(
            lastSuccess: time("2026-11-20T21:40:12Z"), nextAt: time("2026-11-20T21:41:12Z"), isCaughtUp: true,
            firstSync: .init(phase: "done"),
            clock: .init(offset: .milliseconds(412), error: .milliseconds(60), state: "synced"),
            server: .init(epoch: "7f3a", head: 90_215, syncVersion: 1))
        status.outbox = .init(counts: [.done: 1_184, .coalesced: 15, .cancelled: 5], enqueued: 1_204, limit: 100_000)
        status.entities = [
            .init(name: "audits", kind: "record", records: 812, pending: 0, cursorAge: .seconds(38)),
            .init(name: "audit_responses", kind: "record", records: 8_123, pending: 0, cursorAge: .seconds(38)),
            .init(name: "readings", kind: "event", records: 0, pending: 0),
            .init(name: "templates", kind: "reference", records: 214, pending: 0, cursorAge: .seconds(38)),
        ]
        status.usage = .init(up: 2_411_000, down: 840_200)
        return status
    }

    static var offline: StatusDocument {
        var status = settled
        status.connectivity.state = "degraded"
        status.connectivity.since = time("2026-11-20T20:59:00Z")
        status.connectivity.cause = "unreachable"
        status.connectivity.detail = "connect to hub.example.org:443: Connection refused"
        status.sync.lastSuccess = time("2026-11-20T20:58:49Z")
        status.sync.phase = "waiting"
        status.sync.attempt = 6
        status.sync.nextAt = time("2026-11-20T21:41:02Z")
        status.sync.lastError = "push: connect to hub.example.org:443: Connection refused"
        status.sync.lastErrorAt = time("2026-11-20T21:40:19Z")
        status.outbox.counts[.pending] = 17
        status.outbox.counts[.inFlight] = 1
        status.outbox.pending = [.critical: 2, .normal: 14, .bulk: 1]
        status.outbox.enqueued += 18
        status.outbox.oldest = .seconds(2_460)
        status.outbox.bytes = 18_211
        status.outbox.deferred = [
            .init(priority: .critical, count: 2, reason: "degraded", until: time("2026-11-20T21:41:02Z")),
            .init(priority: .normal, count: 14, reason: "degraded", until: time("2026-11-20T21:41:02Z")),
            .init(priority: .bulk, count: 1, reason: "degraded", until: time("2026-11-20T21:41:02Z")),
        ]
        return status
    }

    static var syncing: StatusDocument {
        var status = settled
        status.sync.phase = "push"
        status.sync.isCaughtUp = false
        status.sync.nextAt = nil
        status.outbox.counts[.pending] = 99_450
        status.outbox.counts[.inFlight] = 500
        status.outbox.pending = [.bulk: 99_450]
        status.outbox.enqueued += 99_950
        status.outbox.oldest = .seconds(95)
        status.outbox.bytes = 20_000_000
        return status
    }

    static var rejected: StatusDocument {
        var status = settled
        status.outbox.counts[.rejected] = 2
        status.outbox.enqueued += 2
        status.attention = [
            .init(
                state: .rejected, id: "0199c3f3-0000-7000-8000-000000000001",
                record: RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-9")),
                problem: Problem(
                    "validation", status: 422,
                    detail: "status must be one of open, closed\u{1B}[31m, and that rather soon, please"))
        ]
        return status
    }

    static var parked: StatusDocument {
        var status = settled
        status.outbox.counts[.failed] = 1
        status.outbox.enqueued += 1
        status.attention = [
            .init(
                state: .failed, id: "0199c3f3-0000-7000-8000-000000000002",
                record: RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-12")),
                problem: Problem("overloaded", status: 503, detail: "the hub failed 10 times on this one alone"))
        ]
        return status
    }

    static var auth: StatusDocument {
        var status = offline
        status.connectivity.state = "auth"
        status.connectivity.cause = "auth"
        status.connectivity.detail = "the hub answered 401: the token is not known"
        status.sync.attempt = 2
        status.sync.lastError = "push: 401 auth"
        status.outbox.deferred = [.init(priority: .normal, count: 16, reason: "auth", until: time("2026-11-20T21:41:02Z"))]
        return status
    }

    static var paused: StatusDocument {
        var status = settled
        status.sync.pause = EngineMemory.Pause(
            until: time("2026-11-21T06:00:00Z"), reason: "satellite window", uid: 1_001)
        status.sync.nextAt = nil
        status.outbox.counts[.pending] = 1
        status.outbox.pending = [.normal: 1]
        status.outbox.enqueued += 1
        status.outbox.oldest = .seconds(5)
        status.outbox.bytes = 230
        status.outbox.deferred = [.init(priority: .normal, count: 1, reason: "paused", until: time("2026-11-21T06:00:00Z"))]
        return status
    }

    static var nonsense: StatusDocument {
        var status = offline
        status.connectivity.state = "captive"
        status.connectivity.cause = "bad_reply"
        status.connectivity.detail =
            "an answer with status 200 carried text/html and no Sync-Version: something answers in the hub's place"
        status.sync.lastError = "pull: not an answer of a hub (text/html)"
        status.sync.badReplies = 12
        status.outbox.deferred = [.init(priority: .normal, count: 17, reason: "captive")]
        return status
    }

    static var diskFull: StatusDocument {
        var status = offline
        status.database.state = .diskFull
        status.database.freeBytes = 12_000_000
        status.configuration.error =
            "/etc/agentd/agentd.yaml:12:8: sync.debounce: \"2x\" is not a length of time, expected something like 2s"
        return status
    }

    /// A gateway that has nothing but a modem now, and runs on its battery.
    static var metered: StatusDocument {
        var status = settled
        status.connectivity.uplink = "wwan0"
        var modem = SurroundingsSamples.modem
        modem.isRoaming = false
        modem.budget.day = .init(used: 3_100_000, limit: 20_000_000, level: "open")
        status.connectivity.links = [SurroundingsSamples.cable, modem]
        status.power = PowerState(source: "battery", percent: 64, isDischarging: true)
        let until = time("2026-11-21T20:59:00Z")
        status.verdicts = [
            .init("critical", .allow), .init("normal", .deferred(reason: "metered", until: until)),
            .init("bulk", .deferred(reason: "metered", until: nil)), .init("pull", .allow),
        ]
        status.outbox.counts[.pending] = 15
        status.outbox.pending = [.normal: 14, .bulk: 1]
        status.outbox.enqueued += 15
        status.outbox.oldest = .seconds(2_460)
        status.outbox.bytes = 18_211
        let event = "when an unmetered link is up"
        status.outbox.deferred = [
            .init(priority: .normal, count: 14, reason: "metered", until: until, event: event),
            .init(priority: .bulk, count: 1, reason: "metered", event: event),
        ]
        status.sync.breaker = "closed"
        status.sync.stalls = 0
        return status
    }

    static var lowBattery: StatusDocument {
        var status = settled
        status.power = PowerState(
            source: "battery", percent: 12, isDischarging: true, level: "low",
            warning: "BAT1 could not be read for 6 min")
        let event = "when the battery is at 18 % or charging"
        status.verdicts = ["critical", "normal", "bulk", "pull"].map {
            .init($0, .deferred(reason: "low_battery", until: nil))
        }
        status.outbox.counts[.pending] = 1
        status.outbox.pending = [.critical: 1]
        status.outbox.enqueued += 1
        status.outbox.oldest = .seconds(5)
        status.outbox.bytes = 230
        status.outbox.deferred = [
            .init(priority: .critical, count: 1, reason: "low_battery", event: event)
        ]
        return status
    }

    /// Everything at once, each as long as it can be.
    static var crowded: StatusDocument {
        var status = diskFull
        status.connectivity.state = "captive"
        status.connectivity.detail = nonsense.connectivity.detail
        status.connectivity.portalURL = "https://login.example.net/" + String(repeating: "portal/", count: 12)
        status.connectivity.uplink = "wwan0"
        status.connectivity.links =
            SurroundingsSamples.awkwardLinks.items
            + (0..<3).map { LinkItem(name: "eth\($0)", kind: "ethernet", state: "down", isMetered: false) }
        status.power = SurroundingsSamples.awkwardPower.state
        status.sync.breaker = "open"
        status.sync.stalls = 3
        status.sync.lastError = String(repeating: "it failed and failed ", count: 10)
        status.sync.firstSync = .init(phase: "seeding", done: 214, total: 9_149)
        for (state, count) in [(MutationState.conflicted, Int64(1)), (.rejected, 2), (.failed, 3)] {
            status.outbox.counts[state] = count
            status.outbox.enqueued += count
            status.attention.append(
                .init(
                    state: state, id: "0199c3f3-0000-7000-8000-00000000000\(count)",
                    record: RecordName(EntityName(trusted: "audit_responses"), RecordID(trusted: "r-\(count)")),
                    problem: Problem("validation", status: 422, detail: String(repeating: "日本語 ", count: 20))))
        }
        status.database.recovery = String(repeating: "recovered a part of it ", count: 8)
        status.database.integrity = "row 7 of mutations is damaged"
        return status
    }
}
