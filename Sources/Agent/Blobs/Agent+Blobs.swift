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
        guard let folder = blobs.folder else { throw LocalProblem.readOnly.problem("this agent has no folder for files") }
        if let obstacle = alarms[.noFiles] { throw LocalProblem.readOnly.problem(obstacle, retryAfter: 30) }
        guard blobs.isSwept else {
            guard hasBegun else {
                throw LocalProblem.starting.problem("the database has not been read since the start of the agent", retryAfter: 1)
            }
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
        fromStore { store, now throws(StoreError) in
            // Files that the server has leave for one that it does not have.
            let going = try store.makeRoom(forBlob: wanted, capacity, at: now)
            if going.isEmpty { try store.checkRoom(forBlob: wanted, capacity) }
            return going
        } then: { agent, result in
            switch result {
            case .success(let going):
                agent.removeCopies(going)
                go(intake)
            case .failure(let error):
                agent.ended(intake)
                agent.refuse(intake.request, error)
            }
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
        fromStore { store, now throws(StoreError) -> (row: BlobRow, isNew: Bool, going: [BlobDigest]) in
            // The body may not have been announced.
            let going = try store.reads.blob(digest) == nil ? try store.makeRoom(forBlob: size, capacity, at: now) : []
            let added = try store.addBlob(
                digest, size: size, type: type, filename: query.filename, by: requester, capacity: capacity, at: now)
            return (added.row, added.isNew, going)
        } then: { agent, result in
            agent.blobs.endArrival(of: digest)
            switch result {
            case .success(let (row, isNew, going)):
                agent.removeCopies(going)
                // It needs not come from the hub any more.
                agent.feed(download: .removed(row.id))
                agent.serveBlobWaiters(digest)
                call.answer(agent.item(row).answer(isNew: isNew))
                guard row.state == .pending else { return }
                if isNew {
                    agent.log.info("a file was added", metadata: ["blob": "\(row.id)", "bytes": "\(size)", "app": "\(requester.app)"])
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
        let asked = query.states.map { $0.flatMap { BlobListState.states(of: $0) } }
        let wanted = asked.map { Set($0.map(Self.filter)) }
        let active = asked.map { states in states.allSatisfy { $0 == .upload(.uploading) || $0 == .upload(.verifying) } } ?? false
        let entities = call.peer.entities
        readBlobs(call) { reads throws(StoreError) in
            try reads.blobs(wanted, entities: entities, after: query.after, limit: query.limit)
        } answer: { agent, rows in
            var items = rows.map { agent.item($0) }
            if active { items.removeAll { $0.state == BlobState.pending.rawValue } }
            return BlobListAnswer(items: items, next: rows.count == query.limit ? rows.last?.id.number : nil).answer
        }
    }

    private static func filter(_ state: BlobListState) -> BlobFilter {
        switch state {
        case .upload(let state): .upload(state.stored)
        case .fetch(let state): .fetch(state)
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
    func maySee(_ row: BlobRow, _ call: LocalCall) -> Bool {
        // The bytes of a file from the hub belong to no app: who may see them follows from records alone.
        call.peer.allows(.operate) || row.fetch == nil && row.app == call.peer.app
            || row.links.contains { call.peer.allows($0.record.entity) }
    }

    static func noBlob(_ id: BlobID) -> LocalAnswer {
        LocalProblem.notFound("there is no blob \(id)", list: "agentctl blobs list").localAnswer
    }

    func item(_ row: BlobRow) -> BlobItem {
        if let fetch = row.fetch { return item(row, fetch) }
        let now = environment.time.now()
        let active = blobs.uploader.active[row.id]
        var item = BlobItem(
            id: row.id.description, digest: row.digest.description, size: row.size, type: row.type, filename: row.filename,
            state: (row.state == .pending ? active ?? .pending : row.state).rawValue, offset: row.progress.offset,
            attempts: Int64(row.progress.attempts), links: row.links, isVerified: row.isVerified, isKept: row.hasFile,
            isPinned: row.isPinned, createdAt: row.createdAt, doneAt: row.doneAt, error: row.progress.error.map { Printable.text($0) },
            deferral: nil)
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
        if let fetch = row.fetch { return why(row, fetch, name, note) }
        switch row.state {
        case .uploaded:
            return answer(
                .settled,
                row.isVerified ? "it is at the server, which confirmed its digest" : "it is at the server; its digest was not compared")
        case .failed:
            return answer(
                .parked, "it was set aside: " + (row.progress.error ?? "the server refused it"),
                change: ["on a new link, when the hub is found again, after a day, or with agentctl blobs retry \(row.id)"])
        case .missing:
            return answer(.parked, "its bytes are gone: " + (row.progress.error ?? ""), change: ["when the same file is added again"])
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
        let turn = blobs.uploader.turn(of: row.id, blobTerms, at: now)
        return answer(.allow, turn.sentence("sent"), until: turn.until, rule: why.rule.rawValue)
    }

    // MARK: Decisions

    func retryBlob(_ call: LocalCall, _ id: BlobID) {
        fromReader(for: call) { reads, _ throws(StoreError) in
            try reads.blob(id)
        } then: { agent, row in
            guard let row, agent.maySee(row, call) else { return call.answer(Self.noBlob(id)) }
            if row.fetch == .failed { return agent.fetchBlob(call, .id(id)) }
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
        feed(download: .removed(id))
        removeFiles([digest], in: folder)
        blobs.thread.run { folder.discard(incoming: DownloadJob.part(of: digest)) }
        refuseBlobWaiters(digest, LocalProblem.notFound.problem("the file \(id) was removed from this device"))
        if isLost {
            raise(.blobMissing, "the file \(id) cannot be uploaded: \(why)")
            events.sendNew()
        }
        let state = isLost ? BlobState.missing.rawValue : removal == .dropped ? BlobState.uploaded.rawValue : "removed"
        call.answer(LocalAnswer(200) { writer in writer.object { $0.member("state", state) } })
        reportNewWork()
    }
}
