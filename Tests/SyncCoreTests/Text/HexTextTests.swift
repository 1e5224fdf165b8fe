import SyncCore
import Testing

@Suite("Hexadecimal text")
struct HexTextTests {
    @Test("Every byte is two small digits and comes back, from capital ones, too")
    func bytesComeBack() {
        let bytes = Array(UInt8.min...UInt8.max)
        let text = hexText(bytes)
        #expect(text.hasPrefix("000102") && text.hasSuffix("fdfeff") && text.utf8.count == 512)
        #expect(hexBytes(text) == bytes && hexBytes(text.uppercased()) == bytes)
        #expect(hexText([]).isEmpty && hexBytes("") == [])
    }

    @Test("What is no pairs of digits is no bytes", arguments: ["0", "abc", "0g", "g0", "+f", " 0", "0x", "é"])
    func otherTextsAreNone(_ text: String) {
        #expect(hexBytes(text) == nil)
    }
}
