import LocalAPI
import SyncCore
import Testing

@Suite("The status screen") struct StatusScreenTests {
    struct Picture: Sendable, CustomTestStringConvertible {
        var name: String
        var document: StatusDocument
        var screen: String
        var brief: String
        var testDescription: String { name }

        init(_ name: String, _ document: StatusDocument, _ screen: String, brief: String) {
            (self.name, self.document, self.screen, self.brief) = (name, document, screen, brief)
        }
    }

    @Test("Each situation has its picture, and its line", arguments: pictures)
    func matches(_ picture: Picture) {
        let lines = StatusScreen.render(picture.document, now: StatusSamples.now, color: false)
        #expect(lines.joined(separator: "\n") == picture.screen)
        #expect(StatusScreen.brief(picture.document, now: StatusSamples.now) == picture.brief)
    }

    @Test("No screen is wider than it may be, nor longer than 24 lines", arguments: pictures, [1, 20, 40, 80, 200])
    func fits(_ picture: Picture, _ width: Int) {
        let lines = StatusScreen.render(picture.document, width: width, now: StatusSamples.now, color: false)
        #expect(lines.count <= 24)
        // A label and one column of text are always drawn: below that nothing can be read anyway.
        for line in lines { #expect(PlainText.columns(line) <= max(width, 11), "\(line)") }
    }

    @Test("Colour paints labels and changes nothing else", arguments: pictures)
    func colour(_ picture: Picture) {
        let plain = StatusScreen.render(picture.document, now: StatusSamples.now, color: false)
        let painted = StatusScreen.render(picture.document, now: StatusSamples.now, color: true)
        let stripped = painted.map { line in
            line.split(separator: "\u{1B}", omittingEmptySubsequences: false).enumerated()
                .map { $0 == 0 ? String($1) : String($1.drop { $0 != "m" }.dropFirst()) }.joined()
        }
        #expect(stripped == plain)
        #expect(painted != plain)
        #expect(plain.allSatisfy { !$0.contains("\u{1B}") })
    }

    @Test("The colour of the first label is the level's")
    func levels() {
        func second(_ document: StatusDocument) -> String {
            StatusScreen.render(document, now: StatusSamples.now, color: true)[1]
        }
        #expect(second(StatusSamples.settled).hasPrefix("\u{1B}[1;32m"))
        #expect(second(StatusSamples.offline).hasPrefix("\u{1B}[1;33m"))
        #expect(second(StatusSamples.auth).hasPrefix("\u{1B}[1;31m"))
    }

    @Test("Times are shown in the zone that is asked for")
    func zone() {
        let lines = StatusScreen.render(
            StatusSamples.offline, now: StatusSamples.now, color: false, offset: .seconds(7_200))
        #expect(lines[3].contains("since 22:59:00;"))
    }

    @Test("Counters that do not add up, and a store that does not sync, are never called safe")
    func neverSafe() {
        var lost = StatusSamples.settled
        lost.outbox.enqueued += 1
        #expect(
            StatusScreen.render(lost, now: StatusSamples.now, color: false)[2]
                == "WORK      the counters do not add up: 1,205 accepted, 1,204 found")
        #expect(lost.overall == StatusJudgement(level: .attention, reasons: ["counters"]))
        var lazy = StatusSamples.settled
        lazy.database.durability = "normal"
        #expect(StatusScreen.render(lazy, now: StatusSamples.now, color: false)[2].contains("NOT SAFE"))
        #expect(lazy.overall.level == .attention)
    }

    static let pictures: [Picture] = [
        Picture(
            "a fresh agent", StatusSamples.fresh,
            """
            agentd 1.0.0  device gw-17  up 3 s  hub https://hub.example.org
            OVERALL   ok
            WORK      nothing accepted yet
            STATE     connecting via eth0 since 21:40:47Z; the hub was never reached
            SYNC      idle; next pull in 2 s (21:40:52Z)
                      first sync: waiting
            OUTBOX    empty
            COST      nothing to send
            MIRROR    not all pulled yet; audits 0
            STORE     db 49 KB + wal 0 B, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "ok; connecting; nothing waiting"),
        Picture(
            "the hub does not answer, work waits", StatusSamples.offline,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   degraded: hub_unreachable
            WORK      safe: 1,222 accepted = 1,184 at hub + 18 on flash + 20 closed
            STATE     degraded via eth0 since 20:59:00Z; last success 42 min ago
                      connect to hub.example.org:443: Connection refused
            SYNC      waiting; next try in 12 s (21:41:02Z), 6 failed in a row
            OUTBOX    17 pending (2 critical, 14 normal, 1 bulk), 1 in flight, oldest 41 min
                      2 critical, 14 normal, 1 bulk wait: the link is up, but the hub does
                      not answer, until 21:41:02Z
            COST      18 KB to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "degraded: hub_unreachable; degraded; 18 waiting, oldest 41 min; next try in 12 s"),
        Picture(
            "a large backlog on its way", StatusSamples.syncing,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   ok
            WORK      safe: 101,154 accepted = 1,184 at hub + 99,950 on flash + 20 closed
            STATE     online via eth0 since 2026-11-18 17:28Z; last success 38 s ago
            SYNC      running: push
            OUTBOX    99,450 pending (99,450 bulk), 500 in flight, oldest 95 s
            COST      20 MB to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "ok; online; 99,950 waiting, oldest 95 s"),
        Picture(
            "all settled", StatusSamples.settled,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   ok
            WORK      safe: 1,204 accepted = 1,184 at hub + 0 on flash + 20 closed
            STATE     online via eth0 since 2026-11-18 17:28Z; last success 38 s ago
            SYNC      idle; next pull in 22 s (21:41:12Z)
            OUTBOX    empty
            COST      nothing to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "ok; online; nothing waiting"),
        Picture(
            "the hub refused something", StatusSamples.rejected,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   degraded: rejected
            WORK      safe: 1,206 accepted = 1,184 at hub + 2 on flash + 20 closed
            STATE     online via eth0 since 2026-11-18 17:28Z; last success 38 s ago
            SYNC      idle; next pull in 22 s (21:41:12Z)
            OUTBOX    empty
            REJECTED  2  audits/a-9  validation: status must be one of open, closed?[31m, a…
                      -> agentctl rejected show 0199c3f3-0000-7000-8000-000000000001
            COST      nothing to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "degraded: rejected; online; 2 waiting"),
        Picture(
            "one mutation is parked", StatusSamples.parked,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   degraded: parked
            WORK      safe: 1,205 accepted = 1,184 at hub + 1 on flash + 20 closed
            STATE     online via eth0 since 2026-11-18 17:28Z; last success 38 s ago
            SYNC      idle; next pull in 22 s (21:41:12Z)
            OUTBOX    empty
            PARKED    1  audits/a-12  overloaded: the hub failed 10 times on this one alone
                      -> agentctl mutations show 0199c3f3-0000-7000-8000-000000000002
            COST      nothing to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "degraded: parked; online; 1 waiting"),
        Picture(
            "the hub refuses the credentials", StatusSamples.auth,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   attention: auth
            WORK      safe: 1,222 accepted = 1,184 at hub + 18 on flash + 20 closed
            STATE     auth via eth0 since 20:59:00Z; last success 42 min ago
                      the hub answered 401: the token is not known
            SYNC      waiting; next try in 12 s (21:41:02Z), 2 failed in a row
                      last error 31 s ago: push: 401 auth
            OUTBOX    17 pending (2 critical, 14 normal, 1 bulk), 1 in flight, oldest 41 min
                      16 normal wait: this device has no credentials that the hub accepts,
                      until 21:41:02Z
            COST      18 KB to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "attention: auth; auth; 18 waiting, oldest 41 min; next try in 12 s"),
        Picture(
            "paused", StatusSamples.paused,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   degraded: paused
            WORK      safe: 1,205 accepted = 1,184 at hub + 1 on flash + 20 closed
            STATE     online via eth0 since 2026-11-18 17:28Z; last success 38 s ago
            SYNC      paused until 2026-11-21 06:00Z, by uid 1001: satellite window
            OUTBOX    1 pending (1 normal), 0 in flight, oldest 5 s
                      1 normal waits: an operator paused the sync, until 2026-11-21 06:00Z
            COST      230 B to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "degraded: paused; online; 1 waiting, oldest 5 s"),
        Picture(
            "something else answers in the hub's place", StatusSamples.nonsense,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   degraded: captive
            WORK      safe: 1,222 accepted = 1,184 at hub + 18 on flash + 20 closed
            STATE     captive via eth0 since 20:59:00Z; last success 42 min ago
                      an answer with status 200 carried text/html and no Sync-Version:
                      something answers in the hub's place
            SYNC      waiting; next try in 12 s (21:41:02Z), 6 failed in a row
                      last error 31 s ago: pull: not an answer of a hub (text/html)
            OUTBOX    17 pending (2 critical, 14 normal, 1 bulk), 1 in flight, oldest 41 min
                      17 normal wait: the network answers in the hub's place (a captive
                      portal or a proxy)
            COST      18 KB to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "degraded: captive; captive; 18 waiting, oldest 41 min; next try in 12 s"),
        Picture(
            "the disk is full, and a reload was refused", StatusSamples.diskFull,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   attention: disk_full, config, hub_unreachable
            WORK      safe: 1,222 accepted = 1,184 at hub + 18 on flash + 20 closed
                      NEW WORK IS REFUSED: the disk is full (12 MB free)
            STATE     degraded via eth0 since 20:59:00Z; last success 42 min ago
                      connect to hub.example.org:443: Connection refused
            SYNC      waiting; next try in 12 s (21:41:02Z), 6 failed in a row
            OUTBOX    17 pending (2 critical, 14 normal, 1 bulk), 1 in flight, oldest 41 min
                      2 critical, 14 normal, 1 bulk wait: the link is up, but the hub does
                      not answer, until 21:41:02Z
            COST      18 KB to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 MB free, sqlite 3.40.1, synchronous full
            CONFIG    not taken: /etc/agentd/agentd.yaml:12:8: sync.debounce: "2x" is not a
                      length of time, expected something like 2s
            """,
            brief:
                "attention: disk_full, config, hub_unreachable; degraded; 18 waiting, oldest 41 min; next try in 12 s"),
    ]
}
