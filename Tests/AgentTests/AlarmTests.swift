import Agent
import LocalAPI
import SyncCore
import SyncLinux
import Testing

@Suite("Alarms that are over")
struct AlarmTests {
    @Test("A hub that was replaced is told after everything has healed, also after a restart, until somebody acknowledges it")
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

    @Test("What is told twice is kept once, what is no event is not kept, and nonsense in the database is no history")
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

    private static func status(_ stand: AgentStand) async throws -> StatusDocument {
        try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
    }
}
