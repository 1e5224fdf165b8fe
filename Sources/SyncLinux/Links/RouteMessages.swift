import CSyncLinux
import Glibc
package import SyncCore

/// `RTM_NEWLINK`.
///
/// | offset | size | field of `struct ifinfomsg` (linux/rtnetlink.h) |
/// |---|---|---|
/// | 0 | 1 | family; `AF_BRIDGE` repeats a port as the bridge sees it |
/// | 2 | 2 | `ARPHRD_*` |
/// | 4 | 4 | index |
/// | 8 | 4 | `IFF_*` |
/// | 16 | | attributes `IFLA_*` |
package struct LinkMessage {
    package var facts: LinkFacts

    /// - Returns: `nil` when the message is of another type, or has no usable name.
    package init?(_ message: NetlinkMessage) {
        let payload = message.payload
        guard message.type == UInt16(RTM_NEWLINK), payload.count >= 16, payload.integer(at: 0, as: UInt8.self) == 0,
            let hardwareType = payload.integer(at: 2, as: UInt16.self), let index = payload.integer(at: 4, as: Int32.self),
            let flags = payload.integer(at: 8, as: UInt32.self), index > 0
        else { return nil }
        let attributes = NetlinkAttributes(payload.dropFirst(16))
        // The name becomes part of paths below /sys; the kernel refuses these names too (dev_valid_name).
        guard let name = attributes.text(IFLA_IFNAME), !name.isEmpty, name.utf8.count < 64, name != ".",
            name != "..", !name.utf8.contains(UInt8(ascii: "/"))
        else { return nil }

        facts = LinkFacts(name: name, index: index)
        facts.hardwareType = hardwareType
        facts.isUp = flags & 0x1 != 0  // IFF_UP
        let lowerUp = flags & 0x1_0000 != 0  // IFF_LOWER_UP
        let dormant = flags & 0x2_0000 != 0  // IFF_DORMANT
        // These are IF_OPER_UNKNOWN and IF_OPER_UP: "unknown" must count as usable (operstates.rst).
        let state = attributes.integer(IFLA_OPERSTATE, as: UInt8.self) ?? 0
        facts.hasCarrier = lowerUp && !dormant && (state == 0 || state == 6)
        facts.masterIndex = attributes.integer(IFLA_MASTER, as: Int32.self) ?? 0
        // The other end may be an index of another network namespace, which has no meaning here.
        if attributes.bytes(IFLA_LINK_NETNSID) == nil {
            facts.lowerIndex = attributes.integer(IFLA_LINK, as: Int32.self) ?? 0
        }
        if let kind = attributes.nested(IFLA_LINKINFO)?.text(IFLA_INFO_KIND), !kind.isEmpty {
            facts.infoKind = kind
        }
        if let address = attributes.bytes(IFLA_ADDRESS), address.count == 6, let first = address.first {
            facts.hasMadeUpAddress = first & 0x02 != 0
        }
    }
}

/// `RTM_NEWADDR`.
///
/// | offset | size | field of `struct ifaddrmsg` (linux/if_addr.h) |
/// |---|---|---|
/// | 0 | 1 | family |
/// | 2 | 1 | `IFA_F_*`, the lowest eight |
/// | 3 | 1 | scope |
/// | 4 | 4 | index |
/// | 8 | | attributes `IFA_*` |
package struct AddressMessage: Equatable {
    package var index: Int32
    package var address: String

    /// - Returns: `nil` when the message is of another type, or when its address does not lead beyond the link: link-local, of this host
    ///   only, or not (yet) known to be unique.
    package init?(_ message: NetlinkMessage) {
        let payload = message.payload
        guard message.type == UInt16(RTM_NEWADDR), payload.count >= 8, let family = payload.integer(at: 0, as: UInt8.self),
            let fewFlags = payload.integer(at: 2, as: UInt8.self), let scope = payload.integer(at: 3, as: UInt8.self),
            let index = payload.integer(at: 4, as: Int32.self), index > 0, scope < UInt8(RT_SCOPE_LINK.rawValue)
        else { return nil }
        let attributes = NetlinkAttributes(payload.dropFirst(8))
        let flags = attributes.integer(IFA_FLAGS, as: UInt32.self) ?? UInt32(fewFlags)
        let isTentative = flags & UInt32(IFA_F_TENTATIVE) != 0 && flags & UInt32(IFA_F_OPTIMISTIC) == 0
        guard !isTentative, flags & UInt32(IFA_F_DADFAILED) == 0,
            // On a point-to-point link, IFA_ADDRESS is the other end.
            let bytes = attributes.bytes(IFA_LOCAL) ?? attributes.bytes(IFA_ADDRESS),
            let text = NumericAddress(family: Int32(family), bytes: bytes), !text.staysOnLink
        else { return nil }
        self.index = index
        address = text.text
    }
}

/// `RTM_NEWROUTE` from a dump, from an event, or as the answer to a lookup.
///
/// | offset | size | field of `struct rtmsg` (linux/rtnetlink.h) |
/// |---|---|---|
/// | 0 | 1 | family |
/// | 1 | 1 | length of the destination's prefix; 0 is a default route |
/// | 4 | 1 | table |
/// | 7 | 1 | `RTN_*` |
/// | 8 | 4 | `RTNH_F_*` and `RTM_F_*` |
/// | 12 | | attributes `RTA_*` |
package struct RouteMessage: Equatable {
    package var prefixLength: UInt8
    /// `true` when the route leads to another host or to this one; `false` for unreachable, blackhole, prohibit, …
    package var leadsSomewhere: Bool
    /// Interfaces of the next hops that are alive.
    package var interfaces: [Int32]
    /// Metric of the route, 0 when it has none. The kernel prefers the lowest.
    package var metric: UInt32

    /// - Returns: `nil` when the message is of another type.
    package init?(_ message: NetlinkMessage) {
        let payload = message.payload
        guard message.type == UInt16(RTM_NEWROUTE) || message.type == UInt16(RTM_DELROUTE), payload.count >= 12,
            let prefixLength = payload.integer(at: 1, as: UInt8.self), let type = payload.integer(at: 7, as: UInt8.self),
            let flags = payload.integer(at: 8, as: UInt32.self)
        else { return nil }
        self.prefixLength = prefixLength
        leadsSomewhere = type == UInt8(RTN_UNICAST) || type == UInt8(RTN_LOCAL)
        let attributes = NetlinkAttributes(payload.dropFirst(12))
        metric = attributes.integer(Int(RTA_PRIORITY.rawValue), as: UInt32.self) ?? 0
        interfaces = []
        if let index = attributes.integer(Int(RTA_OIF.rawValue), as: Int32.self), Self.isAlive(flags) {
            interfaces = [index]
        } else if let hops = attributes.bytes(Int(RTA_MULTIPATH.rawValue)) {
            interfaces = Self.nextHops(hops)
        }
        interfaces.removeAll { $0 <= 0 }
    }

    /// Parses a row of `struct rtnexthop`: length (2 bytes), flags (1), weight (1), index (4), attributes; padded to 4 bytes.
    private static func nextHops(_ bytes: ArraySlice<UInt8>) -> [Int32] {
        var found: [Int32] = []
        var rest = bytes
        while let length = rest.integer(at: 0, as: UInt16.self), let flags = rest.integer(at: 2, as: UInt8.self),
            let index = rest.integer(at: 4, as: Int32.self), length >= 8, Int(length) <= rest.count
        {
            if isAlive(UInt32(flags)) { found.append(index) }
            rest = rest.dropFirst((Int(length) + 3) & ~3)
        }
        return found
    }

    private static func isAlive(_ flags: UInt32) -> Bool {
        flags & UInt32(RTNH_F_DEAD | RTNH_F_LINKDOWN) == 0
    }
}

/// An IP address as bytes and as text.
struct NumericAddress: Hashable {
    let family: Int32
    let bytes: [UInt8]

    init?(family: Int32, bytes: ArraySlice<UInt8>) {
        guard (family == AF_INET && bytes.count == 4) || (family == AF_INET6 && bytes.count == 16) else { return nil }
        self.family = family
        self.bytes = Array(bytes)
    }

    /// - Returns: `nil` when the text is not exactly one address, as inet_pton(3) reads it: no zone, no brackets.
    init?(_ text: String) {
        var room = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &room) == 1 {
            self.init(family: AF_INET, bytes: room[..<4])
        } else if inet_pton(AF_INET6, text, &room) == 1 {
            self.init(family: AF_INET6, bytes: room[...])
        } else {
            return nil
        }
    }

    var text: String {
        var room = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard inet_ntop(family, bytes, &room, socklen_t(room.count)) != nil else { return "" }
        return String(decoding: room.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// `true` for 169.254.0.0/16, 127.0.0.0/8, fe80::/10, ::1 and the unspecified addresses, whatever their configured scope.
    var staysOnLink: Bool {
        if family == AF_INET { return bytes[0] == 127 || bytes[0] == 0 || (bytes[0] == 169 && bytes[1] == 254) }
        let isTiny = bytes[..<15].allSatisfy { $0 == 0 } && bytes[15] <= 1
        return isTiny || (bytes[0] == 0xFE && bytes[1] & 0xC0 == 0x80)
    }
}
