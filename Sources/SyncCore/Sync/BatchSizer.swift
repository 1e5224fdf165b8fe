/// How large the next batch is, and the search for the one mutation that spoils it.
///
/// Batches grow while answers are quick: fewer round trips. Three failures in a row over the same batch, or one clear "it
/// is this request", start the search: the batch is halved with every further failure down to a single mutation. That one
/// is set aside, the rest flows, and after a few good answers the size grows back.
package struct BatchSizer: Hashable, Sendable {
    package private(set) var mutations = Limits.batchMutations
    package private(set) var bytes = Limits.batchBytes
    /// The hub's own limits, from its hello.
    private var mutationsMax = Limits.batchMutationsMax
    private var bytesMax = Limits.batchBytesMax
    /// Failures in a row over the same oldest mutation.
    private var strikes = 0
    private var suspect: MutationKey?
    /// Batches that passed since the search began; `nil` when nothing is searched.
    private var passed: Int?

    package init() {}

    package mutating func limit(mutations: Int, bytes: Int) {
        mutationsMax = min(max(mutations, 1), Limits.batchMutationsMax)
        // At least one mutation of any size must fit, or it could never be sent.
        bytesMax = min(max(bytes, Limits.mutationBytes), Limits.batchBytesMax)
        self.mutations = min(self.mutations, mutationsMax)
        self.bytes = min(self.bytes, bytesMax)
    }

    package func limits(leastPriority: Priority = .bulk) -> BatchLimits {
        BatchLimits(mutations: mutations, bytes: bytes, leastPriority: leastPriority)
    }

    /// - Parameter isFull: The batch was as large as allowed, so a larger one would have been of use.
    package mutating func succeeded(after trip: Duration, isFull: Bool) {
        strikes = 0
        suspect = nil
        if let count = passed {
            // Four good batches in a row: whatever spoiled the others is out of the way.
            passed = count < 3 ? count + 1 : nil
            if passed == nil { mutations = min(Limits.batchMutations, mutationsMax) }
            return
        }
        guard isFull, trip < .seconds(1) else { return }
        mutations = min(mutations * 2, mutationsMax)
        bytes = min(max(bytes * 2, Limits.batchBytes), bytesMax)
    }

    /// An answer or a time-out that this very batch may have caused.
    ///
    /// - Parameter isCertain: The server spoke about this request (400, 413), not about its own state.
    /// - Returns: Whether to try the smaller batch at once; otherwise the usual backoff comes first.
    package mutating func failed(_ batch: Batch, isCertain: Bool) -> Bool {
        strikes = suspect == batch.mutations.first?.key ? strikes + 1 : 1
        suspect = batch.mutations.first?.key
        guard isCertain || passed != nil || strikes >= 3 else { return false }
        passed = passed ?? 0
        guard batch.mutations.count > 1 else { return false }
        mutations = max(1, min(mutations, batch.mutations.count) / 2)
        return isCertain || othersPass
    }

    /// Whether the hub took other batches since the search began: then the fault is in the batch, not in the hub.
    package var othersPass: Bool { (passed ?? 0) > 0 }

    /// Whether this is the one that the search was for.
    package func isPoison(_ batch: Batch) -> Bool {
        passed != nil && batch.mutations.count == 1
    }
}
