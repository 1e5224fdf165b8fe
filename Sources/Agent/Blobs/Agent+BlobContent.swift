import LocalAPI
import NIOCore
import SyncCore
import SyncHTTP
import SyncStore

// The bytes of files for local clients (PROTOCOL B4): from this device, or from the hub if a record shows the file.
extension Agent {
    /// Sends a file. One that the hub has is fetched first; the call waits for it as long as it asks for.
    func sendBlob(_ call: LocalCall, _ name: BlobName, wait: Duration?) {
        find(call, name) { agent, row, shown in
            if let row, row.hasFile { return agent.send(row, to: call) }
            if let row, row.fetch == .failed { return agent.refuse(call, notFetched: row) }
            if let row, row.state != .uploaded { return agent.refuseBlob(call, Self.noBytes(row.id)) }
            agent.want(call, row?.digest ?? shown?.digest, shown) { agent, row in
                if row.hasFile { agent.send(row, to: call) } else { agent.wait(call, for: row, atMost: wait) }
            }
        }
    }

    /// Has a file come, also one that was set aside. The answer does not wait for its bytes.
    func fetchBlob(_ call: LocalCall, _ name: BlobName, isPinned: Bool = false) {
        find(call, name) { agent, row, shown in
            if let row, !row.hasFile, row.state != .uploaded { return agent.refuseBlob(call, Self.noBytes(row.id)) }
            if isPinned { agent.audit("pin", name.description, uid: call.peer.uid) }
            agent.want(call, row?.digest ?? shown?.digest, shown, isPinned: isPinned) { agent, row in
                var answer = agent.item(row).answer()
                if row.fetch == .fetching { answer.status = 202 }
                call.answer(answer)
            }
        }
    }

    func unpinBlob(_ call: LocalCall, _ name: BlobName) {
        find(call, name) { agent, row, _ in
            guard let row else { return agent.refuseBlob(call, Self.nothing(name, isPending: false)) }
            agent.audit("unpin", name.description, uid: call.peer.uid)
            agent.fromStore(for: call) { store, now throws(StoreError) in
                try store.pinBlob(row.id, false, at: now)
            } then: { agent, row in
                call.answer(agent.item(row).answer())
            }
        }
    }

    // MARK: Which file

    /// Finds the file that a caller names, among those that it may see. A file without a row is searched for in the mirror.
    private func find(
        _ call: LocalCall, _ name: BlobName, then: @escaping @Sendable (isolated Agent, BlobRow?, ShownFile?) -> Void
    ) {
        fromReader(for: call) { reads, _ throws(StoreError) in
            var row: BlobRow?
            switch name {
            case .id(let id): row = try reads.blob(id)
            case .digest(let digest): row = try reads.blob(digest)
            }
            // The records that showed it when it was asked for may be gone.
            if let found = row, found.fetch != nil { row?.links = try reads.stillShowing(found.digest, of: found.links) }
            return row
        } then: { (agent: isolated Agent, row: BlobRow?) in
            if let row, agent.maySee(row, call) { return then(agent, row, nil) }
            switch name {
            case .id(let id): call.answer(Self.noBlob(id))
            case .digest(let digest): agent.search(call, digest, after: 0, isPending: false, then: then)
            }
        }
    }

    /// Searches the mirror in slices, so that no read is long.
    private func search(
        _ call: LocalCall, _ digest: BlobDigest, after: Int64, isPending: Bool,
        then: @escaping @Sendable (isolated Agent, BlobRow?, ShownFile?) -> Void
    ) {
        let entities = call.peer.allows(.operate) ? nil : call.peer.entities
        fromReader(for: call, isLong: true) { reads, _ throws(StoreError) in
            (slice: try reads.slice(showing: digest, entities: entities, after: after), row: try reads.blob(digest))
        } then: { agent, found in
            if let file = found.slice.file, file.isUploaded { return then(agent, found.row, file) }
            let isPending = isPending || found.slice.file != nil
            guard let next = found.slice.next, call.exchange.isOpen else {
                return agent.refuseBlob(call, Self.nothing(.digest(digest), isPending: isPending))
            }
            agent.search(call, digest, after: next, isPending: isPending, then: then)
        }
    }

    private func want(
        _ call: LocalCall, _ digest: BlobDigest?, _ shown: ShownFile?, isPinned: Bool = false,
        then: @escaping @Sendable (isolated Agent, BlobRow) -> Void
    ) {
        guard let digest, blobs.folder != nil else { return refuseBlob(call, LocalProblem.notFound.problem("there is no such file")) }
        guard backend == nil else {
            return refuseBlob(
                call, LocalProblem.notFound.problem("the file is not on this device, and an existing backend gives out no files"))
        }
        let (requester, capacity) = (call.peer.requester, loaded.configuration.blobCapacity)
        fromStore(for: call) { store, now throws(StoreError) in
            try store.wantBlob(digest, shown: shown, isAsked: true, isPinned: isPinned, by: requester, capacity: capacity, at: now)
        } then: { (agent: isolated Agent, row: BlobRow) in
            if let job = row.download {
                agent.blobs.isFetching = true
                agent.feed(download: .added(job))
            }
            then(agent, row)
        }
    }

    // MARK: Waiting

    private func wait(_ call: LocalCall, for row: BlobRow, atMost time: Duration?) {
        guard let time else { return refuseBlob(call, fetching(row)) }
        blobs.lastWaiter += 1
        let (number, digest, id) = (blobs.lastWaiter, row.digest, row.id)
        let timer = schedule(after: time) { agent in
            guard let waiter = agent.leave(digest, number) else { return }
            agent.fromReader(for: waiter.call) { reads, _ throws(StoreError) in
                try reads.blob(id)
            } then: { (agent: isolated Agent, row: BlobRow?) in
                agent.refuseBlob(waiter.call, row.map { agent.fetching($0) } ?? Self.noBytes(id))
            }
        }
        blobs.waiters[digest, default: []].append(BlobWaiter(number: number, call: call, timer: timer))
    }

    private func leave(_ digest: BlobDigest, _ number: UInt64) -> BlobWaiter? {
        guard let index = blobs.waiters[digest]?.firstIndex(where: { $0.number == number }) else { return nil }
        let waiter = blobs.waiters[digest]?.remove(at: index)
        if blobs.waiters[digest]?.isEmpty ?? false { blobs.waiters[digest] = nil }
        return waiter
    }

    /// Sends a file that has arrived to all requests that wait for it.
    func serveBlobWaiters(_ digest: BlobDigest) {
        for waiter in blobs.waiters.removeValue(forKey: digest) ?? [] {
            waiter.timer.cancel()
            sendBlob(waiter.call, .digest(digest), wait: nil)
        }
    }

    func refuseBlobWaiters(_ digest: BlobDigest, _ problem: Problem) {
        for waiter in blobs.waiters.removeValue(forKey: digest) ?? [] {
            waiter.timer.cancel()
            refuseBlob(waiter.call, problem)
        }
    }

    // MARK: Refusals

    func refuseBlob(_ call: LocalCall, _ problem: Problem) {
        metrics.refused(problem.code)
        call.refuse(problem)
    }

    private func refuse(_ call: LocalCall, notFetched row: BlobRow) {
        refuseBlob(
            call,
            LocalProblem.blobNotFetched.problem(
                "the file \(row.id) could not be fetched: \(Printable.text(row.progress.error ?? "the hub did not give it"))",
                members: ["blob": .string(row.id.description)]))
    }

    /// - Returns: The answer for a file that is on its way, with its progress and the reason why it waits.
    private func fetching(_ row: BlobRow) -> Problem {
        let item = item(row)
        var members: JSONObject = ["blob": .string(item.id), "offset": .int(Int(item.offset)), "size": .int(Int(item.size))]
        var text = "\(item.offset) of \(item.size) bytes of the file \(item.id) are here"
        if let deferral = item.deferral {
            members["reason"] = .string(deferral.reason)
            text += "; it waits: \(deferral.reason)"
        }
        return LocalProblem.blobFetching.problem(text, retryAfter: 5, members: members)
    }

    private static func nothing(_ name: BlobName, isPending: Bool) -> Problem {
        guard isPending else {
            return LocalProblem.notFound("there is no file \(name), and no record shows it", list: "agentctl blobs list")
        }
        return LocalProblem.notFound.problem("a record shows the file \(name), and its bytes are not at the hub yet")
    }

    private static func noBytes(_ id: BlobID) -> Problem {
        LocalProblem.notFound.problem("the bytes of \(id) are not on this device any more")
    }

    // MARK: Sending

    private func send(_ row: BlobRow, to call: LocalCall) {
        guard let folder = blobs.folder else { return call.answer(Self.noBlob(row.id)) }
        recordUse(of: row.id)
        let range = call.exchange.request.header("Range")
        let loop = blobs.thread.loop
        loop.execute {
            do throws(BlobError) {
                BlobOutput(call.exchange, try folder.read(row.digest), on: loop).begin(row, range: range)
            } catch {
                // A failing disk does not mean that the file is gone: the caller may try again.
                let text = "the bytes of \(row.id) cannot be read: \(Printable.text(error.detail))"
                call.refuse(error.code == .notFound ? Self.noBytes(row.id) : LocalProblem.readOnly.problem(text, retryAfter: 30))
            }
        }
    }

    /// Records the use of a file at most once in an hour, because flash pays for each record.
    private func recordUse(of id: BlobID) {
        let now = environment.time.now().instant
        if let last = blobs.usedAt[id], last.duration(to: now) < .seconds(3_600) { return }
        if blobs.usedAt.count >= 1_000 { blobs.usedAt = [:] }
        blobs.usedAt[id] = now
        tellStore { store, now throws(StoreError) in try store.useBlob(id, at: now) }
    }

    // MARK: Answers about files

    func item(_ row: BlobRow, _ fetch: FetchState) -> BlobItem {
        let now = environment.time.now()
        var item = BlobItem(
            id: row.id.description, digest: row.digest.description, size: row.size, type: row.type, filename: row.filename,
            state: fetch.word, direction: .down, offset: row.hasFile ? row.size : row.gotBytes, attempts: Int64(row.progress.attempts),
            links: row.links, isVerified: fetch == .fetched, isKept: row.hasFile, isPinned: row.isPinned, createdAt: row.createdAt,
            doneAt: row.doneAt, error: row.progress.error.map { Printable.text($0) }, deferral: nil)
        guard let job = row.download, !blobs.downloader.isActive(row.id) else { return item }
        let why = blobs.downloader.explanation(of: job, .init(situation: presentSituation, isBusy: false), now: now.wall)
        if let deferral = why.deferral {
            item.deferral = .init(reason: deferral.reason.rawValue, until: why.end)
        } else if let hold = blobs.downloader.hold(of: row.id, at: now) {
            item.deferral = .init(reason: Deferral.Reason.backoff.rawValue, until: hold.until)
        }
        return item
    }

    /// Explains a file that comes from the hub.
    func why(_ row: BlobRow, _ fetch: FetchState, _ name: RecordName, _ note: SituationNote) -> WhyAnswer {
        let now = environment.time.now()
        func answer(
            _ verdict: WhyAnswer.Verdict, _ sentence: String, reason: String? = nil, until: Timestamp? = nil, change: [String] = []
        ) -> WhyAnswer {
            WhyAnswer(
                id: row.id.description, record: name, state: fetch.word, verdict: verdict, reason: reason, until: until,
                sentence: sentence, rule: nil, wouldChange: change, situation: note)
        }
        switch fetch {
        case .fetched:
            if row.hasFile { return answer(.settled, "it is here, and its digest is right") }
            return answer(.settled, "it was here, and was removed" + (row.progress.error.map { ": \($0)" } ?? " to make room"))
        case .failed:
            return answer(
                .parked, "it was set aside: " + (row.progress.error ?? "the hub did not give it"),
                change: [
                    "when a record that shows it changes, on a new link, when the hub is found again, after a day, or with "
                        + "agentctl blobs fetch \(row.id)"
                ])
        case .fetching: break
        }
        if blobs.downloader.isActive(row.id) { return answer(.allow, "it is on its way: \(row.gotBytes) of \(row.size) bytes are here") }
        guard let job = row.download else { return answer(.allow, "it is fetched next") }
        let why = blobs.downloader.explanation(of: job, .init(situation: presentSituation, isBusy: false), now: now.wall)
        if why.deferral != nil {
            return WhyAnswer(id: row.id.description, record: name, state: fetch.word, why, at: hubPlace, situation: note)
        }
        if let hold = blobs.downloader.hold(of: row.id, at: now) {
            let cause = hold.why.map { ": " + Printable.text($0) } ?? ""
            return answer(.defer, "it is tried again later" + cause, reason: Deferral.Reason.backoff.rawValue, until: hold.until)
        }
        let turn = blobs.downloader.turn(of: row.id, blobTerms, at: now)
        return answer(.allow, turn.sentence("fetched"), until: turn.until)
    }
}

/// Sends a file to a local client, at the client's pace.
private final class BlobOutput: @unchecked Sendable {
    // Unchecked: used on the files' thread only.
    private let exchange: HTTPExchange
    private let reader: any BlobReader
    private let loop: any EventLoop
    private var offset: Int64 = 0
    private var end: Int64 = 0

    init(_ exchange: HTTPExchange, _ reader: any BlobReader, on loop: any EventLoop) {
        self.exchange = exchange
        self.reader = reader
        self.loop = loop
    }

    func begin(_ row: BlobRow, range: String?) {
        var headers = [
            ("Content-Type", row.type), (Tus.reprDigest, row.digest.field), ("Accept-Ranges", "bytes"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        end = reader.size
        var status = 200
        if let range = range.flatMap({ ByteRange($0) }) {
            guard let part = range.bytes(of: reader.size) else {
                return exchange.refuse(
                    HTTPProblem(
                        status: 416, code: LocalProblem.malformed.rawValue, detail: "the file has \(reader.size) bytes",
                        headers: [("Content-Range", "bytes */\(reader.size)")]))
            }
            (offset, end, status) = (part.lowerBound, part.upperBound, 206)
            headers.append(("Content-Range", "bytes \(offset)-\(end - 1)/\(reader.size)"))
        }
        exchange.begin(status: status, headers: headers, length: Int(end - offset))
        next()
    }

    private func next() {
        guard exchange.isOpen else { return exchange.abort() }
        guard offset < end else { return exchange.end() }
        // Every failure here, also of a read that is no damage, ends the connection below.
        guard let bytes = try? reader.read(at: offset, count: Int(min(128 << 10, end - offset))), !bytes.isEmpty else {
            // Only a closed connection shows the client that the file is incomplete.
            return exchange.abort()
        }
        offset += Int64(bytes.count)
        exchange.write(bytes)
        exchange.whenWritable { [self] in loop.execute { self.next() } }
    }
}
