import Agent
import Foundation
import LocalAPI
import SyncCore
import SyncLinux
import Testing

@Suite("Alarms that are over")
struct AlarmTests {
    @Test("A replaced hub stays an alarm after everything has healed, also after a restart, until a person acknowledges it")
    func untilAcknowledged() async throws {
        let stand = try await AgentStand.start()
        try await stand.sync()
        stand.hub.weather = .changes { _, response in response.headers["Sync-Epoch"] = "another" }
        try await stand.sync()
        stand.hub.weather = .fine
        try await stand.sync()
        let healed = try await Self.status(stand)
        #expect(!healed.alarms.contains { $0.code == "epoch_changed" } && healed.overall.level != .attention)
        let past = try #require(healed.pastAlarms.first, "\(healed)")
        #expect(past.code == "epoch_changed" && past.at != nil)
        let screen = StatusScreen.render(healed, width: 160, now: SystemClocks().now().wall, color: false)
        #expect(screen.contains { $0.hasPrefix("PAST      epoch_changed at ") }, "\(screen)")
        let checklist = try #require(try await stand.send(.get, "/v1/checklist").json.flatMap { DoctorAnswer($0) })
        #expect(checklist.findings.first { $0.id == "alarms" }?.severity == .note)

        try await stand.stop(keepingFolder: true)
        let again = try await AgentStand.start(hub: stand.hub, in: stand.folder)
        try await again.sync()
        #expect(try await Self.status(again).pastAlarms == healed.pastAlarms)
        let wrong = try await again.send(.post, "/v1/acknowledge", #"{"code":"lost_tail"}"#)
        #expect(wrong.status == 404 && wrong.text.contains("there is no alarm lost_tail"), "\(wrong.text)")
        let answer = try await again.send(.post, "/v1/acknowledge", #"{"code":"epoch_changed"}"#)
        #expect(answer["acknowledged"] == ["epoch_changed"])
        #expect(try await Self.status(again).pastAlarms.isEmpty)
        #expect(try await again.send(.get, "/v1/audit").text.contains(#""acknowledge""#))

        try await again.stop(keepingFolder: true)
        let last = try await AgentStand.start(hub: stand.hub, in: stand.folder)
        #expect(try await Self.status(last).pastAlarms.isEmpty)
        try await last.stop()
    }

    @Test("An alarm that is raised twice is kept once, other texts are not kept, and nonsense in the database is no history")
    func history() throws {
        var alarms = AlarmHistory()
        let now = Timestamp(milliseconds: 1_000)
        let told: [(AlarmCode, String)] = [
            (.epochChanged, "first"), (.lostTail, "two"), (.epochChanged, "second"), (.linksUnwatched, "a condition"),
        ]
        let kept = told.map { code, detail in alarms.record(code, detail, at: now) }
        #expect(kept == [true, true, true, false])
        #expect(alarms.entries.map(\.detail) == ["second", "two"])
        #expect(AlarmHistory(text: alarms.text) == alarms)
        for text in ["", "{}", "[", "7"] { #expect(AlarmHistory(text: text) == nil) }
        #expect(AlarmHistory(text: #"[{"code":"x","at":1},{"code":"lost_tail"},3]"#)?.entries == [])
        var later = AlarmHistory()
        _ = later.record(.lostTail, "new", at: now)
        later.add(alarms)
        #expect(later.entries.map(\.detail) == ["second", "new"])
        let gone = later.acknowledge(nil)
        #expect(gone == [.epochChanged, .lostTail] && later.entries.isEmpty)
    }

    @Test("An event is past once its alarm has ended; a condition leaves nothing behind")
    func pastEvents() {
        var alarms = Alarms()
        let now = Timestamp(milliseconds: 1_000)
        let kept = [alarms.raise(.epochChanged, "another history", at: now), alarms.raise(.stalled, "nothing was synced", at: now)]
        #expect(kept == [true, false])
        #expect(alarms.present == [.epochChanged: "another history", .stalled: "nothing was synced"])
        #expect(alarms.past.isEmpty)
        let ended = [alarms.end(.epochChanged), alarms.end(.stalled), alarms.end(.stalled)]
        #expect(ended == [true, true, false])
        #expect(alarms.present.isEmpty)
        #expect(alarms.past.map(\.code) == [.epochChanged])
    }

    @Test("An acknowledged event is gone, except two machines with one name, which are present as long as there are two")
    func acknowledged() {
        var alarms = Alarms()
        let now = Timestamp(milliseconds: 1_000)
        for code: AlarmCode in [.lostTail, .clonedDevice, .massDelete] { _ = alarms.raise(code, "as told", at: now) }
        let unknown = alarms.acknowledge(.massDelete)
        #expect(unknown.isEmpty && alarms[.massDelete] != nil)
        let gone = alarms.acknowledge(nil)
        #expect(gone == [.lostTail, .clonedDevice])
        #expect(alarms[.lostTail] == nil && alarms[.clonedDevice] == "as told")
        alarms.end(.clonedDevice)
        #expect(alarms.past.isEmpty)
    }

    @Test("Events of earlier runs come back, and the newer sentence of a code counts")
    func earlierRuns() throws {
        var earlier = Alarms()
        let now = Timestamp(milliseconds: 1_000)
        for code: AlarmCode in [.lostTail, .epochChanged] { _ = earlier.raise(code, "earlier", at: now) }
        let stored = try #require(AlarmHistory(text: earlier.text))
        var alarms = Alarms()
        _ = alarms.raise(.lostTail, "now", at: now)
        let isToBeStored = alarms.add(stored)
        #expect(isToBeStored)
        alarms.end(.lostTail)
        #expect(alarms.past.map(\.detail) == ["earlier", "now"])
        var empty = Alarms()
        let hasAny = empty.add(AlarmHistory())
        #expect(!hasAny)
    }

    @Test("An alarm of an earlier agent is restored by its code, and a condition is not")
    func storedForm() throws {
        let text =
            #"[{"at":5,"code":"lost_tail","detail":"two"},{"at":6,"code":"mass_delete","detail":"x"},"#
            + #"{"at":7,"code":"of_later","detail":"y"}]"#
        let history = try #require(AlarmHistory(text: text))
        #expect(history.entries.map(\.code) == [.lostTail])
        #expect(history.text == #"[{"code":"lost_tail","detail":"two","at":5}]"#)
    }

    @Test(
        "A code is made of words in small letters, and only an alarm of the status can be one that heals there",
        arguments: AlarmCode.allCases)
    func codes(_ code: AlarmCode) {
        #expect(!code.heals || code.isInStatus)
        #expect(code.rawValue.wholeMatch(of: /[a-z]+(?:_[a-z]+)*/) != nil)
    }

    @Test("The manual explains every code, and marks those that the status does not show")
    func manual() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..").standardizedFileURL
        let page = try String(contentsOf: root.appendingPathComponent("deploy/docs/troubleshooting.md"), encoding: .utf8)
        let section = try #require(page.components(separatedBy: "## An alarm in status\n").last?.components(separatedBy: "\n## ").first)
        var explained: [AlarmCode: Bool] = [:]
        for row in section.split(separator: "\n") where row.hasPrefix("| `") {
            let cell = row.split(separator: "|")[0]
            // A code in brackets is behind the word that the status shows.
            let isElsewhere = cell.contains("(doctor)") || cell.contains(" in OVERALL ") || cell.contains(" in SYNC ")
            for match in cell.matches(of: /`([a-z_]+)`/) {
                if let code = AlarmCode(rawValue: String(match.1)) { explained[code] = !isElsewhere }
            }
        }
        #expect(Set(explained.keys) == Set(AlarmCode.allCases), "no row: \(AlarmCode.allCases.filter { explained[$0] == nil })")
        for (code, isInStatus) in explained { #expect(isInStatus == code.isInStatus, "\(code.rawValue)") }
    }

    private static func status(_ stand: AgentStand) async throws -> StatusDocument {
        try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
    }
}
