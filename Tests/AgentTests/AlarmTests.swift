import Agent
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
        let kept = [("epoch_changed", "first"), ("lost_tail", "two"), ("epoch_changed", "second"), ("links_unwatched", "a condition")].map {
            code, detail in
            alarms.note(code, detail, at: now)
        }
        #expect(kept == [true, true, true, false])
        #expect(alarms.entries.map(\.detail) == ["second", "two"])
        #expect(AlarmHistory(text: alarms.text) == alarms)
        for text in ["", "{}", "[", "7"] { #expect(AlarmHistory(text: text) == nil) }
        #expect(AlarmHistory(text: #"[{"code":"x","at":1},{"code":"lost_tail"},3]"#)?.entries == [])
        var later = AlarmHistory()
        _ = later.note("lost_tail", "new", at: now)
        later.add(alarms)
        #expect(later.entries.map(\.detail) == ["second", "new"])
        let gone = later.acknowledge(nil)
        #expect(gone == ["epoch_changed", "lost_tail"] && later.entries.isEmpty)
    }

    @Test("An event is past once its alarm has ended; a condition leaves nothing behind")
    func pastEvents() {
        var alarms = Alarms()
        let now = Timestamp(milliseconds: 1_000)
        let kept = [alarms.raise("epoch_changed", "another history", at: now), alarms.raise("stalled", "nothing was synced", at: now)]
        #expect(kept == [true, false])
        #expect(alarms.present == ["epoch_changed": "another history", "stalled": "nothing was synced"])
        #expect(alarms.past.isEmpty)
        let ended = [alarms.end("epoch_changed"), alarms.end("stalled"), alarms.end("stalled")]
        #expect(ended == [true, true, false])
        #expect(alarms.present.isEmpty)
        #expect(alarms.past.map(\.code) == ["epoch_changed"])
    }

    @Test("An acknowledged event is gone, except two machines with one name, which are present as long as there are two")
    func acknowledged() {
        var alarms = Alarms()
        let now = Timestamp(milliseconds: 1_000)
        for code in ["lost_tail", "cloned_device", "mass_delete"] { _ = alarms.raise(code, "as told", at: now) }
        let unknown = alarms.acknowledge("mass_delete")
        #expect(unknown.isEmpty && alarms["mass_delete"] != nil)
        let gone = alarms.acknowledge(nil)
        #expect(gone == ["lost_tail", "cloned_device"])
        #expect(alarms["lost_tail"] == nil && alarms["cloned_device"] == "as told")
        alarms.end("cloned_device")
        #expect(alarms.past.isEmpty)
    }

    @Test("Events of earlier runs come back, and the newer sentence of a code counts")
    func earlierRuns() throws {
        var earlier = Alarms()
        let now = Timestamp(milliseconds: 1_000)
        for code in ["lost_tail", "epoch_changed"] { _ = earlier.raise(code, "earlier", at: now) }
        let stored = try #require(AlarmHistory(text: earlier.text))
        var alarms = Alarms()
        _ = alarms.raise("lost_tail", "now", at: now)
        let isToBeStored = alarms.add(stored)
        #expect(isToBeStored)
        alarms.end("lost_tail")
        #expect(alarms.past.map(\.detail) == ["earlier", "now"])
        var empty = Alarms()
        let hasAny = empty.add(AlarmHistory())
        #expect(!hasAny)
    }

    private static func status(_ stand: AgentStand) async throws -> StatusDocument {
        try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
    }
}
