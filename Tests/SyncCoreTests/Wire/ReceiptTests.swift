import SyncCore
import Testing

@Suite("Receipts and cursors")
struct ReceiptTests {
    private static let secret = [UInt8](repeating: 7, count: 32)
    private static let position = HubPosition(epoch: "e1", opening: "0a1b2c3d", head: 90_188)
    private static let receipt = Receipt(
        position: position, device: DeviceID(trusted: "gw-17"), replica: ReplicaID(trusted: "r-1"), seq: 42)

    @Test("A receipt comes back as it was written, within what a header may carry")
    func comesBack() {
        let text = Self.receipt.text(secret: Self.secret)
        #expect(Receipt.read(text, secret: Self.secret) == Self.receipt)
        #expect(Receipt.isCarried(text))
    }

    @Test("A receipt that was changed anywhere, or signed with another secret, is none")
    func forged() {
        let text = Array(Self.receipt.text(secret: Self.secret).utf8)
        for index in text.indices {
            var changed = text
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(Receipt.read(String(decoding: changed, as: UTF8.self), secret: Self.secret) == nil, "byte \(index)")
        }
        #expect(Receipt.read(Self.receipt.text(secret: [1]), secret: Self.secret) == nil)
        for text in ["", "AAAA", String(repeating: "A", count: 600)] { #expect(Receipt.read(text, secret: Self.secret) == nil) }
    }

    @Test("A cursor names the opening and keeps a code of 16 bytes; one of version 1 is still read")
    func cursors() throws {
        let device = DeviceID(trusted: "gw-1")
        let cursor = Cursor(epoch: "e1", entity: EntityName(trusted: "audits"), seq: 9, live: 12, opening: "0a1b2c3d")
        #expect(try Cursor.read(cursor.text(secret: Self.secret, for: device), secret: Self.secret, epoch: "e1", from: device) == cursor)
        #expect(cursor.position == HubPosition(epoch: "e1", opening: "0a1b2c3d", head: 12))
        let plain = Array("1/e1/audits/9/12/".utf8)
        let old = Base64URL.encode(plain + SHA256.authenticate(plain, key: Self.secret).prefix(8))
        let read = try Cursor.read(old, secret: Self.secret, epoch: "e1", from: device)
        #expect(read.seq == 9 && read.live == 12 && read.opening.isEmpty)
        let short = Base64URL.encode(
            Array("2/e1/audits/9/12//x".utf8) + SHA256.authenticate(Array("2/e1/audits/9/12//x".utf8), key: Self.secret).prefix(8))
        #expect(throws: Cursor.Refusal.unreadable, "a short code is good for version 1 alone") {
            try Cursor.read(short, secret: Self.secret, epoch: "e1", from: device)
        }
    }

    @Test(
        "A text that is no base64url, or too long, is not carried", arguments: ["", "a b", "a/b", "é", String(repeating: "a", count: 513)])
    func carried(_ text: String) {
        #expect(!Receipt.isCarried(text))
        #expect(HubRequestHeaders(reading: [HubHeader.receipt: text]).receipt == nil)
        #expect(HubHeaders(reading: [HubHeader.receipt: text], now: Timestamp(milliseconds: 0)).receipt == nil)
    }
}
