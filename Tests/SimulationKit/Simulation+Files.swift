import HubServer
import SyncCore
import SyncStore

// Files: what apps do with them, and the way between devices and hub. The decisions are those of the product (``UploadMachine``,
// ``DownloadMachine``), and so are the rows of the store and the hub. What the agent's shell does in between is done here, with one request
// at a time. Everything is drawn from a generator of its own.
extension Simulation {
    static let files = UploadMachine.Server(files: hubURL + "/v1/files", blobs: hubURL + "/v1/blobs/", verify: .digest)

    func beginFiles() throws(Broken) {
        guard scenario.hasFiles else { return }
        count("histories with files")
        for agent in agents { plan(.fileTurn(agent: agent.index), in: fileDraws.duration(from: .zero, to: .seconds(5))) }
        let request = fileRequest(.get, Self.hubURL + "/v1/blobs/" + SimFile.unknown.hex, agents[min(1, agents.count - 1)])
        unknownFile = hub.handleFile(request, at: hubTime).body
    }

    func fileChance(_ probability: Double) -> Bool { fileDraws.fraction() < probability }
    func fileStrikes(_ fault: Fault, _ probability: Double) -> Bool { has(fault) && fileChance(probability) }

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
                switch try store.adoptFetched(digest, size: size, at: moment) {
                case .adopted: break
                case .unwanted: agent.files.whole[digest] = nil
                case .foreign:
                    _ = try store.addBlob(
                        digest, size: size, type: SimFile.type, filename: "recovered", by: Requester(app: Entities.app, uid: 1_000),
                        capacity: BlobCapacity(), isFound: true, at: moment)
                }
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
        plan(.fileTurn(agent: agent.index), in: scenario.isShort ? wait / 3 : wait)
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
    func goOnWithFiles(_ agent: SimAgent) throws(Broken) {
        guard !agent.files.isBusy, agent.linkIsUp, let store = agent.store else { return }
        let free: (BlobID) -> Bool = { [now] in agent.files.held[$0].map { $0 <= now } ?? true }
        let uploads = try Broken.none { try store.reads.waitingBlobs(limit: 10) }.filter { free($0.id) && !isLate($0, agent) }
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

    /// In histories that are led there a device begins late with a file: another one may have brought it by then.
    private func isLate(_ job: UploadJob, _ agent: SimAgent) -> Bool {
        scenario.toward == .offersUnheard && !isHealed && agent.files.uploads[job.id] == nil && fileChance(0.8)
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
        if agent.files.uploads[job.id] == nil { agent.files.named[job.id] = job.named }
        agent.files.uploads[job.id] = machine
        guard let bytes = agent.files.whole[job.digest] else { return }
        let step = machine.request(Self.files, chunk: [8, 24, 64][Int.random(in: 0..<3, using: &fileDraws)])
        let url = machine.progress.url ?? Self.files.files
        var request: HTTPRequest
        switch step {
        case .lookUp:
            request = fileRequest(.head, Self.hubURL + "/v1/blobs/" + job.digest.hex, agent)
            request.headers[Tus.length] = String(job.size)
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
}
