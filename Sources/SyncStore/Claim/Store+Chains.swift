import SyncCore

// Limits the length of a chain of dependencies. Mutations that wait for the first one of a chain are rejected and raised with it, in one
// transaction. So there is a limit, and a request that exceeds it is refused.
//
// The length is estimated from the values remembered at each enqueue: one more than the longest chain that the mutation depends on. When
// the front of a chain is accepted, its true length shrinks, so an estimate beyond the limit decides nothing: then the chain is walked.
// Chains from an earlier release, or with children that were made before their parents, may be longer. All work on chains uses lists and no
// recursion, so that they stay workable.

/// Estimated lengths of chains, by the mutation at their end. They are in memory only: an unknown length costs one walk.
struct ChainLengths {
    private var known: [Int64: Int] = [:]
    /// Largest number of entries, some hundred kilobytes. Forgetting them costs one walk.
    private static let max = 4_096

    subscript(seq: Int64) -> Int? { known[seq] }

    mutating func record(_ length: Int, of seq: Int64) {
        if known.count >= Self.max { known.removeAll(keepingCapacity: true) }
        known[seq] = length
    }
}

extension Store {
    /// Largest number of mutations that a walk visits. Beyond that, the chain counts as too long.
    static let chainWalk = 4 * Limits.chainLinks

    /// Length of the chain behind these mutations, including the new one that is tied to them.
    ///
    /// - Throws: `.refused` with `validation` when it is longer than ``Limits/chainLinks``.
    func chainLength(behind seqs: Set<Int64>, at pointer: String) throws(StoreError) -> Int {
        if let estimated = try estimatedChain(behind: seqs), estimated <= Limits.chainLinks { return estimated }
        if let walked = try walkChains(behind: seqs), walked <= Limits.chainLinks { return walked }
        throw StoreProblem.validation(
            pointer,
            "it would be the last of more than \(Limits.chainLinks) mutations that wait one behind the other; enqueue it when some of "
                + "them are accepted")
    }

    /// The estimated length; `nil` when one of the lengths is not known.
    private func estimatedChain(behind seqs: Set<Int64>) throws(StoreError) -> Int? {
        var longest = 1
        for seq in seqs {
            if let length = chains[seq] {
                longest = max(longest, length + 1)
            } else if try isTied(seq) {
                return nil
            } else {
                longest = max(longest, 2)
            }
        }
        return longest
    }

    /// The length from the ties themselves; `nil` when there are too many of them.
    private func walkChains(behind seqs: Set<Int64>) throws(StoreError) -> Int? {
        var lengths: [Int64: Int] = [:]
        // Mutations with the ones they wait for that were not visited yet.
        var path: [(seq: Int64, rest: [Int64])] = []
        var onPath: Set<Int64> = []
        var longest = 0
        for start in seqs where lengths[start] == nil {
            path.append((start, try ties(of: start)))
            onPath.insert(start)
            while let end = path.last {
                guard path.count <= Limits.chainLinks, lengths.count <= Self.chainWalk else { return nil }
                if let next = end.rest.last {
                    path[path.count - 1].rest.removeLast()
                    if let length = lengths[next] {
                        lengths[end.seq] = max(lengths[end.seq] ?? 1, length + 1)
                    } else if onPath.insert(next).inserted {
                        path.append((next, try ties(of: next)))
                    }
                    continue
                }
                path.removeLast()
                onPath.remove(end.seq)
                let length = lengths[end.seq] ?? 1
                lengths[end.seq] = length
                chains.record(length, of: end.seq)
                if let parent = path.last { lengths[parent.seq] = max(lengths[parent.seq] ?? 1, length + 1) }
            }
        }
        for seq in seqs { longest = max(longest, lengths[seq] ?? 1) }
        return longest + 1
    }
}
