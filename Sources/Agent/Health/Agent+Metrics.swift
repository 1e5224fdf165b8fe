import LocalAPI
import SyncCore
import SyncStore

// `GET /v1/metrics`, in the text format of Prometheus.
extension Agent {
    func showMetrics(_ call: LocalCall) {
        reader.read { reads, now throws(StoreError) in
            try reads.facts(at: now)
        } completion: { [self] result in
            assumeIsolated { agent in
                switch result {
                case .success(let facts): call.answer(ControlAnswer.metrics(agent.metrics(facts)))
                case .failure(let error): agent.refuse(call, error)
                }
            }
        }
    }

    func metrics(_ facts: StoreFacts) -> String {
        let now = environment.time.now()
        var page = MetricsPage()
        page.family("agentd_info", .gauge, "The program; always 1.", [(["version": AgentVersion.current], 1)])
        page.family("agentd_uptime_seconds", .gauge, "Time since the start.", [([:], startedAt.duration(to: now.instant).components.seconds)])
        page.family(
            "agentd_outbox_depth", .gauge, "Mutations that are not final, by state and priority.",
            MutationState.allCases.filter { !$0.isTerminal }.flatMap { state in
                Priority.allCases.map { (["state": state.name, "priority": $0.name], facts.counts[state]?[$0] ?? 0) }
            })
        page.family("agentd_enqueued_total", .counter, "Mutations ever accepted by this database.", [([:], facts.enqueued)])
        page.family(
            "agentd_finished_total", .counter, "Mutations in a final state, by state.",
            MutationState.allCases.filter(\.isTerminal).map { (["state": $0.name], facts.count($0)) })
        page.family(
            "agentd_outbox_oldest_seconds", .gauge, "Age of the oldest mutation that the hub does not have; 0 when there is none.",
            [([:], facts.oldestWaiting.map { max(0, $0.duration(to: now.wall).components.seconds) } ?? 0)])
        page.family(
            "agentd_sync_cycles_total", .counter, "Sync cycles since the start, by result.",
            [
                (["result": "ok"], Int64(observed.cycles - observed.failedCycles)),
                (["result": "failed"], Int64(observed.failedCycles)),
            ])
        page.family(
            "agentd_hub_bytes_total", .counter, "Bytes exchanged with the hub since the start, heads included.",
            [(["dir": "up"], observed.bytesUp), (["dir": "down"], observed.bytesDown)])
        page.family(
            "agentd_reachability", .gauge, "1 for the present state.",
            Reachability.allCases.map { (["state": $0.rawValue], $0 == engine.reachability ? 1 : 0) })
        page.family(
            "agentd_refusals_total", .counter, "Requests to the local API that were refused, by code.",
            observed.refusals.sorted { $0.key < $1.key }.map { (["code": $0.key], $0.value) })
        page.family("agentd_db_bytes", .gauge, "Size of the database, free pages not counted.", [([:], facts.bytes)])
        page.family("agentd_wal_bytes", .gauge, "Size of the write-ahead log.", [([:], facts.walBytes)])
        page.family("agentd_event_streams", .gauge, "Open readers of the event stream.", [([:], Int64(events.count))])
        return page.text
    }
}

/// The text format: a HELP and a TYPE line, then a sample a line.
private struct MetricsPage {
    enum Kind: String { case counter, gauge }

    private(set) var text = ""

    mutating func family(_ name: String, _ kind: Kind, _ help: String, _ samples: [(labels: [String: String], value: Int64)]) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
        for sample in samples {
            let labels = sample.labels.sorted { $0.key < $1.key }.map { "\($0.key)=\"\(escaped($0.value))\"" }
            text += name + (labels.isEmpty ? "" : "{" + labels.joined(separator: ",") + "}") + " \(sample.value)\n"
        }
    }

    private func escaped(_ text: String) -> String {
        text.reduce(into: "") { result, character in
            switch character {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.append(character)
            }
        }
    }
}
