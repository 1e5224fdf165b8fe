package import SyncCore

/// Callers that wait until the hub has decided about a mutation.
package struct MutationWaiters<Caller> {
    private var waiters: [MutationKey: [(number: UInt64, caller: Caller)]] = [:]
    private var lastNumber: UInt64 = 0

    package init() {}

    package var isEmpty: Bool { waiters.isEmpty }
    /// The mutations that callers wait for.
    package var keys: [MutationKey] { Array(waiters.keys) }

    /// - Returns: The number of the next caller, for ``add(_:_:for:)`` and ``leave(_:_:)``.
    package mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    package mutating func add(_ number: UInt64, _ caller: Caller, for key: MutationKey) {
        waiters[key, default: []].append((number, caller))
    }

    /// - Returns: A caller whose time is up; `nil` when it has its answer.
    package mutating func leave(_ number: UInt64, _ key: MutationKey) -> Caller? {
        guard let index = waiters[key]?.firstIndex(where: { $0.number == number }),
            let waiter = waiters[key]?.remove(at: index)
        else { return nil }
        if waiters[key]?.isEmpty == true { waiters[key] = nil }
        return waiter.caller
    }

    /// - Returns: The callers that get this state as their answer; they no longer wait. None while the hub may still decide.
    package mutating func reached(_ state: MutationState, _ key: MutationKey) -> [Caller] {
        guard state.endsWait else { return [] }
        return (waiters.removeValue(forKey: key) ?? []).map(\.caller)
    }
}

extension MutationState {
    /// The hub has decided, or the mutation needs a person: it does not go on by itself.
    var endsWait: Bool { isTerminal || self == .rejected || self == .failed || self == .held || self == .conflicted }
}
