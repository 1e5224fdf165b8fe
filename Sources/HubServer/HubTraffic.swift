/// What was asked since the start. Names no device and no entity: anybody may ask for it.
struct HubTraffic {
    private struct Series: Hashable {
        var path: String
        var status: Int
    }

    private var requests: [Series: Int64] = [:]

    mutating func count(_ request: HubRequest, _ response: HubResponse) {
        let path = Endpoint.find(request.path)?.rawValue ?? "other"
        requests[Series(path: path, status: response.status), default: 0] += 1
    }

    var samples: [(labels: [String: String], value: Int64)] {
        requests.sorted { ($0.key.path, $0.key.status) < ($1.key.path, $1.key.status) }.map {
            (["path": $0.key.path, "status": String($0.key.status)], $0.value)
        }
    }
}
