/// Rebases a mutation that waits when a pull brings a new version of its record (PROTOCOL C7). It decides as the hub would decide, by the
/// same rules (``FieldContest``). So the hub finds nothing to contest later, people are asked at once where they must be, and apps see the
/// final values.
///
/// Only mutations that were never sent are rebased. A sent mutation is frozen, and the hub merges it.
///
/// One ``Pass`` rebases one mutation. Its extensions are, by subject, the set and removed values, the operations and the deletions.
package enum Rebase {
    /// One side: a mutation of this device.
    package struct Local: Sendable {
        package var record: RecordName
        package var content: MutationContent
        /// `nil` for a stamp that loses every contest, because the clock was not trusted.
        package var hlc: HybridTime?
        /// The stamp is later than everything that the device had seen when it made the change. `false` for a stamp that was corrected
        /// afterwards and is not later any more.
        package var hasSeenTime = true
        package var signature: FieldContest.Signature

        package init(
            record: RecordName, content: MutationContent, hlc: HybridTime?, hasSeenTime: Bool = true,
            signature: FieldContest.Signature
        ) {
            self.hasSeenTime = hasSeenTime
            self.record = record
            self.content = content
            self.hlc = hlc
            self.signature = signature
        }
    }

    /// The other side: the hub's record, and how much of it this device had seen.
    package struct HubSide: Sendable {
        /// The hub's document that this device had seen; `nil`: none.
        package var known: JSONObject?
        /// The hub's document now; `nil`: deleted.
        package var remote: JSONObject?
        package var remoteHLC: HybridTime?
        /// Stamps of the fields whose stamp differs from `remoteHLC`.
        package var fieldHLC: [String: HybridTime]
        /// Values that earlier mutations put there and that may be at the hub already; they are no news.
        package var expected: [String: Set<JSON?>] = [:]
        /// Fields that earlier mutations write and that are not at the hub for certain. A later value is sent there even if it equals the
        /// hub's: without it the earlier one would be the last.
        package var overwritten: Set<JSONString> = []
        /// Values of the hub that people are asked about already. A later change of the same field does not ask again.
        package var asked: [String: Set<JSON?>] = [:]
        /// Elements of sets that earlier mutations put there and that may be at the hub already.
        package var expectedElements: Set<FieldOperation.ElementName> = []
        /// The mutation was made on ``known``. For a mutation that was frozen while the record went on, its base is unknown. Then every
        /// difference is merged, and the stamps decide where a merge is impossible.
        package var isKnown = true
        /// No hub decides after this, because the server knows values only. Members of objects are therefore decided here as well.
        package var isLast = false
        /// Another device has changed the record since ``known``, also if its values do not show that.
        package var isTouched = false
        /// Fields that people decide whatever their rule says, because the hub or an open conflict has said so.
        package var disputed: Set<String> = []

        package init(known: JSONObject?, remote: JSONObject?, remoteHLC: HybridTime?, fieldHLC: [String: HybridTime] = [:]) {
            self.known = known
            self.remote = remote
            self.remoteHLC = remoteHLC
            self.fieldHLC = fieldHLC
        }

        package init(known: JSONObject?, record: HubRecord?) {
            var stamps: [String: HybridTime] = [:]
            for member in record?.fieldHLC?.members ?? [] {
                stamps[member.name.text] = member.value.text.flatMap { HybridTime($0) }
            }
            self.init(
                known: known, remote: record?.data, remoteHLC: record?.hlc.flatMap { HybridTime($0) }, fieldHLC: stamps)
        }
    }

    package enum Verdict: Hashable, Sendable {
        /// It is sent with the content in ``Outcome/content``.
        case stays
        /// Nothing is left to send.
        case isSuperseded
        /// A person must decide these fields, or the deletion (``HubMerge/wholeRecord``). The rest is decided.
        case isDisputed(ConflictKind, fields: [String])
        case isRejected(Problem)

        package var isRejected: Bool {
            if case .isRejected = self { true } else { false }
        }
    }

    package struct Outcome: Hashable, Sendable {
        package var verdict: Verdict
        package var content: MutationContent
        /// Values that a contest or a deletion discarded.
        package var lost: [Loss]

        package init(verdict: Verdict, content: MutationContent, lost: [Loss] = []) {
            self.verdict = verdict
            self.content = content
            self.lost = lost
        }
    }

    package typealias Loss = FieldContest.Loss

    package static func decide(_ local: Local, against hub: HubSide, rules: EntityRules) -> Outcome {
        var pass = Pass(local: local, hub: hub, rules: rules)
        return pass.run()
    }
}
