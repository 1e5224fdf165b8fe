import Agent
import SyncCore
import Testing

@Suite("Settings that the hub offers")
struct ConfigurationOffersTests {
    private let now = Moment(instant: Instant(nanoseconds: 5), wall: Timestamp(milliseconds: 1_800_000_000_000))

    private func answer(_ headers: HTTPHeaders, status: Int = 200, body: String = "") -> HubAnswer {
        HubAnswer(
            .configuration, .success(HTTPResponse(status: status, headers: headers, body: Array(body.utf8))), over: nil, at: now)
    }

    private func offering(_ version: Int) -> ConfigurationOffers {
        var offers = ConfigurationOffers()
        offers.handle(answer(["Sync-Version": "1", "Sync-Config": "\(version)"]))
        return offers
    }

    @Test("Settings are fetched when the hub offers some, once at a time, and only while the hub may be asked")
    func fetched() {
        var none = ConfigurationOffers()
        let nothing = none.fetch(mayAsk: true)
        #expect(!nothing)
        var offers = offering(7)
        let fetches = [offers.fetch(mayAsk: false), offers.fetch(mayAsk: true), offers.fetch(mayAsk: true)]
        #expect(fetches == [false, true, false])
        let settings = offers.fetched(answer(["Sync-Version": "1"], body: "{}"))
        #expect(settings == Array("{}".utf8))
        // Without an answer that can be used, the next cycle asks again.
        for useless in [answer(["Sync-Version": "1"], status: 304), answer(["Sync-Config": "7"])] {
            let again = offers.fetch(mayAsk: true)
            let nothing = offers.fetched(useless)
            #expect(again && nothing == nil)
        }
    }

    @Test("Refused settings are not fetched again until the hub offers others; those in force never")
    func refused() throws {
        var offers = offering(7)
        #expect(offers.isOpen)
        offers.refuse()
        #expect(!offers.isOpen)
        let refused = offers.fetch(mayAsk: true)
        offers.handle(answer(["Sync-Version": "1", "Sync-Config": "8"]))
        let other = offers.fetch(mayAsk: true)
        #expect(!refused && other && offers.isOpen)
        _ = offers.fetched(answer(["Sync-Version": "1"]))
        offers.use(try ServerConfiguration(Array(#"{"version":8}"#.utf8), release: nil))
        let known = offers.fetch(mayAsk: true)
        #expect(!known && offers.inForce?.version == 8 && !offers.isOpen)
    }

    @Test("A field of another server offers nothing")
    func foreign() {
        var offers = ConfigurationOffers()
        offers.handle(answer(["Sync-Config": "7"]))
        #expect(offers.offered == nil)
    }
}
