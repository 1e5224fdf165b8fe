import HubServer
import SyncCore
import Testing

/// A value that is the id of a device is the device's own scope, so no device may be named like a value that others were granted.
@Suite("Devices that are named like a scope")
struct GrantedNameTests {
    private let now = Timestamp(milliseconds: 1_795_208_400_000)

    @Test("The grants of commands tell whose scope a device would be named like")
    func commands() {
        var book = TokenBook()
        let grants: [TokenBook.Grant.Kind] = [
            .scope(Scope("site", "s-3")), .scope(Scope("assignee", "tablet-9")), .role("s-5"), .group("s-6"),
        ]
        for grant in grants {
            let outcome = book.grant(grant, to: "tablet-9", by: "root", at: now)
            #expect(outcome == .given)
        }
        #expect(book.holder(ofNameOf: "s-3") == "tablet-9")
        // Its own id, a role and a group are no scopes of others.
        for name: DeviceID in ["tablet-9", "s-4", "s-5", "s-6"] { #expect(book.holder(ofNameOf: name) == nil) }
        let isTaken = book.takeBack(.scope(Scope("site", "s-3")), from: "tablet-9", by: "root", at: now)
        #expect(isTaken && book.holder(ofNameOf: "s-3") == nil)
    }

    @Test("A device with grants has no token yet; one whose tokens were revoked has none any more")
    func tokens() {
        var (book, random) = (TokenBook(), SeededRandom(seed: 1))
        let outcome = book.grant(.role("inspector"), to: "tablet-9", by: "root", at: now)
        #expect(outcome == .given && !book.hasToken("tablet-9"))
        _ = book.add("tablet-9", at: now, using: &random)
        #expect(book.hasToken("tablet-9") && !book.hasToken("tablet-8"))
        let revoked = book.revoke("tablet-9", at: now)
        #expect(revoked == 1 && !book.hasToken("tablet-9"))
    }

    @Test("The grants of the settings tell it, too: those of other devices, and those of groups")
    func settings() {
        var access = AccessBook()
        access.devices["pump-1", default: Grants()].scopes = ["assignee": ["pump-1"], "site": ["s-1"]]
        access.groups["north", default: Grants()].scopes = ["site": ["s-2", "s-3"]]
        access.groups["north"]?.roles = ["office"]
        #expect(access.holder(of: "s-1") == "devices.pump-1" && access.holder(of: "s-3") == "groups.north")
        #expect(access.holder(of: "pump-1", besides: "pump-1") == nil && access.holder(of: "s-1", besides: "pump-1") == nil)
        #expect(access.holder(of: "office") == nil && access.holder(of: "s-4") == nil)
    }
}
