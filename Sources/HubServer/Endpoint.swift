import SyncCore

/// What can be asked, and how (PROTOCOL A2).
enum Endpoint: String, CaseIterable {
    case probe = "/v1/probe"
    case hello = "/v1/sync/hello"
    case pull = "/v1/sync/pull"
    case push = "/v1/sync/push"
    case snapshot = "/v1/sync/snapshot"
    case known = "/v1/sync/known"
    case config = "/v1/config"
    case verify = "/v1/sync/verify"
    case healthz = "/healthz"
    case readyz = "/readyz"
    case metrics = "/metrics"

    static func find(_ path: String) -> Endpoint? { Endpoint(rawValue: path) }

    var methods: [String] {
        switch self {
        case .probe, .snapshot, .config, .healthz, .readyz, .metrics: ["GET"]
        case .hello, .push, .known, .verify: ["POST"]
        case .pull: ["GET", "POST"]
        }
    }

    /// Asks for a credential and a `Sync-Version`.
    var isForDevices: Bool {
        switch self {
        case .hello, .pull, .push, .snapshot, .known, .verify, .config: true
        case .probe, .healthz, .readyz, .metrics: false
        }
    }

    var writes: Bool { self == .push || self == .hello }

    /// When too much is asked at once: pushes bring work into safety, listings can wait longest (PROTOCOL G4).
    package var rank: Int {
        switch self {
        case .probe, .healthz, .readyz, .metrics, .push: 0
        case .hello, .pull, .known, .config: 1
        case .snapshot, .verify: 2
        }
    }
}

extension HubRequest {
    var writes: Bool { Endpoint.find(path)?.writes ?? false }
}
