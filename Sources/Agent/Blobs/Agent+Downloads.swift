import LocalAPI
import Logging
import SyncCore
import SyncHTTP
import SyncStore

// Performs the downloader's effects, and passes the results back.
extension Agent {
    func stopDownloads() {
        blobs.downloadWake?.cancel()
        for (_, task) in blobs.downloads { task.cancel() }
        blobs.downloads = [:]
        blobs.parts = [:]
    }

    func loadDownloads(_ limit: Int) {
        blobs.downloadLoads += 1
        fromReader { reads, _ throws(StoreError) in
            try reads.wantedBlobs(limit: limit)
        } then: { agent, result in
            let ended = agent.blobs.endedDuringLoad
            agent.blobs.downloadLoads -= 1
            if agent.blobs.downloadLoads == 0 { agent.blobs.endedDuringLoad = [] }
            guard case .success(let found) = result else { return }
            // A file that ended meanwhile would be fetched once more.
            let jobs = found.filter { !ended.contains($0.id) && !agent.blobs.endingDownloads.contains($0.id) }
            if !jobs.isEmpty { agent.blobs.isFetching = true }
            agent.feed(download: .loaded(jobs))
            // The downloader takes a list that is not full for the last one.
            if jobs.count < found.count, found.count >= limit { agent.loadDownloads(limit) }
        }
    }

    // MARK: Events in, effects out

    func feed(download event: BlobDownloader.Event) {
        guard !hasStopped, blobs.folder != nil else { return }
        // A call that comes just before the end of the download is served when that end is recorded.
        if case .added(let job) = event, blobs.endingDownloads.contains(job.id) { return }
        var terms = blobTerms
        terms.elsewhere = blobs.uploader.underWay
        perform(blobs.downloader.handle(event, terms, at: environment.time.now()))
    }

    private func perform(_ effects: [BlobDownloader.Effect]) {
        for effect in effects {
            switch effect {
            case .send(let call): fetch(call)
            case .compare(let call): compare(call)
            case .cancel(let id): if let task = blobs.downloads[id] { task.cancel() } else { blobs.voidDownloads.insert(id) }
            case .discard(let id, let digest): discardPart(of: id, digest)
            case .save(let id, let size, let progress): save(id, size, progress)
            case .end(let job, let ending): end(job, ending)
            case .load(let limit): loadDownloads(limit)
            case .wake(let at):
                blobs.downloadWake?.cancel()
                blobs.downloadWake = schedule(after: delay(until: at)) { $0.feed(download: .timer) }
            case .report(let report): publish(report)
            }
        }
    }

    private func publish(_ report: BlobDownloader.Report) {
        switch report {
        case .began(let id): log.info("download", metadata: ["blob": "\(id)", "state": "fetching"])
        case .progressed(let id, let offset, let size):
            log.debug("download", metadata: ["blob": "\(id)", "offset": "\(offset)", "size": "\(size)"])
        case .waits(let id, let why): log.info("download waits", metadata: ["blob": "\(id)", "why": "\(Printable.text(why))"])
        case .ended(let id, .fetched): log.info("download", metadata: ["blob": "\(id)", "state": "fetched"])
        case .ended(let id, .failed(let code, let why, _)):
            log.warning("download", metadata: ["blob": "\(id)", "state": "failed", "code": "\(code)", "why": "\(Printable.text(why))"])
        }
    }

    private func save(_ id: BlobID, _ size: Int64, _ progress: DownloadProgress) {
        let now = environment.time.now().instant
        var json: String?
        if blobs.toldAt[id].map({ $0.duration(to: now) >= .seconds(1) }) ?? true {
            blobs.toldAt[id] = now
            if blobs.toldAt.count > 1_000 { blobs.toldAt = [id: now] }
            json = String(decoding: EventPayload.blob(id, fetch: .fetching, offset: progress.offset, size: size), as: UTF8.self)
        }
        let note = json
        fromStore { store, now throws(StoreError) in
            try store.saveDownload(id, size: size, progress, note: note, at: now)
        } then: { agent, _ in
            if note != nil { agent.events.sendNew() }
        }
    }

    private func end(_ job: DownloadJob, _ ending: BlobDownloader.Ending) {
        blobs.toldAt[job.id] = nil
        blobs.endingDownloads.insert(job.id)
        if blobs.downloadLoads > 0 { blobs.endedDuringLoad.insert(job.id) }
        switch ending {
        case .fetched(let size):
            let json = String(decoding: EventPayload.blob(job.id, fetch: .fetched, offset: size, size: size), as: UTF8.self)
            let capacity = loaded.configuration.blobCapacity
            fromStore { store, now throws(StoreError) in
                try store.endDownload(job.id, size: size, capacity: capacity, note: json, at: now)
            } then: { agent, result in
                agent.blobs.endingDownloads.remove(job.id)
                agent.blobs.endArrival(of: job.digest)
                agent.events.sendNew()
                switch result {
                case .success(let going):
                    agent.removeCopies(going)
                    agent.serveBlobWaiters(job.digest)
                case .failure(let error):
                    // The next start finds the bytes under their name.
                    agent.log.error("a download was not recorded", metadata: ["error": "\(error)"])
                    agent.refuseBlobWaiters(job.digest, LocalProblem.readOnly.problem("the agent cannot write to its disk", retryAfter: 30))
                }
            }
        case .failed(let code, let why, let progress):
            blobs.hasFailedDownloads = true
            if progress.offset == 0 { discardPart(of: job.id, job.digest) } else { blobs.parts[job.id] = nil }
            let json = String(
                decoding: EventPayload.blob(job.id, fetch: .failed, offset: progress.offset, size: job.size, detail: why), as: UTF8.self)
            let text = Printable.text(why, max: 300)
            fromStore { store, now throws(StoreError) in
                try store.parkDownload(job.id, size: job.size, why: text, progress, note: json, at: now)
            } then: { agent, _ in
                agent.blobs.endingDownloads.remove(job.id)
                agent.events.sendNew()
                let problem = LocalProblem.blobNotFetched.problem(
                    "the file \(job.id) could not be fetched: \(text)",
                    members: ["blob": .string(job.id.description), "cause": .string(code)])
                agent.refuseBlobWaiters(job.digest, problem)
            }
        }
    }

    private func discardPart(of id: BlobID, _ digest: BlobDigest) {
        blobs.parts[id] = nil
        guard let folder = blobs.folder else { return }
        blobs.thread.run { folder.discard(incoming: DownloadJob.part(of: digest)) }
    }

    func removeCopies(_ digests: [BlobDigest]) {
        guard let folder = blobs.folder, !digests.isEmpty else { return }
        log.info("files were removed from this device to make room", metadata: ["count": "\(digests.count)"])
        removeFiles(digests, in: folder)
    }

    // MARK: One request

    /// Makes room before the first byte of a file.
    private func fetch(_ call: BlobDownloader.Call) {
        guard call.isFirst else { return open(call) }
        measureSpace()
        let capacity = loaded.configuration.blobCapacity
        let wanted = call.job.size.saturatingAdd(blobs.reserved)
        fromStore { store, now throws(StoreError) in
            try store.makeRoom(forBlob: wanted, capacity, except: call.job.id, at: now)
        } then: { agent, result in
            switch result {
            case .success(let going):
                agent.removeCopies(going)
                agent.open(call)
            case .failure(let error):
                guard let problem = error.problem else {
                    return agent.stumble(call, BlobError(.io, doing: "make room for the file", detail: "\(error)"))
                }
                agent.blobs.voidDownloads.remove(call.id)
                agent.feed(download: .noRoom(call.id, why: problem.detail))
            }
        }
    }

    private func open(_ call: BlobDownloader.Call) {
        openPart(call) { agent, part in
            if let part { agent.send(call, into: part) }
        }
    }

    private func openPart(
        _ call: BlobDownloader.Call, then: @escaping @Sendable (isolated Agent, DownloadPart?) -> Void
    ) {
        guard let folder = blobs.folder else { return }
        let (known, job, offset) = (blobs.parts[call.job.id], call.job, call.request.offset)
        fromFiles {
            Self.part(known, of: job, at: offset, in: folder)
        } then: { agent, opened in
            switch opened {
            case .success(let part):
                if agent.blobs.parts.count > 16 { agent.blobs.parts = [:] }
                agent.blobs.parts[job.id] = part
                then(agent, part)
            case .failure(let error):
                agent.blobs.parts[job.id] = nil
                agent.stumble(call, error)
                then(agent, nil)
            }
        }
    }

    /// Opens the part, or goes on with the open one. A part that is opened is read to its offset, which its digest needs.
    private static func part(
        _ known: DownloadPart?, of job: DownloadJob, at offset: Int64, in folder: any BlobFolder
    ) -> Result<DownloadPart, BlobError> {
        if let known, known.file.offset == offset { return .success(known) }
        do throws(BlobError) {
            return .success(DownloadPart(try folder.open(incoming: job.part, at: offset)))
        } catch {
            return .failure(error)
        }
    }

    private func stumble(_ call: BlobDownloader.Call, _ error: BlobError) {
        blobs.voidDownloads.remove(call.id)
        blobs.parts[call.job.id] = nil
        feed(download: .stumbled(call.id, error))
    }

    private func send(_ call: BlobDownloader.Call, into part: DownloadPart) {
        let nothing = DownloadMachine.Received(offset: call.request.offset, moved: 0)
        let isVoid = blobs.voidDownloads.remove(call.id) != nil
        guard !hasStopped, blobs.downloader.isAwaiting(call.id) else { return }
        if isVoid {
            let error = TransportError(.cancelled, doing: "fetch \(call.job.id)", detail: "the link is gone")
            return feed(download: .answered(call.id, .failure(error), nothing, took: .zero))
        }
        let uplink = around.connectivity.uplink
        let request: HTTPRequest
        do throws(TransportError) {
            request = try self.request(call, over: uplink)
        } catch {
            return feed(download: .answered(call.id, .failure(error), nothing, took: .zero))
        }
        let (transport, began) = (environment.transport, environment.time.now().instant)
        let sink = DownloadSink(part, DownloadIntake(call.request, call.job.digest), from: call.request.offset, on: blobs.thread)
        let agent = self
        blobs.downloads[call.id] = Task(executorPreference: executor) { [weak agent] in
            let result: Result<HTTPResponse, TransportError>
            do throws(TransportError) {
                result = .success(
                    try await transport.stream(request, onHead: { sink.head($0, $1) }, onBody: { sink.body($0) }))
            } catch {
                result = .failure(error)
            }
            guard let agent else { return }
            sink.finish { taken in agent.onLoop { $0.took(call, result, taken, began: began, over: uplink) } }
        }
    }

    private func took(
        _ call: BlobDownloader.Call, _ result: Result<HTTPResponse, TransportError>, _ taken: DownloadSink.Taken, began: Instant,
        over uplink: Uplink?
    ) {
        count(result.traffic, for: .blobs, over: uplink)
        blobs.downloads[call.id] = nil
        if let error = taken.error { return stumble(call, error) }
        let time = began.duration(to: environment.time.now().instant)
        feed(download: .answered(call.id, result.map { $0.with(body: taken.text) }, taken.received, took: time))
    }

    private func request(_ call: BlobDownloader.Call, over uplink: Uplink?) throws(TransportError) -> HTTPRequest {
        let url = loaded.configuration.hub.url.text + "/v1/blobs/" + call.job.digest.hex
        var request = try hub.fileRequest(.get, url, replica: engine.replica, over: uplink)
        for (name, value) in call.headers { request.headers[name] = value }
        request.bytesPerSecond = call.bytesPerSecond
        // A hub may have to fetch it from its object store first.
        request.deadlines.firstByte = .seconds(60)
        request.deadlines.total = .seconds(1_800)
        // The sink stops what is too much.
        request.maxResponseBytes = .max
        request.expectedBytes = call.bytes
        return request
    }

    // MARK: The whole

    /// Gives the whole file its name, if it is the right one.
    private func compare(_ call: BlobDownloader.Call) {
        // From here on these bytes must not be removed as the remains of another file.
        blobs.arriving[call.job.digest, default: 0] += 1
        openPart(call) { agent, part in
            guard let part else { return agent.blobs.endArrival(of: call.job.digest) }
            agent.fromFiles {
                Self.keep(part, as: call.job.digest)
            } then: { agent, kept in
                agent.blobs.parts[call.job.id] = nil
                agent.blobs.voidDownloads.remove(call.id)
                switch kept {
                case .success(let found):
                    // A file that was removed meanwhile waits for nothing, and its bytes are remains.
                    let isAwaited = agent.blobs.downloader.isAwaiting(call.id)
                    if found != call.job.digest || !isAwaited { agent.blobs.endArrival(of: call.job.digest) }
                    if !isAwaited { agent.removeUnwanted(call.job.digest) }
                    agent.feed(download: .compared(call.id, found))
                case .failure(let error):
                    agent.blobs.endArrival(of: call.job.digest)
                    agent.stumble(call, error)
                }
            }
        }
    }

    private static func keep(_ part: DownloadPart, as digest: BlobDigest) -> Result<BlobDigest, BlobError> {
        let found = part.file.digest()
        do throws(BlobError) {
            if found == digest { try part.file.keep(as: digest) } else { part.file.discard() }
            return .success(found)
        } catch {
            return .failure(error)
        }
    }

    private func removeUnwanted(_ digest: BlobDigest) {
        guard let folder = blobs.folder else { return }
        fromReader { reads, _ throws(StoreError) in
            try reads.blob(digest)?.hasFile ?? false
        } then: { agent, result in
            if case .success(false) = result { agent.removeFiles([digest], in: folder) }
        }
    }

    // MARK: Tries again, and files ahead

    /// Lets downloads that were set aside be tried again, because conditions have changed.
    func rearmDownloads(isDueOnly: Bool = false) {
        guard blobs.folder != nil, blobs.hasFailedDownloads else { return }
        if !isDueOnly { blobs.hasFailedDownloads = false }
        fromStore { store, now throws(StoreError) in
            try store.rearmDownloads(isDueOnly: isDueOnly, at: now)
        } then: { agent, result in
            // `try?`: if the store fails, the files stay set aside, are shown as such, and are tried again in a day.
            for job in (try? result.get()) ?? [] {
                agent.blobs.isFetching = true
                agent.feed(download: .added(job))
            }
        }
    }

    /// Loads the files that records from the hub show and want, and removes those that have left the share of this device.
    func updateFiles(after summary: PullSummary) {
        guard blobs.folder != nil else { return }
        for download in summary.cutDownloads { feed(download: .cut(download)) }
        if let folder = blobs.folder, !summary.droppedFiles.isEmpty {
            log.info(
                "files were removed from this device, because their records left its share",
                metadata: ["count": "\(summary.droppedFiles.count)"])
            removeFiles(summary.droppedFiles, in: folder)
        }
        if summary.wantedFiles > 0 { loadDownloads(FilePace.window) }
    }

    /// Wants the files that records already show, for entities with `files: ahead`: records that came before the key was set, or before
    /// this program knew it.
    func wantShownFiles(after: Int64 = 0) {
        guard blobs.folder != nil, backend == nil, !hasStopped else { return }
        let entities = loaded.configuration.aheadEntities
        blobs.aheadEntities = entities
        guard !entities.isEmpty else { return }
        let capacity = loaded.configuration.blobCapacity
        fromReader { reads, _ throws(StoreError) in
            try reads.slice(ofUnknownIn: entities, after: after)
        } then: { agent, result in
            // The next start looks again.
            guard case .success(let slice) = result else { return }
            agent.fromStore { store, now throws(StoreError) in
                try store.wantAhead(slice.files, capacity: capacity, at: now)
            } then: { agent, result in
                // `try?`: the files stay unknown, and the next start looks again.
                if ((try? result.get()) ?? 0) > 0 { agent.loadDownloads(FilePace.window) }
                if let next = slice.next { agent.wantShownFiles(after: next) }
            }
        }
    }
}

extension HTTPResponse {
    fileprivate func with(body: [UInt8]) -> HTTPResponse {
        var response = self
        response.body = body
        return response
    }
}
