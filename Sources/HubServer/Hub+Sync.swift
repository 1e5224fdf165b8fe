import SyncCore

// The requests of devices: what is read, asked of the store, and answered.
extension Hub {
    func hello(_ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp) throws(HubRefusal) -> HubResponse {
        let body = try body(of: request)
        let hello = try reading { () throws(Problem) in try HelloMessages.readRequest(body) }
        let replica = hello.replica ?? caller.replica
        let seen = try querying { () throws(DatabaseError) in
            try store.touch(caller.device, replica: replica, at: now)
            try store.note(caller.device, agent: hello.agent, platform: hello.platform, config: hello.config)
            try noteWaiting(request, caller, at: now)
            return try replica.flatMap { (id) throws(DatabaseError) in try store.replica(caller.device, id) }
        }
        let response = HelloResponse(
            device: caller.device, epoch: state.epoch, head: state.head, time: now, deviceSeq: seen?.maxSeq ?? 0,
            config: settings.config?.version,
            capabilities: (settings.compressor == nil ? [] : ["gzip"]) + ["groups", VerifyMessages.capability] + (settings.uploads == nil ? [] : ["tus"]),
            limits: settings.limits,
            spread: settings.spread)
        return HubResponse(json: HelloMessages.response(response))
    }

    func push(_ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp) throws(HubRefusal) -> HubResponse {
        let body = try body(of: request)
        let push = try reading { () throws(Problem) in try PushMessages.readRequest(body) }
        guard let replica = caller.replica else {
            throw HubRefusal(Problem("malformed", status: 400, detail: "Sync-Replica is missing: a push speaks for one database"))
        }
        // Work for another history waits until its device has asked what this one still knows.
        if let epoch = HubRequestHeaders(reading: request.headers).epoch, epoch != state.epoch {
            throw HubRefusal(Feed.resync("epoch-changed", "the push is meant for another history of this hub"))
        }
        return try querying { () throws(DatabaseError) in
            let device = caller.device
            let before = try store.replica(device, replica)
            if let before, try isRegressed(push, before, device) {
                return HubResponse(Hub.regressed(maxSeq: before.maxSeq))
            }
            try store.touch(device, replica: replica, at: now)
            if settings.ablations.contains(.keysForgotten) { try store.forgetKeys(device, upTo: push.ackedSeq) }
            var batch = PushBatch(
                device: device, now: now, rules: settings.rules, ablations: settings.ablations, store: store, head: state.head)
            let results = try batch.decide(push.items)
            try batch.write()
            try advance(to: batch.head, adding: batch.counters)
            if settings.uploads != nil { try look(at: batch.written, at: now) }
            try store.note(
                device, replica, maxSeq: push.items.compactMap(\.seq).max() ?? 0, ackedSeq: push.ackedSeq,
                config: push.config, adding: batch.counters)
            try noteWaiting(request, caller, settled: batch.counters.settled, at: now)
            return HubResponse(json: PushMessages.response(head: state.head, results: results))
        }
    }

    /// Whether the device's database went back in time: it has sent more than it remembers (PROTOCOL A6).
    ///
    /// Agents say how far they had come. Of one that does not, the same shows when a new mutation has a `seq` that was
    /// acknowledged long ago.
    private func isRegressed(
        _ push: IncomingPush, _ replica: HubStore.ReplicaRow, _ device: DeviceID
    ) throws(DatabaseError) -> Bool {
        if let sent = push.maxSentSeq { return sent < replica.maxSeq }
        for item in push.items {
            if let seq = item.seq, seq <= replica.ackedSeq, try store.key(device, item.key) == nil { return true }
        }
        return false
    }

    private static func regressed(maxSeq: Int64) -> Problem {
        Problem(
            "replica-regressed", status: 409,
            detail: "this database has sent mutations up to seq \(maxSeq) and does not remember it",
            members: ["max_seq": .int(maxSeq)])
    }

    func pull(_ request: HubRequest) throws(HubRefusal) -> HubResponse {
        let body = request.method == "GET" ? [] : try body(of: request)
        let pull = try reading { () throws(Problem) in
            request.method == "GET" ? try PullMessages.readQuery(request.query) : try PullMessages.readRequest(body)
        }
        return try querying { () throws(DatabaseError) in
            HubResponse(json: PullMessages.response(try feed.answer(pull)))
        }
    }

    func snapshot(_ request: HubRequest, _ caller: HubGate.Caller) throws(HubRefusal) -> HubResponse {
        let wanted = try reading { () throws(Problem) in try SnapshotMessages.readQuery(request.query) }
        switch try querying({ () throws(DatabaseError) in try feed.answer(wanted, for: caller.device) }) {
        case .success(let page): return HubResponse(json: SnapshotMessages.response(page))
        case .failure(let problem): return HubResponse(problem)
        }
    }

    func known(_ request: HubRequest, _ caller: HubGate.Caller) throws(HubRefusal) -> HubResponse {
        let body = try body(of: request)
        let keys = try reading { () throws(Problem) in try KnownMessages.readRequest(body) }
        return try querying { () throws(DatabaseError) in
            var unknown: [MutationKey] = []
            // Also those that were not accepted in this history: the device takes them for done, and they are not.
            for key in keys where try store.key(caller.device, key)?.status != .accepted { unknown.append(key) }
            return HubResponse(json: KnownMessages.response(unknown: unknown))
        }
    }

    var feed: Feed {
        Feed(store: store, rules: settings.rules, epoch: state.epoch, secret: state.secret, head: state.head)
    }
}
