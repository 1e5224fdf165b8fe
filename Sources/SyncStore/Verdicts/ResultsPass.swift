import SyncCore

/// The records that one transaction has touched. Each is folded and written once, at the end.
struct TouchedRecords {
    struct Touched {
        var row: MirrorRow
        /// The view must be computed again from its parts.
        var needsFold = false
        var source = RecordEvent.Source.local
        /// The record has left the share of this device.
        var isRevoked = false
        /// Time at which the hub's content last changed, on the age clock; `nil`: now, if its version is another one.
        var changedAge: Int64?
    }

    /// A conflict in which there is nothing left to decide.
    struct Moot {
        var cid: Int64
        /// Nothing is left to send either.
        var isEmpty: Bool
    }

    /// Conflicts to close when the records are written.
    var moot: [Moot] = []
    /// Records that have left the share of this device: their traces are erased when the records are written.
    var revoked: [Int64] = []
    private(set) var byID: [Int64: Touched] = [:]
    private var order: [Int64] = []

    var inOrder: [Touched] { order.compactMap { byID[$0] } }

    subscript(rid: Int64) -> Touched? {
        get { byID[rid] }
        set {
            if byID[rid] == nil { order.append(rid) }
            byID[rid] = newValue
        }
    }
}

/// Changes that the verdicts of one answer have made so far.
struct ResultsPass {
    var summary = ResultsSummary()
    var records = TouchedRecords()
    /// The records as they were before the first of these verdicts about them.
    var before: [Int64: MirrorRow] = [:]
    /// Events that the hub has accepted; written together at the end.
    var doneEvents: [OutboxRow] = []
    /// Changes that the hub has accepted.
    var accepted: [OutboxRow] = []
    /// Atomic lists with members among the results.
    var groups: Set<ClosedRange<Int64>> = []
    /// Atomic lists whose commit is counted.
    private var counted: Set<ClosedRange<Int64>> = []
    /// Records with a mutation that did not get through. Mutations sent behind it return to the queue.
    var returned: [Int64: Int64] = [:]
    /// Mutations whose record is shown again by the next verdict about that record.
    var shownAgain: Set<Int64> = []
    /// Records that a verdict has shown, or has told to have left the share; `true`: the last of these verdicts tells that it has left.
    var hasLeft: [Int64: Bool] = [:]
    /// Records whose waiting mutations have not been rebased onto the hub's document yet.
    var unmet: [Int64: UnmetRemote] = [:]

    /// Counts the commit of an accepted mutation (``ResultsSummary/commits``). The members of an atomic list share one.
    mutating func countCommit(of row: OutboxRow) {
        if let group = row.group, !counted.insert(group).inserted { return }
        summary.commits += 1
    }
}

/// The hub's document of a record that several verdicts of one answer have shown in turn. Waiting mutations are rebased only onto the last
/// one: there may be many of them, and the versions in between were never shown.
struct UnmetRemote {
    /// The record before the first of these verdicts.
    var before: MirrorRow
    var latest: RemoteSide
    /// The content of the mutations that these verdicts are about. Their values at the hub are no news.
    var own: [MutationContent]
}
