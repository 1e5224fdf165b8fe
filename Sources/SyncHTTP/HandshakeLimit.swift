package import NIOCore

/// TLS handshakes of callers that have not shown a credential, by address. A handshake costs its server a signature, a hundred
/// times what it costs the client, and comes before anybody knows who asks.
///
/// It counts with the first byte of a connection, and is given back once a credential was shown: devices behind one address do
/// not use it up, however many they are, as long as no more than ``HTTPServerLimits/HandshakeRate/atOnce`` are in the middle of
/// theirs. Beyond the limit the connection is closed before TLS sees a byte.
///
/// So many addresses are remembered; those whose budget is whole again are forgotten first. Of more addresses than that, in the
/// same seconds, the further ones have no limit here: that many are a matter for whoever is in front of the server.
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

    /// The caller of a handshake has shown a credential.
    package mutating func giveBack(_ address: PeerGroup) {
        byAddress[address]?.giveBack()
    }
}
