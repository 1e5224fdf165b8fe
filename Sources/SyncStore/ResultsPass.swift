import SyncCore

/// The records that one transaction has touched. Each is folded and written once, at the end.
struct TouchedRecords {
    struct Touched {
        var row: MirrorRow
        /// The view must be computed again from its parts.
        var needsFold = false
        var source = RecordEvent.Source.local
    }

    /// A conflict in which there is nothing left to decide.
    struct Moot {
        var cid: Int64
        /// Nor is there anything left to send.
        var isEmpty: Bool
    }

    /// To be closed when the records are written.
    var moot: [Moot] = []
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

/// What the verdicts of one answer have changed so far.
struct ResultsPass {
    var summary = ResultsSummary()
    var records = TouchedRecords()
    /// Events that the hub has; written together at the end.
    var doneEvents: [OutboxRow] = []
    /// Atomic lists with members among the results.
    var groups: Set<ClosedRange<Int64>> = []
    /// Records with a mutation that did not get through: what was sent behind it goes back.
    var returned: [Int64: Int64] = [:]
    /// Mutations whose record the very next verdict about that record shows again.
    var shownAgain: Set<Int64> = []
    /// Records whose waiting mutations have not met the hub's document yet.
    var unmet: [Int64: UnmetRemote] = [:]
}

/// The hub's document of a record, as several verdicts of one answer have shown it one after the other. What waits behind them
/// meets the last one only: there may be much of it, and what was between was never seen by anybody.
struct UnmetRemote {
    /// The record before the first of them.
    var before: MirrorRow
    var latest: RemoteSide
    /// What the mutations asked for that these verdicts are about: to find that at the hub is no news.
    var own: [MutationContent]
}
