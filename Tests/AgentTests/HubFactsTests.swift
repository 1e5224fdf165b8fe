import Agent
import SyncCore
import Testing

@Suite("Facts about the hub")
struct HubFactsTests {
    private let now = Moment(instant: Instant(nanoseconds: 5), wall: Timestamp(milliseconds: 1_800_000_000_000))

    private func answer(_ headers: HTTPHeaders, certificateEndsAt: Timestamp? = nil) -> HubAnswer {
        var response = HTTPResponse(status: 200, headers: headers)
        response.certificateEndsAt = certificateEndsAt
        return HubAnswer(.look, .success(response), over: nil, at: now)
    }

    @Test("A hub with a common version is told with that; one without with its own versions")
    func versions() {
        var facts = HubFacts()
        facts.handle(answer(["Sync-Version": "1"]))
        #expect(facts.syncVersion == 1 && facts.foreignVersions.isEmpty)
        facts.handle(answer(["Sync-Version": "7", "Sync-Versions": "7, 8"]))
        #expect(facts.syncVersion == nil && facts.foreignVersions == [7, 8])
        // Another server says nothing about the hub's versions.
        facts.handle(answer([:]))
        #expect(facts.foreignVersions == [7, 8])
        facts.handle(answer(["Sync-Version": "1", "Sync-Versions": "1, 7"]))
        #expect(facts.syncVersion == 1 && facts.foreignVersions.isEmpty)
    }

    @Test("A kept connection, which shows no certificate, does not let its end be forgotten")
    func certificate() {
        var facts = HubFacts()
        let ends = Timestamp(milliseconds: 1_900_000_000_000)
        facts.handle(answer([:], certificateEndsAt: ends))
        facts.handle(answer([:]))
        #expect(facts.certificateEndsAt == ends)
    }

    @Test("Only an answer is a contact, and it is fresh for less than the asked age")
    func fresh() {
        var facts = HubFacts()
        let none = TransportError(.unreachable, doing: "connect", detail: "no route")
        facts.handle(HubAnswer(.look, .failure(none), over: nil, at: now))
        #expect(!facts.isFresh(.seconds(60), at: now.instant))
        facts.answered(at: now.instant, certificateEndsAt: nil)
        #expect(facts.isFresh(.seconds(60), at: now.instant.advanced(by: .milliseconds(59_999))))
        #expect(!facts.isFresh(.seconds(60), at: now.instant.advanced(by: .seconds(60))))
    }
}
