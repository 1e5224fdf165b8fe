import SyncCore
import Testing

@Suite("Cursors")
struct CursorTests {
    private static let secret: [UInt8] = [1, 2, 3]
    private static let one = DeviceID(trusted: "gw-1")
    private static let two = DeviceID(trusted: "gw-2")

    private static func cursor(_ share: CursorShare?) -> Cursor {
        Cursor(epoch: "e-1", entity: EntityName(trusted: "audits"), seq: 7, opening: "0a1b2c3d", share: share)
    }

    private static func read(_ text: String, _ device: DeviceID) -> Result<Cursor, Cursor.Refusal> {
        do throws(Cursor.Refusal) {
            return .success(try Cursor.read(text, secret: secret, epoch: "e-1", from: device))
        } catch {
            return .failure(error)
        }
    }

    @Test("A cursor for a share opens for the device that it was made for, and for no other")
    func cursorOfAShareOpensForItsDeviceOnly() {
        let cursor = Self.cursor(CursorShare(index: 1, holding: [5, 9]))
        let text = cursor.text(secret: Self.secret, for: Self.one)
        #expect(Self.read(text, Self.one) == .success(cursor))
        #expect(Self.read(text, Self.two) == .failure(.unreadable))
        #expect(text != cursor.text(secret: Self.secret, for: Self.two))
    }

    @Test("A cursor for all records opens for every device, as it did before there were scopes")
    func cursorOfAllRecordsOpensForEveryDevice() {
        let cursor = Self.cursor(nil)
        let text = cursor.text(secret: Self.secret, for: Self.one)
        #expect(Self.read(text, Self.one) == .success(cursor) && Self.read(text, Self.two) == .success(cursor))
    }

    @Test("A cursor without its share, or with another version, is not read")
    func forged() throws {
        let text = Self.cursor(CursorShare(index: 1, holding: [5])).text(secret: Self.secret, for: Self.one)
        var bytes = try #require(Base64URL.decode(text))
        #expect(bytes[0] == UInt8(ascii: "3"))
        bytes[0] = UInt8(ascii: "2")
        #expect(Self.read(Base64URL.encode(bytes), Self.one) == .failure(.unreadable))
    }
}
