/// The running requests that lead nowhere any more, and the files that wait.
extension BlobUploader {
    // MARK: Link and server

    mutating func cancelAll(_ effects: inout [Effect]) {
        for (call, id) in scheduler.calls.sorted(by: { $0.key < $1.key }) { drop(call, of: id, &effects) }
    }

    /// Gives up a call: the server will tell how much of it arrived.
    private mutating func drop(_ call: UInt64, of id: BlobID, _ effects: inout [Effect]) {
        effects.append(.cancel(call))
        guard var file = scheduler.files[id] else { return }
        if let request = file.request {
            _ = file.machine.failed(request, TransportError(.cancelled, doing: "upload \(id)", detail: "the link is gone"))
        }
        scheduler.finish(call, &file)
        scheduler.files[id] = file
    }

    mutating func adopt(_ settings: Settings, _ effects: inout [Effect]) {
        let isElsewhere = settings.server != self.settings.server
        self.settings = settings
        scheduler.pace = settings.pace
        guard isElsewhere else { return }
        cancelAll(&effects)
        for (id, file) in scheduler.files {
            scheduler.files[id]?.machine = UploadMachine(size: file.job.size, digest: file.job.digest, progress: UploadProgress())
        }
        scheduler.sizer = ChunkSizer()
    }

    // MARK: Files

    mutating func added(_ job: UploadJob) {
        guard scheduler.hasLoaded else { return }
        if let known = scheduler.files[job.id] {
            if known.call == nil { scheduler.replace(job, UploadMachine(job)) }
        } else if scheduler.findRoom() {
            scheduler.add(job, UploadMachine(job))
        }
    }

    mutating func remove(_ id: BlobID, _ effects: inout [Effect]) {
        if let call = scheduler.files[id]?.call { effects.append(.cancel(call)) }
        if let count = scheduler.remove(id) { effects.append(.load(count)) }
    }
}
