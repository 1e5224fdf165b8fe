import Foundation
import Glibc
import SyncCore
import SyncLinux
import Testing

@Suite("zlib")
struct ZlibCompressorTests {
    @Test(
        "The compressor round-trips data that gzip shrinks, and leaves other data alone",
        arguments: [0, 1, 2, 20, 1_000, 100_000, 3_000_000])
    func compressorRoundTripsOrLeavesAlone(size: Int) throws {
        let zlib = ZlibCompressor()
        let text = Array(String(repeating: #"{"key":"0192","action":"update","data":{"n":1}},"#, count: size / 48 + 1).utf8.prefix(size))
        if let packed = zlib.gzip(text) {
            #expect(packed.count < text.count)
            #expect(zlib.gunzip(packed, maxBytes: size, maxRatio: 1032) == text)
            #expect(zlib.gunzip(packed, maxBytes: size - 1, maxRatio: 1032) == nil)
            // Nothing of the clock or the machine is in it: equal input, equal output.
            #expect(zlib.gzip(text) == packed)
        } else {
            #expect(size < 100)
        }
        var random = SeededRandom(seed: UInt64(size))
        let noise = (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) }
        #expect(zlib.gzip(noise) == nil)
    }

    @Test(
        "The gzip program opens what we make",
        .enabled(if: access("/usr/bin/gzip", X_OK) == 0 || access("/bin/gzip", X_OK) == 0, "needs gzip"))
    func program() async throws {
        try await withTemporaryDirectory { directory in
            let packed = try #require(ZlibCompressor().gzip(Gzip.text))
            try Data(packed).write(to: URL(fileURLWithPath: directory + "/a.gz"))
            let gzip = Process()
            gzip.executableURL = URL(fileURLWithPath: access("/usr/bin/gzip", X_OK) == 0 ? "/usr/bin/gzip" : "/bin/gzip")
            gzip.arguments = ["-d", directory + "/a.gz"]
            try gzip.run()
            gzip.waitUntilExit()
            #expect(gzip.terminationStatus == 0)
            #expect(try Data(contentsOf: URL(fileURLWithPath: directory + "/a")) == Data(Gzip.text))
        }
    }

    @Test("gunzip takes whole, valid gzip within its limits and nothing else")
    func strict() throws {
        let zlib = ZlibCompressor()
        let packed = try #require(zlib.gzip(Gzip.text))
        func opened(_ bytes: [UInt8], maxRatio: Int = 1032) -> [UInt8]? {
            zlib.gunzip(bytes, maxBytes: 1 << 20, maxRatio: maxRatio)
        }
        #expect(opened(packed) == Gzip.text)
        #expect(opened(packed + packed) == Gzip.text + Gzip.text)
        #expect(opened(packed, maxRatio: Gzip.text.count / packed.count) == nil)
        #expect(opened([]) == nil)
        for end in 0..<packed.count { #expect(opened(Array(packed.prefix(end))) == nil, "cut at \(end)") }
        for extra in [[0], [0x1F], [0x1F, 0x8B], Array(packed.dropLast())] { #expect(opened(packed + extra) == nil) }
        for position in 0..<packed.count {
            var damaged = packed
            damaged[position] ^= 0x40
            // A bit that nothing depends on (the date, padding) may be wrong; the content never is.
            #expect([nil, Gzip.text].contains(opened(damaged)), "byte \(position)")
            if position < 4 || position >= packed.count - 8 { #expect(opened(damaged) == nil, "byte \(position)") }
        }
    }
}
