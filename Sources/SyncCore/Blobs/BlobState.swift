/// Where a blob stands (PROTOCOL C4). While its bytes come in (`staging`) it has no row and no name yet.
///
///     pending -> uploaded
///     pending -> failed     no progress in `blobs.attempts` tries, or refused; again on a new link, after 24 h, or by
///                           `agentctl blobs retry`
///     pending -> missing    the file is gone or is not what it was
///
/// `uploading` and `verifying` are what a pending blob is doing at this moment; they are shown and never stored, because
/// after a restart nobody is doing anything.
package enum BlobState: String, Hashable, Sendable, CaseIterable {
    case pending, uploading, verifying, uploaded, failed, missing

    /// What is stored of it.
    package var stored: BlobState { self == .uploading || self == .verifying ? .pending : self }

    package var number: Int {
        switch stored {
        case .uploaded: 1
        case .failed: 2
        case .missing: 3
        default: 0
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

/// Names a blob on this device: `b-31`.
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

/// Where in a record a blob is shown.
package struct BlobLink: Hashable, Sendable {
    package var record: RecordName
    package var field: String

    package init(_ record: RecordName, field: String) {
        self.record = record
        self.field = field
    }
}

/// What an upload has come to, as it is stored: enough to go on after a restart, and never trusted without asking the server.
package struct UploadProgress: Hashable, Sendable {
    /// Of the upload at the server; `nil`: none was made yet.
    package var url: String?
    /// Bytes that the server had by its last word.
    package var offset: Int64 = 0
    /// The server drops the upload then.
    package var expiresAt: Timestamp?
    /// Tries since the offset last moved.
    package var attempts = 0
    /// Times that everything began again because the digest was wrong at the end.
    package var restarts = 0
    /// Why the last try failed, for people.
    package var error: String?

    package init() {}
}

/// A blob that has to be uploaded, as the uploader is told of it.
package struct UploadJob: Hashable, Sendable {
    package var id: BlobID
    package var digest: BlobDigest
    /// Bytes.
    package var size: Int64
    package var type: String
    package var filename: String
    package var createdAt: Timestamp
    /// A critical mutation shows it.
    package var isCritical: Bool
    /// The first place that shows it, for the server's own books.
    package var link: BlobLink?
    package var progress: UploadProgress

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

    package var remaining: Int64 { max(0, size - progress.offset) }

    /// The order in which uploads go: what a critical mutation shows, then the smallest remaining, then the oldest.
    package static func isBefore(_ left: UploadJob, _ right: UploadJob) -> Bool {
        (left.isCritical ? 0 : 1, left.remaining, left.id.number) < (right.isCritical ? 0 : 1, right.remaining, right.id.number)
    }

    /// A row of the policy counts the file, not the piece that is sent now.
    package func traffic(large: Int) -> TrafficClass { size > Int64(large) ? .largeMedia : .media }
}
