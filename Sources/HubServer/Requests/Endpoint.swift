import SyncCore

/// The endpoints of the hub and their methods (PROTOCOL A2).
package enum Endpoint: String, CaseIterable, Sendable {
    case probe = "/v1/probe"
    case hello = "/v1/sync/hello"
    case pull = "/v1/sync/pull"
    case push = "/v1/sync/push"
    case snapshot = "/v1/sync/snapshot"
    case known = "/v1/sync/known"
    case config = "/v1/config"
    case verify = "/v1/sync/verify"
    case diagnostics = "/v1/diagnostics"
    case enroll = "/v1/devices/enroll"
    case token = "/v1/devices/token"
    case files = "/v1/files"
    case file = "/v1/files/{id}"
    case blob = "/v1/blobs/{digest}"
    case healthz = "/healthz"
    case readyz = "/readyz"
    case metrics = "/metrics"

    static let filePrefix = "/v1/files/"
    static let blobPrefix = "/v1/blobs/"

    static func find(_ path: String) -> Endpoint? {
        // The path must have exactly one more name.
        func isBelow(_ prefix: String) -> Bool {
            path.hasPrefix(prefix) && path.utf8.count > prefix.utf8.count
                && !path.utf8.dropFirst(prefix.utf8.count).contains(UInt8(ascii: "/"))
        }
        if isBelow(filePrefix) { return .file }
        if isBelow(blobPrefix) { return .blob }
        return Endpoint(rawValue: path)
    }

    /// tus 1.0.0, whose general clients know nothing of the sync: they need not send its version.
    var isTus: Bool { self == .files || self == .file }

    package var methods: [String] {
        switch self {
        case .probe, .snapshot, .config, .healthz, .readyz, .metrics: ["GET"]
        case .hello, .push, .known, .verify, .diagnostics, .enroll, .token: ["POST"]
        case .pull: ["GET", "POST"]
        case .files: ["OPTIONS", "POST"]
        case .file: ["HEAD", "PATCH", "DELETE"]
        case .blob: ["HEAD", "GET"]
        }
    }

    /// The endpoint requires a credential and a `Sync-Version`.
    var isForDevices: Bool {
        switch self {
        case .hello, .pull, .push, .snapshot, .known, .verify, .config, .diagnostics, .token, .files, .file, .blob: true
        case .enroll, .probe, .healthz, .readyz, .metrics: false
        }
    }

    var writes: Bool {
        switch self {
        case .push, .hello, .diagnostics, .enroll, .token, .files, .file: true
        case .probe, .pull, .snapshot, .known, .config, .verify, .blob, .healthz, .readyz, .metrics: false
        }
    }

    /// `true` when all its changes go through the rows of ``WriteGroup``.
    var writesInGroup: Bool { self == .push || self == .hello }

    /// `true` when the endpoint cannot be answered without the database. Endpoints that report its state read it themselves.
    var asksDatabase: Bool {
        switch self {
        case .probe, .healthz, .readyz, .metrics: false
        case .hello, .pull, .push, .snapshot, .known, .config, .verify, .diagnostics, .enroll, .token, .files, .file, .blob: true
        }
    }

    /// Order of admission under load: pushes store work safely, listings can wait longest (PROTOCOL G4).
    package var rank: Int {
        switch self {
        case .probe, .healthz, .readyz, .metrics, .push: 0
        case .hello, .pull, .known, .config, .enroll, .token: 1
        case .snapshot, .verify, .diagnostics, .files, .file, .blob: 2
        }
    }
}

extension HubRequest {
    var writes: Bool { Endpoint.find(path)?.writes ?? false || offersFile }
    var asksDatabase: Bool { Endpoint.find(path)?.asksDatabase ?? false }
    /// The device has the file and would bring it, unless the hub has it already (PROTOCOL H2).
    var offersFile: Bool { method == "HEAD" && headers[Tus.length] != nil && Endpoint.find(path) == .blob }
}
