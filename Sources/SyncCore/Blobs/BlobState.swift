/// State of a file (PROTOCOL C4). While its bytes are received (`staging`) it has no row and no name yet.
///
///     pending -> uploaded
///     pending -> failed     no progress in `blobs.attempts` tries, or refused; again on a new link, after 24 h, or by
///                           `agentctl blobs retry`
///     pending -> missing    the file is gone or is not what it was
///
/// `uploading` and `verifying` are the present activity of a pending file. They are shown and never stored, because no activity survives a
/// restart.
package enum BlobState: String, Hashable, Sendable, CaseIterable {
    case pending, uploading, verifying, uploaded, failed, missing

    /// The state that is stored.
    package var stored: BlobState { self == .uploading || self == .verifying ? .pending : self }

    package var number: Int {
        switch self {
        case .pending, .uploading, .verifying: 0
        case .uploaded: 1
        case .failed: 2
        case .missing: 3
        }
    }

    package init?(number: Int64) {
        switch number {
        case 0: self = .pending
        case 1: self = .uploaded
        case 2: self = .failed
        case 3: self = .missing
        default: return nil
        }
    }
}

/// Name of a file on this device, such as `b-31`.
package struct BlobID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let number: Int64

    package init(_ number: Int64) {
        self.number = number
    }

    package init?(_ text: String) {
        guard text.hasPrefix("b-"), text.utf8.count <= 20, let number = Int64(text.dropFirst(2)), number > 0,
            text.dropFirst(2).utf8.allSatisfy({ (48...57).contains($0) })
        else { return nil }
        self.number = number
    }

    package var description: String { "b-\(number)" }

    package static func < (left: BlobID, right: BlobID) -> Bool { left.number < right.number }
}

/// The field of a record that shows a file.
package struct BlobLink: Hashable, Sendable {
    package var record: RecordName
    package var field: String

    package init(_ record: RecordName, field: String) {
        self.record = record
        self.field = field
    }
}

/// Progress of an upload as it is stored: enough to continue after a restart, but never trusted without asking the server.
package struct UploadProgress: Hashable, Sendable {
    /// Address of the upload at the server; `nil`: none was created yet.
    package var url: String?
    /// Number of bytes at the server, by its last answer.
    package var offset: Int64 = 0
    /// Time at which the server drops the upload.
    package var expiresAt: Timestamp?
    /// Number of attempts since the offset last moved.
    package var attempts = 0
    /// Number of times that the upload began again because the digest was wrong at the end.
    package var restarts = 0
    /// The error of the last attempt, for people.
    package var error: String?

    package init() {}
}

/// A file to upload, as it is passed to the uploader.
package struct UploadJob: FileJob {
    package var id: BlobID
    package var digest: BlobDigest
    /// Size, bytes.
    package var size: Int64
    package var type: String
    package var filename: String
    package var createdAt: Timestamp
    /// A critical mutation shows the file.
    package var isCritical: Bool
    /// The first place that shows the file, for the server's records.
    package var link: BlobLink?
    package var progress: UploadProgress
    /// A mark of the changes that show the file and were over when the job was read; 0: none. Not more of them are at the hub.
    package var named: Int64 = 0

    package init(
        id: BlobID, digest: BlobDigest, size: Int64, type: String, filename: String, createdAt: Timestamp,
        isCritical: Bool = false, link: BlobLink? = nil, progress: UploadProgress = UploadProgress()
    ) {
        self.id = id
        self.digest = digest
        self.size = size
        self.type = type
        self.filename = filename
        self.createdAt = createdAt
        self.isCritical = isCritical
        self.link = link
        self.progress = progress
    }

    package var offset: Int64 { progress.offset }
    package var isUrgent: Bool { isCritical }
    package var waitingSince: Timestamp { createdAt }
}
