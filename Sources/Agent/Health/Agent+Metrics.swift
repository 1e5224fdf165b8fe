import LocalAPI
import SyncCore
import SyncStore

// `GET /v1/metrics`, in the text format of Prometheus.
extension Agent {
    func showMetrics(_ call: LocalCall) {
        fromReader(for: call) { reads, now throws(StoreError) in
            (facts: try reads.facts(at: now), entities: try reads.entities(), openConflicts: try reads.openConflicts())
        } then: { agent, view in
            call.answer(ControlAnswer.metrics(agent.metricsPage(view.facts, view.entities, openConflicts: view.openConflicts)))
        }
    }

    func metricsPage(_ facts: StoreFacts, _ entities: [EntityOverview], openConflicts: Int64) -> String {
        let now = environment.time.now()
        var page = MetricsPage()
        page.family("agentd_info", .gauge, "The program; always 1.", [(["version": AgentVersion.current], 1)])
        page.family(
            "agentd_uptime_seconds", .gauge, "Time since the start.", [([:], startedAt.duration(to: now.instant).components.seconds)])
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
                (["result": "ok"], Int64(metrics.cycles - metrics.failedCycles)),
                (["result": "failed"], Int64(metrics.failedCycles)),
            ])
        page.family(
            "agentd_bytes_total", .counter, "Bytes on the wire since the start, by link and purpose.",
            metrics.bytes.sorted { $0.key < $1.key }.flatMap { series, bytes in
                [("up", bytes.up), ("down", bytes.down)].map {
                    (["link": series.link, "class": series.purpose.rawValue, "dir": $0.0], $0.1)
                }
            })
        page.family(
            "agentd_link_state", .gauge, "1 for a link that could carry the sync.",
            shownLinks.map { (["link": $0.name, "kind": $0.kind.rawValue, "state": $0.state.rawValue], $0.isUsable ? 1 : 0) })
        page.family(
            "agentd_link_recoveries_total", .counter, "Runs of the program that links[].recover names, since the start.",
            around.recoveries.sorted { $0.key < $1.key }.map { (["link": $0.key], $0.value.runs) })
        page.family(
            "agentd_reachability", .gauge, "1 for the present state.",
            Reachability.allCases.map { (["state": $0.rawValue], $0 == engine.reachability ? 1 : 0) })
        page.family(
            "agentd_refusals_total", .counter, "Requests to the local API that were refused, by code.",
            metrics.refusals.sorted { $0.key < $1.key }.map { (["code": $0.key], $0.value) })
        page.family(
            "agentd_records_not_kept", .gauge, "Records whose documents this device has dropped, by entity.",
            entities.filter { loaded.configuration.rules[$0.name]?.keep != nil || $0.notKept > 0 }.map {
                (["entity": $0.name.text], $0.notKept)
            })
        page.family("agentd_conflicts_open", .gauge, "Conflicts that wait for a decision.", [([:], openConflicts)])
        page.histogram("agentd_enqueue_seconds", "From a mutation's request to its answer.", metrics.enqueueTimes)
        page.histogram("agentd_fsync_seconds", "Commits of the database, the wait for the medium included.", store.commitTimes)
        let jobs = store.jobTimes
        page.histogram("agentd_store_job_seconds", "Jobs of the thread that writes the database, their commits not included.", jobs.times)
        page.gauge("agentd_store_job_longest_seconds", "The longest of these jobs since the start.", jobs.longest)
        page.family(
            "agentd_store_jobs_over_bound_total", .counter,
            "Jobs that took longer than \(StoreJobTimes.bound.components.seconds) seconds, for which apps had to wait.",
            [([:], Int64(jobs.overBound))])
        page.histogram("agentd_pull_page_seconds", "Answered requests for a page of changes or of a listing.", metrics.pullTimes)
        page.histogram("agentd_push_seconds", "Answered requests that carried mutations.", metrics.pushTimes)
        page.family("agentd_db_bytes", .gauge, "Size of the database, free pages not counted.", [([:], facts.bytes)])
        page.family("agentd_wal_bytes", .gauge, "Size of the write-ahead log.", [([:], facts.walBytes)])
        page.family("agentd_event_streams", .gauge, "Open readers of the event stream.", [([:], Int64(events.count))])
        return page.text
    }
}
