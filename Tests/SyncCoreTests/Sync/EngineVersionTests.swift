import SyncCore
import Testing

/// PROTOCOL D7: the versions of schemas change while the engine works.
@Suite("Engine: versions of schemas")
struct EngineVersionTests {
    typealias Rig = EngineRig

    private static func of(_ version: Int, _ response: HTTPResponse, config: Int64? = nil) -> HTTPResponse {
        var response = response
        response.headers[HubHeader.schema] = SchemaNumbers([Rig.works: version]).text
        response.headers[HubHeader.config] = config.map { String($0) }
        return response
    }

    private static func settings(_ version: Int, config: Int64? = nil, refused: Int64? = nil) -> SyncEngine.Settings {
        var settings = SyncEngine.Settings()
        settings.schemas = SchemaNumbers([Rig.works: version])
        settings.configVersion = config
        settings.refusedConfig = refused
        return settings
    }

    private func pulling(_ settings: SyncEngine.Settings, hello: HTTPResponse = Rig.hello()) -> EngineRig {
        var rig = Rig(settings: settings)
        rig.start()
        rig.wake()
        rig.answer(hello)
        rig.stored(.batch(nil, retryAt: nil))
        return rig
    }

    @Test("Every call names the versions of this device's documents")
    func header() {
        var rig = pulling(Self.settings(2))
        rig.stored(.streams([Rig.position(Rig.works)]))
        #expect(rig.call?.schemas[Rig.works] == 2)
    }

    @Test("A hub with newer schemas is not read before its settings are taken over, and what waits is pushed all the same")
    func learnsFirst() {
        let rig = pulling(Self.settings(1), hello: Self.of(2, Rig.hello(), config: 7))
        #expect(rig.asked == "claim", "a pull came first: \(rig.asked ?? "nothing")")
    }

    @Test("A page that shows the newer version for the first time is not stored")
    func pageIsNotUsed() {
        var rig = pulling(Self.settings(1))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Self.of(2, Rig.pull([Rig.page(Rig.works, cursor: "c2", records: [Rig.record("w-1", version: 3)])]), config: 7))
        #expect(rig.asked == "claim")
    }

    @Test("Where the settings were refused, or say the older version, pages are used and marked", arguments: [Int64(7), 0])
    func staysBehind(refused: Int64) {
        let settings = refused == 7 ? Self.settings(1, refused: 7) : Self.settings(1, config: 7)
        var rig = pulling(settings, hello: Self.of(2, Rig.hello(), config: 7))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Self.of(2, Rig.pull([Rig.page(Rig.works, cursor: "c2", records: [Rig.record("w-1", version: 3)])]), config: 7))
        guard case .applyPull(let applied)? = rig.command else {
            Issue.record("nothing was stored: \(rig.asked ?? "nothing")")
            return
        }
        #expect(applied.newerSchemas?[Rig.works] == 2)
    }

    @Test("Verdicts of a hub with newer schemas are marked as well")
    func verdicts() {
        var rig = Rig.pushing(Rig.batch(1...1), settings: Self.settings(1, config: 7))
        rig.answer(Self.of(2, Rig.push(Rig.accepted(Rig.batch(1...1))), config: 7))
        guard case .applyResults(let results, _, _, _)? = rig.command else {
            Issue.record("nothing was recorded: \(rig.asked ?? "nothing")")
            return
        }
        #expect(results.map { $0.notes.newerSchemas?[Rig.works] } == [2])
    }

    @Test("An answer in the former version is not used, and the next cycle begins at once")
    func changesDuringCall() {
        var rig = pulling(Self.settings(1))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.handle(.settings(Self.settings(2)))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2", records: [Rig.record("w-1", version: 3)])]))
        #expect(rig.asked != "applyPull")
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.outcome?.interruption == .schemasChanged && rig.outcome?.request == nil)
        rig.advance(.seconds(5))
        rig.handle(.timer)
        #expect(rig.engine.cycle != nil)
    }

    @Test("A requested cycle that began in the former version is followed at once by one that serves the same request")
    func requestGoesOn() {
        let request = SyncRequest(scope: .push, isForced: true)
        var rig = Rig.settled(settings: Self.settings(1))
        rig.handle(.requested(request))
        rig.begin()
        #expect(rig.engine.cycle?.isForced == true)
        let first = rig.engine.cycle?.session
        rig.handle(.settings(Self.settings(2)))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.outcome?.interruption == .schemasChanged && rig.outcome?.request == request && rig.outcome?.session == first)
        if rig.asked == "remember" { rig.stored(.done) }
        rig.begin()
        #expect(rig.engine.cycle?.session != first && rig.engine.cycle?.isForced == true && rig.engine.cycle?.scope == .push)
    }

    @Test("A cycle that read nothing because the settings come first says so, with its request")
    func saysThatSettingsComeFirst() {
        var rig = pulling(Self.settings(1), hello: Self.of(2, Rig.hello(), config: 7))
        rig.stored(.batch(nil, retryAt: nil))
        for _ in 0..<4 where rig.engine.cycle != nil {
            if rig.asked == "housekeep" { rig.stored(.housekept(more: false)) } else { rig.stored(.done) }
        }
        #expect(rig.outcome?.interruption == .schemasOffered && rig.outcome?.error == nil)
    }

    @Test("A batch that was claimed in the former version is not sent")
    func changesDuringClaim() {
        var rig = Rig.settled(settings: Self.settings(1))
        rig.handle(.enqueued(.normal))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim")
        rig.handle(.settings(Self.settings(2)))
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        #expect(rig.asked != "push")
    }
}
