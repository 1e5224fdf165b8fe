import SyncCore
import Testing

@Suite("Hybrid logical clock")
struct HybridTimeTests {
    private static let node = "9f2c11ab"

    private static func clock(_ milliseconds: UInt64 = 1_000, _ counter: UInt16 = 0) -> HybridClock {
        HybridClock(last: HybridTime(milliseconds: milliseconds, counter: counter, node: node))
    }

    private static func wall(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }

    @Test("The text is 12 and 4 hexadecimal digits and the node, and is read back")
    func text() {
        let time = HybridTime(milliseconds: 0x0199_C3F2_A1B4, counter: 7, node: Self.node)
        #expect(time.description == "0199c3f2a1b4-0007-9f2c11ab")
        #expect(HybridTime(time.description) == time)
    }

    @Test(
        "Anything else is no stamp",
        arguments: [
            "", "0199c3f2a1b4", "0199c3f2a1b4-0007", "0199c3f2a1b4-0007-", "0199c3f2a1b4-0007-123456789",
            "0199c3f2a1b-0007-9f2c11ab", "0199c3f2a1b4-007-9f2c11ab", "0199c3f2a1b4-00007-9f2c11ab",
            "0199c3f2a1bg-0007-9f2c11ab", "+199c3f2a1b4-0007-9f2c11ab", "0199c3f2a1b4-+007-9f2c11ab",
            "0199c3f2a1b4-0007-9f2c11zz", "0199c3f2a1b4-0007-9f2c-1ab", "0199c3f2a1b4 0007 9f2c11ab",
        ])
    func refuses(_ text: String) {
        #expect(HybridTime(text) == nil)
    }

    @Test("Stamps and their texts are in the same order: time, counter, node")
    func order() {
        var random = SeededRandom(seed: 5)
        let stamps = (0..<200).map { _ in
            HybridTime(
                milliseconds: UInt64.random(in: 0...20, using: &random), counter: UInt16.random(in: 0...3, using: &random),
                node: ["00000000", "9f2c11ab", "ffffffff"].randomElement(using: &random) ?? "")
        }
        for left in stamps {
            for right in stamps {
                #expect((left < right) == left.description.utf8.lexicographicallyPrecedes(right.description.utf8))
            }
        }
    }

    @Test("A later wall clock gives its own time and starts the counter anew")
    func ticksWithTheWall() {
        var clock = Self.clock(1_000, 9)
        #expect(clock.tick(now: Self.wall(2_000)) == HybridTime(milliseconds: 2_000, counter: 0, node: Self.node))
        #expect(clock.tick(now: Self.wall(2_000)) == HybridTime(milliseconds: 2_000, counter: 1, node: Self.node))
    }

    @Test("No wall clock, however wrong, makes a stamp that is not later than the one before")
    func neverGoesBack() {
        var random = SeededRandom(seed: 9)
        var clock = Self.clock()
        var last = clock.last
        for _ in 0..<2_000 {
            let wall = Self.wall(
                Bool.random(using: &random)
                    ? Int64.random(in: -5_000...5_000, using: &random) : [.min, -1, 0, 4_000][Int.random(in: 0..<4, using: &random)])
            let next = clock.tick(now: wall)
            #expect(last < next)
            #expect(last.description.utf8.lexicographicallyPrecedes(next.description.utf8))
            last = next
        }
    }

    @Test("A full counter moves the time by one millisecond")
    func counterOverflow() {
        var clock = Self.clock(1_000, .max)
        #expect(clock.tick(now: Self.wall(10)) == HybridTime(milliseconds: 1_001, counter: 0, node: Self.node))
    }

    @Test("After a stamp of another device is seen, the next own one is later than it")
    func observes() {
        for (milliseconds, counter) in [(1_000, 5), (900, 0), (1_200, 0xFFFF), (1_000, 0xFFFF)] as [(UInt64, UInt16)] {
            var clock = Self.clock(1_000, 3)
            let remote = HybridTime(milliseconds: milliseconds, counter: counter, node: "ffffffff")
            let before = clock.last
            clock.observe(remote, now: Self.wall(1_000))
            let next = clock.tick(now: Self.wall(1_000))
            #expect(remote < next)
            #expect(before < next)
        }
    }

    @Test("One insane device moves our clock five minutes ahead and no further")
    func clampsTheFuture() {
        var clock = Self.clock()
        clock.observe(HybridTime(milliseconds: 0xFFFF_FFFF_FFFF, counter: 7, node: "ffffffff"), now: Self.wall(2_000))
        #expect(clock.last == HybridTime(milliseconds: 302_000, counter: 0, node: Self.node))
    }

    @Test("The node is the first 8 digits of the SHA-256 of the device id")
    func node() {
        // sha256("gw-17") by coreutils.
        #expect(HybridClock.node(of: DeviceID(trusted: "gw-17")) == "aa6896c2")
    }
}
