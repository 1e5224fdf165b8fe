import Agent
import SyncCore
import Testing

@Suite("The renewal of the token")
struct TokenRefreshTests {
    private static let start = Moment(instant: Instant(nanoseconds: 5), wall: Timestamp(milliseconds: 1_800_000_000_000))

    /// Seconds after the start.
    private static func moment(_ seconds: Int) -> Moment {
        Moment(instant: start.instant.advanced(by: .seconds(seconds)), wall: start.wall.advanced(by: .seconds(seconds)))
    }

    private static func answer(refresh: Int?, ends: Int?, epoch: String? = "e1", version: String? = "1") -> HubAnswer {
        var headers: HTTPHeaders = [:]
        headers["Sync-Version"] = version
        headers["Sync-Epoch"] = epoch
        headers["Sync-Token-Refresh"] = refresh.map { String(moment($0).wall.milliseconds) }
        headers["Sync-Token-Ends"] = ends.map { String(moment($0).wall.milliseconds) }
        return HubAnswer(.trial, .success(HTTPResponse(status: 200, headers: headers)), over: nil, at: start)
    }

    /// A token that may be renewed after a minute, and expires after `ends` seconds.
    private static func known(ends: Int = 90 * 86_400) -> TokenRefresh {
        var token = TokenRefresh()
        _ = token.handle(.answered(answer(refresh: 60, ends: ends)), at: start)
        return token
    }

    @Test("A token is renewed when the hub says so, once, and the next time an hour later")
    func renewed() {
        var token = Self.known()
        func rests(_ seconds: Int) -> [TokenRefresh.Effect] { token.handle(.rests(mayAsk: true), at: Self.moment(seconds)) }
        let before = [rests(0), rests(59)]
        #expect(before == [[.endWarning], [.endWarning]])
        let due = [rests(60), rests(61)]
        #expect(due == [[.refresh], []])
        let failed = token.handle(.refreshed(isGood: false), at: Self.moment(62))
        #expect(failed == [.endWarning])
        let again = [rests(3_659), rests(3_660)]
        #expect(again == [[.endWarning], [.refresh]])
    }

    @Test("A forced sync tries a renewal again that failed a moment ago")
    func forced() {
        var token = Self.known()
        let first = token.handle(.rests(mayAsk: true), at: Self.moment(60))
        _ = token.handle(.refreshed(isGood: false), at: Self.moment(61))
        let early = token.handle(.rests(mayAsk: true), at: Self.moment(62))
        let forced = token.handle(.forced, at: Self.moment(62))
        let next = token.handle(.rests(mayAsk: true), at: Self.moment(62))
        #expect([first, early, forced, next] == [[.refresh], [.endWarning], [], [.refresh]])
    }

    @Test("After a renewal nothing is known of the next token until the hub names it")
    func afterRenewal() {
        var token = Self.known()
        _ = token.handle(.rests(mayAsk: true), at: Self.moment(60))
        let renewed = token.handle(.refreshed(isGood: true), at: Self.moment(61))
        #expect(renewed == [.endWarning])
        #expect(token.endsAt == nil && token.refreshAt == nil)
        _ = token.handle(.answered(Self.answer(refresh: 62, ends: 86_400)), at: Self.moment(61))
        let next = token.handle(.rests(mayAsk: true), at: Self.moment(62))
        #expect(next == [.refresh])
    }

    struct Case: Sendable {
        var ends: Int
        var at: Int
        var warns: Bool
    }

    @Test(
        "A token that expires within three weeks is told, once it may be renewed and the hub may not be asked",
        arguments: [
            Case(ends: 21 * 86_400 + 60, at: 59, warns: false),
            Case(ends: 21 * 86_400 + 60, at: 60, warns: false),
            Case(ends: 21 * 86_400 + 60, at: 61, warns: true),
            Case(ends: 86_400, at: 59, warns: false),
        ])
    func warned(_ example: Case) {
        var token = Self.known(ends: example.ends)
        let effects = token.handle(.rests(mayAsk: false), at: Self.moment(example.at))
        #expect(effects == [example.warns ? .warn(endsAt: Self.moment(example.ends).wall) : .endWarning])
    }

    @Test("A token that cannot be renewed is told as well, and another server's answer says nothing about the token")
    func origins() {
        var token = TokenRefresh()
        _ = token.handle(.answered(Self.answer(refresh: nil, ends: 86_400)), at: Self.start)
        let warned = token.handle(.rests(mayAsk: true), at: Self.start)
        #expect(warned == [.warn(endsAt: Self.moment(86_400).wall)])
        for foreign in [Self.answer(refresh: 1, ends: 2, epoch: nil), Self.answer(refresh: 1, ends: 2, version: nil)] {
            _ = token.handle(.answered(foreign), at: Self.start)
        }
        #expect(token.endsAt == Self.moment(86_400).wall && token.refreshAt == nil)
    }
}
