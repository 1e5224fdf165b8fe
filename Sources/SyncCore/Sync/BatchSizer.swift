/// Chooses the size of the next batch, and searches for the one mutation that makes batches fail.
///
/// Batches grow while answers are quick, which saves round trips. Three failures in a row over the same batch, or one clear "it is this
/// request", start the search: with every further failure the batch is halved, down to a single mutation or to one atomic list, which
/// cannot be halved. That unit is set aside, the others continue, and after a few good answers the size grows back. The unit is remembered,
/// so that its next failure needs no search.
package struct BatchSizer: Hashable, Sendable {
    package private(set) var mutations = Limits.batchMutations
    package private(set) var bytes = Limits.batchBytes
    /// The hub's own limits, from its hello.
    private var mutationsMax = Limits.batchMutationsMax
    private var bytesMax = Limits.batchBytesMax
    /// Number of failures in a row over the same oldest mutation.
    private var strikes = 0
    private var suspect: MutationKey?
    /// Number of batches that passed since the search began; `nil` when there is no search.
    private var passed: Int?
    /// Total number of batches that passed.
    private var passedInAll = 0
    /// Mutations that failed alone, or began an atomic list that did, with the number of batches that had passed by then. Bounded:
    /// forgetting one only costs another search.
    private var loners: [MutationKey: Int] = [:]
    private static let lonersMax = 64
    /// The answer to a larger batch was larger than the agent reads, so batches stay small for a while.
    private var answerable: Answerable?
    /// Number of batches after which a larger one is tried again: each trial may cost an answer at the limit.
    private static let answerablePasses = 64

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

    /// - Parameter growing: A larger batch would have been useful if this one had the largest allowed size.
    package mutating func succeeded(_ batch: Batch, after trip: Duration, growing: Bool) {
        strikes = 0
        suspect = nil
        passedInAll += 1
        if let known = answerable, passedInAll >= known.until { answerable = nil }
        if let first = batch.mutations.first, batch.isOneUnit { loners[first.key] = nil }
        if let count = passed {
            // After four good batches in a row, the cause of the failures is out of the way.
            passed = count < 3 ? count + 1 : nil
            if passed == nil { mutations = min(Limits.batchMutations, mutationsMax, answerable?.mutations ?? .max) }
            return
        }
        guard growing, batch.mutations.count >= mutations, trip < .seconds(1) else { return }
        mutations = min(mutations * 2, mutationsMax, answerable?.mutations ?? .max)
        bytes = min(max(bytes * 2, Limits.batchBytes), bytesMax)
    }

    /// Records an error answer or a timeout that this very batch may have caused.
    ///
    /// - Parameters:
    ///   - isCertain: The server's answer was about this request (400, 413), not about its own state.
    ///   - isAnswerTooLarge: Its answer was larger than the agent reads.
    /// - Returns: `true` to try the smaller batch at once; `false` when the usual backoff comes first.
    package mutating func failed(_ batch: Batch, isCertain: Bool, isAnswerTooLarge: Bool = false) -> Bool {
        strikes = suspect == batch.mutations.first?.key ? strikes + 1 : 1
        suspect = batch.mutations.first?.key
        if isPoison(batch) { return false }
        guard isCertain || passed != nil || strikes >= 3 else { return false }
        passed = passed ?? 0
        guard !batch.isOneUnit else { return false }
        mutations = max(1, min(mutations, batch.mutations.count) / 2)
        if isAnswerTooLarge { answerable = Answerable(mutations: mutations, until: passedInAll + Self.answerablePasses) }
        return isCertain || (passed ?? 0) > 0
    }

    /// Returns whether this is the unit that a search was for: alone in its batch, during a search or known from an earlier one.
    package func isPoison(_ batch: Batch) -> Bool {
        guard let first = batch.mutations.first, batch.isOneUnit else { return false }
        return passed != nil || loners[first.key] != nil
    }

    /// Records that a unit is set aside.
    ///
    /// - Returns: `true` when the unit itself was at fault. It was when another batch has passed since it last failed alone, or since the
    ///   search for it began. A hub that fails for everything must not use up the attempts of mutations.
    package mutating func setAside(_ poison: MutationKey) -> Bool {
        let isItsFault = loners[poison].map { $0 < passedInAll } ?? ((passed ?? 0) > 0)
        if loners.count >= Self.lonersMax, loners[poison] == nil, let oldest = loners.min(by: { ($0.value, $0.key) < ($1.value, $1.key) }) {
            loners[oldest.key] = nil
        }
        loners[poison] = passedInAll
        return isItsFault
    }

    private struct Answerable: Hashable, Sendable {
        var mutations: Int
        /// Total number of passed batches at which the limit ends.
        var until: Int
    }
}
