import LocalAPI
import Logging
import SyncCore
import SyncHTTP
import SyncStore

// Performs the uploader's effects, and passes the results back.
extension Agent {
    func stopBlobs() {
        blobs.wake?.cancel()
        for (_, task) in blobs.calls { task.cancel() }
        blobs.calls = [:]
        stopDownloads()
        blobs.thread.stop(on: executor)
    }

    func loadBlobs(_ limit: Int) {
        fromReader { reads, _ throws(StoreError) in
            try reads.waitingBlobs(limit: limit)
        } then: { agent, result in
            guard case .success(let jobs) = result else { return }
            if !jobs.isEmpty { agent.blobs.isInUse = true }
            agent.feed(blob: .loaded(jobs))
        }
    }

    // MARK: Events in, effects out

    var blobTerms: FileTerms {
        let batch = engine.pace.up.bytes
        return FileTerms(
            situation: engine.situation, isBusy: engine.cycle != nil, slowBatch: batch < TransferSizer.first ? batch : nil)
    }

    /// Gives uploads and downloads their terms, after everything that may have changed them.
    func updateFileTerms() {
        guard blobs.folder != nil, hasBegun else { return }
        // Contact is tracked also while no file waits: the first contact after a quiet hour is not the first after a gap.
        if !blobs.isInUse, !blobs.isFetching, let told = blobs.told, told.situation.reachability == engine.reachability { return }
        let terms = blobTerms
        guard terms != blobs.told else { return }
        let isBack = terms.situation.reachability == .online && blobs.told?.situation.reachability != .online
        if isBack {
            rearmBlobs()
            rearmDownloads()
        }
        feed(blob: .changed)
        feed(download: .changed)
    }

    func feed(blob event: BlobUploader.Event) {
        guard !hasStopped, blobs.folder != nil else { return }
        var terms = blobTerms
        blobs.told = terms
        terms.elsewhere = blobs.downloader.underWay
        perform(blobs.uploader.handle(event, terms, at: environment.time.now()))
    }

    private func perform(_ effects: [BlobUploader.Effect]) {
        for effect in effects {
            switch effect {
            case .send(let call): send(call)
            case .cancel(let id): blobs.calls.removeValue(forKey: id)?.cancel()
            case .save(let id, let progress): save(id, progress)
            case .end(let id, let ending): end(id, ending)
            case .load(let limit): loadBlobs(limit)
            case .wake(let at):
                blobs.wake?.cancel()
                blobs.wake = schedule(after: delay(until: at)) { $0.feed(blob: .timer) }
            case .report(let report): publish(report)
            }
        }
    }

    private func publish(_ report: BlobUploader.Report) {
        switch report {
        case .began(let id): log.info("upload", metadata: ["blob": "\(id)", "state": "uploading"])
        case .progressed(let id, let offset, let size):
            log.debug("upload", metadata: ["blob": "\(id)", "offset": "\(offset)", "size": "\(size)"])
        case .waits(let id, let why): log.info("upload waits", metadata: ["blob": "\(id)", "why": "\(Printable.text(why))"])
        case .ended(let id, .uploaded(let isVerified, _)):
            log.info("upload", metadata: ["blob": "\(id)", "state": "uploaded", "verified": "\(isVerified)"])
        case .ended(let id, .spared): log.info("upload", metadata: ["blob": "\(id)", "state": "uploaded", "sent": "false"])
        case .ended(let id, .failed(let code, let why, _)):
            log.warning("upload", metadata: ["blob": "\(id)", "state": "failed", "code": "\(code)", "why": "\(Printable.text(why))"])
        case .ended(let id, .missing(let why)):
            log.error("upload", metadata: ["blob": "\(id)", "state": "missing", "why": "\(Printable.text(why))"])
        }
    }

    private func save(_ id: BlobID, _ progress: UploadProgress) {
        let now = environment.time.now().instant
        var json: String?
        if blobs.toldAt[id].map({ $0.duration(to: now) >= .seconds(1) }) ?? true {
            blobs.toldAt[id] = now
            if blobs.toldAt.count > 1_000 { blobs.toldAt = [id: now] }
            let size = blobs.uploader.size(of: id) ?? progress.offset
            json = String(decoding: EventPayload.blob(id, state: .uploading, offset: progress.offset, size: size), as: UTF8.self)
        }
        let note = json
        fromStore { store, now throws(StoreError) in
            try store.saveUpload(id, progress, note: note, at: now)
        } then: { agent, _ in
            if note != nil { agent.events.sendNew() }
        }
    }

    private func end(_ id: BlobID, _ ending: BlobUploader.Ending) {
        blobs.toldAt[id] = nil
        let size = blobs.uploader.size(of: id) ?? 0
        @Sendable func note(_ state: BlobState, _ offset: Int64, _ detail: String? = nil) -> String {
            String(decoding: EventPayload.blob(id, state: state, offset: offset, size: size, detail: detail), as: UTF8.self)
        }
        switch ending {
        case .uploaded(let isVerified, let url):
            let remote = loaded.configuration.blobs.uploadURL == nil ? nil : url
            let (capacity, json) = (loaded.configuration.blobCapacity, note(.uploaded, size))
            fromStore { store, now throws(StoreError) in
                try store.endUpload(id, isVerified: isVerified, remoteURL: remote, capacity: capacity, note: json, at: now)
            } then: { agent, result in
                agent.events.sendNew()
                // Mutations that waited for the file can go, and records that show it may have changed.
                agent.reportNewWork()
                if case .failure(let error) = result { agent.log.error("an upload was not recorded", metadata: ["error": "\(error)"]) }
            }
        case .spared(let named):
            let (capacity, json) = (loaded.configuration.blobCapacity, note(.uploaded, size))
            fromStore { store, now throws(StoreError) in
                try store.endOffer(id, named: named, capacity: capacity, note: json, at: now)
            } then: { agent, result in
                agent.events.sendNew()
                switch result {
                case .success(let job): if let job { agent.offer([job]) } else { agent.reportNewWork() }
                case .failure(let error): agent.log.error("an upload was not recorded", metadata: ["error": "\(error)"])
                }
            }
        case .failed(let code, let why, let progress):
            blobs.hasParked = true
            let json = note(.failed, progress.offset, why)
            guard code == "digest-mismatch" else { return park(id, code, why, progress, json) }
            // The local copy itself may have changed.
            compareOwnCopy(id) { agent, copy in
                let reason: String
                switch copy {
                case .whole, .unknown: return agent.park(id, code, why, progress, json)
                case .changed: reason = "its bytes on this device have changed"
                case .gone: reason = "its bytes are not on this device any more"
                }
                agent.lose(id, why: reason, note: note(.missing, progress.offset, reason))
            }
        case .missing(let why): lose(id, why: why, note: note(.missing, 0, why))
        }
    }

    /// Offers files to the hub once more, because a change that shows them is there since their last offer.
    func offer(_ jobs: [UploadJob]) {
        guard blobs.folder != nil, !jobs.isEmpty else { return }
        blobs.isInUse = true
        for job in jobs { feed(blob: .added(job)) }
    }

    private func park(_ id: BlobID, _ code: String, _ why: String, _ progress: UploadProgress, _ json: String) {
        let problem = Problem(code, status: 502, detail: Printable.text(why, max: 300))
        fromStore { store, now throws(StoreError) in
            try store.parkUpload(id, problem, progress, note: json, at: now)
        } then: { agent, _ in
            agent.events.sendNew()
        }
    }

    private func lose(_ id: BlobID, why: String, note json: String) {
        raise(.blobMissing, "the file \(id) cannot be uploaded: \(why)")
        fromStore { store, now throws(StoreError) in
            try store.loseBlob(id, why: why, note: json, at: now)
        } then: { agent, _ in
            agent.events.sendNew()
        }
    }

    /// The state of a file's local copy.
    private enum OwnCopy: Sendable {
        case whole, changed, gone
        /// It could not be read to its end. A disk that fails now and then is no reason to give a file up.
        case unknown
    }

    private func compareOwnCopy(_ id: BlobID, then: @escaping @Sendable (isolated Agent, OwnCopy) -> Void) {
        guard let folder = blobs.folder else { return }
        let hash = environment.hash
        fromReader { reads, _ throws(StoreError) in
            try reads.blob(id)?.digest
        } then: { agent, result in
            guard case .success(let digest?) = result else { return }
            agent.fromFiles({ Self.ownCopy(of: digest, in: folder, hash()) }, then: then)
        }
    }

    private static func ownCopy(of name: BlobDigest, in folder: any BlobFolder, _ hash: any RunningDigest) -> OwnCopy {
        do throws(BlobError) {
            let reader = try folder.read(name)
            var offset: Int64 = 0
            while offset < reader.size {
                let bytes = try reader.read(at: offset, count: 256 << 10)
                if bytes.isEmpty { return .changed }
                hash.update(bytes)
                offset += Int64(bytes.count)
            }
            return hash.blobDigest == name ? .whole : .changed
        } catch {
            switch error.code {
            case .notFound: return .gone
            case .damaged, .altered: return .changed
            case .full, .refused, .tooLarge, .io, .away: return .unknown
            }
        }
    }

    // MARK: One request

    private func send(_ call: BlobUploader.Call) {
        guard let folder = blobs.folder else { return }
        let needsBytes: Bool =
            switch call.request {
            case .send: true
            case .create(let count): count != nil
            case .lookUp, .ask, .verify, .destroy: false
            }
        guard needsBytes else { return send(call, nil) }
        fromFiles {
            Self.open(call.job, in: folder)
        } then: { agent, opened in
            switch opened {
            case .success(let reader): agent.send(call, reader)
            case .failure(let error): agent.feed(blob: .lost(call.id, why: error.description))
            }
        }
    }

    private static func open(_ job: UploadJob, in folder: any BlobFolder) -> Result<any BlobReader, BlobError> {
        do throws(BlobError) {
            let reader = try folder.read(job.digest)
            guard reader.size == job.size else {
                throw BlobError(.damaged, doing: "read the blob", detail: "it has \(reader.size) bytes, not \(job.size)")
            }
            return .success(reader)
        } catch {
            return .failure(error)
        }
    }

    private func send(_ call: BlobUploader.Call, _ reader: (any BlobReader)?) {
        guard !hasStopped, blobs.uploader.isAwaiting(call.id) else { return }
        let uplink = around.connectivity.uplink
        let request: HTTPRequest
        do throws(TransportError) {
            request = try self.request(call, reader, over: uplink)
        } catch {
            return feed(blob: .answered(call.id, .failure(error), took: .zero))
        }
        let (transport, began, hash) = (environment.transport, environment.time.now().instant, environment.hash)
        let fetches = call.request == .verify && blobs.uploader.settings.server.verify == .download
        blobs.calls[call.id] = Task(executorPreference: executor) { [weak self] in
            guard fetches else {
                let result = await transport.answer(to: request)
                await self?.answered(call, result, began: began, over: uplink)
                return
            }
            let fetched = FetchedDigest(hash())
            let result: Result<HTTPResponse, TransportError>
            do throws(TransportError) {
                result = .success(try await transport.stream(request, onHead: { _, _ in }, onBody: { fetched.add($0) }))
            } catch {
                result = .failure(error)
            }
            await self?.fetched(call, result, fetched.digest, over: uplink)
        }
    }

    private func answered(
        _ call: BlobUploader.Call, _ result: Result<HTTPResponse, TransportError>, began: Instant, over uplink: Uplink?
    ) {
        guard blobs.calls.removeValue(forKey: call.id) != nil else { return count(result.traffic, for: .blobs, over: uplink) }
        count(result.traffic, for: .blobs, over: uplink)
        feed(blob: .answered(call.id, result, took: began.duration(to: environment.time.now().instant)))
    }

    private func fetched(
        _ call: BlobUploader.Call, _ result: Result<HTTPResponse, TransportError>, _ digest: BlobDigest, over uplink: Uplink?
    ) {
        count(result.traffic, for: .blobs, over: uplink)
        guard blobs.calls.removeValue(forKey: call.id) != nil else { return }
        switch result {
        case .success(let response): feed(blob: .downloaded(call.id, .success(response.status == 200 ? digest : nil)))
        case .failure(let error): feed(blob: .downloaded(call.id, .failure(error)))
        }
    }

    private func request(
        _ call: BlobUploader.Call, _ reader: (any BlobReader)?, over uplink: Uplink?
    ) throws(TransportError) -> HTTPRequest {
        let server = blobs.uploader.settings.server
        let (job, url) = (call.job, call.job.progress.url ?? server.files)
        func plain(_ method: HTTPRequest.Method, _ url: String) throws(TransportError) -> HTTPRequest {
            guard server.blobs == nil else { return try hub.fileRequest(method, url, replica: engine.replica, over: uplink) }
            return hub.foreignFileRequest(method, url, over: uplink)
        }
        var request: HTTPRequest
        switch call.request {
        case .lookUp:
            request = try plain(.head, (server.blobs ?? server.files) + job.digest.hex)
            // An offer to bring the file: the answer that spares the upload counts for the records that wait for it.
            request.headers[Tus.length] = String(job.size)
        case .ask: request = try plain(.head, url)
        case .destroy: request = try plain(.delete, url)
        case .verify: request = try plain(server.verify == .download ? .get : .head, url)
        case .create(let count):
            request = try plain(.post, server.files)
            request.headers[Tus.length] = String(job.size)
            request.headers[Tus.metadata] = Tus.metadata(metadata(of: job))
            if let count { attach(reader, at: 0, count, to: &request) }
        case .send(let offset, let count):
            request = try plain(.patch, url)
            request.headers[Tus.offset] = String(offset)
            attach(reader, at: offset, count, to: &request)
        }
        if call.request != .lookUp { request.headers[Tus.resumable] = Tus.version }
        request.bytesPerSecond = call.bytesPerSecond
        // A server hashes the whole file before it answers the last piece.
        request.deadlines.firstByte = .seconds(60)
        request.deadlines.total = .seconds(1_800)
        request.maxResponseBytes = call.request == .verify ? .max : 64 << 10
        if request.method == .get { request.expectedBytes = Int(clamping: job.size) }
        return request
    }

    /// Some servers require a name and a type (PROTOCOL H1).
    private func metadata(of job: UploadJob) -> [(String, String)] {
        var pairs = [
            ("filename", job.filename.isEmpty ? job.id.description : job.filename), ("filetype", job.type), ("sha256", job.digest.hex),
        ]
        if let link = job.link {
            pairs += [("entity", link.record.entity.text), ("record", link.record.id.text), ("field", link.field)]
        }
        return pairs
    }

    private func attach(_ reader: (any BlobReader)?, at offset: Int64, _ count: Int, to request: inout HTTPRequest) {
        request.headers["Content-Type"] = Tus.contentType
        guard let reader, count > 0 else { return }
        let source = PieceSource(reader, at: offset, count)
        request.body = .sized(count) { source.next(upTo: $0) }
    }

    // MARK: Retries and removal

    /// Lets parked uploads be tried again, because conditions have changed.
    func rearmBlobs(_ id: BlobID? = nil, isDueOnly: Bool = false, then: (@Sendable (isolated Agent, Bool) -> Void)? = nil) {
        guard blobs.folder != nil, blobs.hasParked || id != nil else { return }
        if id == nil, !isDueOnly { blobs.hasParked = false }
        fromStore { store, now throws(StoreError) in
            try store.rearmBlobs(id, isDueOnly: isDueOnly, at: now)
        } then: { agent, result in
            // `try?`: if the store fails, parked files stay parked, are shown as such, and are tried again in a day.
            let jobs = (try? result.get()) ?? []
            for job in jobs { agent.feed(blob: .added(job)) }
            if !jobs.isEmpty { agent.blobs.isInUse = true }
            then?(agent, !jobs.isEmpty)
        }
    }

    /// Once in ten minutes: retries files that were parked a day ago, and removes those that need not be kept any longer.
    func tidyBlobs() {
        guard let folder = blobs.folder, !hasStopped else { return }
        let now = environment.time.now().instant
        if let last = blobs.tidiedAt, last.duration(to: now) < .seconds(600) { return }
        blobs.tidiedAt = now
        rearmBlobs(isDueOnly: true)
        rearmDownloads(isDueOnly: true)
        let minFree = Int64(loaded.configuration.store.minFreeBytes)
        let isShort = environment.freeBytes().map { $0 < 2 * minFree } ?? false
        fromStore { store, now throws(StoreError) in
            try store.pruneBlobs(isShort: isShort, at: now) + store.dropUnshown(at: now)
        } then: { agent, result in
            guard case .success(let old) = result, !old.isEmpty else { return }
            agent.removeFiles(old, in: folder)
        }
    }

    /// Removes files whose rows say that they are not here any more.
    func removeFiles(_ digests: [BlobDigest], in folder: any BlobFolder) {
        let going = digests.filter { blobs.arriving[$0] == nil }
        // `try?`: a file that cannot be removed only takes room; the sweep of the folder finds it again.
        blobs.thread.run { for digest in going { try? folder.remove(digest) } }
    }

    // MARK: Status

    func blobStatus(_ view: StoreView, _ now: Moment) -> StatusDocument.Blobs? {
        guard blobs.folder != nil else { return nil }
        var status = StatusDocument.Blobs(
            pending: view.blobs.pending, uploading: Int64(blobs.uploader.active.count), failed: view.blobs.failed,
            missing: view.blobs.missing, uploaded: view.blobs.uploaded, bytesPending: view.blobs.pendingBytes,
            bytesKept: view.blobs.keptBytes, fetching: view.blobs.fetching, fetched: view.blobs.fetched,
            fetchFailed: view.blobs.fetchFailed, bytesFetching: view.blobs.fetchingBytes)
        guard let next = view.nextBlob else { return status }
        let why = blobs.uploader.explanation(of: next, blobTerms, now: now.wall)
        if let deferral = why.deferral {
            status.reason = deferral.reason.rawValue
            status.until = deferral.until
            status.event = why.reliefs.first { $0.isEvent }?.sentence
        } else if let hold = blobs.uploader.hold(of: next.id, at: now) {
            status.reason = Deferral.Reason.backoff.rawValue
            status.until = hold.until
        }
        return status
    }
}

/// Passes the bytes of one piece to the transport's thread.
private final class PieceSource: @unchecked Sendable {
    // Unchecked: the transport calls it from one thread at a time.
    private let reader: any BlobReader
    private var offset: Int64
    private var left: Int

    init(_ reader: any BlobReader, at offset: Int64, _ count: Int) {
        self.reader = reader
        self.offset = offset
        left = count
    }

    func next(upTo count: Int) -> [UInt8]? {
        guard left > 0 else { return nil }
        // `try?`: a file that cannot be read breaks the request, which counts as an attempt; opening it for the next one gives the reason.
        guard let bytes = try? reader.read(at: offset, count: min(count, left)), !bytes.isEmpty else { return nil }
        offset += Int64(bytes.count)
        left -= bytes.count
        return bytes
    }
}

/// Hashes a downloaded file.
private final class FetchedDigest: @unchecked Sendable {
    // Unchecked: filled on the transport's thread, read after the transfer.
    private let hash: any RunningDigest

    init(_ hash: any RunningDigest) { self.hash = hash }

    func add(_ bytes: [UInt8]) -> Bool {
        hash.update(bytes)
        return true
    }

    var digest: BlobDigest { hash.blobDigest }
}
