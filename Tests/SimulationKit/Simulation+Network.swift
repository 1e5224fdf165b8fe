import SyncCore

/// A request on its way. Copies may arrive more than once, and long after the caller stopped waiting for an answer.
struct Flight {
    var agent: Int
    var life: Int
    var call: UInt64
    var kind: HubCall.Kind
    var request: HTTPRequest
    /// Time of sending, since the boot of the agent.
    var sent: Instant
    /// Generation of the hub that it was sent to.
    var generation: Int
    /// The request is a copy, and its answer is dropped.
    var isCopy = false
}

// The network between agents and hub. Whole requests and answers travel, made and read by the real code of both sides.
extension Simulation {
    /// An answer must begin within this (``HTTPRequest/Deadlines``).
    private static let deadline: Duration = .seconds(30)

    func send(_ call: HubCall, _ agent: SimAgent) {
        let flight = Flight(
            agent: agent.index, life: agent.life, call: call.id, kind: call.kind, request: request(for: call, agent),
            sent: agent.boot(now), generation: hub.generation)
        say("agent \(agent.index) call \(call.id): \(call.kind.rawValue)")
        count("calls")
        if call.kind == .settle { count("settles") }
        guard agent.linkIsUp else { return fail(flight, .unreachable, in: .milliseconds(10)) }
        // The caller waits no longer than this, whatever happens to the request.
        fail(flight, .timedOut, in: Self.deadline)
        if strikes(.cut, 0.04) {
            count("cuts")
            fail(flight, .broken, in: chance(upTo: .seconds(3)))
            // The connection is cut before the hub or after it.
            if chance(0.5) { return }
        }
        if strikes(.lostRequest, 0.08) {
            say("agent \(agent.index) call \(call.id) is lost")
            return count("lost requests")
        }
        var latency = chance(from: .milliseconds(10), upTo: .milliseconds(150))
        if strikes(.delay, 0.06) {
            latency = spell(from: .seconds(1), upTo: chance(0.5) ? .seconds(40) : .seconds(400))
            count("delayed requests")
        }
        plan(.arrives(flight), in: latency)
        if strikes(.duplicate, 0.08) {
            var copy = flight
            copy.isCopy = true
            plan(.arrives(copy), in: latency + spell(upTo: chance(0.5) ? .seconds(2) : .seconds(600)))
        }
    }

    /// Builds the request as the agent's shell does.
    func request(for call: HubCall, _ agent: SimAgent) -> HTTPRequest {
        var token = agent.token
        if let until = badTokens[agent.index], now < until { token = "est_revoked" }
        var headers: HTTPHeaders = [
            "Authorization": "Bearer \(token)", "Content-Type": "application/json", "Accept": "application/json",
        ]
        HubRequestHeaders(
            device: agent.device, replica: agent.engine?.replica, session: call.session, epoch: call.epoch, receipt: call.receipt
        ).write(to: &headers)
        headers[HubHeader.schema] = call.schemas.text
        if call.method == .get { return HTTPRequest(.get, Self.hubURL + call.target, headers: headers) }
        return HTTPRequest(.post, Self.hubURL + call.target, headers: headers, body: .bytes(call.body))
    }

    private func fail(_ flight: Flight, _ code: TransportError.Code, in delay: Duration) {
        let error = TransportError(code, doing: "reach the hub", detail: code.rawValue)
        plan(.answered(agent: flight.agent, life: flight.life, call: flight.call, .failure(error), sent: flight.sent), in: delay)
    }

    // MARK: At the hub

    func arrive(_ flight: Flight) throws(Broken) {
        guard hub.isUp, flight.generation == hub.generation else {
            if !flight.isCopy { fail(flight, .unreachable, in: .milliseconds(5)) }
            return
        }
        if flight.isCopy { count("duplicates delivered") }
        if agents[flight.agent].life != flight.life { count("requests of the dead") }
        var response: HTTPResponse
        if let other = answerInsteadOfHub(flight) {
            response = other
        } else {
            var received = flight
            received.request = hub.received(flight.request)
            response = hub.handle(received.request, at: hubTime)
            recordHistory()
            try recordAnswer(response, to: received)
            response = damaged(hub.shown(response, to: received.request, at: hubTime), to: flight)
        }
        if strikes(.hubCrash, 0.01) { return stopHub() }
        if flight.isCopy { return }
        if strikes(.lostAnswer, 0.1) {
            say("the answer to call \(flight.call) of agent \(flight.agent) is lost")
            return count("lost answers")
        }
        var latency = chance(from: .milliseconds(10), upTo: .milliseconds(150))
        if strikes(.delay, 0.05) { latency = spell(from: .seconds(1), upTo: .seconds(60)) }
        plan(
            .answered(agent: flight.agent, life: flight.life, call: flight.call, .success(response), sent: flight.sent),
            in: latency)
    }

    /// Answers in the hub's place: a portal, an overloaded proxy, a proxy with a small limit, or a hub that fails over certain mutations.
    private func answerInsteadOfHub(_ flight: Flight) -> HTTPResponse? {
        if strikes(.portal, 0.05) {
            count("portals")
            return pick([
                HTTPResponse(status: 200, headers: ["Content-Type": "text/html"], body: Array("<html>Welcome".utf8)),
                HTTPResponse(status: 302, headers: ["Location": "http://portal/login"]),
                HTTPResponse(status: 200, headers: ["Content-Type": "application/json"], body: Array("{}".utf8)),
                HTTPResponse(status: 511),
            ])
        }
        if strikes(.busy, scenario.focus == nil ? 0.06 : 0.3) {
            count("busy answers")
            var headers: HTTPHeaders = ["Content-Type": "application/problem+json"]
            if chance(0.7) { HubHeaders(time: hubTime).write(to: &headers) }
            headers["Retry-After"] = pick([nil, "1", "5", "60", "-3", "soon"])
            return HTTPResponse(status: pick([429, 503, 503, 502]), headers: headers, body: Array("{}".utf8))
        }
        guard case .bytes(let body) = flight.request.body, flight.kind == .push || flight.kind == .settle else { return nil }
        if has(.bodyLimit), body.count > 1_500 {
            count("requests too large")
            return HTTPResponse(status: 413, headers: [:], body: [])
        }
        if has(.poison), contains(body, "\"poison\"") {
            count("poison")
            var headers: HTTPHeaders = ["Content-Type": "application/json"]
            HubHeaders(time: hubTime).write(to: &headers)
            return HTTPResponse(status: scenario.seed.isMultiple(of: 2) ? 500 : 400, headers: headers, body: Array("{}".utf8))
        }
        return nil
    }

    private func contains(_ body: [UInt8], _ word: String) -> Bool {
        let pattern = Array(word.utf8)
        guard let first = pattern.first, body.count >= pattern.count else { return false }
        return (0...(body.count - pattern.count)).contains { start in
            body[start] == first && body[start..<start + pattern.count].elementsEqual(pattern)
        }
    }

    /// Damages the hub's answer: the server fails after the commit, or it sends nonsense.
    private func damaged(_ response: HTTPResponse, to flight: Flight) -> HTTPResponse {
        var response = response
        if strikes(.failed, 0.05) {
            count("failures after the commit")
            return HTTPResponse(status: 500, headers: ["Sync-Version": "1"], body: [])
        }
        guard response.status == 200 else { return response }
        if strikes(.nonsense, 0.05) {
            count("nonsense")
            switch Int.random(in: 0..<5, using: &random) {
            case 0: response.body = Array(response.body.prefix(Int.random(in: 0..<max(1, response.body.count), using: &random)))
            case 1: response.headers["Sync-Version"] = nil
            case 2: response.headers["Content-Type"] = "text/plain"
            case 3: response.body = Array(#"{"head":"x","results":null,"streams":7,"device_id":1}"#.utf8)
            default: response.body = Array(#"{"head":1,"head":2,"results":[],"streams":[]}"#.utf8)
            }
            return response
        }
        if flight.kind == .push || flight.kind == .settle, strikes(.missingResults, scenario.focus == nil ? 0.15 : 0.7),
            let read = try? PushMessages.readResponse(response.body)  // Not a push's answer: then nothing is left out of it.
        {
            count("missing results")
            var results = read.results.filter { _ in chance(0.6) }
            if chance(0.5) {
                results.append(PushResult(key: MutationKey(trusted: "nobody-\(random.next())"), verdict: .retry(nil, after: nil)))
            }
            if chance(0.3) { results.shuffle(using: &random) }
            response.body = PushMessages.response(head: read.head, results: results)
        }
        return response
    }

    func stopHub() {
        say("the hub dies")
        count("hub crashes")
        hub.isUp = false
        plan(.hubStarts, in: spell(from: .seconds(1), upTo: .seconds(60)))
    }

    func startHub() throws(Broken) {
        guard !hub.isUp else { return }
        try Broken.none { try hub.restart() }
        hub.isUp = true
        try mindMark()
        recordHistory()
        say("the hub is back")
    }
}
