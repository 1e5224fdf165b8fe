import Foundation
import SyncCore
import SyncLinux
import Testing

@Suite("Any HTTP transport, with encoded answers")
struct TransportGzipTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var fields: [String] = ["Content-Encoding: gzip"]
        var body: [UInt8]
        /// `nil`: the body is accepted.
        var code: TransportError.Code?
        var decoded: [UInt8] = []
        var acceptsGzip = true
        var maxBytes = 1 << 20
        var maxRatio = 1000
    }

    static let packed = Gzip.compressed(Gzip.text)

    static let rows = [
        Row(testDescription: "gzip", body: packed, decoded: Gzip.text),
        Row(testDescription: "x-gzip, which is the same", fields: ["Content-Encoding: X-GZIP"], body: packed, decoded: Gzip.text),
        Row(testDescription: "two members", body: packed + Gzip.stored([1, 2, 3]), decoded: Gzip.text + [1, 2, 3]),
        Row(testDescription: "empty content", body: Gzip.stored([]), decoded: []),
        Row(testDescription: "not encoded after all", fields: [], body: Gzip.text, decoded: Gzip.text),
        Row(testDescription: "identity", fields: ["Content-Encoding: identity"], body: Gzip.text, decoded: Gzip.text),
        Row(testDescription: "exactly the limit", body: packed, decoded: Gzip.text, maxBytes: Gzip.text.count),
        Row(testDescription: "one byte over the limit", body: packed, code: .tooLarge, maxBytes: Gzip.text.count - 1),
        Row(testDescription: "over the ratio", body: packed, code: .tooLarge, maxRatio: 20),
        Row(testDescription: "a bomb", body: Gzip.compressed([UInt8](repeating: 0, count: 50 << 20)), code: .tooLarge, maxBytes: .max),
        Row(
            testDescription: "a bomb under the ratio", body: Gzip.compressed([UInt8](repeating: 0, count: 50 << 20)), code: .tooLarge,
            maxRatio: .max),
        Row(testDescription: "cut before the checksum", body: Array(packed.dropLast(8)), code: .malformed),
        Row(testDescription: "cut by one byte", body: Array(packed.dropLast()), code: .malformed),
        Row(testDescription: "cut in its header", body: Array(packed.prefix(5)), code: .malformed),
        Row(testDescription: "nothing at all", body: [], code: .malformed),
        Row(testDescription: "wrong checksum", body: packed.dropLast(8) + [9, 9, 9, 9] + packed.suffix(4), code: .malformed),
        Row(testDescription: "wrong size", body: packed.dropLast(1) + [77], code: .malformed),
        Row(testDescription: "bytes after the end", body: packed + [0], code: .malformed),
        Row(testDescription: "plain text in truth", body: Gzip.text, code: .malformed),
        Row(testDescription: "not asked for", body: packed, code: .malformed, acceptsGzip: false),
        Row(testDescription: "twice", fields: ["Content-Encoding: gzip, gzip"], body: Gzip.stored(packed), code: .malformed),
        Row(
            testDescription: "twice, in two fields", fields: ["Content-Encoding: gzip", "Content-Encoding: gzip"],
            body: Gzip.stored(packed), code: .malformed),
        Row(testDescription: "brotli", fields: ["Content-Encoding: br"], body: packed, code: .malformed),
        Row(testDescription: "deflate", fields: ["Content-Encoding: deflate"], body: packed, code: .malformed),
        Row(testDescription: "as transfer coding", fields: ["Transfer-Encoding: gzip"], body: packed, code: .malformed),
    ]

    @Test("gzip is decoded within limits when it was asked for, and nothing else is accepted", arguments: TransportCase.all, rows)
    func decodes(_ transport: TransportCase, _ row: Row) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            if row.fields == ["Transfer-Encoding: gzip"] {
                connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nConnection: close\r\n\r\n".bytes + row.body)
            } else {
                connection.answer("200 OK", row.fields, row.body)
            }
        }
        defer { server.stop() }
        let request = server.request {
            $0.acceptsGzip = row.acceptsGzip
            $0.maxResponseBytes = row.maxBytes
            $0.maxInflateRatio = row.maxRatio
        }
        let transport = try transport.make()
        if let code = row.code {
            let error = try await transport.failure(request)
            #expect(error.code == code, "\(error)")
        } else {
            let response = try await transport.send(request)
            #expect(response.body == row.decoded)
        }
        #expect(server.allRequests.first?.value("Accept-Encoding") == (row.acceptsGzip ? "gzip" : nil))
    }

    @Test("It does not matter how the network cuts gzip into pieces", arguments: TransportCase.all)
    func pieces(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n")
            for byte in Self.packed + Self.packed { connection.send([49, 13, 10, byte, 13, 10]) }
            connection.send("0\r\n\r\n")
        }
        defer { server.stop() }
        let response = try await transport.make().send(server.request { $0.acceptsGzip = true })
        #expect(response.body == Gzip.text + Gzip.text)
    }
}
