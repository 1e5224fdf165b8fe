/// State of a file that comes from the hub (PROTOCOL C4). Its bytes are shown only in `fetched`.
///
///     fetching -> fetched
///     fetching -> failed    no progress in `blobs.attempts` tries, refused, no room, or the record that showed it has left the share;
///                           again when a record that shows it changes, on a new link, after 24 h, or by `agentctl blobs fetch`
package enum FetchState: Int, Hashable, Sendable, CaseIterable {
    case fetching, fetched, failed

    /// The word for apps and people.
    package var word: String {
        switch self {
        case .fetching: "fetching"
        case .fetched: "fetched"
        case .failed: "failed"
        }
    }
}

/// The rule of an entity about the files that its records show: `entities.NAME.files`.
package enum FileFetch: String, Hashable, Sendable, CaseIterable {
    /// A file comes when an app or a person asks for it.
    case onDemand = "on_demand"
    /// A file comes as soon as a record shows it as uploaded.
    case ahead
}

/// Progress of a download as it is stored: enough to continue after a restart.
package struct DownloadProgress: Hashable, Sendable {
    /// Number of bytes on the medium, in order from the start.
    package var offset: Int64 = 0
    /// Number of attempts since a byte came that had never come before.
    package var attempts = 0
    /// Number of times that the download began again because the digest was wrong at the end.
    package var restarts = 0
    /// The error of the last attempt, for people.
    package var error: String?

    package init() {}
}

/// A file to fetch, as it is passed to the downloader.
package struct DownloadJob: FileJob {
    package var id: BlobID
    package var digest: BlobDigest
    /// Size, bytes, as the record says until the hub has said it.
    package var size: Int64
    /// Time at which it was asked for.
    package var wantedAt: Timestamp
    /// An app or a person waits for it; otherwise it is fetched ahead.
    package var isAsked: Bool
    package var progress: DownloadProgress

    package init(
        id: BlobID, digest: BlobDigest, size: Int64, wantedAt: Timestamp, isAsked: Bool, progress: DownloadProgress = DownloadProgress()
    ) {
        self.id = id
        self.digest = digest
        self.size = size
        self.wantedAt = wantedAt
        self.isAsked = isAsked
        self.progress = progress
    }

    package var offset: Int64 { progress.offset }
    package var isUrgent: Bool { isAsked }
    package var waitingSince: Timestamp { wantedAt }

    /// Beyond every size of a file, bytes: what a record or a damaged row says is cut to it.
    package static let sizeMax: Int64 = 1 << 50

    /// Name of the incomplete file.
    package var part: String { DownloadJob.part(of: digest) }

    /// The digits alone: a name in a storage has at most 64 bytes.
    package static func part(of digest: BlobDigest) -> String { digest.hex }
}

/// A download that the store has set aside because the record that showed its file has left the share of this device.
package struct CutDownload: Hashable, Sendable {
    package var id: BlobID
    package var digest: BlobDigest

    package init(_ id: BlobID, _ digest: BlobDigest) {
        self.id = id
        self.digest = digest
    }

    /// The reason, for people. The store keeps this text and compares it: with another one, files of earlier rows would not come again with
    /// `files: ahead`.
    package static let why = "no record on this device shows the file any more"
}
