import Foundation
import Glibc
import SyncLinux
import Testing

@Suite("Ballast")
struct BallastTests {
    private func size(_ path: String) -> Int64? {
        (try? FileManager.default.attributesOfItem(atPath: path)[.size] as? NSNumber)?.int64Value
    }

    @Test("It is made where there is room, given back once, and made again")
    func life() async throws {
        try await withTemporaryDirectory { folder in
            let path = folder + "/ballast"
            let ballast = Ballast(path, bytes: 300_000)
            #expect(!ballast.release(), "there was none yet")
            ballast.restore(freeBytes: 1_599_999, above: 1_000_000)
            #expect(size(path) == nil, "there is too little room")
            ballast.restore(freeBytes: nil, above: 0)
            #expect(size(path) == nil, "the free space is unknown")
            ballast.restore(freeBytes: 1_700_000, above: 1_000_000)
            #expect(size(path) == 300_000)
            // Another start finds it.
            let next = Ballast(path, bytes: 300_000)
            #expect(next.release())
            #expect(size(path) == nil)
            #expect(!next.release())
            next.restore(freeBytes: 1_700_000, above: 1_000_000)
            #expect(size(path) == 300_000)
        }
    }

    @Test("One of another size, or one that was cut off, goes", arguments: [Int64(0), 500_000])
    func otherSize(_ bytes: Int64) async throws {
        try await withTemporaryDirectory { folder in
            let path = folder + "/ballast"
            Ballast(path, bytes: 300_000).restore(freeBytes: .max, above: 0)
            #expect(size(path) == 300_000)
            #expect(!Ballast(path, bytes: bytes).release())
            #expect(size(path) == nil)
        }
    }
}
