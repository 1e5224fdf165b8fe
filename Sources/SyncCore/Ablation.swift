/// A rule of the protocol that a test build can switch off, so that the simulation can prove it would notice.
///
/// Shipped programs are built without the `ABLATIONS` condition: there ``Ablations/contains(_:)`` is `false` for ever
/// and costs nothing.
package enum Ablation: String, Sendable, CaseIterable {
    /// Every attempt gets a new idempotency key.
    case keyPerAttempt
    /// The cursor is committed before its page.
    case cursorBeforePage
    /// The hub forgets keys that the device acknowledged.
    case keysForgotten
    /// A payload that was sent may still be changed (the agent's database went back and nobody noticed).
    case sentPayloadRewritten
    /// A `duplicate` answer installs the stored record instead of the current one.
    case duplicateReplaysStored
    /// A listing that is complete removes nothing of what it did not contain.
    case sweepSkipped
    /// Tombstones are dropped without raising the horizon.
    case horizonIgnored
    /// The answer to the app leaves before the commit.
    case answerBeforeCommit
    /// A rejection does not take the value out of the mirror again.
    case rollbackSkipped
    /// Work that arrives during a cycle wakes nobody.
    case wakeLost
    /// A restored agent database keeps its replica id.
    case regressionIgnored
    /// A conflict does not keep what both sides had seen.
    case conflictLosesBase
    /// A pull over a field that a person must decide drops the local side.
    case conflictLosesLocal
    /// A second change by the writer of a merged value is no news to it, so it undoes the merge.
    case mergeForgotten
    /// A removal takes an element out of a set that somebody put in meanwhile.
    case removalBeatsAddition
    /// A deletion wins over a change that it has not seen, although changes are to win.
    case unseenDeletionWins
    /// Of two values of a member, the one that arrives last stays, whenever it was written.
    case membersByArrival
    /// A member counts as written when its field was written last.
    case membersByField
    /// What is less than the greatest takes its place.
    case lesserLetThrough
    /// What adds to a count takes its place.
    case countsAsValues
    /// Nobody hears of a deletion that gave way.
    case givingWayUntold
    /// Of edits that become one, all fields count as written with the last of them.
    case joinedStampsLost
    /// A record that was made and deleted before it was sent is nothing, also where the hub has it of others.
    case takenBackUntold
    /// An edit with another deadline goes into the edit before it.
    case deadlinesJoined
    /// What is left of an atomic list goes while a member of it is in conflict.
    case listsTorn
    /// A deletion keeps nothing of its record, so a change that wins over it brings back only what it carries.
    case deletedForgotten
    /// A value that is written again, and is there already, leaves no trace of its time.
    case writtenAgainForgotten
    /// An edit goes into a mutation of its record that may be at the hub already.
    case sentCoalesced
    /// An edit goes into a mutation that waited at the start, although an older copy of the database may have been put back.
    case coalescedInDoubt
    /// The next batch is sent although nobody knows what became of the last.
    case settleSkipped
    /// A link that costs something is used like any other.
    case meteredIgnored
    /// A rejection takes later edits of the record along in what apps see.
    case laterEditsForgotten
    /// What waits for its parent, or for what it names, is sent at once.
    case tiesIgnored
    /// A hub that was restored is taken for the one that it was.
    case epochIgnored
    /// What a restored hub forgot is not offered again.
    case requeueSkipped
    /// Only what is above the highest `seq` that a restored hub knows of is offered again.
    case requeueAboveHighest
    /// The feed goes on where the hub stood at the end of a listing, instead of its beginning.
    case cursorAtEnd
    /// A change is limited, and not what it makes of its document; the hub reads what it stored with the limits of input.
    case storedReadAsInput
    /// Cursors and receipts beyond the hub's history prove nothing to it, and a hub that is behind its own word is believed.
    case proofIgnored
    /// The mark beside the hub's database is not looked at.
    case markIgnored
    /// What a new history has not been offered yet counts as deleted.
    case unofferedIsDeleted
    /// A database that returns after another one of its device has spoken is taken for the present one.
    case returnIgnored
    /// A commit reaches the kernel and not the medium (`synchronous=NORMAL`).
    case commitUnsynced
}

package struct Ablations: Sendable, Hashable {
    #if ABLATIONS
        private var switchedOff: Set<Ablation>

        package init(_ switchedOff: Set<Ablation> = []) {
            self.switchedOff = switchedOff
        }

        package func contains(_ rule: Ablation) -> Bool { switchedOff.contains(rule) }

        /// Of a text such as `answerBeforeCommit,commitUnsynced`; what is no rule is passed over.
        package init(names: String) {
            self.init(Set(names.split(separator: ",").compactMap { Ablation(rawValue: String($0)) }))
        }
    #else
        package init() {}

        @inline(__always)
        package func contains(_ rule: Ablation) -> Bool { false }
    #endif

    package static let none = Ablations()
}
