import SyncCore

// A record does not wait for the bytes of its files: it holds placeholders. The hub replaces them when the bytes have arrived, by a change
// like any other (PROTOCOL H2). It does so when the later one of record and file arrives.
//
// Where records are shared out, a placeholder tells nothing of files of others (PROTOCOL A16). Otherwise a device that knows a digest could
// write it into a record and read there whether the hub has such a file.
extension Hub {
    /// Replaces the placeholders in the records that wait for this file, which is complete now. The records in which its device has put the
    /// digest show the file from now on, also those that said before that it had arrived.
    ///
    /// - Parameters:
    ///   - device: The device that has uploaded it.
    ///   - link: The record that the upload named.
    func flip(_ digest: BlobDigest, of device: DeviceID, also link: BlobLink?, at now: Timestamp) throws(DatabaseError) {
        try reveal(digest, namedBy: device, at: now)
        var names = try store.waiting(for: digest)
        // The record that the upload named may have come before this hub looked for placeholders.
        if let link, !names.contains(link.record) { names.append(link.record) }
        let share = try share(of: device)
        for name in names {
            // Devices that receive a record which shows the file may read it from now on, whichever device has brought it.
            let isShown = try store.link(FileLink(digest: digest, record: name)) == .shown
            let uploader = isShown ? nil : share
            if try flip(name, [digest: !isShown], uploader: uploader, isNamed: link?.record == name, at: now) {
                try store.forgetWaiting(name, for: digest)
            }
        }
    }

    /// A document that the office publishes, with the placeholders of files that are here already replaced, and the files that its record
    /// waits for.
    ///
    /// The record shows each file that the office puts there, so its devices may read the file, and the placeholder tells them nothing.
    /// A file that the record named before is told only if the record shows it.
    ///
    /// - Parameter before: The stored document, or the one that a tombstone keeps.
    func settled(
        _ data: JSONObject, of name: RecordName, over before: JSONObject?
    ) throws(DatabaseError) -> (data: JSONObject, waits: [BlobDigest]) {
        var data = data
        var waits: [BlobDigest] = []
        let known = before.map { Placeholder.digests(in: $0) } ?? []
        for digest in Set(Placeholder.waiting(in: data).map(\.digest)).sorted() {
            var isShown = !settings.sharesOut || !known.contains(digest)
            if !isShown { isShown = try store.link(FileLink(digest: digest, record: name)) == .shown }
            guard isShown, try store.blob(digest) != nil else {
                waits.append(digest)
                continue
            }
            for member in data.members {
                if let value = Placeholder.flipped(member.value, digest) { data[member.name.text] = value }
            }
        }
        return (data, waits)
    }

    /// Answers a device that would bring a file and need not: it may read the file, and the hub has it. The records in which the device has
    /// put the digest show the file from now on, as at the end of its upload.
    ///
    /// Otherwise a record that named the file before the device could read it would wait for ever. No other record is looked at, so the
    /// work tells the device nothing of others.
    func takeOffer(of digest: BlobDigest, by device: DeviceID, at now: Timestamp) throws(DatabaseError) {
        if settings.ablations.contains(.offersUnheard) { return }
        try reveal(digest, namedBy: device, at: now)
    }

    /// Lets the records in which a device has put the digest of a complete file show it, and replaces the placeholders. The devices of a
    /// record may read the file then, so its placeholder tells them nothing, even where another device has written it last.
    private func reveal(_ digest: BlobDigest, namedBy device: DeviceID, at now: Timestamp) throws(DatabaseError) {
        for (name, isWaiting) in try store.unshown(digest, namedBy: device) {
            // Events show no files, so their links stay as they are. Those that say already that the file is there cost no more.
            guard isWaiting || isInFeed(name) else { continue }
            try show(digest, in: name, at: now)
            _ = try flip(name, [digest: false], uploader: nil, isNamed: true, at: now)
            try store.forgetWaiting(name, for: digest)
        }
    }

    /// Lets written records show the files that their device may read, registers the files that they wait for, and replaces the placeholder
    /// at once when its file is complete. The record shows the file then, unless it said before that the file had arrived, or the hub
    /// shares nothing out.
    ///
    /// - Parameter device: The device that has written them.
    func look(
        at written: [(name: RecordName, data: JSONObject, before: JSONObject?)], of device: DeviceID, at now: Timestamp
    ) throws(DatabaseError) {
        for (name, data, before) in written {
            var vouched: [BlobDigest: Bool] = [:]
            for digest in newlyNamed(in: data, of: name) {
                vouched[digest] = try mayShow(digest, device)
                if vouched[digest] == true { try show(digest, in: name, at: now) }
            }
            guard settings.uploads != nil else { continue }
            var here: [BlobDigest: Bool] = [:]
            for digest in Set(Placeholder.waiting(in: data).map(\.digest)) {
                let isVouched = if let known = vouched[digest] { known } else { try vouchAgain(for: digest, in: name, device, at: now) }
                if try isHere(digest, before, isVouched: isVouched) {
                    here[digest] = isVouched
                } else {
                    try store.addWaiting(name, for: digest)
                }
            }
            if !here.isEmpty { _ = try flip(name, here, uploader: nil, isNamed: true, at: now) }
        }
    }

    /// The files that a document names since the present request. A device that changes a record vouches for none that another device has
    /// named there: otherwise a device that may read the file would give access to the device that had put its digest there.
    private func newlyNamed(in data: JSONObject, of name: RecordName) -> Set<BlobDigest> {
        Placeholder.digests(in: data).filter { digest in
            if case .named = store.group?.request.writes.links[FileLink(digest: digest, record: name)] { true } else { false }
        }
    }

    /// Lets a record show a file that it has waited for, when the device that has put its digest there changes the record and may read the
    /// file by now. That device may never bring the file: an agent of an earlier version makes no offer, and its app may not have the file.
    ///
    /// - Returns: `true` when the record shows the file.
    private func vouchAgain(
        for digest: BlobDigest, in name: RecordName, _ device: DeviceID, at now: Timestamp
    ) throws(DatabaseError) -> Bool {
        guard settings.sharesOut else { return false }
        switch try store.link(FileLink(digest: digest, record: name)) {
        case .shown: return true
        case .named(by: device):
            guard try mayShow(digest, device) else { return false }
            try show(digest, in: name, at: now)
            return true
        // Another device has put it there, and would learn by the placeholder that the hub has the file.
        case .named, .gone, nil: return false
        }
    }

    /// Returns whether the file is complete, and its placeholder may say so.
    ///
    /// - Parameter isVouched: The record shows the file.
    private func isHere(_ digest: BlobDigest, _ before: JSONObject?, isVouched: Bool) throws(DatabaseError) -> Bool {
        guard settings.sharesOut, !settings.ablations.contains(.arrivalsTold) else { return try store.blob(digest) != nil }
        if let before, Placeholder.shows(digest, in: before) { return true }
        return isVouched ? try store.blob(digest) != nil : false
    }

    /// - Parameters:
    ///   - digests: The files; the value is `true` for those that the record shows to its devices from now on.
    ///   - uploader: Share of the device that has uploaded the file; `nil`: every placeholder may tell of it.
    ///   - isNamed: The upload has named the record.
    /// - Returns: `false` when a placeholder has to wait for the upload of the device that wrote it.
    private func flip(
        _ name: RecordName, _ digests: [BlobDigest: Bool], uploader: DeviceAccess?, isNamed: Bool, at now: Timestamp
    ) throws(DatabaseError) -> Bool {
        // The data of a damaged record is unknown, and nothing may be written over it.
        let row = try store.record(name)
        guard let row, let old = row.whole, var data = old.data else { return true }
        let isReceived = settings.rules[name.entity]?.isScoped != true || uploader?.includesAny(of: row.scopes) != false
        let mayTell = uploader == nil || isNamed && isReceived || settings.ablations.contains(.uploadsCountAnywhere)
        let commit = state.head + 1
        let node = DeviceID.hub
        let hlc = HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: HybridClock.node(of: node))
        let stamp = VersionedRecord.Stamp(version: commit, hlc: hlc, writer: node)
        var stamps = old.stamps
        var isChanged = false
        var isWaiting = false
        var shown: Set<BlobDigest> = []
        for member in data.members {
            let isTold = mayTell || (stamps[member.name] ?? old.stamp).writer == uploader?.device
            // A file of the device itself is shown already; the last writer of a list need not be the one that has put a file in.
            if mayTell { shown.formUnion(Placeholder.digests(in: member.value).filter { digests[$0] == true }) }
            var value = member.value
            for digest in digests.keys { value = Placeholder.flipped(value, digest) ?? value }
            guard value != member.value else { continue }
            guard isTold else {
                isWaiting = true
                continue
            }
            data[member.name.text] = value
            // The arrival of the bytes makes no member newer.
            var its = stamp
            if let old = stamps[member.name] { its.memberTimes = old.memberTimes }
            stamps[member.name] = its
            isChanged = true
        }
        for digest in shown { try show(digest, in: name, at: now) }
        guard isChanged else { return !isWaiting }
        let record = VersionedRecord(data: data, stamp: stamp, exceptions: stamps, additions: old.additions)
        try store.put(name, record, data: data.json, originKey: "", scopes: scopeChange(of: name, from: row, to: data), at: now)
        try advance(to: commit, adding: HubCounters())
        return !isWaiting
    }
}
