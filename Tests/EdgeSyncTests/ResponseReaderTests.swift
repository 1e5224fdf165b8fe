import EdgeSync
import Foundation
import Testing

@Suite("HTTP answers")
struct ResponseReaderTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var text: String
        var status = 200
        var body: String
        /// The answer ends with its connection.
        var needsEnd = false

        var testDescription: String { name }
    }

    static let cases = [
        Case(name: "a length", text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello", body: "hello"),
        Case(name: "no reason, no body", text: "HTTP/1.1 201\r\nContent-Length: 0\r\n\r\n", status: 201, body: ""),
        Case(name: "304 without a length", text: "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n", status: 304, body: ""),
        Case(
            name: "chunks with extensions and a trailer",
            text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nA: b\r\n\r\n",
            body: "hello world"),
        Case(name: "until the end", text: "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello", body: "hello", needsEnd: true),
        Case(
            name: "an interim answer",
            text: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\ncontent-length:\t2 \r\n\r\nno", status: 503, body: "no"),
        Case(name: "no fields", text: "HTTP/1.1 200 OK\r\n\r\nhello", body: "hello", needsEnd: true),
    ]

    @Test("An answer is the same wherever it is cut in two, and byte by byte", arguments: cases)
    func splits(_ example: Case) throws {
        let bytes = Array(example.text.utf8)
        for cut in 0...bytes.count { try check(example, [bytes[..<cut], bytes[cut...]]) }
        try check(example, bytes.indices.map { bytes[$0...$0] })
    }

    private func check(_ example: Case, _ pieces: [ArraySlice<UInt8>]) throws {
        var reader = ResponseReader()
        var body: [UInt8] = []
        for piece in pieces {
            try reader.feed(piece)
            body += reader.takeBody()
        }
        #expect(reader.isComplete != example.needsEnd)
        try reader.end()
        body += reader.takeBody()
        #expect(reader.isComplete && reader.status == example.status && body == Array(example.body.utf8))
    }

    @Test("An answer that ends early is broken, at every byte", arguments: cases)
    func cut(_ example: Case) throws {
        let bytes = Array(example.text.utf8)
        let head = example.text.range(of: "\r\n\r\n").map { example.text.utf8.distance(from: example.text.startIndex, to: $0.upperBound) }
        for cut in 0..<(example.needsEnd ? head ?? 0 : bytes.count) {
            var reader = ResponseReader()
            try reader.feed(bytes[..<cut])
            #expect {
                try reader.end()
            } throws: { ($0 as? EdgeSyncError)?.kind == .brokenAnswer }
        }
    }

    @Test(
        "An answer that is not HTTP as the agent speaks it is refused",
        arguments: [
            "SSH-2.0", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 099 X\r\n\r\n",
            "HTTP/1.1 101 Switch\r\n\r\n", "HTTP/1.1 200 OK\r\nno field\r\n\r\n", "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA b: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "HTTP/1.1 200 OK\r\nA: \u{1}\r\n\r\n",
        ])
    func refuses(_ text: String) {
        #expect(throws: EdgeSyncError.self) {
            var reader = ResponseReader()
            try reader.feed(Array(text.utf8))
        }
    }

    @Test("A head, a chunk line and interim answers have limits, and a body of any length costs one piece")
    func limits() throws {
        let endless: [(begin: String, more: String)] = [
            ("HTTP/1.1 200 OK\r\nA: ", "x"), ("HTTP/1.1 200 OK\r\n", "A: b\r\n"), ("", "HTTP/1.1 100 Continue\r\n\r\n"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n"),
        ]
        for (begin, more) in endless {
            var reader = ResponseReader()
            #expect(throws: EdgeSyncError.self) {
                try reader.feed(Array(begin.utf8))
                for _ in 0..<20_000 { try reader.feed(Array(more.utf8)) }
            }
        }
        var reader = ResponseReader()
        try reader.feed(Array("HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n".utf8))
        for _ in 0..<100 {
            try reader.feed([UInt8](repeating: 0, count: 1000))
            #expect(reader.takeBody().count == 1000)
        }
    }
}

@Suite("Event streams")
struct EventParserTests {
    static let stream =
        "\u{feff}id: 7\n\n: hello\n\nid: 8\r\nevent: record\r\ndata: {\"a\":\r\ndata: \"é😀\"}\r\n\r\nid:9\revent:x\rdata\r\r"
        + "unknown: 1\ndata:  two\n\nid: 10\nevent: cut\ndata: {}\n"
    static let blocks = [
        EventBlock(position: 7, type: "", data: []),
        EventBlock(position: 8, type: "record", data: Array("{\"a\":\n\"é😀\"}".utf8)),
        EventBlock(position: 9, type: "x", data: []),
        EventBlock(position: nil, type: "message", data: Array(" two".utf8)),
    ]

    @Test("A stream is the same wherever it is cut in two, and byte by byte; the last event counts only when it is whole")
    func splits() throws {
        let bytes = Array(Self.stream.utf8)
        for cut in 0...bytes.count {
            var parser = EventParser()
            #expect(try parser.feed(bytes[..<cut]) + parser.feed(bytes[cut...]) == Self.blocks)
        }
        var parser = EventParser()
        var blocks: [EventBlock] = []
        for byte in bytes { blocks += try parser.feed([byte]) }
        #expect(blocks == Self.blocks)
    }

    @Test("An event without an end, and a position that is none, are refused")
    func limits() {
        #expect(throws: EdgeSyncError.self) {
            var parser = EventParser()
            for _ in 0..<1100 { _ = try parser.feed(Array("data: \(String(repeating: "x", count: 1000))\n".utf8)) }
        }
        for id in ["x", "-1", "99999999999999999999", ""] {
            #expect(throws: EdgeSyncError.self) {
                var parser = EventParser()
                _ = try parser.feed(Array("id: \(id)\n".utf8))
            }
        }
    }

    @Test("A feed passes on each event once, begins with a start, and knows a gap")
    func position() throws {
        func block(_ position: Int?, _ type: String) -> EventBlock { EventBlock(position: position, type: type, data: []) }
        var feed = FeedPosition(nil)
        #expect(try feed.accept(block(7, ""))?.block.type == EventBlock.start)
        #expect(try feed.accept(block(7, "")) == nil)
        #expect(try feed.accept(block(8, "record"))?.position == 8)
        #expect(feed.hasNews)
        feed.begin()
        #expect(try feed.accept(block(8, "record")) == nil)
        #expect(!feed.hasNews)
        #expect(try feed.accept(block(nil, "overflow")) == nil)
        #expect(try feed.accept(block(5, "reset"))?.position == 5)
        #expect(try feed.accept(block(6, "record"))?.position == 6)
        #expect(throws: EdgeSyncError.self) { try feed.accept(block(nil, "record")) }
        // A feed that goes on gets no start.
        var resumed = FeedPosition(3)
        #expect(try resumed.accept(block(9, "")) == nil)
        #expect(try resumed.accept(block(4, "record"))?.position == 4)
    }
}

@Suite("Digests")
struct SHA256Tests {
    /// Vectors of FIPS 180-4 as published by NIST.
    @Test(
        "The digest is that of the standard, however the bytes come",
        arguments: [
            ("", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
            ("abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
            ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE="),
            ("a million", "zcduXJkU+5KBocfihNc+Z/GAmkiklyAOBG05zMcRLNA="),
        ])
    func digests(_ text: String, _ digest: String) {
        let bytes = text == "a million" ? [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000) : Array(text.utf8)
        var whole = SHA256()
        whole.update(bytes)
        #expect(whole.base64() == digest)
        var parts = SHA256()
        for begin in stride(from: 0, to: bytes.count, by: 13) { parts.update(bytes[begin..<min(begin + 13, bytes.count)]) }
        #expect(parts.base64() == digest)
    }
}
