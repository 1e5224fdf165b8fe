import SyncCore
import SyncLinux
import Testing

@testable import HubServer

/// Bodies that the threads of the connections read before their turn.
@Suite("Bodies read early")
struct BodyReaderTests {
    private let reader = BodyReader(compressor: ZlibCompressor())

    /// A push of one mutation whose body has this many bytes.
    private static func body(of size: Int) -> [UInt8] {
        let body = JSON.object(["mutations": .array([.object(Sent("k-1", .create).json)])]).bytes
        return body + [UInt8](repeating: UInt8(ascii: " "), count: size - body.count)
    }

    private static func request(_ body: [UInt8], coding: String? = nil, at path: String = "/v1/sync/push") -> HubRequest {
        var headers: HTTPHeaders = [:]
        headers["Content-Encoding"] = coding
        return HubRequest("POST", path, headers: headers, body: body)
    }

    private static func gzipped(_ body: [UInt8]) throws -> [UInt8] { try #require(ZlibCompressor().gzip(body)) }

    @Test("A usual push is read, plain and compressed, up to the limit after inflation")
    func usual() throws {
        let largest = Self.body(of: ReadPush.earlyMax)
        for request in [Self.request(largest), Self.request(try Self.gzipped(largest), coding: "gzip")] {
            let push = try #require(reader.earlyPush(in: request))
            #expect(push.bytes == ReadPush.earlyMax)
            #expect(push.items.map(\.key) == ["k-1"])
        }
    }

    @Test("Larger ones, other requests and unknown codings wait for their turn")
    func left() throws {
        let large = Self.body(of: ReadPush.earlyMax + 1)
        #expect(reader.earlyPush(in: Self.request(large)) == nil)
        #expect(reader.earlyPush(in: Self.request(try Self.gzipped(large), coding: "gzip")) == nil)
        #expect(reader.earlyPush(in: Self.request(Self.body(of: 1_000), at: "/v1/sync/pull")) == nil)
        #expect(reader.earlyPush(in: Self.request(Self.body(of: 1_000), coding: "br")) == nil)
        #expect(reader.earlyPush(in: Self.request(Self.body(of: 1_000), coding: "gzip")) == nil)
        #expect(BodyReader(compressor: nil).earlyPush(in: Self.request(try Self.gzipped(Self.body(of: 1_000)), coding: "gzip")) == nil)
        // In its turn such a push is read, or refused with the cause.
        let read = try #require(reader.push(in: Self.request(try Self.gzipped(large), coding: "gzip")))
        #expect(read.items.map(\.key) == ["k-1"])
    }

    @Test("A push that does not read is refused in its turn with the same words")
    func malformed() throws {
        let request = Self.request(Array(#"{"mutations":7}"#.utf8))
        let (early, late) = (try #require(reader.earlyPush(in: request)), try #require(reader.push(in: request)))
        let answers = try [early, late].map { push in
            guard case .failure(let refusal) = push.outcome else { throw ReadAnyway() }
            return try refusal.answer()
        }
        #expect(answers.map(\.status) == [400, 400])
        #expect(answers[0].body == answers[1].body)
    }

    private struct ReadAnyway: Error {}
}
