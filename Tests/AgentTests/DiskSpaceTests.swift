import Agent
import SyncCore
import Testing

@Suite("The room on the disk")
struct DiskSpaceTests {
    private let start = Instant(nanoseconds: 5)

    @Test("Free space is measured once a second at most, and at once after the disk was full")
    func measuredOnceASecond() {
        var space = DiskSpace()
        let isDue = [Duration.zero, .milliseconds(999), .seconds(1), .milliseconds(1_500)].map { after in
            space.measure(at: start.advanced(by: after)) != nil
        }
        #expect(isDue == [true, false, true, false])
        space.wasFull(free: nil, reserve: 0, at: start.advanced(by: .milliseconds(1_600)))
        let again = space.measure(at: start.advanced(by: .milliseconds(1_600)))
        #expect(again?.restoresBallast == true)
    }

    struct Case: Sendable {
        var free: Int64?
        var isQuota: Bool
    }

    @Test(
        "A full disk whose file system has more than the reserve has met a quota, until a mutation is accepted",
        arguments: [Case(free: nil, isQuota: false), Case(free: 99, isQuota: false), Case(free: 100, isQuota: true)])
    func quota(_ example: Case) {
        var space = DiskSpace()
        space.wasFull(free: example.free, reserve: 100, at: start)
        #expect(space.isQuotaUsedUp == example.isQuota)
        space.accepted()
        #expect(!space.isQuotaUsedUp)
    }

    @Test("Under a quota the reserved space is not restored for five minutes, also when mutations are accepted again")
    func ballast() {
        var space = DiskSpace()
        space.wasFull(free: 100, reserve: 100, at: start)
        space.accepted()
        let restores = [Duration.zero, .seconds(299), .seconds(300)].map { after in
            space.measure(at: start.advanced(by: after))?.restoresBallast
        }
        #expect(restores == [false, false, true])
    }
}
