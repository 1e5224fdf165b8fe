import LocalAPI
import Logging
import SyncCore
import SyncHTTP
import SyncStore

// Cleans up the folder of files after a crash, at each start.
extension Agent {
    /// Scans the folder; files are accepted from then on.
    func startBlobs() {
        guard let folder = blobs.folder, !hasStopped else { return }
        let gates = loaded.configuration.blobs.gate == .before
        let requester = Requester(app: AppName(trusted: "agent"), uid: 0)
        let capacity = loaded.configuration.blobCapacity
        fromStore { store, _ throws(StoreError) in
            store.gatesBlobs = gates
            return (kept: try store.reads.keptDigests(), parts: Set(try store.reads.partDigests().map { DownloadJob.part(of: $0) }))
        } then: { agent, result in
            // Without the rows no file can be removed.
            guard case .success(let known) = result else { return agent.startBlobsLater("the database cannot be read") }
            let startedAt = agent.environment.time.now().wall
            agent.fromFiles {
                Self.sweep(folder, known: known.kept, parts: known.parts, before: startedAt)
            } then: { agent, found in
                switch found {
                case .success(let found): agent.swept(found, by: requester, capacity)
                case .failure(let error): agent.startBlobsLater("\(error)")
                }
            }
        }
    }

    private func startBlobsLater(_ reason: String) {
        guard !hasStopped else { return }
        let text = "files cannot be stored: \(Printable.text(reason)); agentd retries every 30 seconds"
        // The same error again is not reported.
        raiseIfNew(.noFiles, text)
        goOnWithFiles()
        schedule(after: environment.diskRetryAfter) { $0.startBlobs() }
    }

    private func goOnWithFiles() {
        let waiting = blobs.whenSwept
        blobs.whenSwept = []
        for call in waiting { answer(call) }
    }

    /// Cleans up after a crash. Incomplete files are removed, except the parts of downloads that go on. A complete file without a row is
    /// adopted: its row may have been acknowledged and lost, with a damaged database or because an older copy of it was put back. Adopting
    /// one that was never acknowledged costs an upload.
    ///
    /// - Returns: A failure where the folder cannot be listed: a file that was not found there may still exist.
    private static func sweep(
        _ folder: any BlobFolder, known: Set<BlobDigest>, parts: Set<String>, before: Timestamp
    ) -> Result<SweptBlobs, BlobError> {
        do throws(BlobError) {
            let kept = Set(try folder.kept())
            // A power cut may leave a part beside the whole file that it became: the new name was durable, and the end of the old one was
            // not.
            let needed = parts.subtracting(kept.map { DownloadJob.part(of: $0) })
            for file in try folder.incoming() where file.changedAt <= before && !needed.contains(file.name) {
                folder.discard(incoming: file.name)
            }
            var swept = SweptBlobs(lost: known.subtracting(kept))
            for digest in kept.subtracting(known) {
                // A file whose status cannot be read ends the scan, and everything is scanned again. A file that is not regular is skipped.
                if let size = try folder.size(of: digest) { swept.orphans.append((digest, size)) }
            }
            return .success(swept)
        } catch {
            return .failure(error)
        }
    }

    private struct SweptBlobs: Sendable {
        /// Complete files without a row.
        var orphans: [(BlobDigest, Int64)] = []
        /// Files with a row that are missing.
        var lost: Set<BlobDigest>
    }

    private func swept(_ found: SweptBlobs, by requester: Requester, _ capacity: BlobCapacity) {
        guard !hasStopped else { return }
        blobs.isSwept = true
        alarms.end(.noFiles)
        goOnWithFiles()
        fromStore { store, now throws(StoreError) in
            var unwanted: [BlobDigest] = []
            for (digest, size) in found.orphans {
                switch try store.adoptFetched(digest, size: size, at: now) {
                // A download whose end was not recorded: its bytes were compared before they got their name.
                case .adopted: continue
                case .unwanted: unwanted.append(digest)
                // Photos that the database has forgotten are still valuable.
                case .foreign:
                    _ = try store.addBlob(
                        digest, size: size, type: "application/octet-stream", filename: "recovered", by: requester,
                        capacity: capacity, isFound: true, at: now)
                }
            }
            for digest in found.lost {
                guard let row = try store.reads.blob(digest) else { continue }
                guard row.state != .uploaded else {
                    try store.forgetCopy(row.id, at: now)
                    continue
                }
                let note = EventPayload.blob(row.id, state: .missing, offset: row.progress.offset, size: row.size)
                try store.loseBlob(row.id, why: "its bytes are gone from the disk", note: String(decoding: note, as: UTF8.self), at: now)
            }
            return (counts: try store.reads.blobCounts(), unwanted: unwanted)
        } then: { agent, result in
            if case .success(let (counts, unwanted)) = result {
                agent.blobs.hasParked = counts.failed > 0
                agent.blobs.hasFailedDownloads = counts.fetchFailed > 0
                if let folder = agent.blobs.folder { agent.removeFiles(unwanted, in: folder) }
                let count = found.orphans.count - unwanted.count
                if count > 0 {
                    agent.log.notice("files that the database did not know were added to it again", metadata: ["count": "\(count)"])
                }
                if counts.missing > 0 { agent.log.error("files are missing", metadata: ["count": "\(counts.missing)"]) }
            }
            agent.loadBlobs(FilePace.window)
            agent.loadDownloads(FilePace.window)
            agent.wantShownFiles()
        }
    }
}
