import HubServer
import SyncCore
import SyncStore

// Files: what apps do with them, and the way between devices and hub. The decisions are those of the product (``UploadMachine``,
// ``DownloadMachine``), and so are the rows of the store and the hub. What the agent's shell does in between is done here, with one request
// at a time. Everything is drawn from a generator of its own.
extension Simulation {
    static let files = UploadMachine.Server(files: hubURL + "/v1/files", blobs: hubURL + "/v1/blobs/", verify: .digest)
    /// Attempts without progress, after which a file is set aside.
    private static let attemptsMax = 5

    func beginFiles() throws(Broken) {
        guard scenario.hasFiles else { return }
        count("histories with files")
        for agent in agents { plan(.fileTurn(agent: agent.index), in: fileDraws.duration(from: .zero, to: .seconds(5))) }
        let request = fileRequest(.get, Self.hubURL + "/v1/blobs/" + SimFile.unknown.hex, agents[1])
        unknownFile = hub.handleFile(request, at: hubTime).body
    }

    private func fileChance(_ probability: Double) -> Bool { fileDraws.fraction() < probability }
    private func fileStrikes(_ fault: Fault, _ probability: Double) -> Bool { has(fault) && fileChance(probability) }

    /// With some agents a change waits until its file is at the hub.
    func gatesFiles(_ agent: SimAgent) -> Bool { scenario.hasFiles && (agent.identity + Int(scenario.seed % 3)).isMultiple(of: 3) }

    // MARK: Apps

    /// An order shows a file, another one, or none any more. Some apps write a digest that they have seen somewhere.
    func addFile(to operation: inout Operation) {
        guard scenario.hasFiles, operation.record.entity == Shares.orders else { return }
        let number = Int.random(in: 0..<SimFile.contents.count, using: &fileDraws)
        let draw = fileDraws.fraction()
        if draw < 0.4 {
            operation.file = number
        } else if draw < 0.75 {
            operation.data[SimFile.field] = SimFile.written(number, isUploaded: fileChance(0.2))
        } else if draw < 0.8 {
            operation.data[SimFile.field] = .null
        }
    }

    /// Its app gives the device the files first.
    ///
    /// - Returns: `false` when the device did not take them.
    func addFiles(_ request: AppRequest, _ agent: SimAgent) throws(Broken) -> Bool {
        for number in request.operations {
            guard let file = operations[number].file else { continue }
            let (digest, bytes) = (SimFile.digests[file], SimFile.contents[file])
            var added: BlobRow?
            agent.files.whole[digest] = bytes
            let isDone = try act(agent, as: .files) { (store, moment) throws(StoreError) in
                added = try store.addBlob(
                    digest, size: Int64(bytes.count), type: SimFile.type, filename: "f\(file)",
                    by: Requester(app: Entities.app, uid: 1_000),
                    capacity: BlobCapacity(), at: moment
                ).row
            }
            guard isDone, let added else { return false }
            operations[number].blobs = [["field": .string(SimFile.field), "blob": .string(added.id.description)]]
            count("files added")
        }
        return agent.store != nil
    }

    /// At a start, as the agent's shell does it: files without a row get one, and rows without bytes say so.
    func sweepFiles(_ agent: SimAgent) throws(Broken) {
        guard scenario.hasFiles, let store = agent.store else { return }
        agent.files.endProcess()
        let known = try Broken.none { try store.reads.keptDigests() }
        let found = Set(agent.files.whole.keys)
        guard known != found else { return }
        _ = try act(agent, as: .files) { (store, moment) throws(StoreError) in
            for digest in found.subtracting(known).sorted() {
                let size = Int64(agent.files.whole[digest]?.count ?? 0)
                if try store.adoptFetched(digest, size: size, at: moment) { continue }
                _ = try store.addBlob(
                    digest, size: size, type: SimFile.type, filename: "recovered", by: Requester(app: Entities.app, uid: 1_000),
                    capacity: BlobCapacity(), isFound: true, at: moment)
            }
            for digest in known.subtracting(found).sorted() {
                guard let row = try store.reads.blob(digest) else { continue }
                if row.state == .uploaded {
                    try store.forgetCopy(row.id, at: moment)
                } else {
                    try store.loseBlob(row.id, why: "gone", note: "{}", at: moment)
                }
            }
        }
    }

    // MARK: The office and the hub

    func fileWeather() throws(Broken) {
        guard scenario.hasFiles, hub.isUp else { return }
        // Files without an upload leave.
        if fileChance(0.1) { try Broken.none { try hub.hub.tidyFiles(at: hubTime) } }
        guard fileChance(0.1) else { return }
        try hub.observe(at: hubTime)
        let names = hub.records.keys.filter { $0.entity == Shares.orders }.sorted()
        guard !names.isEmpty else { return }
        let number = Int.random(in: 0..<SimFile.contents.count, using: &fileDraws)
        let file = SimFile.written(number, isUploaded: fileChance(0.5))
        try publish(names[Int.random(in: 0..<names.count, using: &fileDraws)], [SimFile.field: file])
        count("files published by the office")
    }

    // MARK: Turns

    func fileTurn(_ agent: SimAgent) throws(Broken) {
        guard !isOver else { return }
        let wait =
            isHealed ? fileDraws.duration(from: .seconds(1), to: .seconds(4)) : fileDraws.duration(from: .seconds(1), to: .seconds(12))
        plan(.fileTurn(agent: agent.index), in: wait)
        try checkParked(agent)
        guard agent.store != nil, agent.linkIsUp else { return }
        if !isHealed, fileChance(0.4) { probe(agent) }
        if fileChance(isHealed ? 0.1 : 0.6) { try want(agent) }
        guard !agent.files.isBusy, agent.store != nil else { return }
        if fileChance(isHealed ? 0.5 : 0.1) {
            guard try tidyFiles(agent) else { return }
        }
        try goOnWithFiles(agent)
    }

    /// Files that were set aside are tried again, and what no record shows any more leaves.
    ///
    /// - Returns: Whether the agent lives and goes on.
    private func tidyFiles(_ agent: SimAgent) throws(Broken) -> Bool {
        try act(agent, as: .files) { (store, moment) throws(StoreError) in
            _ = try store.rearmBlobs(nil, isDueOnly: false, at: moment)
            _ = try store.rearmDownloads(isDueOnly: false, at: moment)
            for digest in try store.dropUnshown(at: moment) { agent.files.whole[digest] = nil }
        }
    }

    /// Sends the next request about a file that waits.
    private func goOnWithFiles(_ agent: SimAgent) throws(Broken) {
        guard !agent.files.isBusy, agent.linkIsUp, let store = agent.store else { return }
        let free: (BlobID) -> Bool = { [now] in agent.files.held[$0].map { $0 <= now } ?? true }
        let uploads = try Broken.none { try store.reads.waitingBlobs(limit: 10) }.filter { free($0.id) }
        let wanted = try Broken.none { try store.reads.wantedBlobs(limit: 10) }
        let ids = Set(wanted.map(\.id))
        agent.files.downloads = agent.files.downloads.filter { ids.contains($0.key) }
        let downloads = wanted.filter { free($0.id) }
        if let job = uploads.first, downloads.isEmpty || fileChance(0.6) {
            upload(job, agent)
        } else if let job = downloads.first {
            download(job, agent)
        }
    }

    /// Somebody with the credentials of a device asks for any digest.
    private func probe(_ agent: SimAgent) {
        let digest = SimFile.digests[Int.random(in: 0..<SimFile.digests.count, using: &fileDraws)]
        let request = fileRequest(fileChance(0.5) ? .get : .head, Self.hubURL + "/v1/blobs/" + digest.hex, agent)
        send(flight(.probe, digest, request, agent))
    }

    /// An app wants the file that a record shows.
    private func want(_ agent: SimAgent) throws(Broken) {
        guard let store = agent.store else { return }
        let digest = SimFile.digests[Int.random(in: 0..<SimFile.digests.count, using: &fileDraws)]
        let slice = try Broken.none { try store.reads.slice(showing: digest, entities: [Shares.orders], after: 0) }
        guard let shown = slice.file, shown.isUploaded else { return }
        let isDone = try act(agent, as: .files) { (store, moment) throws(StoreError) in
            _ = try store.wantBlob(
                digest, shown: shown, isAsked: true, by: Requester(app: Entities.app, uid: 1_000), capacity: BlobCapacity(), at: moment)
        }
        if isDone { count("files wanted") }
    }

    private func upload(_ job: UploadJob, _ agent: SimAgent) {
        let machine = agent.files.uploads[job.id] ?? UploadMachine(size: job.size, digest: job.digest, progress: job.progress)
        agent.files.uploads[job.id] = machine
        guard let bytes = agent.files.whole[job.digest] else { return }
        let step = machine.request(Self.files, chunk: [8, 24, 64][Int.random(in: 0..<3, using: &fileDraws)])
        let url = machine.progress.url ?? Self.files.files
        var request: HTTPRequest
        switch step {
        case .lookUp: request = fileRequest(.head, Self.hubURL + "/v1/blobs/" + job.digest.hex, agent)
        case .ask, .verify: request = fileRequest(.head, url, agent)
        case .destroy: request = fileRequest(.delete, url, agent)
        case .create(let count):
            request = fileRequest(.post, Self.files.files, agent)
            request.headers[Tus.length] = String(job.size)
            var metadata = [("filename", job.filename), ("filetype", job.type), ("sha256", job.digest.hex)]
            if let link = job.link {
                metadata += [("entity", link.record.entity.text), ("record", link.record.id.text), ("field", link.field)]
            }
            request.headers[Tus.metadata] = Tus.metadata(metadata)
            if let count { attach(Array(bytes.prefix(count)), to: &request) }
        case .send(let offset, let count):
            request = fileRequest(.patch, url, agent)
            request.headers[Tus.offset] = String(offset)
            attach(Array(bytes.dropFirst(Int(offset)).prefix(count)), to: &request)
        }
        if step != .lookUp { request.headers[Tus.resumable] = Tus.version }
        var flight = flight(.upload(job.id, step), job.digest, request, agent)
        flight.record = job.link?.record
        agent.files.isBusy = true
        send(flight)
    }

    private func attach(_ bytes: [UInt8], to request: inout HTTPRequest) {
        request.headers["Content-Type"] = Tus.contentType
        request.body = .bytes(bytes)
    }

    private func download(_ job: DownloadJob, _ agent: SimAgent) {
        let machine =
            agent.files.downloads[job.id]
            ?? DownloadMachine(size: job.size, digest: job.digest, progress: job.progress, limit: 1_000_000)
        agent.files.downloads[job.id] = machine
        let step = machine.request(chunk: [8, 24, 64][Int.random(in: 0..<3, using: &fileDraws)])
        var request = fileRequest(.get, Self.hubURL + "/v1/blobs/" + job.digest.hex, agent)
        for (name, value) in machine.headers(of: step) { request.headers[name] = value }
        agent.files.isBusy = true
        send(flight(.download(job.id, step), job.digest, request, agent))
    }

    // MARK: Network

    private func flight(_ purpose: FileFlight.Purpose, _ digest: BlobDigest, _ request: HTTPRequest, _ agent: SimAgent) -> FileFlight {
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

    private func send(_ flight: FileFlight) {
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
        noteHistory()
        if !isBefore || response.status < 500 { try note(response, to: flight) }
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
        agent.files.uploads[id] = outcome.isEnd || problem != nil ? nil : machine
        let isDone = try act(agent, as: .files) { (store, moment) throws(StoreError) in
            if case .done(let isVerified) = outcome {
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
            if case .bytes(let skip, let end, _, _) = DownloadIntake(step, digest).take(response.status, response.headers) {
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
