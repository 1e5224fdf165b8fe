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

    @Test("In safe mode the screen names the agent itself as the one that paused, and the way on")
    func safeMode() {
        var document = StatusSamples.settled
        let until = time("2026-11-20T21:50:00Z")
        document.sync.pause = .safeMode(deaths: 5, until: until)
        var situation = Situation(reachability: .online)
        situation.pause = document.sync.pause
        document.cause = PresentCause(Policy.explain(.critical, in: situation, now: StatusSamples.now), at: HubPlace())
        let lines = StatusScreen.render(document, width: 200, now: StatusSamples.now, color: false)
        let died = "safe mode: the agent died 5 times in a row"
        #expect(lines.filter { $0.hasPrefix("SYNC ") } == ["SYNC      paused until 21:50:00Z, by the agent itself: \(died)"])
        let cause = lines.firstIndex { $0.hasPrefix("CAUSE ") } ?? 0
        #expect(
            lines[cause...].prefix(2) == [
                "CAUSE     the agent itself paused the sync (\(died)); until 21:50:00Z",
                "          -> journalctl -u agentd -p err -n 50, then: agentctl resume",
            ])
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

    @Test("A crowded screen loses no row, and still shows what a person must do")
    func crowdedScreenLosesNoRow() {
        let lines = StatusScreen.render(StatusSamples.crowded, now: StatusSamples.now, color: false)
        #expect(lines.count == 24)
        let labels = lines.dropFirst().map { $0.prefix(10).split(separator: " ").first.map { String($0) } ?? "" }
        #expect(
            labels.filter { !$0.isEmpty } == [
                "OVERALL", "WORK", "STATE", "POWER", "LINKS", "SYNC", "OUTBOX", "CONFLICTS", "REJECTED", "PARKED",
                "COST", "STORE", "CONFIG",
            ])
        #expect(lines.contains { $0.contains("NEW WORK IS REFUSED") })
        #expect(lines.contains { $0.contains("INTEGRITY") })
    }

    @Test("The command of an alarm is in sight, also on a full screen")
    func alarms() {
        let detail =
            "if the hub is right: agentctl sync --accept-deletions. It no longer has suspiciously many records of "
            + "audits, audit_responses, which were kept here"
        for sample in [StatusSamples.settled, StatusSamples.crowded] {
            var document = sample
            document.alarms = [.init(code: "mass_delete", detail: detail)]
            let lines = StatusScreen.render(document, now: StatusSamples.now, color: false)
            #expect(lines.contains { $0.contains("agentctl sync --accept-deletions") }, "\(lines)")
        }
        var document = StatusSamples.settled
        document.alarms = [.init(code: "mass_delete", detail: detail)]
        let text = StatusScreen.render(document, now: StatusSamples.now, color: false).joined(separator: "\n")
        #expect(text.contains("which were kept") && !text.contains("…"))
    }

    @Test("A database that may not be written says whose it is, and blames the disk only for its own faults")
    func readOnly() {
        func work(_ alarm: String?) -> String {
            var document = StatusSamples.settled
            document.database.state = .readOnly
            document.alarms = alarm.map { [.init(code: $0, detail: "x")] } ?? []
            return StatusScreen.render(document, now: StatusSamples.now, color: false)[3]
        }
        #expect(work(nil).contains("the disk refuses writes"))
        #expect(work("newer_schema").contains("a newer agentd has written the database"))
        #expect(work("foreign_database").contains("the database is another program's"))
    }

    @Test("Where the database is gone or cannot be read, nothing is called safe and nothing empty")
    func unknown() {
        func lines(_ alarm: String) -> [String] {
            var document = StatusSamples.settled
            document.database.state = .readOnly
            document.alarms = [.init(code: alarm, detail: "x")]
            return StatusScreen.render(document, now: StatusSamples.now, color: false)
        }
        let removed = lines("database_removed")
        #expect(removed[2].contains("NOT SAFE until the state folder is back") && !removed.contains { $0.contains("safe:") })
        let unreadable = lines("database_unreadable")
        #expect(unreadable.contains { $0.contains("unknown: the database cannot be read") })
        #expect(unreadable.contains { $0.hasPrefix("STORE") && $0.contains("db unknown") })
        #expect(!unreadable.contains { line in ["OUTBOX", "MIRROR", "COST"].contains { line.hasPrefix($0) } })
    }

    @Test("A hub with scopes has a row with those of this device; without any of them the row says what to do")
    func scopes() {
        func rows(_ share: DeviceShare?) -> [String] {
            var document = StatusSamples.settled
            document.sync.server?.share = share
            let read = (try? JSONReader.read(document.answer.body)).flatMap { StatusDocument($0) }
            #expect(read?.sync.server == document.sync.server, "the answer has it, too")
            let lines = StatusScreen.render(document, now: StatusSamples.now, color: false)
            return lines.enumerated().filter { $1.hasPrefix("SCOPES") }.flatMap { lines[$0.offset...].prefix(2) }
        }
        #expect(rows(nil).isEmpty)
        let some = DeviceShare(scopes: [.init("site", ["s-3", "s-4"])], roles: ["inspector"])
        #expect(rows(some).first == "SCOPES    site s-3, s-4; role inspector")
        let none = rows(DeviceShare(scopes: [.init("site", [])]))
        #expect(none.first?.contains("none: the hub gives this device no record") == true)
        #expect(none.last?.contains("agenthub grant ") == true)
    }

    // Fault: over a metered link the row went on with the scopes of the last hello, while the records of others were on the device.
    @Test("The row of the scopes says that the hub has changed them since", arguments: [["s-3"], []])
    func oldScopes(_ values: [String]) {
        var document = StatusSamples.settled
        document.sync.server?.share = DeviceShare(scopes: [.init("site", values)])
        document.sync.server?.isShareOld = true
        let read = (try? JSONReader.read(document.answer.body)).flatMap { StatusDocument($0) }
        #expect(read?.sync.server == document.sync.server, "the answer has it, too")
        let lines = StatusScreen.render(document, now: StatusSamples.now, color: false)
        let row = lines.firstIndex { $0.hasPrefix("SCOPES") }.map { lines[$0...].prefix(2) } ?? []
        #expect(
            Array(row) == [
                "SCOPES    \(values.isEmpty ? "none" : "site s-3")",
                "          the hub has changed them since; to see them: agentctl sync --force",
            ])
    }

    @Test("Records whose documents are not kept are counted beside those that are here")
    func notKept() throws {
        var document = StatusSamples.fresh
        document.entities[0].notKept = 1_214
        let read = StatusDocument(try JSONReader.read(document.answer.body))
        #expect(read?.entities == document.entities, "the answer has it, too")
        let lines = StatusScreen.render(document, now: StatusSamples.now, color: false)
        #expect(lines.contains("MIRROR    not all pulled yet; audits 0 (and 1,214 not kept)"))
    }

    @Test("Links and power have rows only when they say something")
    func silence() {
        func labels(_ change: (inout StatusDocument) -> Void) -> Set<String> {
            var document = StatusSamples.settled
            change(&document)
            let lines = StatusScreen.render(document, now: StatusSamples.now, color: false)
            return Set(lines.compactMap { $0.split(separator: " ").first.map { String($0) } })
                .intersection(["POWER", "LINKS", "POLICY"])
        }
        #expect(labels { _ in }.isEmpty)
        #expect(labels { $0.power = PowerState(source: "mains", percent: 80) }.isEmpty)
        #expect(labels { $0.power = PowerState(source: "battery") } == ["POWER"])
        #expect(labels { $0.power = PowerState(source: "unknown", warning: "x") } == ["POWER"])
        #expect(labels { $0.connectivity.links.append(SurroundingsSamples.modem) } == ["LINKS"])
        let loopback = LinkItem(name: "lo", kind: "loopback", state: "routed", isMetered: false)
        #expect(labels { $0.connectivity.links.append(loopback) }.isEmpty)
        #expect(labels { $0.verdicts = [.init("bulk", .deferred(reason: "window", until: nil))] } == ["POLICY"])
        #expect(labels { $0.verdicts = [.init("bulk", .deferred(reason: "offline", until: nil))] }.isEmpty)
    }

    static let pictures: [Picture] = [
        Picture(
            "metered, on battery", StatusSamples.metered,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   degraded: deferred
            WORK      safe: 1,219 accepted = 1,184 at hub + 15 on flash + 20 closed
            STATE     online via wwan0 (wwan, metered) since 2026-11-18 17:28Z; last success
                      38 s ago
            POWER     battery 64 %, discharging
            LINKS     wwan0  routed, 42 ms  today 3.1/20 MB  month 92/500 MB
                      eth0   no carrier
            POLICY    metered: only critical, pull go
            SYNC      idle; next pull in 22 s (21:41:12Z)
            OUTBOX    15 pending (14 normal, 1 bulk), 0 in flight, oldest 41 min
                      14 normal wait: the link is metered, until 2026-11-21 20:59Z or when
                      an unmetered link is up
                      1 bulk waits: the link is metered; when an unmetered link is up
            COST      18 KB to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "degraded: deferred; online; 15 waiting, oldest 41 min"),
        Picture(
            "the battery is low", StatusSamples.lowBattery,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   degraded: low_battery
            WORK      safe: 1,205 accepted = 1,184 at hub + 1 on flash + 20 closed
            STATE     online via eth0 since 2026-11-18 17:28Z; last success 38 s ago
            POWER     battery 12 %, discharging; low: the sync waits
                      BAT1 could not be read for 6 min
            POLICY    low battery: nothing goes
            SYNC      idle; next pull in 22 s (21:41:12Z)
            OUTBOX    1 pending (1 critical), 0 in flight, oldest 5 s
                      1 critical waits: the battery is low and not charging; when the
                      battery is at 18 % or charging
            COST      230 B to send; today 2.4 MB up, 840 KB down
            MIRROR    pulled 38 s ago; audits 812, audit_responses 8,123, templates 214
            STORE     db 4.6 MB + wal 213 KB, 12 GB free, sqlite 3.40.1, synchronous full
            """,
            brief: "degraded: low_battery; online; 1 waiting, oldest 5 s"),
        Picture(
            "everything at once", StatusSamples.crowded,
            """
            agentd 1.0.0  device gw-17  up 3 d 04 h  hub https://hub.example.org (sync v1)
            OVERALL   attention: integrity, disk_full, config, conflicts, captive, rejected…
            WORK      safe: 1,228 accepted = 1,184 at hub + 24 on flash + 20 closed
                      NEW WORK IS REFUSED: the disk is full (12 MB free)
            STATE     captive via wwan0 (wwan, metered, roaming) since 20:59:00Z; last succ…
                      an answer with status 200 carried text/html and no Sync-Version: some…
                      log in at https://login.example.net/portal/portal/portal/portal/porta…
            POWER     unknown, discharging; nova
                      電池?[2J could not be read for a long time: ENODEV ENODEV ENODEV ENOD…
            LINKS     wwan0            routed, 42 ms  today 19/20 MB  month 92/500 MB
                      enx00e04c360015  addressed  today 9223372/9223372 TB  month 0/0 B  us…
                      and 4 more: agentctl links
            SYNC      waiting; next try in 12 s (21:41:02Z), 6 failed in a row
                      last error 31 s ago: it failed and failed it failed and failed it fai…
            OUTBOX    17 pending (2 critical, 14 normal, 1 bulk), 1 in flight, oldest 41 min
            CONFLICTS 1  audit_responses/r-1  validation: 日本語 日本語 日本語 日本語 日本…
                      -> agentctl conflicts show 0199c3f3-0000-7000-8000-000000000001
            REJECTED  2  audit_responses/r-2  validation: 日本語 日本語 日本語 日本語 日本…
            PARKED    3  audit_responses/r-3  validation: 日本語 日本語 日本語 日本語 日本…
            COST      18 KB to send; today 2.4 MB up, 840 KB down
            STORE     db 4.6 MB + wal 213 KB, 12 MB free, sqlite 3.40.1, synchronous full
                      INTEGRITY: row 7 of mutations is damaged
                      recovered a part of it recovered a part of it recovered a part of it …
            CONFIG    not taken: /etc/agentd/agentd.yaml:12:8: sync.debounce: "2x" is not a…
            """,
            brief:
                "attention: integrity, disk_full, config, conflicts, captive, rejected, parked, recovered, budget; captive; 24 waiting, oldest 41 min; next try in 12 s"
        ),
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
            OUTBOX    nothing waits to be sent; 2 refused
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
            OUTBOX    nothing waits to be sent; 1 parked
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
                      1 normal waits: the sync is paused, until 2026-11-21 06:00Z
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
