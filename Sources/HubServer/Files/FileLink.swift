import SyncCore

/// A record and a file that a placeholder in its document names: a row of `record_file`.
struct FileLink: Hashable, Comparable, Sendable {
    var digest: BlobDigest
    var record: RecordName

    static func < (a: FileLink, b: FileLink) -> Bool { a.digest == b.digest ? a.record < b.record : a.digest < b.digest }
}

/// The state of a link after a change.
enum FileLinkState: Hashable, Sendable {
    /// The document names the file, and that gives no device a right to it: the device that wrote the digest there has not shown that it
    /// may read the file. Its own upload would show that.
    case named(by: DeviceID)
    /// Devices that receive the record may fetch the file.
    case shown
    /// The document does not name the file any more.
    case gone
}

extension Placeholder {
    /// The files that a document names, at any depth, whether their bytes have arrived or not.
    static func digests(in document: JSONObject) -> Set<BlobDigest> {
        var found: Set<BlobDigest> = []
        for member in document.members { collect(member.value, into: &found) }
        return found
    }

    /// The files that a value names.
    static func digests(in value: JSON) -> Set<BlobDigest> {
        var found: Set<BlobDigest> = []
        collect(value, into: &found)
        return found
    }

    /// Stored JSON has a limited depth.
    private static func collect(_ value: JSON, into found: inout Set<BlobDigest>) {
        switch value {
        case .object(let object):
            if let name = object[mark]?.text, let digest = BlobDigest(name) { found.insert(digest) }
            for member in object.members { collect(member.value, into: &found) }
        case .array(let list): for part in list { collect(part, into: &found) }
        case .null, .bool, .number, .string: break
        }
    }
}

extension VersionedRecord {
    /// The document that its links are of: a tombstone keeps those of the document that an update may restore.
    var linked: JSONObject? { data ?? kept?.data }

    /// The last writer of the field that names a file.
    func writer(of digest: BlobDigest) -> DeviceID {
        let member = linked?.members.first { Placeholder.digests(in: $0.value).contains(digest) }
        return member.flatMap { (kept?.stamps ?? exceptions)[$0.name]?.writer } ?? stamp.writer
    }
}
