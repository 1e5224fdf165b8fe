import SyncCore
import SyncStore

// Requests for files on the network of the world, and what a device does with the answers.
extension Simulation {
    /// Attempts without progress, after which a file is set aside.
    private static let attemptsMax = 5

    // MARK: Network

    func flight(_ purpose: FileFlight.Purpose, _ digest: BlobDigest, _ request: HTTPRequest, _ agent: SimAgent) -> FileFlight {
        FileFlight(
            agent: agent.index, life: agent.life, digest: digest, purpose: purpose, request: request, generation: hub.generation)
    }

    func fileRequest(_ method: HTTPRequest.Method, _ url: String, _ agent: SimAgent) -> HTTPRequest {
        var token = agent.token
        if let until = badTokens[agent.index], now < until { token = "est_revoked" }
        var headers: HTTPHeaders = ["Authorization": "Bearer \(token)"]
        HubRequestHeaders(device: agent.device, replica: agent.engine?.replica).write(to: &headers)
        return HTTPRequest(method, url, headers: headers)
    }

    func send(_ flight: FileFlight) {
        count("requests for files")
        var flight = flight
        if fileStrikes(.lostRequest, 0.08) { return fail(flight, .timedOut, in: .seconds(30)) }
        if fileStrikes(.cut, 0.15) {
            // Some of the bytes arrive, and the answer does not.
            let bytes = flight.bytes
            if !bytes.isEmpty { flight.bytes = Array(bytes.prefix(Int.random(in: 0..<bytes.count, using: &fileDraws))) }
            count("files cut")
            fail(flight, .broken, in: fileDraws.duration(from: .seconds(1), to: .seconds(3)))
            flight.isCopy = true
        }
        var latency = fileDraws.duration(from: .milliseconds(10), to: .milliseconds(150))
        if fileStrikes(.delay, 0.1) { latency = fileDraws.duration(from: .seconds(1), to: .seconds(100)) }
        plan(.fileArrives(flight), in: latency)
        guard fileStrikes(.duplicate, 0.1) else { return }
        flight.isCopy = true
        plan(.fileArrives(flight), in: latency + fileDraws.duration(from: .zero, to: .seconds(60)))
    }

    private func fail(_ flight: FileFlight, _ code: TransportError.Code, in delay: Duration) {
        guard !flight.isCopy else { return }
        plan(.fileAnswered(flight, .failure(TransportError(code, doing: "reach the hub", detail: code.rawValue))), in: delay)
    }

    func fileArrives(_ flight: FileFlight) throws(Broken) {
        guard hub.isUp, flight.generation == hub.generation else { return fail(flight, .unreachable, in: .milliseconds(5)) }
        let dies = fileStrikes(.hubCrash, 0.03)
        let isBefore = dies && fileChance(0.6)
        let response = hub.handleFile(flight.request, at: hubTime, diesFirst: isBefore)
        recordHistory()
        if !isBefore || response.status < 500 { try recordFileAnswer(response, to: flight) }
        if dies {
            count("deaths of the hub with a file")
            stopHub()
            return fail(flight, .broken, in: .milliseconds(5))
        }
        if flight.isCopy { return }
        if fileStrikes(.lostAnswer, 0.1) { return fail(flight, .timedOut, in: .seconds(30)) }
        var said = response
        if fileStrikes(.busy, 0.05) { said = HTTPResponse(status: 503, headers: [:], body: []) }
        if fileStrikes(.portal, 0.05) {
            said = HTTPResponse(status: 200, headers: ["Content-Type": "text/html"], body: Array("Welcome".utf8))
        }
        plan(.fileAnswered(flight, .success(said)), in: fileDraws.duration(from: .milliseconds(10), to: .milliseconds(150)))
    }

    func fileAnswered(_ flight: FileFlight, _ result: Result<HTTPResponse, TransportError>) throws(Broken) {
        let agent = agents[flight.agent]
        guard agent.life == flight.life, agent.store != nil else { return }
        switch flight.purpose {
        case .probe: return
        case .upload(let id, let step):
            agent.files.isBusy = false
            try uploaded(id, step, result, agent)
        case .download(let id, let step):
            agent.files.isBusy = false
            try downloaded(id, step, result, flight.digest, agent)
        }
        try goOnWithFiles(agent)
    }

    // MARK: Answers

    private func hold(_ id: BlobID, _ agent: SimAgent) {
        agent.files.held[id] = now.advanced(by: fileDraws.duration(from: .seconds(1), to: isHealed ? .seconds(5) : .seconds(30)))
    }

    private func uploaded(
        _ id: BlobID, _ step: UploadMachine.Request, _ result: Result<HTTPResponse, TransportError>, _ agent: SimAgent
    ) throws(Broken) {
        guard var machine = agent.files.uploads[id] else { return }
        let outcome =
            switch result {
            case .success(let response): machine.answered(step, response, Self.files, at: agent.moment(at: now).wall)
            case .failure(let error): machine.failed(step, error)
            }
        var problem: Problem?
        switch outcome {
        case .next: break
        case .wait(let counts, _, let why):
            if counts { machine.count() }
            if machine.progress.attempts > Self.attemptsMax { problem = Problem("no-progress", status: 502, detail: why) }
            hold(id, agent)
        case .refused: hold(id, agent)
        case .failed(let code, let why): problem = Problem(code, status: 502, detail: why)
        case .done: break
        }
        let progress = machine.progress
        let named = agent.files.named[id] ?? 0
        agent.files.uploads[id] = outcome.isEnd || problem != nil ? nil : machine
        let isDone = try act(agent, as: .files) { (store, moment) throws(StoreError) in
            if case .done = outcome, machine.isSpared {
                _ = try store.endOffer(id, named: named, capacity: BlobCapacity(), note: "{}", at: moment)
            } else if case .done(let isVerified) = outcome {
                _ = try store.endUpload(
                    id, isVerified: isVerified, remoteURL: nil, capacity: BlobCapacity(), note: "{}", at: moment)
            } else if let problem {
                try store.parkUpload(id, problem, progress, note: "{}", at: moment)
            } else {
                try store.saveUpload(id, progress, note: nil, at: moment)
            }
        }
        guard isDone else { return }
        if problem != nil { count("uploads set aside") }
        guard case .done = outcome else { return }
        count(step == .lookUp ? "files known to the hub" : "files uploaded")
        say("agent \(agent.index) has brought \(id)")
        try feed(.enqueued(.normal), to: agent)
    }

    private func downloaded(
        _ id: BlobID, _ step: DownloadMachine.Request, _ result: Result<HTTPResponse, TransportError>, _ digest: BlobDigest,
        _ agent: SimAgent
    ) throws(Broken) {
        guard var machine = agent.files.downloads[id] else { return }
        var part = Array((agent.files.parts[digest] ?? []).prefix(Int(step.offset)))
        var outcome: DownloadMachine.Outcome
        switch result {
        case .success(let response):
            if case .bytes(let skip, let end, _, _) = DownloadIntake(step, digest).judge(response.status, response.headers) {
                part += response.body.dropFirst(Int(skip)).prefix(Int(clamping: end - step.offset))
            }
            let received = DownloadMachine.Received(offset: Int64(part.count), moved: Int64(response.body.count))
            outcome = machine.answered(step, response, received, at: agent.moment(at: now).wall)
        case .failure(let error):
            outcome = machine.broke(step, error, DownloadMachine.Received(offset: Int64(part.count), moved: 0))
        }
        agent.files.parts[digest] = part
        if case .compare = outcome { outcome = machine.compared(SimFile.digest(of: part)) }
        var why: String?
        switch outcome {
        case .next, .compare, .done: break
        case .wait(let counts, _, let said):
            if counts { machine.count() }
            if machine.progress.attempts > Self.attemptsMax { why = said }
            hold(id, agent)
        case .refused: hold(id, agent)
        case .failed(_, let said): why = said
        }
        if case .done = outcome { agent.files.whole[digest] = part }
        let isEnd = if case .done = outcome { true } else { why != nil }
        agent.files.downloads[id] = isEnd ? nil : machine
        if isEnd { agent.files.parts[digest] = nil }
        try write(outcome, why, machine, id, digest, agent)
    }

    private func write(
        _ outcome: DownloadMachine.Outcome, _ why: String?, _ machine: DownloadMachine, _ id: BlobID, _ digest: BlobDigest,
        _ agent: SimAgent
    ) throws(Broken) {
        let isDone = try act(agent, as: .files) { (store, moment) throws(StoreError) in
            if case .done = outcome {
                for gone in try store.endDownload(id, size: machine.size, capacity: BlobCapacity(), note: "{}", at: moment) {
                    agent.files.whole[gone] = nil
                }
            } else if let why {
                try store.parkDownload(id, size: machine.size, why: why, machine.progress, note: "{}", at: moment)
            } else {
                try store.saveDownload(id, size: machine.size, machine.progress, note: nil, at: moment)
            }
        }
        guard isDone else { return }
        if why != nil { count("downloads set aside") }
        if case .done = outcome { count("files fetched") }
    }
}
