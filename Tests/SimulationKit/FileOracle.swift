import SyncCore

/// The model of who may read which file, as plainly as PROTOCOL H2 says it. It shares no code with the hub: no links in tables, no codes of
/// scopes. It goes back with a backup of the hub's database.
struct FileOracle {
    private enum Link: Hashable {
        /// The device has written the digest there, and has not shown that it may read the file.
        case named(DeviceID)
        case shown
    }

    /// The files that a device has brought whole.
    private var brought: [DeviceID: Set<BlobDigest>] = [:]
    private var links: [RecordName: [BlobDigest: Link]] = [:]
    /// Digests that a record has shown as arrived: a text that devices may write as they like.
    private var told: [RecordName: Set<BlobDigest>] = [:]
    /// The bytes that an upload can have, by its address: those that were sent to it.
    private var reach: [String: Int64] = [:]
    /// The record that an upload named when it began, by its address. The device may know another one by its end.
    var recordsOfUploads: [String: RecordName] = [:]
    /// Addresses of uploads that are whole.
    private var whole: Set<String> = []

    // MARK: Records

    /// A request has left a record like this.
    ///
    /// - Parameter document: `nil`: it is deleted.
    /// - Returns: Whether the request has put the digest of a file there.
    @discardableResult
    mutating func recordDocument(_ name: RecordName, _ document: JSONObject?, by device: DeviceID) -> Bool {
        guard let file = SimFile.shown(in: document), let digest = BlobDigest(file.digest) else {
            links[name] = nil
            return false
        }
        let known = links[name]?[digest]
        links[name] = [digest: known ?? .named(device)]
        if file.isUploaded { told[name, default: []].insert(digest) }
        return known == nil
    }

    /// The office has published a record: it may show every file to whom it likes.
    mutating func publish(_ name: RecordName, _ document: JSONObject?) {
        if recordDocument(name, document, by: .hub) { links[name] = links[name]?.mapValues { _ in .shown } }
    }

    /// The document that the hub has once the office has published this one: the record says of a file that is here, and that it shows,
    /// that it has arrived.
    func settled(_ name: RecordName, _ document: JSONObject?) -> JSONObject? {
        guard var settled = document, let file = SimFile.shown(in: document), !file.isUploaded, let digest = BlobDigest(file.digest),
            has(digest), var placeholder = settled[SimFile.field]?.object
        else { return document }
        if let link = links[name]?[digest], link != .shown { return document }
        placeholder["state"] = "uploaded"
        settled[SimFile.field] = .object(placeholder)
        return settled
    }

    /// A record into which a push has put a file, or which waits for one, shows the files that its device has put there and may read.
    ///
    /// - Parameter mayRead: Tells whether the device could read the file before the push.
    mutating func vouch(_ name: RecordName, _ device: DeviceID, mayRead: (BlobDigest) -> Bool) {
        for (digest, link) in links[name] ?? [:] where link == .named(device) && mayRead(digest) { links[name]?[digest] = .shown }
    }

    /// The files that a record names and does not show.
    func unshown(_ name: RecordName) -> Set<BlobDigest> { Set((links[name] ?? [:]).filter { $0.value != .shown }.keys) }

    /// The records that show a file.
    func showing(_ digest: BlobDigest) -> [RecordName] { links.filter { $0.value[digest] == .shown }.keys.sorted() }
    func naming(_ digest: BlobDigest) -> [RecordName] { links.filter { $0.value[digest] != nil }.keys.sorted() }
    var named: [RecordName] { links.keys.sorted() }
    func isNamer(_ device: DeviceID, of digest: BlobDigest, in name: RecordName) -> Bool { links[name]?[digest] == .named(device) }
    func wasTold(_ digest: BlobDigest, in name: RecordName) -> Bool { told[name]?.contains(digest) == true }
    func isShown(_ digest: BlobDigest, in name: RecordName) -> Bool { links[name]?[digest] == .shown }

    // MARK: Bytes

    func has(_ digest: BlobDigest) -> Bool { brought.values.contains { $0.contains(digest) } }
    func has(_ digest: BlobDigest, by device: DeviceID) -> Bool { brought[device]?.contains(digest) == true }

    /// An upload is whole.
    ///
    /// - Returns: `false` if it was before. It answers so again, and changes nothing then.
    mutating func end(_ upload: String) -> Bool { whole.insert(upload).inserted }

    /// A device has brought the file whole.
    ///
    /// - Parameter countsIn: Tells of a record that names the file whether the upload counts in it, although another device put the digest
    ///   there.
    /// - Returns: The records in which it counts.
    mutating func bring(_ digest: BlobDigest, by device: DeviceID, countsIn: (RecordName) -> Bool) -> [RecordName] {
        brought[device, default: []].insert(digest)
        return show(digest, in: naming(digest).filter { isNamer(device, of: digest, in: $0) || countsIn($0) })
    }

    /// A device has offered the file, and was told that the hub has it: the records that wait for its upload wait no longer.
    ///
    /// - Returns: Those records.
    mutating func offer(_ digest: BlobDigest, by device: DeviceID) -> [RecordName] {
        show(digest, in: naming(digest).filter { isNamer(device, of: digest, in: $0) })
    }

    private mutating func show(_ digest: BlobDigest, in names: [RecordName]) -> [RecordName] {
        for name in names { links[name]?[digest] = .shown }
        return names
    }

    /// Bytes were sent to an upload.
    ///
    /// - Returns: The number of bytes that it may have now.
    mutating func send(to upload: String, at offset: Int64, _ count: Int) -> Int64 {
        let most = max(reach[upload] ?? 0, offset + Int64(count))
        reach[upload] = most
        return most
    }
}

extension HubOracle {
    /// The device has brought the file, or receives a record now that shows it.
    func mayRead(_ digest: BlobDigest, _ device: DeviceID) -> Bool {
        guard files.has(digest) else { return false }
        if files.has(digest, by: device) { return true }
        return files.showing(digest).contains { receives($0, device) }
    }

    func receives(_ name: RecordName, _ device: DeviceID) -> Bool {
        rules.document(name).map { shares.includes(name, $0, device) } ?? false
    }
}
