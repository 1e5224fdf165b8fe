import SyncCore
import Testing

@testable import HubServer

/// How far the database looks for the page of a seed.
@Suite("The pace of a search")
struct SearchPaceTests {
    @Test("Parts grow while they are quick, and all of a page has a largest number of documents")
    func grows() {
        var pace = SearchPace()
        var parts: [Int] = []
        while let bounds = pace.next {
            parts.append(bounds.documents)
            pace.record(documents: bounds.documents, elapsed: .milliseconds(5))
        }
        #expect(parts == [2_000, 20_000] + [Int](repeating: SearchPace.partMax, count: 5) + [78_000])
    }

    @Test("A part that took long makes the next one smaller, and the page ends after some seconds")
    func shrinks() throws {
        var pace = SearchPace()
        pace.record(documents: 2_000, elapsed: .milliseconds(2_500))
        #expect(pace.next == SearchPace.Bounds(documents: 800, bytes: (16 << 20) * 2 / 5))
        pace.record(documents: 800, elapsed: .milliseconds(499))
        let bounds = try #require(pace.next)
        #expect((1_600...1_604).contains(bounds.documents))
        pace.record(documents: 1_600, elapsed: .milliseconds(2_001))
        #expect(pace.next == nil)
    }

    @Test("Bytes stay within their limits, and a part has one document at least")
    func limits() {
        var pace = SearchPace()
        pace.record(documents: 1, elapsed: .milliseconds(2_999))
        #expect(pace.next?.documents == 1)
        for _ in 0..<3 { pace.record(documents: 1, elapsed: .zero) }
        #expect(pace.next == SearchPace.Bounds(documents: 10, bytes: SearchPace.bytesMax))
        for _ in 0..<3 { pace.record(documents: 300, elapsed: .zero) }
        #expect(pace.next == SearchPace.Bounds(documents: 3_000, bytes: SearchPace.bytesMax))
        // It alone took longer than a page.
        pace.record(documents: 3_000, elapsed: .seconds(60))
        #expect(pace.next == nil)
    }

    @Test("A part that ended with its last row says nothing of the size of the next, but its time counts")
    func full() {
        var pace = SearchPace()
        pace.record(documents: nil, elapsed: .seconds(2))
        #expect(pace.next == SearchPace.first)
        pace.record(documents: nil, elapsed: .seconds(3))
        #expect(pace.next == nil)
    }

    /// The time limit of a statement on PostgreSQL is 15 s.
    @Test(
        "Whatever a byte and a document cost, and wherever large documents begin, no part of a server takes more than a third of the limit")
    func parts() {
        var random = SeededRandom(seed: 600)
        for round in 0..<300 {
            let sizes = [(100, 300), (100, 262_144), (10_000, 10_000), (262_144, 262_144), (1_000, 40_000)].randomElement(using: &random)!
            let turn = Int.random(in: 0..<100_000, using: &random)
            // Up to 70 ns a byte (14 MB a second), and 20 µs a document.
            let (perByte, perDocument) = (Double.random(in: 1...70, using: &random), Double.random(in: 500...20_000, using: &random))
            func size(_ place: Int) -> Int { place < turn ? sizes.0 : sizes.1 }
            var pace = SearchPace()
            var (place, total) = (0, 0.0)
            while let bounds = pace.next {
                // As the store cuts it.
                var (count, bytes) = (0, 0)
                while count < bounds.documents, count == 0 || bytes + size(place + count) <= bounds.bytes {
                    bytes += size(place + count)
                    count += 1
                }
                let seconds = (Double(bytes) * perByte + Double(count) * perDocument) / 1e9
                #expect(seconds < 5, "\(round): \(count) documents of \(bytes) bytes after \(place) took \(seconds) s")
                total += seconds
                place += count
                pace.record(documents: count, elapsed: .milliseconds(Int64(seconds * 1_000)))
            }
            #expect(place <= SearchPace.documentsMax && place > 0 && total < 10, "\(round): \(place) documents in \(total) s")
        }
    }
}
