package import SyncCore

/// The standing of a file according to its row in `blob`. The columns `state`, `fetch` and `has_file` have more combinations than a file
/// has states:
///
///     standing       state                fetch   has_file   the bytes
///     pending        0                    NULL    1          are here, and go to the server
///     uploadFailed   2                    NULL    1          are here, and their upload is set aside
///     missing        3                    NULL    0          are nowhere
///     uploaded       1                    NULL    0 or 1     are at the server, and here while there is room
///     fetching       1                    0       0          are at the hub, and come
///     fetched        1                    1       0 or 1     are at the hub, came, and are here while there is room
///     fetchFailed    1                    2       0          are at the hub, and their download is set aside
///
/// An uploaded row with fewer `offset_bytes` than `size_bytes` is of a file that the hub had when it was offered, so that nothing was
/// brought. It is offered again after the next change that shows it (``Store/offerAgain(_:)``).
///
/// A file that was uploaded from here and is fetched again has the standing of a download: `fetch` goes before `state`.
package enum BlobStanding: Hashable, Sendable {
    case pending, uploadFailed, missing
    /// - Parameter isHere: The bytes are on this device.
    case uploaded(isHere: Bool)
    case fetching, fetchFailed
    /// - Parameter isHere: The bytes are on this device.
    case fetched(isHere: Bool)

    /// - Returns: `nil` for a row whose numbers mean nothing, as after damage.
    package init?(state: Int64, fetch: Int64?, hasFile: Bool) {
        switch fetch.flatMap({ FetchState(rawValue: Int(clamping: $0)) }) {
        case .fetching?: self = .fetching
        case .fetched?: self = .fetched(isHere: hasFile)
        case .failed?: self = .fetchFailed
        case nil:
            switch BlobState(number: state) {
            case .pending?, .uploading?, .verifying?: self = .pending
            case .uploaded?: self = .uploaded(isHere: hasFile)
            case .failed?: self = .uploadFailed
            case .missing?: self = .missing
            case nil: return nil
            }
        }
    }

    /// The state of the file's way from the hub to this device; `nil` for a file that was never asked of the hub.
    package var fetch: FetchState? {
        switch self {
        case .fetching: .fetching
        case .fetched: .fetched
        case .fetchFailed: .failed
        case .pending, .uploadFailed, .missing, .uploaded: nil
        }
    }
}
