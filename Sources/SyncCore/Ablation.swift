/// A rule of the protocol that a test build can switch off, so that the simulation can prove that it would notice.
///
/// Shipped programs are built without the `ABLATIONS` condition: there ``Ablations/contains(_:)`` is always `false` and costs nothing.
package enum Ablation: String, Sendable, CaseIterable {
    /// Every attempt gets a new idempotency key.
    case keyPerAttempt
    /// The cursor is committed before its page.
    case cursorBeforePage
    /// The hub forgets keys that the device acknowledged.
    case keysForgotten
    /// A sent payload may still be changed (the agent's database went back in time unnoticed).
    case sentPayloadRewritten
    /// A `duplicate` answer installs the stored record instead of the current one.
    case duplicateReplaysStored
    /// A complete listing does not remove the records that it did not contain.
    case sweepSkipped
    /// The version of a record is compared with the hub's head, as if it were a place in the feed.
    case versionsAsPlaces
    /// Tombstones are dropped without raising the horizon.
    case horizonIgnored
    /// The answer to the app leaves before the commit.
    case answerBeforeCommit
    /// A rejection does not remove the value from the mirror.
    case rollbackSkipped
    /// Work that arrives during a cycle causes no wake-up.
    case wakeLost
    /// A restored agent database keeps its replica id.
    case regressionIgnored
    /// A conflict does not keep the base of both sides.
    case conflictLosesBase
    /// A pull over a field that a person must decide drops the local side.
    case conflictLosesLocal
    /// A second change by the writer of a merged value is no news to it, so it undoes the merge.
    case mergeForgotten
    /// A removal removes an element from a set that was added meanwhile.
    case removalBeatsAddition
    /// A deletion wins over a change that it has not seen, although changes should win.
    case unseenDeletionWins
    /// The value of a member that arrives last stays, whenever it was written.
    case membersByArrival
    /// A member counts as written when its field was written last.
    case membersByField
    /// A lesser value replaces the greatest one.
    case lesserLetThrough
    /// An increment replaces the count.
    case countsAsValues
    /// A deletion that gave way is not reported.
    case givingWayUntold
    /// When edits are merged, all fields count as written with the last of them.
    case joinedStampsLost
    /// A record that was made and deleted before it was sent leaves nothing to send, even if the hub has it from others.
    case takenBackUntold
    /// An edit with another deadline is merged into the edit before it.
    case deadlinesJoined
    /// The rest of an atomic list is sent while a member of it is in conflict.
    case listsTorn
    /// A deletion keeps nothing of its record, so a change that wins over it restores only its own content.
    case deletedForgotten
    /// A value that is written again although it is there already leaves no trace of its time.
    case writtenAgainForgotten
    /// An edit is merged into a mutation of its record that may be at the hub already.
    case sentCoalesced
    /// An edit is merged into a mutation that waited at the start, although an older copy of the database may have been put back.
    case coalescedInDoubt
    /// The next batch is sent although the outcome of the last one is unknown.
    case settleSkipped
    /// A metered link is used like any other.
    case meteredIgnored
    /// A rejection removes later edits of the record from the view of apps as well.
    case laterEditsForgotten
    /// A mutation that waits for its parent, or for one that it names, is sent at once.
    case tiesIgnored
    /// A restored hub is treated as unchanged.
    case epochIgnored
    /// Mutations that a restored hub forgot are not offered again.
    case requeueSkipped
    /// Only mutations above the highest `seq` that a restored hub knows are offered again.
    case requeueAboveHighest
    /// The feed continues from the hub's position at the end of a listing, instead of its beginning.
    case cursorAtEnd
    /// The change is limited, and not the resulting document; the hub reads stored documents with the limits of input.
    case storedReadAsInput
    /// Cursors and receipts beyond the hub's history prove nothing to it, and a hub that is behind its own statement is believed.
    case proofIgnored
    /// The mark beside the hub's database is ignored.
    case markIgnored
    /// Mutations that were not offered to a new history yet count as deleted.
    case unofferedIsDeleted
    /// A database that returns after another one of its device was used is treated as the present one.
    case returnIgnored
    /// Every device receives the records of all scopes.
    case scopesIgnored
    /// Every device may change the records of all scopes.
    case rightsIgnored
    /// A change of a device's scopes brings nothing and takes nothing back.
    case scopeChangesIgnored
    /// A scope that a device gains does not bring its past.
    case gainedPastSkipped
    /// A scope that a device loses is not taken back.
    case lostScopesKept
    /// A record that leaves a scope is not taken back.
    case leavingUntold
    /// A device receives what its cursor was made for, whatever it was granted since.
    case cursorsBelieved
    /// The grants of a request are those of the device's request before it.
    case grantsReadBefore
    /// Records grant nothing.
    case grantsOfRecordsIgnored
    /// A device may move a record into any scope, or out of all of them.
    case newStateUnchecked
    /// A verdict shows the present record of others.
    case verdictsUnfiltered
    /// A refusal tells whether there is a record of others.
    case othersTold
    /// A comparison is about the records of all scopes.
    case digestsOfAll
    /// The scopes at the end of a listing are not compared with what it has not shown.
    case toldScopesIgnored
    /// Unsent work is dropped with the record that leaves the share.
    case revokedWorkDropped
    /// The hub merges a change as it was written, and not in the present version of its schema.
    case changesUnlifted
    /// Changes that wait on a device stay as they were when the settings name another version of their schema.
    case openWorkUnlifted
    /// The hub's documents on a device stay as they were when the settings name another version of their schema.
    case basesUnlifted
    /// A change that was converted after it may have been sent does not say what it was.
    case firstFormForgotten
    /// Documents that were taken in an older version than the hub's are not fetched again after the next conversion.
    case loweredForgotten
    /// A cycle goes on with documents of the former version of their schema.
    case newSchemasUnseen
    /// The hub shows a device its documents in the present version, whatever version the device reads.
    case documentsUnlowered
    /// An app reads the documents as they are stored, whatever version it speaks.
    case appsShownStored
    /// A record is judged by the newest form, and not by the version of it that the record names.
    case formsByNewest
    /// The hub does not judge by forms.
    case formsUnjudged
    /// A commit reaches the kernel and not the medium (`synchronous=NORMAL`).
    case commitUnsynced
    /// The scopes of a group are granted to none of its devices.
    case groupsIgnored
    /// A device drops documents whatever the rule says of their fields.
    case keepIgnored
    /// A device drops the document of a record that has open work.
    case openWorkDropped
    /// A comparison leaves out the records whose documents the device has dropped.
    case stubsUncounted
    /// A record whose document was dropped stays without one, whatever the hub has since.
    case droppedForGood
    /// A document that was fetched is taken, although the device has a newer one by now.
    case olderBroughtBack
    /// A document that was fetched is taken, although its record has left the share of the device since it was asked for.
    case revokedBroughtBack
    /// A parent that a device does not receive counts as there.
    case hiddenParentsSeen
    /// A list with a member that is forbidden takes effect without that member.
    case forbiddenMembersSkipped
    /// A device may still read a file after the record that shows it has left the share of the device.
    case filesOfLeftShown
    /// A record shows every file whose digest it names, without regard to the device that wrote the digest there.
    case digestsGiveFiles
    /// An upload ends at once when the hub has the file already, also from another device.
    case knownUploadsSkipped
    /// A refusal tells whether there is a file of others.
    case filesOfOthersTold
    /// A placeholder becomes `uploaded` when the hub has the file, whether its author may know that or not.
    case arrivalsTold
    /// The upload of any device lets a record show the file that it names.
    case uploadsCountAnywhere
    /// A record goes on to wait for a file that its device offers and need not bring.
    case offersUnheard
}

package struct Ablations: Sendable, Hashable {
    #if ABLATIONS
        private var switchedOff: Set<Ablation>

        package init(_ switchedOff: Set<Ablation> = []) {
            self.switchedOff = switchedOff
        }

        package func contains(_ rule: Ablation) -> Bool { switchedOff.contains(rule) }

        /// Reads a text such as `answerBeforeCommit,commitUnsynced`; unknown names are skipped.
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
