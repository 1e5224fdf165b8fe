import LocalAPI
import Logging
import NIOCore
import SyncCore
import SyncHTTP
import SyncStore

// Files over the local API (PROTOCOL B4): added by stream, descriptor or path; listed, shown, downloaded, retried, removed.
extension Agent {
    func addBlob(_ call: LocalCall, _ query: BlobAddQuery) throws(Problem) {
        if backend != nil, loaded.configuration.blobs.uploadURL == nil {
            throw LocalProblem.validation.problem("an existing backend takes no files: set blobs.upload_url to a tus server")
        }
        guard let folder = blobs.folder else { throw LocalProblem.readOnly.problem("this agent has no place for files") }
        if let obstacle = alarms[Self.noFiles] { throw LocalProblem.readOnly.problem(obstacle, retryAfter: 30) }
        guard blobs.isSwept else {
            guard hasBegun else { throw LocalProblem.starting.problem("the database did not answer at the start", retryAfter: 1) }
            // The folder is being scanned, which takes moments.
            return blobs.whenSwept.append(call)
        }
        let request = call.exchange.request
        let said = request.header(BlobSourceKind.header) ?? BlobSourceKind.stream.rawValue
        guard let kind = BlobSourceKind(rawValue: said) else {
            throw LocalProblem.malformed.problem("\(BlobSourceKind.header) must be stream, fd or path")
        }
        var expected: BlobDigest?
        if let field = request.header(Tus.reprDigest) {
            expected = BlobDigest(field: field)
            guard expected != nil else { throw LocalProblem.malformed.problem("Repr-Digest must be sha-256=:base64:") }
        }
        blobs.lastIntake += 1
        // The time distinguishes it from names of an earlier run.
        let name = "in-\(environment.time.now().wall.milliseconds)-\(blobs.lastIntake)"
        let intake = BlobIntake(
            call, self, folder, name: name, limit: Int64(loaded.configuration.blobs.maxSizeBytes), expected: expected)
        switch kind {
        case .stream: begin(intake) { $0.stream() }
        case .fd:
            let source: BlobSource
            switch call.exchange.takeDescriptor() {
            case .one(let descriptor): source = BlobSource(descriptor: descriptor, close: HTTPExchange.closeDescriptor)
            case .none: throw LocalProblem.malformed.problem("no descriptor came with the head of the request, expected 1")
            case .several(let count):
                throw LocalProblem.malformed.problem("\(count) descriptors came with the head of the request, expected 1")
            case .lost:
                throw Problem(
                    HTTPProblem.ServerCode.busy.rawValue, status: 503,
                    detail: "the agent has no free descriptor for the one that came with the request", retryAfter: 1)
            }
            begin(intake) { $0.copy { () throws(BlobError) in source } }
        case .path: readPath(call, intake, folder, [])
        }
    }

    private func readPath(_ call: LocalCall, _ intake: BlobIntake, _ folder: any BlobFolder, _ before: [UInt8]) {
        call.exchange.readBody { [self] part in
            switch part {
            case .bytes(let bytes):
                guard before.count + bytes.count <= BlobPathBody.bytesMax else {
                    return call.refuse(BodyRule.tooLarge(BlobPathBody.bytesMax))
                }
                assumeIsolated { $0.readPath(call, intake, folder, before + bytes) }
            case .end: assumeIsolated { $0.copyFile(call, intake, folder, namedBy: before) }
            case .failed: break
            }
        }
    }

    private func copyFile(_ call: LocalCall, _ intake: BlobIntake, _ folder: any BlobFolder, namedBy body: [UInt8]) {
        do throws(Problem) {
            let (path, uid) = (try BlobPathBody.read(body).path, call.peer.uid)
            let folders = loaded.configuration.blobs.importDirectories
            begin(intake) {
                $0.copy { () throws(BlobError) in try folder.source(path: path, below: folders, ownedBy: uid) }
            }
        } catch {
            call.refuse(error)
        }
    }

    /// Checks for room before the first byte is read.
    private func begin(_ intake: BlobIntake, _ go: @escaping @Sendable (BlobIntake) -> Void) {
        measureSpace()
        let capacity = loaded.configuration.blobCapacity
        blobs.reserved += intake.announced
        let wanted = blobs.reserved
        fromStore { store, _ throws(StoreError) in
            try store.checkRoom(forBlob: wanted, capacity)
        } then: { agent, result in
            if case .failure(let error) = result {
                agent.ended(intake)
                return agent.refuse(intake.request, error)
            }
            go(intake)
        }
    }

    /// The intake has ended.
    func ended(_ intake: BlobIntake) { blobs.reserved = max(0, blobs.reserved - intake.announced) }

    /// The bytes are on disk under their final name; the row follows.
    func arrived(_ digest: BlobDigest, _ size: Int64, _ intake: BlobIntake) {
        let call = intake.request
        ended(intake)
        guard case .addBlob(let query) = call.route else { preconditionFailure("bytes came in by \(call.route.name)") }
        let header = call.exchange.request.header("Content-Type").map { String($0.prefix { $0 != ";" }) }
        let isPath = call.exchange.request.header(BlobSourceKind.header) == BlobSourceKind.path.rawValue
        let type = query.type ?? (isPath ? nil : header).flatMap { BlobAddQuery.isType($0) ? $0 : nil } ?? "application/octet-stream"
        let (requester, capacity) = (call.peer.requester, loaded.configuration.blobCapacity)
        fromStore { store, now throws(StoreError) in
            try store.addBlob(
                digest, size: size, type: type, filename: query.filename, by: requester, capacity: capacity, at: now)
        } then: { agent, result in
            agent.blobs.arriving[digest] = agent.blobs.arriving[digest].flatMap { $0 > 1 ? $0 - 1 : nil }
            switch result {
            case .success(let (row, isNew)):
                call.answer(agent.item(row).answer(isNew: isNew))
                guard row.state == .pending else { return }
                if isNew {
                    agent.log.info("a file came in", metadata: ["blob": "\(row.id)", "bytes": "\(size)", "app": "\(requester.app)"])
                }
                agent.blobs.isInUse = true
                agent.feed(blob: .added(row.job))
            case .failure(let error):
                agent.refuse(call, error)
                agent.removeUnknown(digest)
            }
        }
    }

    /// Removes a file that got no row for want of room.
    private func removeUnknown(_ digest: BlobDigest) {
        guard let folder = blobs.folder else { return }
        fromReader { reads, _ throws(StoreError) in
            try reads.blob(digest) != nil
        } then: { agent, result in
            if case .success(false) = result { agent.removeFiles([digest], in: folder) }
        }
    }

    // MARK: Answers

    func listBlobs(_ call: LocalCall, _ query: BlobListQuery) {
        let wanted = query.states.map { Set($0.map(\.stored)) }
        let active = query.states.map { states in states.allSatisfy { $0 == .uploading || $0 == .verifying } } ?? false
        let entities = call.peer.entities
        readBlobs(call) { reads throws(StoreError) in
            try reads.blobs(wanted, entities: entities, after: query.after, limit: query.limit)
        } answer: { agent, rows in
            var items = rows.map { agent.item($0) }
            if active { items.removeAll { $0.state == BlobState.pending.rawValue } }
            return BlobListAnswer(items: items, next: rows.count == query.limit ? rows.last?.id.number : nil).answer
        }
    }

    func showBlob(_ call: LocalCall, _ id: BlobID) {
        readBlobs(call) { reads throws(StoreError) in
            try reads.blob(id).map { [$0] } ?? []
        } answer: { agent, rows in
            guard let row = rows.first, agent.maySee(row, call) else { return Self.noBlob(id) }
            return agent.item(row).answer()
        }
    }

    func showWhyBlob(_ call: LocalCall, _ id: BlobID) {
        readBlobs(call) { reads throws(StoreError) in
            try reads.blob(id).map { [$0] } ?? []
        } answer: { agent, rows in
            guard let row = rows.first, agent.maySee(row, call) else { return Self.noBlob(id) }
            return agent.why(row).answer
        }
    }

    private func readBlobs(
        _ call: LocalCall, _ work: @escaping @Sendable (StoreReads) throws(StoreError) -> [BlobRow],
        answer: @escaping @Sendable (isolated Agent, [BlobRow]) -> LocalAnswer
    ) {
        fromReader(for: call) { reads, _ throws(StoreError) in
            try work(reads)
        } then: { agent, rows in
            call.answer(answer(agent, rows))
        }
    }

    /// Returns whether the caller may see the file. A file that no record shows belongs to the app that added it; others are visible to
    /// callers that may see the record.
    private func maySee(_ row: BlobRow, _ call: LocalCall) -> Bool {
        call.peer.allows(.operate) || row.app == call.peer.app || row.links.contains { call.peer.allows($0.record.entity) }
    }

    private static func noBlob(_ id: BlobID) -> LocalAnswer {
        LocalProblem.notFound("there is no blob \(id)", list: "agentctl blobs list").localAnswer
    }

    private func item(_ row: BlobRow) -> BlobItem {
        let now = environment.time.now()
        let active = blobs.uploader.active[row.id]
        var item = BlobItem(
            id: row.id.description, digest: row.digest.description, size: row.size, type: row.type, filename: row.filename,
            state: (row.state == .pending ? active ?? .pending : row.state).rawValue, offset: row.progress.offset,
            attempts: Int64(row.progress.attempts), links: row.links, isVerified: row.isVerified, isKept: row.hasFile,
            createdAt: row.createdAt, doneAt: row.doneAt, error: row.progress.error.map { Printable.text($0) }, deferral: nil)
        guard row.state == .pending, active == nil else { return item }
        let why = blobs.uploader.explanation(of: row.job, .init(situation: presentSituation, isBusy: false), now: now.wall)
        if let deferral = why.deferral {
            item.deferral = .init(reason: deferral.reason.rawValue, until: why.end)
        } else if let hold = blobs.uploader.hold(of: row.id, at: now) {
            item.deferral = .init(reason: Deferral.Reason.backoff.rawValue, until: hold.until)
        }
        return item
    }

    private func why(_ row: BlobRow) -> WhyAnswer {
        let now = environment.time.now()
        let note = SituationNote(engine.situation, batteryPercent: around.power.state.percent.map(Int64.init), now: now.wall)
        let name = row.links.first?.record ?? RecordName(EntityName(trusted: "blob"), RecordID(trusted: row.id.description))
        func answer(
            _ verdict: WhyAnswer.Verdict, _ sentence: String, reason: String? = nil, until: Timestamp? = nil, rule: String? = nil,
            change: [String] = []
        ) -> WhyAnswer {
            WhyAnswer(
                id: row.id.description, record: name, state: item(row).state, verdict: verdict, reason: reason, until: until,
                sentence: sentence, rule: rule, wouldChange: change, situation: note)
        }
        switch row.state {
        case .uploaded:
            return answer(
                .settled,
                row.isVerified ? "it is at the server, which has shown its digest" : "it is at the server; nobody has compared its digest")
        case .failed:
            return answer(
                .parked, "it was set aside: " + (row.progress.error ?? "the server did not take it"),
                change: ["on a new link, when the hub is found again, after a day, or with agentctl blobs retry \(row.id)"])
        case .missing:
            return answer(.parked, "its bytes are gone: " + (row.progress.error ?? ""), change: ["when somebody adds the same file again"])
        case .pending, .uploading, .verifying: break
        }
        if blobs.uploader.active[row.id] != nil {
            return answer(.allow, "it is on its way: \(row.progress.offset) of \(row.size) bytes are at the server")
        }
        let why = blobs.uploader.explanation(of: row.job, .init(situation: presentSituation, isBusy: false), now: now.wall)
        if why.deferral != nil {
            return WhyAnswer(id: row.id.description, record: name, state: item(row).state, why, at: hubPlace, situation: note)
        }
        if let hold = blobs.uploader.hold(of: row.id, at: now) {
            let cause = hold.why.map { ": " + Printable.text($0) } ?? ""
            return answer(.defer, "it is tried again later" + cause, reason: Deferral.Reason.backoff.rawValue, until: hold.until)
        }
        return answer(.allow, "nothing keeps it back: it goes when those before it have gone", rule: why.rule.rawValue)
    }

    // MARK: Content

    func sendBlob(_ call: LocalCall, _ id: BlobID) {
        guard let folder = blobs.folder else { return call.answer(Self.noBlob(id)) }
        let range = call.exchange.request.header("Range")
        fromReader(for: call) { reads, _ throws(StoreError) in
            try reads.blob(id)
        } then: { agent, row in
            guard let row, agent.maySee(row, call) else { return call.answer(Self.noBlob(id)) }
            let loop = agent.blobs.thread.loop
            loop.execute {
                guard row.hasFile else { return call.refuse(Self.noBytes(id)) }
                do throws(BlobError) {
                    BlobOutput(call.exchange, try folder.read(row.digest), on: loop).begin(row, range: range)
                } catch {
                    // A failing disk does not mean that the file is gone: the caller may try again.
                    let text = "the bytes of \(id) cannot be read: \(Printable.text(error.detail))"
                    call.refuse(error.code == .notFound ? Self.noBytes(id) : LocalProblem.readOnly.problem(text, retryAfter: 30))
                }
            }
        }
    }

    private static func noBytes(_ id: BlobID) -> Problem {
        LocalProblem.notFound.problem("the bytes of \(id) are not on this device any more")
    }

    // MARK: Decisions

    func retryBlob(_ call: LocalCall, _ id: BlobID) {
        fromReader(for: call) { reads, _ throws(StoreError) in
            try reads.blob(id)
        } then: { agent, row in
            guard let row, agent.maySee(row, call) else { return call.answer(Self.noBlob(id)) }
            guard row.state == .failed else {
                // Uploads that continue by themselves need no action.
                guard row.state == .missing else { return call.answer(agent.item(row).answer()) }
                return call.refuse(LocalProblem.validation.problem("the bytes of \(id) are gone; add the file again"))
            }
            agent.audit("retry", id.description, uid: call.peer.uid)
            agent.rearmBlobs(id) { agent, _ in agent.showBlob(call, id) }
        }
    }

    func removeBlob(_ call: LocalCall, _ id: BlobID, isForced: Bool) {
        guard let folder = blobs.folder else { return call.answer(Self.noBlob(id)) }
        let peer = call.peer
        let why = "removed by uid \(peer.uid) (app \(peer.app)) before it was uploaded"
        fromStore(for: call) { store, now throws(StoreError) in
            guard let row = try store.reads.blob(id), peer.allows(.operate) || row.app == peer.app else {
                throw .refused(LocalProblem.notFound("there is no blob \(id)", list: "agentctl blobs list"))
            }
            let note = EventPayload.blob(id, state: .missing, offset: row.progress.offset, size: row.size, detail: why)
            return try store.removeBlob(
                id, isForced: isForced, why: why, note: String(decoding: note, as: UTF8.self), at: now)
        } then: { agent, removed in
            let (digest, removal) = removed
            agent.removed(call, id, digest, removal, from: folder, why: why)
        }
    }

    private func removed(
        _ call: LocalCall, _ id: BlobID, _ digest: BlobDigest, _ removal: Store.BlobRemoval, from folder: any BlobFolder, why: String
    ) {
        let isLost = removal == .lost
        audit("remove", id.description, uid: call.peer.uid, ["digest": .string(digest.description), "lost": .bool(isLost)])
        feed(blob: .removed(id))
        removeFiles([digest], in: folder)
        if isLost {
            raise("blob_missing", "the file \(id) cannot be uploaded: \(why)")
            events.poke()
        }
        let state = isLost ? BlobState.missing.rawValue : removal == .dropped ? BlobState.uploaded.rawValue : "removed"
        call.answer(LocalAnswer(200) { writer in writer.object { $0.member("state", state) } })
        noteEnqueued()
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
        if let range {
            switch Self.part(range, of: reader.size) {
            case nil: break
            case .some(nil):
                return exchange.refuse(
                    HTTPProblem(
                        status: 416, code: LocalProblem.malformed.rawValue, detail: "the file has \(reader.size) bytes",
                        headers: [("Content-Range", "bytes */\(reader.size)")]))
            case .some(let part?):
                (offset, end, status) = (part.lowerBound, part.upperBound, 206)
                headers.append(("Content-Range", "bytes \(offset)-\(end - 1)/\(reader.size)"))
            }
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

    /// Parses one range of bytes (RFC 9110, section 14.1.2).
    ///
    /// - Returns: `nil` when the range is not supported, and the whole file is sent; `.some(nil)` when it lies beyond the file.
    private static func part(_ text: String, of size: Int64) -> Range<Int64>?? {
        guard text.hasPrefix("bytes="), !text.contains(",") else { return nil }
        let sides = text.dropFirst(6).split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard sides.count == 2 else { return nil }
        if sides[0].isEmpty {
            guard let count = Tus.count(String(sides[1])) else { return nil }
            guard count > 0 else { return .some(nil) }
            return .some(max(0, size - count)..<size)
        }
        guard let first = Tus.count(String(sides[0])) else { return nil }
        guard first < size else { return .some(nil) }
        if sides[1].isEmpty { return .some(first..<size) }
        guard let last = Tus.count(String(sides[1])), last >= first else { return nil }
        return .some(first..<(min(last, size - 1) + 1))
    }
}
