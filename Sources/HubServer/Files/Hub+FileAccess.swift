import SyncCore

// The right to read a file (PROTOCOL A16, H2) belongs to the device that has brought it, and to every device that receives a record that
// shows it.
//
// A digest in a document alone gives no right. Otherwise a device that has learned a digest, perhaps from a record that it does not receive
// any more, could write it into a record of its own and read the file there. So a record shows a file when the bytes arrived for it, or
// when the author of the placeholder could read the file at that moment, or at a later one at which it changed the waiting record or
// offered to bring the file.
extension Hub {
    /// A device learns only about files that it may read: a digest alone must not give access to the content of others.
    func blob(
        _ request: HubRequest, _ caller: HubGate.Caller, _ uploads: HubUploads, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        let name = request.path.dropFirst(Endpoint.blobPrefix.utf8.count)
        guard let digest = BlobDigest(hex: String(name)) ?? BlobDigest(String(name)),
            let found = try querying({ () throws(DatabaseError) in try file(digest, for: caller) })
        else { throw HubRefusal(try refusal(ofFile: String(name))) }
        if request.offersFile { try querying { () throws(DatabaseError) in try takeOffer(of: digest, by: caller.device, at: now) } }
        var headers: HTTPHeaders = ["ETag": "\"\(digest)\"", "Accept-Ranges": "bytes", Tus.reprDigest: digest.field]
        let answer = FileAnswer(request.headers, isRead: request.method == "GET", tag: headers["ETag"] ?? "", size: found.size)
        // An edited database may say anything. The storage is asked before a byte leaves.
        var range = 0..<max(0, found.size)
        var status = 200
        switch answer {
        case .whole: break
        case .unchanged: return HubResponse(status: 304, headers: headers)
        case .beyond:
            var refusal = HubResponse(
                Problem("malformed", status: 416, detail: "the Range begins behind the end of the file, which has \(found.size) bytes"))
            refusal.headers["Content-Range"] = "bytes */\(found.size)"
            return refusal
        case .part(let part):
            (range, status) = (part, 206)
            headers["Content-Range"] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(found.size)"
        }
        // The stored type is that of the first upload, perhaps of a device that shares no record with this one.
        headers["Content-Type"] = settings.sharesOut ? "application/octet-stream" : found.type
        // Keeps a browser from guessing another content type.
        headers["X-Content-Type-Options"] = "nosniff"
        var response = HubResponse(status: status, headers: headers)
        response.work = .show(digest, size: found.size, range)
        guard request.fileStep == nil else { return response }
        do throws(BlobError) {
            guard try uploads.storage.size(of: digest) == found.size else { throw BlobError(.notFound, doing: "look", detail: "gone") }
            if request.method == "GET" { response.body = try Hub.bytes(of: digest, range, uploads.storage) }
        } catch {
            if error.code == .notFound { throw HubRefusal(Hub.noBlob) }
            throw refusal(error)
        }
        return response
    }

    /// All bytes of a range at once: only for a caller in the same process, without a socket to stream them to.
    private static func bytes(of digest: BlobDigest, _ range: Range<Int64>, _ storage: any BlobStorage) throws(BlobError) -> [UInt8] {
        let reader = try storage.read(digest)
        var bytes: [UInt8] = []
        while Int64(bytes.count) < range.upperBound - range.lowerBound {
            let place = range.lowerBound + Int64(bytes.count)
            let piece = try reader.read(at: place, count: Int(min(Int64(storage.traits.readBytes), range.upperBound - place)))
            guard !piece.isEmpty else { throw BlobError(.damaged, doing: "read the file", detail: "it ends after \(place) bytes") }
            bytes += piece
        }
        return bytes
    }

    /// - Parameter name: The digits of its digest.
    private func refusal(ofFile name: String) throws(HubRefusal) -> Problem {
        #if ABLATIONS
            if settings.ablations.contains(.filesOfOthersTold), let digest = BlobDigest(hex: name),
                try querying({ () throws(DatabaseError) in try store.blob(digest) }) != nil
            {
                return Problem("not-found", status: 404, detail: "the file is of others")
            }
        #endif
        return Hub.noBlob
    }

    static let noBlob = Problem("not-found", status: 404, detail: "there is no such file for this device")

    /// A file that a device may read now; `nil`: there is none, or none for this device.
    func file(_ digest: BlobDigest, for caller: HubGate.Caller) throws(DatabaseError) -> (size: Int64, type: String)? {
        if let own = try store.blob(digest, of: caller.device) { return own }
        return try isShown(digest, to: caller.share) ? try store.blob(digest) : nil
    }

    /// Returns whether a device receives a record that shows the file.
    ///
    /// - Parameter share: `nil`: the hub shares nothing out.
    func isShown(_ digest: BlobDigest, to share: DeviceAccess?) throws(DatabaseError) -> Bool {
        let share = settings.ablations.contains(.scopesIgnored) ? nil : share
        for (name, state) in store.group?.links(of: digest) ?? [:] where state == .shown {
            if try receives(name, digest, share) { return true }
        }
        for name in try store.showing(digest, to: share.map { codes(of: $0) }) {
            let changed = store.group?.link(FileLink(digest: digest, record: name))
            guard changed == nil || changed == .shown else { continue }
            if try receives(name, digest, share) { return true }
        }
        #if ABLATIONS
            if settings.ablations.contains(.filesOfLeftShown), let share { return try wasShown(digest, to: share) }
        #endif
        return false
    }

    #if ABLATIONS
        /// Returns whether a record shows the file that was ever in a scope which the device has now.
        private func wasShown(_ digest: BlobDigest, to share: DeviceAccess) throws(DatabaseError) -> Bool {
            for name in try store.showing(digest, to: nil) where try receives(name, digest, nil) {
                let codes = codes(of: share).compactMap { $0.entity == name.entity ? $0.code : nil }
                if try store.wasEver(name, in: codes) { return true }
            }
            return false
        }
    #endif

    /// The scopes of a device in all entities that have some.
    private func codes(of share: DeviceAccess) -> [(entity: EntityName, code: Int64)] {
        scopeIndexes.keys.sorted().flatMap { entity in
            share.scopes(under: settings.rules[entity] ?? EntityRules()).map { (entity, store.scopeCodes.code($0)) }
        }
    }

    /// Returns whether a device receives the record, and its present document names the file.
    private func receives(_ name: RecordName, _ digest: BlobDigest, _ share: DeviceAccess?) throws(DatabaseError) -> Bool {
        guard isInFeed(name), let row = try store.record(name), let data = row.whole?.data else { return false }
        if let share, settings.rules[name.entity]?.isScoped == true, !share.includesAny(of: row.scopes) { return false }
        return Placeholder.digests(in: data).contains(digest)
    }

    /// The feed has events neither for their device nor for others, and no entity that strict rules do not name.
    func isInFeed(_ name: RecordName) -> Bool { settings.rules[name.entity].map { $0.kind != .event } ?? false }

    // MARK: Rights by a change

    /// Lets the devices that receive a record fetch a file that it names.
    func show(_ digest: BlobDigest, in name: RecordName, at now: Timestamp) throws(DatabaseError) {
        if isInFeed(name) { try store.show(digest, in: name, at: now) }
    }

    /// Returns whether a device could read the file whose digest it writes into a record.
    ///
    /// A record that the office has published may show a file whose bytes are not here yet. That is no reason to hand the file on: the
    /// device may have lost the record when the bytes come, and would read them in the other one.
    func mayShow(_ digest: BlobDigest, _ device: DeviceID) throws(DatabaseError) -> Bool {
        guard settings.sharesOut, !settings.ablations.contains(.digestsGiveFiles) else { return true }
        if try store.blob(digest, of: device) != nil { return true }
        return try isShown(digest, to: try share(of: device)) ? try store.blob(digest) != nil : false
    }

    /// Makes the links anew of records that a program wrote which does not know them, within the present transaction: all records after an
    /// update of the hub, and those of the other replica while replicas are replaced. With many records the first time keeps all writers
    /// waiting for a while.
    func renewOldLinks() throws(DatabaseError) {
        guard state.linked < state.head else { return }
        try store.relink(after: state.linked) { (name, record) throws(DatabaseError) in try proven(name, record) }
        try store.markLinksCurrent()
        state.linked = state.head
    }

    /// The files of a document that its devices may fetch, by what is still known of its making: a device that has written in the record
    /// has brought the file, or the hub itself has written the field for this file. A list that the hub has written may have more files in
    /// it than the one that arrived.
    private func proven(_ name: RecordName, _ record: VersionedRecord) throws(DatabaseError) -> Set<BlobDigest> {
        guard isInFeed(name), let data = record.linked else { return [] }
        let stamps = record.kept?.stamps ?? record.stamps
        let writers = Set(stamps.values.map(\.writer)).subtracting([.hub]).sorted()
        var proven: Set<BlobDigest> = []
        for member in data.members {
            let named = Placeholder.digests(in: member.value)
            let isOfHub = (stamps[member.name] ?? record.stamp).writer == .hub && (named.count == 1 || writers.isEmpty)
            for digest in named.sorted() {
                var isProven = !settings.sharesOut || isOfHub
                for writer in writers where !isProven { isProven = try store.blob(digest, of: writer) != nil }
                if isProven { proven.insert(digest) }
            }
        }
        return proven
    }
}
