import SyncCore

// One request: its endpoint, its caller, and the headers of its answer.
extension Hub {
    func answer(_ request: HubRequest, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        var caller: HubGate.Caller?
        let response: HubResponse
        do throws(HubRefusal) {
            response = try respond(request, &caller, at: now)
        } catch {
            response = try error.answer()
        }
        return try finish(response, caller, at: now)
    }

    private func respond(
        _ request: HubRequest, _ caller: inout HubGate.Caller?, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        guard let endpoint = Endpoint.find(request.path), isOffered(endpoint) else { throw HubRefusal(Hub.notFound) }
        guard endpoint.methods.contains(request.method) else {
            throw HubRefusal(Hub.wrongMethod(at: endpoint))
        }
        if endpoint == .enroll { return try enroll(request, at: now) }
        guard endpoint.isForDevices else { return open(endpoint, request, at: now) }
        let gate = HubGate(tokens: settings.tokens, grace: settings.tokenGrace, now: now)
        var proved = try gate.caller(request, at: endpoint)
        proved.share = try querying { () throws(DatabaseError) in try share(of: proved.device) }
        caller = proved
        if let token = proved.token, token.awaitsFirstUse {
            if onlyReads { throw HubRefusal(DatabaseError(.readOnly, doing: "note the first use of a token", detail: "it only reads")) }
            if settings.keepsTokens { shown.append(token) } else { try confirm(token, at: now) }
        }
        return try serve(endpoint, request, proved, at: now)
    }

    private func serve(
        _ endpoint: Endpoint, _ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp
    ) throws(HubRefusal) -> HubResponse {
        switch endpoint {
        case .hello: try hello(request, caller, at: now)
        case .pull: try pull(request, caller)
        case .push: try push(request, caller, at: now)
        case .snapshot: try snapshot(request, caller)
        case .known: try known(request, caller)
        case .config: config(request)
        case .verify: try verify(request, caller)
        case .diagnostics: try diagnostics(request, caller, at: now)
        case .token: try refreshToken(request, at: now)
        case .files, .file, .blob: try files(endpoint, request, caller, at: now)
        case .enroll, .probe, .healthz, .readyz, .metrics: open(endpoint, request, at: now)
        }
    }

    // MARK: Headers

    /// Adds the headers that every answer carries. Unauthenticated callers learn the time and the version, but not how busy the hub is.
    private func finish(_ response: HubResponse, _ caller: HubGate.Caller?, at now: Timestamp) throws(DatabaseError) -> HubResponse {
        var headers = HubHeaders()
        if let caller {
            headers.epoch = state.epoch
            headers.head = state.head
            headers.config = settings.config?.version
            headers.tokenEndsAt = caller.token?.endsAt
            headers.tokenRefreshAt = caller.token?.refreshAt
            headers.shareMark = caller.share.map { mark(of: $0) }
            headers.schemas = settings.schemas
            if let replica = caller.replica {
                let seq = try store.replica(caller.device, replica)?.maxSeq ?? 0
                headers.deviceSeq = seq
                if response.givesReceipt { headers.receipt = receipt(for: caller, seq: seq, head: state.head) }
                headers.twins = try twins(of: caller.device, replica, at: now)
            }
        }
        var finished = Hub.finish(response, headers, at: now)
        if let caller, store.isDeciding {
            var preliminary = response.preliminary ?? Preliminary(.problem, head: state.head)
            preliminary.caller = headers.receipt == nil ? nil : caller
            preliminary.seq = headers.deviceSeq ?? 0
            finished.preliminary = preliminary
        }
        return finished
    }

    static func finish(_ response: HubResponse, _ headers: HubHeaders = HubHeaders(), at now: Timestamp) -> HubResponse {
        var (response, headers) = (response, headers)
        headers.time = now
        // Headers that the answer itself has set stay.
        let own = [HubHeader.retryAfter, HubHeader.tokenEnds, HubHeader.tokenRefresh].map { ($0, response.headers[$0]) }
        headers.write(to: &response.headers)
        for case (let name, let value?) in own { response.headers[name] = value }
        return response
    }
}
