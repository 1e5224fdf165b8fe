import SyncCore
import Testing

@Suite("SHA-256 and HMAC")
struct SHA256Tests {
    struct Vector: Sendable {
        var message: [UInt8]
        var digest: String

        init(_ message: String, _ digest: String) {
            self.message = Array(message.utf8)
            self.digest = digest
        }

        /// So many times the letter a.
        init(count: Int, _ digest: String) {
            message = [UInt8](repeating: UInt8(ascii: "a"), count: count)
            self.digest = digest
        }
    }

    @Test(
        "The examples of NIST (FIPS 180-4) and the lengths around the padding's borders",
        arguments: [
            Vector("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            Vector("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            Vector(
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
            Vector(
                "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"),
            Vector(count: 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"),
            Vector(count: 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"),
            Vector(count: 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"),
            Vector(count: 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"),
            Vector(count: 65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"),
            Vector(count: 119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"),
            Vector(count: 120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"),
            Vector(count: 1_000_000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ])
    func digests(_ vector: Vector) {
        #expect(hex(SHA256.hash(vector.message)) == vector.digest)
    }

    @Test("The digest does not depend on how the bytes are handed over")
    func pieces() {
        let message = (0..<300).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        for size in [1, 13, 63, 64, 65, 299] {
            var digest = SHA256()
            for start in stride(from: 0, to: message.count, by: size) {
                digest.update(message[start..<min(start + size, message.count)])
            }
            #expect(digest.finish() == SHA256.hash(message))
        }
    }

    struct Code: Sendable {
        var key: [UInt8]
        var message: [UInt8]
        var digest: String
    }

    /// RFC 4231, sections 4.2 to 4.8; case 5 is the one whose output is cut to 128 bits.
    @Test(
        "The examples of RFC 4231",
        arguments: [
            Code(
                key: [UInt8](repeating: 0x0B, count: 20), message: Array("Hi There".utf8),
                digest: "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            Code(
                key: Array("Jefe".utf8), message: Array("what do ya want for nothing?".utf8),
                digest: "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
            Code(
                key: [UInt8](repeating: 0xAA, count: 20), message: [UInt8](repeating: 0xDD, count: 50),
                digest: "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            Code(
                key: Array(1...25), message: [UInt8](repeating: 0xCD, count: 50),
                digest: "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
            Code(
                key: [UInt8](repeating: 0x0C, count: 20), message: Array("Test With Truncation".utf8),
                digest: "a3b6167473100ee06e0c796c2955552b"),
            Code(
                key: [UInt8](repeating: 0xAA, count: 131),
                message: Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                digest: "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
            Code(
                key: [UInt8](repeating: 0xAA, count: 131),
                message: Array(
                    ("This is a test using a larger than block-size key and a larger than block-size data. "
                        + "The key needs to be hashed before being used by the HMAC algorithm.").utf8),
                digest: "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"),
        ])
    func authenticates(_ example: Code) {
        let code = hex(SHA256.authenticate(example.message, key: example.key))
        #expect(code.hasPrefix(example.digest))
        #expect(code.utf8.count == 64)
    }

    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    @Test("A hash goes on from its midstate as if it had never stopped; what is none is refused", arguments: [0, 1, 55, 63, 64, 65, 200])
    func midstate(_ count: Int) throws {
        let bytes = (0..<200).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        var first = SHA256()
        first.update(Array(bytes[..<count]))
        let midstate = first.midstate
        var second = try #require(SHA256(midstate: midstate))
        #expect(second.midstate == midstate)
        second.update(Array(bytes[count...]))
        #expect(second.finish() == SHA256.hash(bytes))
        #expect(SHA256(midstate: midstate + [0]) == nil)
        #expect(SHA256(midstate: Array(midstate.dropLast())) == nil)
    }
}
