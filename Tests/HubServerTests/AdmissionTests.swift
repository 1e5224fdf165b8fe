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
            return copy.admit(Admission.Request("new", rank: rank, bytes: 0)) == .admitted
        }
        for (count, expected) in [
            (0, [true, true, true]), (127, [true, true, true]), (128, [true, true, false]), (192, [true, false, false]),
            (256, [false, false, false]),
        ] {
            while admission.requests < count { _ = admission.admit(Admission.Request(Self.device(admission.requests), rank: 0, bytes: 0)) }
            #expect([0, 1, 2].map(accepts) == expected, "\(count) requests")
        }
        admission.release(Admission.Request(Self.device(0), rank: 0, bytes: 0))
        #expect(accepts(0))
    }

    @Test("Bodies have a limit together, but one alone always fits")
    func bytes() {
        var admission = Admission(random: SeededRandom(seed: 1))
        #expect(admission.admit(Admission.Request("gw-1", rank: 2, bytes: 200 << 20)) == .admitted)
        guard case .refused = admission.admit(Admission.Request("gw-2", rank: 0, bytes: 1)) else {
            Issue.record("admitted")
            return
        }
        admission.release(Admission.Request("gw-1", rank: 0, bytes: 200 << 20))
        #expect(admission.admit(Admission.Request("gw-2", rank: 0, bytes: 1)) == .admitted)
    }

    @Test("A refused client is told when to come again, and not all get the same time")
    func waits() {
        var admission = Admission(random: SeededRandom(seed: 1))
        for number in 0..<256 { _ = admission.admit(Admission.Request(Self.device(number), rank: 0, bytes: 0)) }
        func seconds() -> Int {
            if case .refused(let seconds) = admission.admit(Admission.Request("new", rank: 0, bytes: 0)) { seconds } else { -1 }
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
            if case .deviceRefused(let seconds) = copy.admit(Admission.Request(device, rank: 0, bytes: bytes)) {
                return (1...300).contains(seconds)
            }
            return false
        }
        for _ in 0..<16 { #expect(admission.admit(Admission.Request("gw-1", rank: 2, bytes: 0)) == .admitted) }
        #expect(isRefused("gw-1") && !isRefused("gw-2"))
        admission.release(Admission.Request("gw-1", rank: 0, bytes: 0))
        #expect(!isRefused("gw-1"))
        for _ in 0..<8 { #expect(admission.admit(Admission.Request("gw-2", rank: 0, bytes: 4 << 20)) == .admitted) }
        #expect(isRefused("gw-2", bytes: 1) && !isRefused("gw-2") && !isRefused("gw-3", bytes: 40 << 20))
        for _ in 0..<8 { admission.release(Admission.Request("gw-2", rank: 0, bytes: 4 << 20)) }
        #expect(!isRefused("gw-2", bytes: 40 << 20))
    }

    @Test("Pulls that may wait take no place of others, whatever their number, and their bodies have a limit together")
    func patient() {
        var admission = Admission(random: SeededRandom(seed: 1))
        func pull(_ number: Int, bytes: Int) -> Admission.Request {
            Admission.Request(Self.device(number), rank: 1, bytes: bytes, isPatient: true)
        }
        let admitted = (0..<10_000).count { admission.admit(pull($0, bytes: 4 << 10)) == .admitted }
        #expect(admitted == 10_000 && admission.requests == 0)
        let places = (0..<300).count {
            admission.admit(Admission.Request(DeviceID(trusted: "other-\($0)"), rank: 0, bytes: 0)) == .admitted
        }
        #expect(places == 256)
        // Another 6,384 have 64 MiB together with them.
        let more = (20_000..<30_000).count { admission.admit(pull($0, bytes: 4 << 10)) == .admitted }
        #expect(more == (64 << 20) / (4 << 10) - 10_000)
        admission.release(pull(0, bytes: 4 << 10))
        #expect(admission.admit(pull(40_000, bytes: 4 << 10)) == .admitted)
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
