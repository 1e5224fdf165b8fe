package import SyncCore

/// A file in the path of a request: its id on this device, or its digest.
///
///     b-31
///     sha256:9b1c…
package enum BlobName: Hashable, Sendable, CustomStringConvertible {
    case id(BlobID)
    case digest(BlobDigest)

    /// - Returns: `nil` for any other text.
    package init?(_ text: String) {
        if let id = BlobID(text) {
            self = .id(id)
        } else if let digest = BlobDigest(text) {
            self = .digest(digest)
        } else {
            return nil
        }
    }

    package var description: String {
        switch self {
        case .id(let id): id.description
        case .digest(let digest): digest.description
        }
    }
}

/// The way of a file: `direction` of a ``BlobItem``.
package enum BlobDirection: String, Hashable, Sendable, CaseIterable {
    /// From an app on this device to the hub.
    case up
    /// From the hub to this device.
    case down
}

/// A state in which files are listed; a word may stand for files of both directions.
package enum BlobListState: Hashable, Sendable {
    case upload(BlobState)
    case fetch(FetchState)

    package var word: String {
        switch self {
        case .upload(let state): state.rawValue
        case .fetch(let state): state.word
        }
    }

    /// Every word once.
    package static let words: [String] = BlobState.allCases.map(\.rawValue) + FetchState.allCases.map(\.word).filter { $0 != "failed" }

    package static func states(of word: String) -> [BlobListState] {
        BlobState.allCases.filter { $0.rawValue == word }.map { .upload($0) }
            + FetchState.allCases.filter { $0.word == word }.map { .fetch($0) }
    }
}
