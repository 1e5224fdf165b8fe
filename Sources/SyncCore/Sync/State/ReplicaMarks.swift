/// Identity of this database at the hub, and how far it has gone under it.
struct ReplicaMarks: Hashable, Sendable {
    private(set) var id: ReplicaID
    /// Highest `seq` that this replica has ever handed to the network.
    private(set) var maxSentSeq: Int64 = 0
    /// All results up to this `seq` are durably recorded here.
    private(set) var ackedSeq: Int64 = 0

    init(_ id: ReplicaID, maxSentSeq: Int64 = 0, ackedSeq: Int64 = 0) {
        self.id = id
        self.maxSentSeq = maxSentSeq
        self.ackedSeq = ackedSeq
    }

    /// Records a batch that was committed as sent before this point, so the hub can never have seen more of this replica than this.
    mutating func recordSent(_ batch: Batch) {
        maxSentSeq = max(maxSentSeq, batch.maxSentSeq)
        ackedSeq = max(ackedSeq, batch.ackedSeq)
    }
}
