import Glibc

/// The callers whose connections are counted together.
///
/// - A user of a Unix socket. A peer without credentials counts as the kernel's overflow user.
/// - An IPv4 address, also in the form `::ffff:192.0.2.1`.
/// - An IPv6 network of 64 bits: the smallest that one subscriber gets (RFC 6177), so single addresses cost nothing.
package enum PeerGroup: Hashable, Sendable {
    case user(UInt32)
    case network(high: UInt64, low: UInt64)

    package static let overflowUser: UInt32 = 65_534

    init(_ peer: HTTPPeer) {
        switch peer {
        case .local(let local): self = .user(local.uid)
        case .remote(let address, _, _): self = PeerGroup(address: address)
        case .unknown: self = .user(Self.overflowUser)
        }
    }

    /// - Parameter address: In the form of inet_ntop(3). All unreadable addresses are one group.
    package init(address: String) {
        // In network order: struct in_addr (4 bytes) and struct in6_addr (16 bytes), inet_pton(3).
        var bytes = [UInt8](repeating: 0, count: 16)
        func number(_ part: ArraySlice<UInt8>) -> UInt64 { part.reduce(0) { $0 << 8 | UInt64($1) } }
        if inet_pton(AF_INET, address, &bytes) == 1 {
            self = .network(high: 0, low: Self.mapped | number(bytes[0..<4]))
            return
        }
        // A link-local address may name its interface.
        guard inet_pton(AF_INET6, String(address.prefix { $0 != "%" }), &bytes) == 1 else {
            self = .network(high: 0, low: 0)
            return
        }
        let (high, low) = (number(bytes[0..<8]), number(bytes[8..<16]))
        self = high == 0 && low >> 32 == Self.mapped >> 32 ? .network(high: 0, low: low) : .network(high: high, low: 0)
    }

    fileprivate static let mapped: UInt64 = 0x0000_FFFF_0000_0000
}

extension HTTPPeer {
    /// The group that the peer is counted with.
    package var group: PeerGroup { PeerGroup(self) }
}
