import HubServer
import NIOCore
import SyncCore
import SyncHTTP
import Testing

/// PROTOCOL G4. Pure, so it is tested without a socket.
@Suite("Admission")
struct AdmissionTests {
    @Test("There is room for pushes when there is none for pulls, and for pulls when there is none for listings")
    func ranks() {
        var admission = Admission(random: SeededRandom(seed: 1))
        func accepts(_ rank: Int) -> Bool {
            var copy = admission
            return copy.admit(rank: rank, bytes: 0, of: "new") == .admitted
        }
        for (count, expected) in [
            (0, [true, true, true]), (127, [true, true, true]), (128, [true, true, false]), (192, [true, false, false]),
            (256, [false, false, false]),
        ] {
            while admission.requests < count { _ = admission.admit(rank: 0, bytes: 0, of: Self.device(admission.requests)) }
            #expect([0, 1, 2].map(accepts) == expected, "\(count) requests")
        }
        admission.release(bytes: 0, of: Self.device(0))
        #expect(accepts(0))
    }

    @Test("Bodies have a limit together, but one alone always fits")
    func bytes() {
        var admission = Admission(random: SeededRandom(seed: 1))
        #expect(admission.admit(rank: 2, bytes: 200 << 20, of: "gw-1") == .admitted)
        guard case .refused = admission.admit(rank: 0, bytes: 1, of: "gw-2") else {
            Issue.record("admitted")
            return
        }
        admission.release(bytes: 200 << 20, of: "gw-1")
        #expect(admission.admit(rank: 0, bytes: 1, of: "gw-2") == .admitted)
    }

    @Test("A refused client is told when to come again, and not all get the same time")
    func waits() {
        var admission = Admission(random: SeededRandom(seed: 1))
        for number in 0..<256 { _ = admission.admit(rank: 0, bytes: 0, of: Self.device(number)) }
        func seconds() -> Int {
            if case .refused(let seconds) = admission.admit(rank: 0, bytes: 0, of: "new") { seconds } else { -1 }
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

    @Test("One device has 16 places and 32 MiB of bodies, and a body of any size alone; what it is refused, others get")
    func oneDevice() {
        var admission = Admission(random: SeededRandom(seed: 1))
        func isRefused(_ device: DeviceID, bytes: Int = 0) -> Bool {
            var copy = admission
            if case .deviceRefused(let seconds) = copy.admit(rank: 0, bytes: bytes, of: device) { return (1...300).contains(seconds) }
            return false
        }
        for _ in 0..<16 { #expect(admission.admit(rank: 2, bytes: 0, of: "gw-1") == .admitted) }
        #expect(isRefused("gw-1") && !isRefused("gw-2"))
        admission.release(bytes: 0, of: "gw-1")
        #expect(!isRefused("gw-1"))
        for _ in 0..<8 { #expect(admission.admit(rank: 0, bytes: 4 << 20, of: "gw-2") == .admitted) }
        #expect(isRefused("gw-2", bytes: 1) && !isRefused("gw-2") && !isRefused("gw-3", bytes: 40 << 20))
        for _ in 0..<8 { admission.release(bytes: 4 << 20, of: "gw-2") }
        #expect(!isRefused("gw-2", bytes: 40 << 20))
    }

    /// Sixteen requests each.
    private static func device(_ number: Int) -> DeviceID { DeviceID(trusted: "gw-\(number / 16)") }

    @Test("Attempts that fail are limited for an address, then for all; others still have theirs, and time gives them back")
    func attempts() {
        let start = NIODeadline.uptimeNanoseconds(1 << 40)
        var limit = AttemptLimit(at: start)
        let one = PeerGroup(address: "192.0.2.1")
        let first = (0..<12).map { _ in limit.fail(one, at: start) }
        #expect(first == Array(repeating: true, count: 10) + [false, false])
        let others = [
            limit.fail(PeerGroup(address: "192.0.2.2"), at: start), limit.fail(one, at: start + .milliseconds(1_900)),
            limit.fail(one, at: start + .seconds(4)),
        ]
        #expect(others == [true, false, true])
        // 4,000 addresses: the limit of all.
        let later = start + .seconds(3_600)
        let passed = (0..<4_000).count { limit.fail(PeerGroup(address: "198.51.\($0 / 250).\($0 % 250)"), at: later) }
        #expect(passed == AttemptLimit.allSize)
        let afterASecond = (0..<100).count { limit.fail(PeerGroup(address: "203.0.113.\($0)"), at: later + .seconds(1)) }
        #expect(afterASecond == 20)
    }

    @Test(
        "A body is compressed only for a client that says so",
        arguments: [
            ("gzip", true), ("deflate, gzip", true), ("GZIP;q=0.5", true), ("*", true), ("gzip;q=0", false), ("gzip; q=0.0", false),
            ("br", false),
            ("", false), ("gzipped", false), ("identity, *;q=0", false),
        ])
    func accepts(_ header: String, _ expected: Bool) {
        #expect(ContentCoding.acceptsGzip(header) == expected)
    }
}
