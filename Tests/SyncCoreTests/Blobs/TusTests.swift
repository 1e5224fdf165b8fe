import SyncCore
import Testing

@Suite("tus header fields")
struct TusTests {
    @Test(
        "A count is digits, and nothing else is one",
        arguments: [
            ("0", 0), ("2147483648", 2_147_483_648), ("9223372036854775807", Int64.max),
            ("", nil), ("-1", nil), ("+1", nil), (" 1", nil), ("1.0", nil), ("0x10", nil), ("9223372036854775808", nil),
            ("99999999999999999999", nil), ("１", nil),
        ] as [(String, Int64?)])
    func count(_ text: String, _ expected: Int64?) {
        #expect(Tus.count(text) == expected)
    }

    @Test(
        "A Location is taken only if it leads to the origin that was configured",
        arguments: [
            ("/v1/files/7", "https://hub.example/v1/files/7"),
            ("7", "https://hub.example/v1/7"),
            ("7?x=1", "https://hub.example/v1/7?x=1"),
            ("./files/7", "https://hub.example/v1/files/7"),
            ("../files/7", "https://hub.example/files/7"),
            ("/../../7#part", "https://hub.example/7"),
            ("https://hub.example/v1/files/7", "https://hub.example/v1/files/7"),
            ("https://HUB.example:443/v1/files/7", "https://hub.example/v1/files/7"),
            ("//hub.example/v1/files/7", "https://hub.example/v1/files/7"),
            ("http://hub.example/v1/files/7", nil),
            ("https://hub.example:8443/v1/files/7", nil),
            ("https://hub.example.evil/v1/files/7", nil),
            ("https://user@hub.example/v1/files/7", nil),
            ("https://other.example/v1/files/7", nil),
            ("//other.example/7", nil),
            ("ftp://hub.example/7", nil),
            ("javascript:alert(1)", nil),
            ("", nil), ("   ", nil), ("/a b", nil), ("/a\u{7}", nil), ("/ä", nil),
        ] as [(String, String?)])
    func location(_ text: String, _ expected: String?) {
        #expect(Tus.location(text, base: "https://hub.example/v1/files") == expected)
    }

    @Test("A Location longer than any address is refused")
    func longLocation() {
        #expect(Tus.location("/" + String(repeating: "a", count: 2_048), base: "https://hub.example/v1/files") == nil)
    }

    @Test("Metadata comes back as it was written")
    func metadata() {
        let pairs = [("filename", "crack ä.jpg"), ("filetype", "image/jpeg"), ("record", "")]
        let read = Tus.metadata(Tus.metadata(pairs))
        #expect(read == ["filename": "crack ä.jpg", "filetype": "image/jpeg", "record": ""])
    }

    @Test(
        "Hostile metadata is refused as a whole",
        arguments: [
            "filename *", "filename YQ==,filename YQ==", "filename /w==", "a " + String(repeating: "Y", count: 8_192),
            (0..<40).map { "k\($0) YQ==" }.joined(separator: ","),
        ])
    func hostileMetadata(_ text: String) {
        #expect(Tus.metadata(text) == nil)
    }

    @Test("Base 64 comes back as it went, and half groups do not read")
    func base64() {
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37) }
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
        }
        for text in ["A", "AA", "AAA", "A===", "====", "AA=A", "AA A", "AAAA="] { #expect(Base64.decode(text) == nil, "\(text)") }
    }

    @Test("A digest reads from every form in which it is written")
    func digest() throws {
        let digest = try #require(BlobDigest(bytes: SHA256.hash(Array("abc".utf8))))
        #expect(digest.description == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(BlobDigest(digest.description) == digest)
        #expect(BlobDigest(hex: digest.hex.uppercased()) == digest)
        #expect(BlobDigest(field: digest.field) == digest)
        #expect(BlobDigest(field: "md5=:AAAA:, sha-256=:\(Base64.encode(digest.bytes)):;x=1") == digest)
        for text in ["", "sha256:", "sha512:" + digest.hex, "sha256:" + digest.hex + "0", "sha256:g" + digest.hex.dropFirst()] {
            #expect(BlobDigest(text) == nil)
        }
        for field in ["", "sha-256", "sha-256=", "sha-256=:AAAA:", "sha-256=abc", "sha-256=::"] { #expect(BlobDigest(field: field) == nil) }
    }

    @Test(
        "A blob's id is b- and a number",
        arguments: [
            ("b-31", 31), ("b-0", nil), ("b--1", nil), ("b-", nil), ("31", nil), ("b-99999999999999999999", nil), ("b-+1", nil),
        ] as [(String, Int64?)])
    func blobID(_ text: String, _ expected: Int64?) {
        #expect(BlobID(text)?.number == expected)
    }

    @Test("A piece grows when it was quick and shrinks when it was slow, within its bounds")
    func chunks() {
        var sizer = ChunkSizer()
        #expect(sizer.bytes == 256 << 10)
        for (seconds, expected) in [(1, 1 << 20), (4, 2 << 20), (1, 8 << 20), (1, 8 << 20)] {
            sizer.sent(sizer.bytes, in: .seconds(seconds))
            #expect(sizer.bytes == expected)
        }
        sizer.sent(sizer.bytes, in: .seconds(7))
        #expect(sizer.bytes == 8 << 20)
        // The end of a file says nothing about a larger piece.
        sizer.sent(1_000, in: .milliseconds(1))
        #expect(sizer.bytes == 8 << 20)
        for _ in 0..<10 { sizer.sent(sizer.bytes, in: .seconds(11)) }
        #expect(sizer.bytes == ChunkSizer.smallest)
        #expect(sizer.isSlow)
        sizer.broke()
        #expect(sizer.bytes == ChunkSizer.smallest)
    }

    @Test(
        "A slow piece sets the size by what went in ten seconds",
        arguments: [
            (218, ChunkSizer.smallest), (52, 50_412), (32, 81_920), (11, 131_072),
        ])
    func slowChunk(_ seconds: Int, _ expected: Int) {
        var sizer = ChunkSizer()
        sizer.sent(256 << 10, in: .seconds(seconds))
        #expect(sizer.bytes == expected)
    }

    @Test("A size that does not pass is a ceiling, on this link and on the next")
    func ceiling() {
        var sizer = ChunkSizer()
        for _ in 0..<2 { sizer.sent(sizer.bytes, in: .milliseconds(100)) }
        #expect(sizer.bytes == 4 << 20)
        sizer.wasTooLarge(4 << 20)
        sizer.wasTooLarge(2 << 20)
        #expect(sizer.bytes == 1 << 20)
        for _ in 0..<10 { sizer.sent(sizer.bytes, in: .milliseconds(100)) }
        #expect(sizer.bytes == 1 << 20)
        var next = ChunkSizer(ceiling: sizer.ceiling)
        for _ in 0..<10 { next.sent(next.bytes, in: .milliseconds(100)) }
        #expect(next.bytes == 1 << 20)
        sizer.wasTooLarge(1)
        #expect(sizer.bytes == ChunkSizer.smallest)
    }

    @Test("A placeholder flips for its own digest only, alone and in a list, and keeps what else it has")
    func placeholder() throws {
        let one = try #require(BlobDigest(bytes: SHA256.hash([1]))), two = try #require(BlobDigest(bytes: SHA256.hash([2])))
        let first = Placeholder(digest: one, size: 1, type: "image/jpeg", isUploaded: false)
        let second = Placeholder(digest: two, size: 2, type: "image/png", isUploaded: false)
        var document: JSONObject = ["photo": first.json, "photos": .array([first.json, second.json, .string("x")]), "n": .int(1)]
        #expect(Placeholder.waiting(in: document).map(\.field) == ["photo", "photos", "photos"])
        #expect(Placeholder.flipped(document["n"] ?? .null, one) == nil)
        #expect(Placeholder.flipped(document["photo"] ?? .null, two) == nil)
        for field in ["photo", "photos"] {
            guard let flipped = Placeholder.flipped(document[field] ?? .null, one) else {
                Issue.record("\(field) did not flip")
                return
            }
            document[field] = flipped
        }
        #expect(Placeholder.waiting(in: document).map(\.digest) == [two])
        #expect(document["photo"]?.object?["state"]?.text == "uploaded")
        #expect(document["photo"]?.object?["size"]?.int == 1)
        let strange: JSONObject = [
            "a": .object(["$blob": .int(3)]), "b": .object(["$blob": .string("sha256:zz"), "state": .string("pending")]),
        ]
        #expect(Placeholder.waiting(in: strange).isEmpty)
    }

    @Test("Repeats are a fifth of the requests, and ten a minute")
    func retryBudget() {
        var budget = RetryBudget()
        var now = Instant(nanoseconds: 0)
        for _ in 0..<10 { #expect(budget.take(now: now) == nil) }
        #expect(budget.take(now: now) != nil)
        for _ in 0..<5 { budget.sent() }
        #expect(budget.take(now: now) == nil)
        let wait = budget.take(now: now)
        #expect((wait ?? .zero) > .seconds(5) && (wait ?? .zero) < .seconds(7))
        now = now.advanced(by: wait ?? .zero)
        #expect(budget.take(now: now) == nil)
        #expect(budget.take(now: now.advanced(by: .seconds(-60))) != nil)
    }
}
