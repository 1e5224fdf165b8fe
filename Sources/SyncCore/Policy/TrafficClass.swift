/// Classes of traffic: the columns of the policy table (PROTOCOL F).
package enum TrafficClass: Hashable, Sendable, CaseIterable {
    case critical, normal, bulk
    /// A file of at most `blobs.large` bytes.
    case media
    /// A larger file. The size of the file counts, not that of the present piece.
    case largeMedia
    case pull
    /// Logs and counters about the agent itself.
    case diagnostics

    package init(_ priority: Priority) {
        switch priority {
        case .critical: self = .critical
        case .normal: self = .normal
        case .bulk: self = .bulk
        }
    }

    package var name: String {
        switch self {
        case .critical: "critical"
        case .normal: "normal"
        case .bulk: "bulk"
        case .media: "media"
        case .largeMedia: "large_media"
        case .pull: "pull"
        case .diagnostics: "diagnostics"
        }
    }

    /// The subject of a sentence such as "normal mutations wait because …".
    package var subject: String {
        switch self {
        case .critical: "critical mutations"
        case .normal: "normal mutations"
        case .bulk: "bulk mutations"
        case .media: "files"
        case .largeMedia: "large files"
        case .pull: "pulls"
        case .diagnostics: "diagnostics"
        }
    }
}
