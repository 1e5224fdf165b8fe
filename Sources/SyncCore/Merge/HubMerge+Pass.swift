extension HubMerge {
    /// The state of one ``HubMerge/apply(_:to:rules:commit:now:ablations:)``.
    struct Pass {
        private(set) var change: HubMerge.Change
        var rules: EntityRules
        let now: Timestamp
        let ablations: Ablations
        /// The stamp of the change as a whole.
        let changeStamp: VersionedRecord.Stamp
        /// The stamp of the field that is being decided. A part of the change may have been made earlier than the whole.
        var fieldStamp: VersionedRecord.Stamp
        /// Write times of members of merged objects that differ from the time of their field, by field and dotted name.
        private(set) var memberStamps: [JSONString: [JSONString: HybridTime]] = [:]
        var accepted = HubMerge.Accepted()
        /// The names in ``HubMerge/Accepted/merged``, for a fast lookup.
        var mergedNames: Set<JSONString> = []
        /// The values in ``HubMerge/Accepted/lost``, for a fast lookup.
        var reportedLosses: Set<LostValue> = []

        init(change: HubMerge.Change, rules: EntityRules, commit: Int64, now: Timestamp, ablations: Ablations) {
            self.ablations = ablations
            self.change = change
            self.rules = rules
            self.now = now
            var hlc = change.mutation.hlc
            let limit = UInt64(clamping: now.advanced(by: HybridClock.aheadMax).milliseconds)
            if change.mutation.clock == .unsynced {
                hlc = HybridTime(milliseconds: 0, counter: 0, node: hlc.node)
            } else if hlc.milliseconds > limit {
                hlc = HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: hlc.node)
                accepted.isClockClamped = true
                accepted.isPlain = false
            }
            changeStamp = VersionedRecord.Stamp(version: commit, hlc: hlc, writer: change.device, author: change.author)
            fieldStamp = changeStamp
            clampParts(limit)
            guard rules.kind == .record else { return }
            separateMemberStamps()
            if ablations.contains(.lesserLetThrough) { makeValues(of: [.max, .min]) }
            if ablations.contains(.countsAsValues) { makeValues(of: [.increment]) }
            var folded: [String] = []
            self.change.mutation.content = content.withSetsFolded(under: rules, &folded)
            if !folded.isEmpty { accepted.isPlain = false }
            for field in folded { reportMerged(field) }
        }

        var content: MutationContent { change.mutation.content }

        /// The base version: the version of the record that the author of the change had seen; 0 when there was none.
        var seenVersion: Int64 { change.mutation.baseVersion }

        var isTimed: Bool { change.mutation.clock != .unsynced }

        var signature: FieldContest.Signature {
            .init(author: change.author, device: change.device, at: change.mutation.clientUpdatedAt ?? now, key: change.key)
        }

        // MARK: Preparation

        /// Applies the rules of the whole stamp to the stamps of parts. They are dropped if the clock was not trusted, and replaced by the
        /// hub's time if they lie too far ahead.
        private mutating func clampParts(_ limit: UInt64) {
            func clamped(_ hlc: HybridTime?) -> HybridTime? {
                guard let hlc, isTimed else { return nil }
                return hlc.milliseconds > limit
                    ? HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: hlc.node) : hlc
            }
            guard content.hasParts else { return }
            var parts = content
            parts.stamps = parts.stamps.compactMapValues { clamped($0) }
            for index in parts.operations.indices { parts.operations[index].hlc = clamped(parts.operations[index].hlc) }
            if isTimed, parts != content {
                accepted.isClockClamped = true
                accepted.isPlain = false
            }
            change.mutation.content = parts
        }

        /// Moves the stamps of members out of the stamps of fields.
        private mutating func separateMemberStamps() {
            guard rules.mergesObjects, !content.stamps.isEmpty else { return }
            for (name, hlc) in content.stamps {
                guard case .member(let path) = rules.place(of: name.text) else { continue }
                change.mutation.content.stamps[name] = nil
                // A name that the change does not write has no meaning.
                if content.data.member(at: path).value == nil, content.base.member(at: path).value == nil { continue }
                memberStamps[JSONString(path[0]), default: [:]][name] = hlc
            }
        }

        /// Turns operations into plain values, for rules that an ablation switches off.
        private mutating func makeValues(of kinds: [FieldOperation.Kind]) {
            for operation in content.operations where kinds.contains(operation.kind) && operation.path.isEmpty {
                change.mutation.content.data[operation.field] = operation.value
                rules.overrule([operation.field])
            }
            change.mutation.content.operations.removeAll { kinds.contains($0.kind) && $0.path.isEmpty }
        }
    }
}

extension HubMerge.Pass {
    /// Handles a create of a record that exists. From the same device with the same content it is the earlier create under a new key, after
    /// a restored database lost the old one. Otherwise both are merged field by field, as if neither side had known the other.
    mutating func createExisting(_ record: VersionedRecord) -> HubMerge.Outcome {
        let isOwn = record.stamps.values.allSatisfy { $0.writer == change.device }
        if isOwn, let data = record.data, Fold.apply(content, to: nil)?.isSpelled(as: data) == true { return .accepted(accepted) }
        return merge(into: record, isBlind: true)
    }

    /// Handles a change of an entity that holds events.
    mutating func createEvent(over record: VersionedRecord?) -> HubMerge.Outcome {
        let entity = change.mutation.record.entity
        guard content.action == .create else {
            return .rejected(
                Problem("validation", status: 422, detail: "\(entity) holds events: they are created, never changed or deleted"))
        }
        if let misfit = misfitOfCreate { return .rejected(misfit) }
        let document = Fold.apply(content, to: nil) ?? [:]
        guard let record else { return write(HubMerge.Draft(document)) }
        if record.data == document { return .accepted(accepted) }
        return .rejected(
            Problem("validation", status: 422, detail: "\(change.mutation.record) exists with other content, and events are never merged"))
    }
}

extension EntityRules {
    /// Lets the device's value win on these fields.
    mutating func overrule(_ names: [String]) {
        strategy = .fields
        criticalFields.removeAll { names.contains($0) }
        for name in names {
            fields[name] = .client
            maxLength[name] = nil
        }
    }
}
