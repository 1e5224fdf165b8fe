import Synchronization

/// Counters of requests since the start. They name no device and no entity, because the page is public. Several threads count, because
/// public endpoints are answered outside the hub's thread.
final class HubTraffic: Sendable {
    private struct Series: Hashable {
        var path: String
        var status: Int
    }

    private let requests = Mutex<[Series: Int64]>([:])

    func count(_ request: HubRequest, _ response: HubResponse, times: Int64 = 1) {
        let path = Endpoint.find(request.path)?.rawValue ?? "other"
        requests.withLock { $0[Series(path: path, status: response.status), default: 0] += times }
    }

    var samples: [(labels: [String: String], value: Int64)] {
        requests.withLock { $0 }.sorted { ($0.key.path, $0.key.status) < ($1.key.path, $1.key.status) }.map {
            (["path": $0.key.path, "status": String($0.key.status)], $0.value)
        }
    }
}
