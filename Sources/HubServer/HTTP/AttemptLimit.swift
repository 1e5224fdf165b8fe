package import NIOCore
package import SyncHTTP

/// Limits attempts with an unknown credential, per address and in total. Known credentials are never delayed by it.
package struct AttemptLimit: Sendable {
    private var all: RateBudget
    private var byAddress: [PeerGroup: RateBudget] = [:]

    /// Per address: 10 at once, then one every two seconds. In total: 200 at once, then 20 a second.
    package static let addressSize = 10
    package static let addressPerSecond = 0.5
    package static let allSize = 200
    package static let allPerSecond = 20.0
    /// Number of addresses that are remembered. Beyond it only the total limit applies.
    package static let addressesMax = 1_024

    package init(at now: NIODeadline) {
        all = RateBudget(size: Self.allSize, perSecond: Self.allPerSecond, at: now)
    }

    /// Counts a failed attempt.
    ///
    /// - Returns: `false` when there were too many.
    package mutating func fail(_ address: PeerGroup, at now: NIODeadline) -> Bool {
        if byAddress.count >= Self.addressesMax, byAddress[address] == nil {
            byAddress = byAddress.filter { !$0.value.isWhole(at: now) }
        }
        var own = byAddress[address] ?? RateBudget(size: Self.addressSize, perSecond: Self.addressPerSecond, at: now)
        let isOwn = own.spend(at: now)
        if byAddress.count < Self.addressesMax || byAddress[address] != nil { byAddress[address] = own }
        return isOwn && all.spend(at: now)
    }
}
