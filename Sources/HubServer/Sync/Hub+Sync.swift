import SyncCore

// The requests of devices: parsing, the store's work, and the answers.
extension Hub {
    func hello(_ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp) throws(HubRefusal) -> HubResponse {
        let body = try bodies.body(of: request)
        let hello = try reading { () throws(Problem) in try HelloMessages.readRequest(body) }
        if let named = hello.device, named != caller.device {
            throw HubRefusal(Problem("malformed", status: 400, detail: "/device_id: expected \(caller.device), whose credential was shown"))
        }
        if let named = hello.replica, let shown = caller.replica, named != shown {
            throw HubRefusal(Problem("malformed", status: 400, detail: "/replica: expected \(shown), as Sync-Replica says"))
        }
        let replica = hello.replica ?? caller.replica
        if let replica,
            let problem = try querying({ () throws(DatabaseError) in
                let row = try store.replica(caller.device, replica)
                if let found = evidence(request, caller, row) { return witnessed(found) }
                return try isReturn(request, caller.device, replica, at: now) ? Hub.regressed(maxSeq: row?.maxSeq ?? 0) : nil
            })
        {
            return HubResponse(problem)
        }
        let seen = try querying { () throws(DatabaseError) in
            try store.touch(caller.device, replica: replica, at: now)
            try store.recordFacts(caller.device, agent: hello.agent, platform: hello.platform, config: hello.config, at: now)
            if caller.abilities.contains(.revocations) { try store.endKeeping(caller.device) }
            try recordWaiting(request, caller, at: now)
            return try replica.flatMap { (id) throws(DatabaseError) in try store.replica(caller.device, id) }
        }
        var response = HelloResponse(
            device: caller.device, epoch: state.epoch, head: state.head, time: now, deviceSeq: seen?.maxSeq ?? 0,
            config: settings.config?.version,
            capabilities: (settings.compressor == nil ? [] : ["gzip"]) + Self.capabilities + (settings.uploads == nil ? [] : ["tus"]),
            limits: settings.limits,
            spread: settings.spread)
        response.share = caller.share?.told
        var answer = HubResponse(json: HelloMessages.response(response))
        if store.isDeciding { answer.preliminary = Preliminary(.hello(response), head: state.head) }
        return answer
    }

    private static let capabilities = ["groups", VerifyMessages.capability, UnreadableRecords.capability, EntityList.capability]

    func push(_ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp) throws(HubRefusal) -> HubResponse {
        guard let push = try request.push?.outcome.get() else { throw HubRefusal(Hub.notFound) }
        guard let replica = caller.replica else {
            throw HubRefusal(Problem("malformed", status: 400, detail: "Sync-Replica is missing: a push speaks for one database"))
        }
        // A push for another history waits until its device has asked which of its mutations this one still knows.
        if let epoch = request.hubHeaders.epoch, epoch != state.epoch {
            throw HubRefusal(Feed.resync("epoch-changed", "the push is meant for another history of this hub"))
        }
        return try querying { () throws(DatabaseError) in
            let device = caller.device
            let before = try store.replica(device, replica)
            if let found = evidence(request, caller, before) { return HubResponse(witnessed(found)) }
            if let before, try isRegressed(push, before, device) {
                return HubResponse(Hub.regressed(maxSeq: before.maxSeq))
            }
            if try isReturn(request, device, replica, at: now) { return HubResponse(Hub.regressed(maxSeq: before?.maxSeq ?? 0)) }
            try store.touch(device, replica: replica, at: now)
            if settings.ablations.contains(.keysForgotten) { try store.forgetKeys(device, upTo: push.ackedSeq) }
            var batch = PushBatch(
                device: device, share: caller.share, now: now, settings: settings, store: store, head: state.head,
                offering: offering(at: now), schemas: caller.schemas)
            let results = try batch.decide(push.items)
            if let version = batch.versionAhead, request.hubHeaders.epoch == state.epoch {
                countClaim(device, version: version)
            }
            try batch.write()
            try advance(to: batch.head, adding: batch.counters)
            try look(at: batch.written, of: device, at: now)
            try store.recordProgress(
                device, replica, maxSeq: push.items.compactMap(\.seq).max() ?? 0, ackedSeq: push.ackedSeq,
                config: push.config, adding: batch.counters, at: now)
            try recordWaiting(request, caller, settled: batch.counters.settled, at: now)
            var response = HubResponse(json: PushMessages.response(head: state.head, results: results))
            response.givesReceipt = true
            if store.isDeciding { response.preliminary = Preliminary(.push(results), head: state.head) }
            return response
        }
    }

    /// Returns whether the device's database went back in time: it has sent more than it remembers (PROTOCOL A6).
    ///
    /// Agents report their highest number. Without such a report a database has gone back when a new mutation has a `seq` that was
    /// acknowledged long ago.
    private func isRegressed(
        _ push: IncomingPush, _ replica: HubStore.ReplicaRow, _ device: DeviceID
    ) throws(DatabaseError) -> Bool {
        if let sent = push.maxSentSeq { return sent < replica.maxSeq }
        for item in push.items {
            if let seq = item.seq, seq > 0, seq <= replica.ackedSeq, try store.key(device, item.key) == nil { return true }
        }
        return false
    }

    /// Ends a request that carries evidence; its answer is given in the new history (``HubWitness``).
    private func witnessed(_ evidence: HubEvidence) -> Problem {
        witness.found = evidence
        return Feed.resync("epoch-changed", "the hub's database was replaced by an older copy")
    }

    /// The answer to a pull or a listing whose receipt proves that the hub's database went back; `nil`: it proves nothing.
    private func loss(shownBy request: HubRequest, _ caller: HubGate.Caller) throws(DatabaseError) -> Problem? {
        if request.hubHeaders.receipt == nil { return nil }
        let row = try caller.replica.flatMap { (id) throws(DatabaseError) in try store.replica(caller.device, id) }
        return evidence(request, caller, row).map { witnessed($0) }
    }

    private static func regressed(maxSeq: Int64) -> Problem {
        Problem(
            "replica-regressed", status: 409,
            detail: "this database has sent mutations up to seq \(maxSeq) and does not remember it",
            members: ["max_seq": .int(maxSeq)])
    }

    func pull(_ request: HubRequest, _ caller: HubGate.Caller) throws(HubRefusal) -> HubResponse {
        let body = request.method == "GET" ? [] : try bodies.body(of: request)
        let pull = try reading { () throws(Problem) in
            request.method == "GET" ? try PullMessages.readQuery(request.query) : try PullMessages.readRequest(body)
        }
        return try querying { () throws(DatabaseError) in
            if let problem = try loss(shownBy: request, caller) { return HubResponse(problem) }
            var feed = feed(for: caller)
            let pages = try feed.answer(pull)
            for error in pages.errors { try collectKeeping(error.problem, caller.device, error.entity) }
            var response = HubResponse(json: PullMessages.response(pages))
            // Without news there is nothing to prove: most pulls are so, and should stay small.
            response.givesReceipt = !pages.pages.isEmpty
            if request.mayWait, pages.pages.isEmpty, pages.errors.isEmpty, !pull.namesEntities {
                response.interest = feed.interest(of: pull.streams, HubSight(state))
            }
            return response
        }
    }

    func snapshot(_ request: HubRequest, _ caller: HubGate.Caller) throws(HubRefusal) -> HubResponse {
        let wanted = try reading { () throws(Problem) in try SnapshotMessages.readQuery(request.query) }
        switch try querying({ () throws(DatabaseError) -> Result<SnapshotPage, Problem> in
            if let problem = try loss(shownBy: request, caller) { return .failure(problem) }
            var feed = feed(for: caller)
            let answer = try feed.answer(wanted, for: caller.device)
            if case .failure(let problem) = answer { try collectKeeping(problem, caller.device, wanted.entity) }
            return answer
        }) {
        case .success(let page):
            var response = HubResponse(json: SnapshotMessages.response(page))
            response.givesReceipt = true
            return response
        case .failure(let problem): return HubResponse(problem)
        }
    }

    func known(_ request: HubRequest, _ caller: HubGate.Caller) throws(HubRefusal) -> HubResponse {
        let body = try bodies.body(of: request)
        let keys = try reading { () throws(Problem) in try KnownMessages.readRequest(body) }
        return try querying { () throws(DatabaseError) in
            var unknown: [MutationKey] = []
            // Includes those that were not accepted in this history: the device counts them as done, and they are not.
            for key in keys where try store.key(caller.device, key)?.status != .accepted { unknown.append(key) }
            return HubResponse(json: KnownMessages.response(unknown: unknown))
        }
    }

    func feed(for caller: HubGate.Caller) -> Feed {
        Feed(
            store: store, rules: settings.rules, share: settings.ablations.contains(.scopesIgnored) ? nil : caller.share,
            indexes: scopeIndexes, ablations: settings.ablations, epoch: state.epoch, secret: state.secret, head: state.head,
            opening: state.opening, lineage: lineage, device: caller.device,
            letsGo: caller.abilities.contains(.revocations), hasGrantSources: !settings.access.sources.isEmpty,
            views: SchemaViews(caller.schemas, settings.rules, ablations: settings.ablations),
            witness: settings.ablations.contains(.proofIgnored) ? nil : witness, totals: totals, time: settings.time)
    }
}
