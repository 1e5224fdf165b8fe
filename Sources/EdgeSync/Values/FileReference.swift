/// A value that names a file: its id (`b-7`) or its digest (`sha256:9b1c…`) as text, the placeholder in a record, or what the agent said
/// of it.
public protocol FileReference: Sendable {
    /// The id or the digest.
    var fileName: String { get }
}

extension String: FileReference {
    public var fileName: String { self }
}

extension StoredFile: FileReference {
    public var fileName: String { digest }
}

/// The value that stands for a file in a record: `{"$blob": "sha256:9b1c…", "size": 3145728, …}`.
public struct FilePlaceholder: FileReference, Equatable {
    /// Top-level field of the record that shows the file.
    public var field: String
    /// `sha256:` and 64 hexadecimal digits.
    public var digest: String
    /// Bytes of the file; 0 if the placeholder does not say.
    public var size: Int
    /// Media type.
    public var type: String
    /// The hub has the file, so each device that has the record can fetch it.
    public var isUploaded: Bool
    public var raw: JSONObject

    public var fileName: String { digest }

    init?(_ value: JSONValue, field: String) {
        guard let object = value.object, let digest = object["$blob"]?.string else { return nil }
        self.field = field
        self.digest = digest
        size = max(0, object["size"]?.integer.map { Int($0) } ?? 0)
        type = object["type"]?.string ?? "application/octet-stream"
        isUploaded = object["state"]?.string == "uploaded"
        raw = object
    }
}

extension Record {
    /// The files that the document shows, in its order.
    ///
    /// - Parameter field: The top-level field whose files are wanted; `nil` for all.
    public func files(_ field: String? = nil) -> [FilePlaceholder] {
        (data ?? [:]).members.filter { field?.utf8.elementsEqual($0.name.utf8) ?? true }.flatMap { member in
            (member.value.array ?? [member.value]).compactMap { FilePlaceholder($0, field: member.name) }
        }
    }
}

extension EdgeSyncError {
    /// The progress of a file that comes from the hub, in an error with the code `blobFetching`.
    public struct FileProgress: Sendable, Equatable {
        /// Id of the file.
        public var id: String
        /// Bytes that are on this device.
        public var offset: Int
        /// Bytes of the whole file.
        public var size: Int
        /// Code of the reason why the file waits, such as `metered`; `nil` if it is on its way.
        public var reason: String?

        public init(id: String, offset: Int, size: Int, reason: String?) {
            self.id = id
            self.offset = offset
            self.size = size
            self.reason = reason
        }
    }

    /// The progress of the file; `nil` for another error.
    public var fileProgress: FileProgress? {
        guard code == .blobFetching, let id = members["blob"]?.string, let offset = members["offset"]?.integer,
            let size = members["size"]?.integer
        else { return nil }
        return FileProgress(id: id, offset: Int(offset), size: Int(size), reason: members["reason"]?.string)
    }
}
