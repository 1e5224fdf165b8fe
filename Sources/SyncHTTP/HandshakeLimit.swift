package import NIOCore

/// Limits TLS handshakes of unauthenticated callers, by address. A handshake costs its server a signature, a hundred times the client's
/// cost, and comes before the caller is known.
///
/// It counts with the first byte of a connection, and is given back once a credential was shown. Devices behind one address therefore do
/// not use it up, however many they are, as long as at most ``HTTPServerLimits/HandshakeRate/atOnce`` of them are in the middle of theirs.
/// Beyond the limit the connection is closed before TLS sees a byte.
///
/// A limited number of addresses is remembered; those with a full budget are forgotten first. If more addresses come within the same
/// seconds, the further ones have no limit here: such a flood must be handled in front of the server.
package struct HandshakeLimit: Sendable {
    private let rate: HTTPServerLimits.HandshakeRate
    private var byAddress: [PeerGroup: RateBudget] = [:]
    package static let addressesMax = 8_192

    package init(_ rate: HTTPServerLimits.HandshakeRate) {
        self.rate = rate
    }

    /// - Returns: `false` when the address has begun too many.
    package mutating func begin(_ address: PeerGroup, at now: NIODeadline) -> Bool {
        if byAddress[address] == nil, byAddress.count >= Self.addressesMax {
            byAddress = byAddress.filter { !$0.value.isWhole(at: now) }
            if byAddress.count >= Self.addressesMax { return true }
        }
        return byAddress[address, default: RateBudget(size: rate.atOnce, perSecond: rate.perSecond, at: now)].spend(at: now)
    }

    /// Gives back the handshake of a caller that has shown a credential.
    package mutating func giveBack(_ address: PeerGroup) {
        byAddress[address]?.giveBack()
    }
}
