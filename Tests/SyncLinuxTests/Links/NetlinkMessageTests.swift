import SyncCore
import SyncLinux
import Testing

/// Bytes as the kernel sent them on a little-endian machine, piece by piece. On another machine the numbers would be stored
/// the other way round, so these tests build them from numbers.
enum Recorded {
    static func native(_ number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }

    /// An attribute with its padding.
    static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
        let bytes = native(UInt16(4 + value.count)) + native(type) + value
        return bytes + [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4)
    }

    static func message(_ type: UInt16, flags: UInt16 = 2, sequence: UInt32 = 1, _ payload: [UInt8]) -> [UInt8] {
        native(UInt32(16 + payload.count)) + native(type) + native(flags) + native(sequence) + native(UInt32(0)) + payload
    }

    static func text(_ text: String) -> [UInt8] { Array(text.utf8) + [0] }

    /// `ip link add up0 type veth peer name peer0; ip link set up0 up; ip link set peer0 up`, then a dump.
    static let link = message(
        16,  // RTM_NEWLINK, NLM_F_MULTI
        [0, 0]  // AF_UNSPEC
            + native(UInt16(1))  // ARPHRD_ETHER
            + native(Int32(3))  // index
            + native(UInt32(0x1_1043))  // IFF_UP, BROADCAST, RUNNING, MULTICAST, LOWER_UP
            + native(UInt32(0))
            + attribute(3, text("up0"))  // IFLA_IFNAME
            + attribute(16, [6])  // IFLA_OPERSTATE: up
            + attribute(5, native(Int32(2)))  // IFLA_LINK
            + attribute(1, [0x5A, 0x0B, 0x31, 0x20, 0x11, 0x9E])  // IFLA_ADDRESS, made up
            + attribute(10, native(Int32(7)))  // IFLA_MASTER
            + attribute(18, attribute(1, text("veth")) + attribute(4, [])))  // IFLA_LINKINFO: kind, data

    /// `ip addr add 192.0.2.7/24 dev up0`
    static let address = message(
        20,  // RTM_NEWADDR
        [2, 24, 0x80, 0] + native(Int32(3))  // AF_INET, /24, permanent, universe
            + attribute(1, [192, 0, 2, 7])  // IFA_ADDRESS
            + attribute(2, [192, 0, 2, 7])  // IFA_LOCAL
            + attribute(8, native(UInt32(0x80))))  // IFA_FLAGS

    /// `ip route add default via 192.0.2.1 metric 100`
    static let defaultRoute = message(
        24,  // RTM_NEWROUTE
        [2, 0, 0, 0, 254, 3, 0, 1] + native(UInt32(0))  // AF_INET, /0, main, boot, universe, unicast
            + attribute(15, native(UInt32(254)))  // RTA_TABLE
            + attribute(6, native(UInt32(100)))  // RTA_PRIORITY
            + attribute(5, [192, 0, 2, 1])  // RTA_GATEWAY
            + attribute(4, native(Int32(3))))  // RTA_OIF

    /// `ip route add default nexthop dev up0 nexthop dev up1`, the second without carrier.
    static let twoHops = message(
        24,
        [2, 0, 0, 0, 254, 3, 0, 1] + native(UInt32(0))
            + attribute(
                9,  // RTA_MULTIPATH: length, flags, weight, index
                native(UInt16(8)) + [0, 0] + native(Int32(3)) + native(UInt16(8)) + [0x10, 0] + native(Int32(5))))
}

@Suite("Netlink messages")
struct NetlinkMessageTests {
    private func one(_ bytes: [UInt8]) throws -> NetlinkMessage {
        let (messages, isWhole) = NetlinkMessage.all(in: bytes[...])
        #expect(isWhole)
        return try #require(messages.first)
    }

    @Test("A link is read with name, flags, kind, master, lower interface and what its address says")
    func link() throws {
        let facts = try #require(LinkMessage(one(Recorded.link))).facts
        #expect(facts.name == "up0")
        #expect(facts.index == 3)
        #expect(facts.isUp && facts.hasCarrier)
        #expect(facts.hardwareType == 1)
        #expect(facts.infoKind == "veth")
        #expect(facts.masterIndex == 7)
        #expect(facts.lowerIndex == 2)
        #expect(facts.hasMadeUpAddress)
    }

    struct Carrier: Sendable {
        var flags: UInt32
        var state: UInt8?
        var hasCarrier: Bool
    }

    @Test(
        "Carrier is LOWER_UP, not dormant, and an operational state of up or unknown",
        arguments: [
            Carrier(flags: 0x1_0001, state: 6, hasCarrier: true), Carrier(flags: 0x1_0001, state: 0, hasCarrier: true),
            Carrier(flags: 0x1_0001, state: nil, hasCarrier: true), Carrier(flags: 0x1_0001, state: 2, hasCarrier: false),
            Carrier(flags: 0x1_0001, state: 5, hasCarrier: false), Carrier(flags: 0x3_0001, state: 6, hasCarrier: false),
            Carrier(flags: 0x1, state: 6, hasCarrier: false),
        ])
    func carrier(_ example: Carrier) throws {
        let bytes = Recorded.message(
            16,
            [0, 0, 1, 0] + Recorded.native(Int32(3)) + Recorded.native(example.flags) + Recorded.native(UInt32(0))
                + Recorded.attribute(3, Recorded.text("a")) + (example.state.map { Recorded.attribute(16, [$0]) } ?? []))
        #expect(try #require(LinkMessage(one(bytes))).facts.hasCarrier == example.hasCarrier)
    }

    @Test("A lower interface in another namespace is none, and a name that could leave its folder is refused")
    func names() throws {
        func link(_ name: String, _ more: [UInt8] = []) throws -> LinkMessage? {
            LinkMessage(
                try one(
                    Recorded.message(
                        16,
                        [0, 0, 1, 0] + Recorded.native(Int32(3)) + Recorded.native(UInt64(0))
                            + Recorded.attribute(5, Recorded.native(Int32(9))) + Recorded.attribute(3, Recorded.text(name)) + more)))
        }
        #expect(try link("a")?.facts.lowerIndex == 9)
        #expect(try link("a", Recorded.attribute(37, Recorded.native(Int32(0))))?.facts.lowerIndex == 0)
        for name in ["", ".", "..", "a/b", String(repeating: "x", count: 64)] { #expect(try link(name) == nil) }
    }

    struct Address: Sendable {
        var what: String
        var family: UInt8 = 2
        var flags: UInt8 = 0x80
        var scope: UInt8 = 0
        var bytes: [UInt8]
        var text: String?
    }

    @Test(
        "Only addresses that lead beyond the link and are ready for use count",
        arguments: [
            Address(what: "IPv4", bytes: [192, 0, 2, 7], text: "192.0.2.7"),
            Address(what: "IPv6", family: 10, bytes: [0x20, 1, 0xd, 0xb8] + [UInt8](repeating: 0, count: 11) + [1], text: "2001:db8::1"),
            Address(what: "ULA", family: 10, bytes: [0xfd] + [UInt8](repeating: 0, count: 14) + [1], text: "fd00::1"),
            Address(what: "link-local by scope", scope: 253, bytes: [192, 0, 2, 7]),
            Address(what: "host by scope", scope: 254, bytes: [127, 0, 0, 1]),
            Address(what: "IPv4 link-local with the wrong scope", bytes: [169, 254, 3, 4]),
            Address(what: "loopback with the wrong scope", bytes: [127, 0, 0, 1]),
            Address(what: "IPv6 link-local with the wrong scope", family: 10, bytes: [0xfe, 0x80] + [UInt8](repeating: 1, count: 14)),
            Address(what: "tentative", family: 10, flags: 0x40, bytes: [0xfd] + [UInt8](repeating: 1, count: 15)),
            Address(what: "optimistic", family: 10, flags: 0x44, bytes: [0xfd] + [UInt8](repeating: 0, count: 14) + [1], text: "fd00::1"),
            Address(what: "duplicate", family: 10, flags: 0x08, bytes: [0xfd] + [UInt8](repeating: 1, count: 15)),
            Address(what: "of the wrong length", family: 10, bytes: [1, 2, 3, 4]),
            Address(what: "of another family", family: 7, bytes: [1, 2, 3, 4]),
        ])
    func addresses(_ example: Address) throws {
        let bytes = Recorded.message(
            20, [example.family, 24, example.flags, example.scope] + Recorded.native(Int32(3)) + Recorded.attribute(1, example.bytes))
        #expect(AddressMessage(try one(bytes))?.address == example.text, "\(example.what)")
    }

    @Test("The recorded address has its own end of the link")
    func recordedAddress() throws {
        let found = try #require(AddressMessage(one(Recorded.address)))
        #expect(found.index == 3)
        #expect(found.address == "192.0.2.7")
    }

    @Test("A default route has its interfaces that are alive and its metric")
    func routes() throws {
        let route = try #require(RouteMessage(one(Recorded.defaultRoute)))
        #expect(route.prefixLength == 0)
        #expect(route.leadsSomewhere)
        #expect(route.interfaces == [3])
        #expect(route.metric == 100)
        #expect(try #require(RouteMessage(one(Recorded.twoHops))).interfaces == [3])
        // RTN_UNREACHABLE, as IPv6 has it on lo when there is no other route.
        var unreachable = Recorded.defaultRoute
        unreachable[16 + 7] = 7
        #expect(try #require(RouteMessage(one(unreachable))).leadsSomewhere == false)
    }

    @Test("Five hundred interfaces are read, each with its own name; none is none")
    func manyInterfaces() {
        let datagram = (1...500).flatMap { index in
            Recorded.message(
                16,
                [0, 0] + Recorded.native(UInt16(1)) + Recorded.native(Int32(index)) + Recorded.native(UInt32(1))
                    + Recorded.native(UInt32(0))
                    + Recorded.attribute(3, Recorded.text("veth\(index)")))
        }
        let found = NetlinkMessage.all(in: datagram[...])
        #expect(found.isWhole && found.messages.compactMap { LinkMessage($0)?.facts.name } == (1...500).map { "veth\($0)" })
        #expect(NetlinkMessage.all(in: []).messages.isEmpty)
    }

    @Test("Several messages in one datagram are read in order; a cut one ends the reading")
    func several() {
        let datagram = Recorded.link + Recorded.address + Recorded.defaultRoute
        #expect(NetlinkMessage.all(in: datagram[...]).messages.map(\.type) == [16, 20, 24])
        let cut = NetlinkMessage.all(in: datagram.dropLast(1)[...])
        #expect(cut.messages.map(\.type) == [16, 20])
        #expect(!cut.isWhole)
    }

    @Test(
        "A length that cannot be ends the reading",
        arguments: [UInt32(0), 4, 15, 17_000, .max])
    func lengths(_ length: UInt32) {
        let bytes = Recorded.native(length) + Recorded.link.dropFirst(4)
        let (messages, isWhole) = NetlinkMessage.all(in: bytes[...])
        #expect(messages.isEmpty && !isWhole)
    }

    @Test("Errors and the end of a list are told apart from success, also when their number is missing or absurd")
    func errors() throws {
        func number(_ payload: [UInt8]) throws -> Int32? { try one(Recorded.message(2, payload)).errorNumber }
        #expect(try number(Recorded.native(Int32(0))) == 0)
        #expect(try number(Recorded.native(Int32(-101))) == 101)
        #expect(try number(Recorded.native(Int32.min)) == 5)
        #expect(try number(Recorded.native(Int32(7))) == 5)
        #expect(try number([1, 2]) == nil)
    }

    /// Every parser on the same bytes; nothing to check but that each comes back.
    private func readEverything(_ bytes: ArraySlice<UInt8>) -> Int {
        var found = 0
        for message in NetlinkMessage.all(in: bytes).messages {
            for type in [message.type, 16, 20, 24] {
                var message = message
                message.type = type
                if LinkMessage(message) != nil { found += 1 }
                if AddressMessage(message) != nil { found += 1 }
                if RouteMessage(message) != nil { found += 1 }
                _ = message.errorNumber
            }
        }
        return found
    }

    @Test("Every beginning of real messages is read without harm")
    func truncated() {
        let datagram = Recorded.link + Recorded.address + Recorded.defaultRoute + Recorded.twoHops
        var found = 0
        for count in 0...datagram.count { found = readEverything(datagram[..<count]) }
        #expect(found > 4)
        // Each message with every beginning of its payload, the length set right.
        for whole in [Recorded.link, Recorded.address, Recorded.defaultRoute, Recorded.twoHops] {
            for count in 16...whole.count {
                _ = readEverything((Recorded.native(UInt32(count)) + whole[4..<count])[...])
            }
        }
    }

    @Test("Real messages with bytes changed, and noise, are read without harm", arguments: 1...4)
    func hostile(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let originals = [Recorded.link, Recorded.address, Recorded.defaultRoute, Recorded.twoHops]
        var found = 0
        for _ in 0..<4_000 {
            var bytes = originals[Int.random(in: 0..<4, using: &random)]
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                bytes[place] =
                    [0, 1, 3, 4, 5, 0x7F, 0x80, 0xFF, UInt8.random(in: 0...255, using: &random)].randomElement(using: &random) ?? 0
            }
            found += readEverything(bytes[...])
            let noise = (0..<Int.random(in: 0...80, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            found += readEverything(
                (Recorded.native(UInt32(16 + noise.count)) + [16, 0, 2, 0] + [UInt8](repeating: 0, count: 8) + noise)[...])
        }
        #expect(found > 0)
    }
}

@Suite("Pace of readings")
struct RereadPaceTests {
    private func at(_ seconds: Double) -> Instant { Instant(nanoseconds: Int64(seconds * 1_000_000_000)) }

    @Test("Eight readings at once, then one a second, and eight again after a quiet time")
    func pace() {
        var pace = RereadPace(now: at(100))
        var taken = 0
        while pace.take(now: at(100)) == nil { taken += 1 }
        #expect(taken == 8)
        #expect(pace.wait(now: at(100.25)) == .milliseconds(750))
        #expect(pace.take(now: at(101)) == nil)
        #expect(pace.take(now: at(101.5)) == .milliseconds(500))
        taken = 0
        while pace.take(now: at(500)) == nil { taken += 1 }
        #expect(taken == 8)
    }

    @Test("After an error the next reading is a second away")
    func error() {
        var pace = RereadPace(now: at(100))
        pace.empty(now: at(100))
        #expect(pace.take(now: at(100)) == .seconds(1))
        #expect(pace.take(now: at(101)) == nil)
    }
}
