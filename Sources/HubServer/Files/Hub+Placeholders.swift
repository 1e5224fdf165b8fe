import SyncCore

// A record does not wait for the bytes of its files: it holds placeholders. The hub replaces them when the bytes have arrived, by a change
// like any other (PROTOCOL H2). It does so when the later one of record and file arrives.
extension Hub {
    /// Replaces the placeholders in all records that wait for this file, which is complete now.
    func flip(_ digest: BlobDigest, also link: BlobLink?, at now: Timestamp) throws(DatabaseError) {
        var names = try store.waiting(for: digest)
        // The record that the upload named may have come before this hub looked for placeholders.
        if let link, !names.contains(link.record) { names.append(link.record) }
        for name in names { try flip(name, [digest], at: now) }
        try store.forgetWaiting(for: digest)
    }

    /// Registers the files that written records wait for, or replaces the placeholder at once when the file is complete.
    func look(at written: [(name: RecordName, data: JSONObject)], at now: Timestamp) throws(DatabaseError) {
        for (name, data) in written {
            var here: Set<BlobDigest> = []
            for digest in Set(Placeholder.waiting(in: data).map(\.digest)) {
                if try store.blob(digest, of: nil) != nil { here.insert(digest) } else { try store.noteWaiting(name, for: digest) }
            }
            if !here.isEmpty { try flip(name, here, at: now) }
        }
    }

    private func flip(_ name: RecordName, _ digests: Set<BlobDigest>, at now: Timestamp) throws(DatabaseError) {
        // The data of a damaged record is unknown, and nothing may be written over it.
        let row = try store.record(name)
        guard let old = row?.whole, var data = old.data else { return }
        let commit = state.head + 1
        let node = DeviceID.hub
        let hlc = HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: HybridClock.node(of: node))
        let stamp = VersionedRecord.Stamp(version: commit, hlc: hlc, writer: node)
        var stamps = old.stamps
        var isChanged = false
        for member in data.members {
            var value = member.value
            for digest in digests { value = Placeholder.flipped(value, digest) ?? value }
            guard value != member.value else { continue }
            data[member.name.text] = value
            // The arrival of the bytes makes no member newer.
            var its = stamp
            if let old = stamps[member.name] { its.memberTimes = old.memberTimes }
            stamps[member.name] = its
            isChanged = true
        }
        guard isChanged else { return }
        let record = VersionedRecord(data: data, stamp: stamp, exceptions: stamps, additions: old.additions)
        try store.put(name, record, data: data.json, originKey: "", scopes: scopeChange(of: name, from: row, to: data), at: now)
        try advance(to: commit, adding: HubCounters())
    }
}
