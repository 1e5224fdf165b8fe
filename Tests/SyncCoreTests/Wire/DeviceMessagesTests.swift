import SyncCore
import Testing

@Suite("Tokens from the hub")
struct DeviceMessagesTests {
    @Test("A grant reads as it was written", arguments: [nil, Timestamp(milliseconds: 1_795_208_400_000)])
    func grant(_ ends: Timestamp?) throws {
        let grant = TokenGrant(device: DeviceID(trusted: "gw-1"), token: "est_abc", endsAt: ends)
        #expect(try DeviceMessages.readGrant(DeviceMessages.grant(grant)) == grant)
        #expect(try DeviceMessages.readEnrolment(DeviceMessages.enrolment("ese_x")) == "ese_x")
    }

    @Test(
        "A text that could not be sent as a token is none",
        arguments: [
            #"{"device_id":"gw-1"}"#, #"{"device_id":"gw-1","token":""}"#, #"{"device_id":"gw-1","token":"a b"}"#,
            #"{"device_id":"gw-1","token":"a\nX-Evil: 1"}"#, #"{"device_id":"gw-1","token":"ese_again"}"#,
            #"{"device_id":"gw 1","token":"a"}"#,
            #"{"token":"a"}"#, "[]", "", #"{"device_id":"gw-1","token":"é"}"#,
        ])
    func refused(_ body: String) {
        #expect(throws: ReplyError.self) { try DeviceMessages.readGrant(Array(body.utf8)) }
    }

    @Test("The kept token counts while it goes back to the operator's, and a new one of those outranks it")
    func chooses() throws {
        let kept = KeptToken(TokenGrant(device: DeviceID(trusted: "gw-1"), token: "est_mine", endsAt: nil), from: "ese_one")
        #expect(KeptToken.choose(provisioned: "ese_one", kept: kept) == "est_mine")
        #expect(KeptToken.choose(provisioned: "est_new", kept: kept) == "est_new")
        #expect(KeptToken.choose(provisioned: "ese_one", kept: nil) == "ese_one")
        #expect(KeptToken(reading: kept.bytes) == kept)
    }

    @Test("A torn or damaged file is none", arguments: 0..<60)
    func torn(_ cut: Int) {
        let kept = KeptToken(TokenGrant(device: DeviceID(trusted: "gw-1"), token: "est_mine", endsAt: nil), from: "ese_one")
        #expect(KeptToken(reading: Array(kept.bytes.dropLast(cut + 2))) == nil)
    }
}
