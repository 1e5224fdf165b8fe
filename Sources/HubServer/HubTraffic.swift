import SyncCore

/// What was asked since the start, as Prometheus reads it. Names no device and no entity: anybody may ask.
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

    func text(_ hub: HubStore.HubRow, storage isReachable: Bool? = nil) -> String {
        let verdicts = [
            ("accepted", hub.counters.applied), ("duplicate", hub.counters.duplicates), ("conflict", hub.counters.conflicts),
            ("rejected", hub.counters.rejected), ("retry", hub.counters.retried),
        ]
        var text = """
            # HELP agenthub_head Newest commit number.
            # TYPE agenthub_head gauge
            agenthub_head \(hub.head)
            # HELP agenthub_mutations_total Mutations by verdict, since the database was made.
            # TYPE agenthub_mutations_total counter

            """
        for (verdict, count) in verdicts { text += "agenthub_mutations_total{verdict=\"\(verdict)\"} \(count)\n" }
        text += """
            # HELP agenthub_requests_total Requests by path and status, since the start.
            # TYPE agenthub_requests_total counter

            """
        for (series, count) in requests.sorted(by: { ($0.key.path, $0.key.status) < ($1.key.path, $1.key.status) }) {
            text += "agenthub_requests_total{path=\"\(series.path)\",status=\"\(series.status)\"} \(count)\n"
        }
        if let isReachable {
            text += """
                # HELP agenthub_object_store_up Whether the object store with the files answered the last time.
                # TYPE agenthub_object_store_up gauge
                agenthub_object_store_up \(isReachable ? 1 : 0)

                """
        }
        return text
    }
}
