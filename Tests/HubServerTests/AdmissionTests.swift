import HubServer
import SyncCore
import Testing

/// PROTOCOL G4. Pure, so it is tested without a socket.
@Suite("Admission")
struct AdmissionTests {
    @Test("There is room for pushes when there is none for pulls, and for pulls when there is none for listings")
    func ranks() {
        var admission = Admission(random: SeededRandom(seed: 1))
        func accepts(_ rank: Int) -> Bool {
            var copy = admission
            return copy.take(rank: rank, bytes: 0) == .admitted
        }
        for (count, expected) in [(0, [true, true, true]), (127, [true, true, true]), (128, [true, true, false]), (192, [true, false, false]), (256, [false, false, false])] {
            while admission.requests < count { _ = admission.take(rank: 0, bytes: 0) }
            #expect([0, 1, 2].map(accepts) == expected, "\(count) requests")
        }
        admission.release(bytes: 0)
        #expect(accepts(0))
    }

    @Test("Bodies have a limit together, but one alone always fits")
    func bytes() {
        var admission = Admission(random: SeededRandom(seed: 1))
        #expect(admission.take(rank: 2, bytes: 200 << 20) == .admitted)
        guard case .refused = admission.take(rank: 0, bytes: 1) else {
            Issue.record("admitted")
            return
        }
        admission.release(bytes: 200 << 20)
        #expect(admission.take(rank: 0, bytes: 1) == .admitted)
    }

    @Test("Who is refused hears when its turn may come, and not all hear the same")
    func waits() {
        var admission = Admission(random: SeededRandom(seed: 1))
        for _ in 0..<256 { _ = admission.take(rank: 0, bytes: 0) }
        func seconds() -> Int {
            if case .refused(let seconds) = admission.take(rank: 0, bytes: 0) { seconds } else { -1 }
        }
        // 256 waiting at 200 a second: 2 s, and up to 10 on top.
        let quick = (0..<200).map { _ in seconds() }
        #expect(quick.min() == 2 && quick.max() == 11 && Set(quick).count == 10)
        // A slow disk: 10 a second.
        for _ in 0..<200 { admission.served(50, in: .seconds(5)) }
        let slow = (0..<200).map { _ in seconds() }
        #expect(slow.min() == 26 && slow.max() == 35)
        for _ in 0..<200 { admission.served(1, in: .seconds(1_000)) }
        #expect((0..<200).map { _ in seconds() }.max() == 300)
        #expect(admission.requests == 256)
    }

    @Test("A body is compressed only for a client that says so", arguments: [
        ("gzip", true), ("deflate, gzip", true), ("GZIP;q=0.5", true), ("*", true), ("gzip;q=0", false), ("gzip; q=0.0", false), ("br", false),
        ("", false), ("gzipped", false), ("identity, *;q=0", false),
    ])
    func accepts(_ header: String, _ expected: Bool) {
        #expect(ContentCoding.acceptsGzip(header) == expected)
    }
}
