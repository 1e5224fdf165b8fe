package import SyncCore

// Public endpoints for a balancer, a monitor or a person: they are answered whatever the database does.
extension Hub {
    /// Free space on the disk of the database below which the next writes are about to fail, bytes.
    static let freeBytesMin: Int64 = 16 << 20

    func open(_ endpoint: Endpoint, _ request: HubRequest, at now: Timestamp) -> HubResponse {
        switch endpoint {
        case .probe: return Hub.probed(request)
        case .healthz: return Hub.alive
        case .readyz:
            let reasons = notReady
            guard reasons.isEmpty else { return HubResponse(text: reasons.joined(separator: "\n") + "\n", status: 503) }
            // Without its store of files a hub syncs all the same, so a balancer should keep sending devices here.
            guard let uploads = settings.uploads, uploads.storage.isReachable == false else { return HubResponse(text: "ready\n") }
            let cause = uploads.folder == nil ? "the store of files does not answer" : "the folder of files is not that of the database"
            return HubResponse(text: "ready, but \(cause)\n")
        case .metrics:
            // On a shared database this look may be the first with the rules of another hub, so it comes before the decision.
            let counted = countedFigures(at: now)
            return isOffered(.metrics) ? page(of: counted, at: now) : HubResponse(Hub.notFound)
        case .hello, .pull, .push, .snapshot, .known, .verify, .config, .diagnostics, .enroll, .token, .files, .file, .blob:
            return HubResponse(Hub.notFound)
        }
    }

    /// The figures are those of all devices together. A hub that shares records out has no such path for devices and strangers, as the
    /// figures would tell one device of the others (PROTOCOL A16).
    func isOffered(_ endpoint: Endpoint) -> Bool { endpoint != .metrics || !settings.sharesOut }

    /// The figures for an operator or a monitor, who may know those of all devices, whatever the settings are.
    package func figures(at now: Timestamp) -> HubResponse {
        if isDown { reopen(at: now) }
        latest = now
        let response = Hub.finish(page(of: countedFigures(at: now), at: now), at: now)
        traffic.count(HubRequest("GET", Endpoint.metrics.rawValue), response)
        return response
    }

    /// Answers a probe. The echo proves that no other program answers in the hub's place; an invalid nonce gets none.
    static func probed(_ request: HubRequest) -> HubResponse {
        let nonce = request.query["n"].flatMap { Identifier<Never>($0) }
        return HubResponse(status: 204, headers: nonce.map { [HubHeader.probe: $0.text] } ?? [:])
    }

    /// The process is alive, and no more is checked: a restart repairs neither a disk nor a database server.
    static var alive: HubResponse { HubResponse(text: "ok\n") }

    /// The reasons to send devices to another hub, or later. Empty: the hub is ready.
    private var notReady: [String] {
        var reasons: [String] = []
        if look({ _ throws(DatabaseError) in true }) == nil { reasons.append("the database does not answer") }
        if let free = settings.freeBytes?(), free < Hub.freeBytesMin {
            // The exact number is for the operator alone (`agenthub_disk_free_bytes`).
            reasons.append("the disk of the database has less than \(Hub.freeBytesMin) bytes free")
        }
        return reasons
    }

    /// Runs `body` in a reading transaction of its own.
    ///
    /// - Returns: `nil` when the database does not answer.
    private func look<T>(_ body: (HubStore) throws(DatabaseError) -> T) -> T? {
        do throws(DatabaseError) {
            try begin(.reading)
            // A connection that was just lost shows only when it is used.
            _ = try store.hub()
            let result = try body(store)
            try commit()
            return result
        } catch {
            abandon(error)
            return nil
        }
    }

    // MARK: Figures

    private func countedFigures(at now: Timestamp) -> HubFigures? {
        look { (store) throws(DatabaseError) in try store.figures(at: now) }
    }

    /// - Parameter figures: `nil` when the database does not answer.
    private func page(of figures: HubFigures?, at now: Timestamp) -> HubResponse {
        var page = MetricsPage()
        if let version = settings.version {
            page.family("agenthub_info", .gauge, "The program; always 1.", [(["version": version], 1)])
        }
        page.family("agenthub_database_up", .gauge, "1 when the database answers.", [([:], figures == nil ? 0 : 1)])
        page.family("agenthub_head", .gauge, "Newest commit number.", [([:], state.head)])
        page.family(
            "agenthub_damaged_records", .gauge, "Records whose row cannot be read, found since the start.",
            [([:], Int64(store.damaged.count))])
        page.family(
            "agenthub_entity_generation", .gauge, "Generation of the entity settings that this hub works by; 0: the database has none.",
            [([:], entityGeneration)])
        addHistory(to: &page)
        let counters = state.counters
        page.family(
            "agenthub_mutations_total", .counter, "Mutations by verdict, since the database was made.",
            [
                ("accepted", counters.applied), ("duplicate", counters.duplicates), ("conflict", counters.conflicts),
                ("rejected", counters.rejected), ("retry", counters.retried),
            ].map { (["verdict": $0.0], $0.1) })
        page.family("agenthub_requests_total", .counter, "Requests by path and status, since the start.", traffic.samples)
        page.histogram(
            "agenthub_transaction_seconds", "Transactions with all requests that waited, the commit included.", transactionTimes
        )
        if let figures { add(figures, to: &page) }
        if let free = settings.freeBytes?() {
            page.family("agenthub_disk_free_bytes", .gauge, "Free bytes on the disk of the database.", [([:], free)])
        }
        if let uploads = settings.uploads, let isReachable = uploads.storage.isReachable {
            let (name, help) =
                uploads.folder == nil
                ? ("agenthub_object_store_up", "Whether the object store with the files answered the last time.")
                : ("agenthub_file_folder_up", "Whether the folder of files was the one of the database the last time.")
            page.family(name, .gauge, help, [([:], isReachable ? 1 : 0)])
        }
        addHousekeeping(to: &page)
        var response = HubResponse(text: page.text)
        response.headers["Content-Type"] = MetricsPage.contentType
        return response
    }

    private func addHistory(to page: inout MetricsPage) {
        page.family(
            "agenthub_histories_total", .counter, "New histories that have begun, by cause; of the newest 1,000 openings of the database.",
            HubLineage.Cause.allCases.filter(\.beginsHistory).map { cause in
                (["cause": cause.rawValue], Int64(lineage.entries.count { $0.cause == cause }))
            })
        page.family(
            "agenthub_history_began_timestamp_seconds", .gauge, "When the present history began, Unix time; 0: unknown.",
            [([:], lineage.began.map { $0.milliseconds / 1_000 } ?? 0)])
        page.family(
            "agenthub_unproved_claims_total", .counter,
            "Pushes since the start that name a version which this history has not reached, without proof.", [([:], claims)])
    }

    private func add(_ figures: HubFigures, to page: inout MetricsPage) {
        page.family(
            "agenthub_devices", .gauge, "Devices by the time when they were last seen.",
            [("day", figures.day), ("week", figures.week), ("earlier", figures.earlier)].map { (["seen": $0.0], $0.1) })
        page.family(
            "agenthub_cloned_devices", .gauge, "Devices whose id two databases used in turns within a day.", [([:], figures.clones)])
        page.family(
            "agenthub_devices_to_update", .gauge, "Devices that get no records of an entity until their agent is updated.",
            [([:], figures.keeping)])
        page.family(
            "agenthub_waiting_mutations", .gauge, "Mutations that wait on devices, by their last reports.", [([:], figures.waiting)])
        page.family("agenthub_uploads_open", .gauge, "Uploads that are not complete.", [([:], figures.uploads)])
        guard let size = figures.size else { return }
        page.family("agenthub_database_bytes", .gauge, "Size of the database's file.", [([:], size.bytes)])
        page.family("agenthub_database_free_bytes", .gauge, "Unused bytes in the database's file.", [([:], size.freeBytes)])
    }

    private func addHousekeeping(to page: inout MetricsPage) {
        page.family(
            "agenthub_housekeeping_timestamp_seconds", .gauge, "Time of the last housekeeping, Unix time; 0: none since the start.",
            [([:], housekept.at.map { $0.milliseconds / 1_000 } ?? 0)])
        page.family(
            "agenthub_dropped_total", .counter, "Entries dropped after their retention, since the start, by kind.",
            [
                ("deletion", housekept.deletions), ("rejection", housekept.rejections), ("report", housekept.reports),
                ("upload", housekept.uploads), ("event", housekept.events),
            ].map { (["kind": $0.0], $0.1) })
        page.family(
            "agenthub_reclaimed_bytes_total", .counter, "Bytes that the database's file returned to the file system, since the start.",
            [([:], housekept.bytes)])
    }
}

/// The figures that ``Hub/figures(at:)`` counts in the database: none takes longer with more records.
struct HubFigures {
    var day: Int64
    var week: Int64
    var earlier: Int64
    var clones: Int64
    var keeping: Int64
    var waiting: Int64
    var uploads: Int64
    var size: DatabaseSize?
}

extension HubStore {
    func figures(at now: Timestamp) throws(DatabaseError) -> HubFigures {
        func before(_ days: Int) -> DatabaseValue { .int(now.advanced(by: .seconds(-86_400) * days).milliseconds) }
        let devices = try database.first(
            """
            SELECT coalesce(sum(CASE WHEN last_seen_ms >= ?1 THEN 1 ELSE 0 END), 0),
              coalesce(sum(CASE WHEN last_seen_ms >= ?2 AND last_seen_ms < ?1 THEN 1 ELSE 0 END), 0),
              coalesce(sum(CASE WHEN last_seen_ms < ?2 THEN 1 ELSE 0 END), 0), coalesce(sum(waiting), 0) FROM device
            """, before(1), before(7)
        ) { ($0.int(0), $0.int(1), $0.int(2), $0.int(3)) }
        let clones = try database.first(
            """
            SELECT count(*) FROM (
                SELECT device FROM replica WHERE returns >= \(HubStore.ReplicaRow.returnsOfTwins) AND last_seen_ms >= ?
                GROUP BY device HAVING count(*) > 1) AS twins
            """, .int(now.advanced(by: .zero - Hub.twinWindow).milliseconds)
        ) { $0.int(0) }
        return HubFigures(
            day: devices?.0 ?? 0, week: devices?.1 ?? 0, earlier: devices?.2 ?? 0, clones: clones ?? 0,
            keeping: try database.number("SELECT count(*) FROM device_keeping"), waiting: devices?.3 ?? 0,
            uploads: try database.number("SELECT count(*) FROM upload WHERE digest IS NULL"), size: try database.size())
    }
}
