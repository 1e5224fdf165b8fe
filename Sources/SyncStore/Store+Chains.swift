import SyncCore

// How long a chain of dependencies may get. What waits for the first mutation of a chain falls with it and is raised with it, all
// of it in one transaction; so there is a bound, and whoever reaches it is told.
//
// The length is estimated from what was remembered at each enqueue: one more than the longest chain it depends on. As the front
// of a chain is accepted the true length shrinks, so an estimate beyond the limit is no verdict: then the chain is walked.
// Chains that came about in another way, from an earlier release or by children that were made before their parents, may be
// longer; all work on chains goes through lists, never through calls of calls, so that they stay workable.

/// Estimated lengths of chains, by the mutation at their end. In memory only: what is not known is walked once.
struct ChainLengths {
    private var known: [Int64: Int] = [:]
    /// Some hundred kilobytes. Forgetting them costs one walk.
    private static let max = 4_096

    subscript(seq: Int64) -> Int? { known[seq] }

    mutating func note(_ length: Int, of seq: Int64) {
        if known.count >= Self.max { known.removeAll(keepingCapacity: true) }
        known[seq] = length
    }
}

extension Store {
    /// Mutations that a walk looks at. Where there are more, the chain is taken to be too long.
    static let chainWalk = 4 * Limits.chainLinks

    /// How many mutations would wait one behind the other, the new one included, if it is tied to these.
    ///
    /// - Throws: `.refused` with `validation` when that is more than ``Limits/chainLinks``.
    func chainLength(behind seqs: Set<Int64>, at pointer: String) throws(StoreError) -> Int {
        if let estimated = try estimatedChain(behind: seqs), estimated <= Limits.chainLinks { return estimated }
        if let walked = try walkChains(behind: seqs), walked <= Limits.chainLinks { return walked }
        throw Refusal.validation(
            pointer,
            "it would be the last of more than \(Limits.chainLinks) mutations that wait one behind the other; enqueue it when some of them are accepted")
    }

    /// `nil` when the length of one of them is not known.
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

    /// The same, from the ties themselves; `nil` when there are too many of them.
    private func walkChains(behind seqs: Set<Int64>) throws(StoreError) -> Int? {
        var lengths: [Int64: Int] = [:]
        // Each with those that it waits for and that were not looked at yet.
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
                chains.note(length, of: end.seq)
                if let parent = path.last { lengths[parent.seq] = max(lengths[parent.seq] ?? 1, length + 1) }
            }
        }
        for seq in seqs { longest = max(longest, lengths[seq] ?? 1) }
        return longest + 1
    }
}
