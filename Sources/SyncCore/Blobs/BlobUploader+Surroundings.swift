/// The link, the server, and the files that wait.
extension BlobUploader {
    // MARK: Link and server

    mutating func adopt(_ terms: Terms, _ moment: Moment, _ effects: inout [Effect]) {
        self.terms = terms
        let situation = terms.situation
        let name = situation.uplink?.name
        if name != uplink || (situation.uplink?.isMetered ?? false) != isMetered {
            // Measurements of another link have no meaning for this one, and its connections lead nowhere.
            if uplink != nil { cancelAll(&effects) }
            uplink = name
            isMetered = situation.uplink?.isMetered ?? false
            sizer = ChunkSizer(ceiling: sizer.ceiling)
            failures = 0
            heldUntil = nil
            for id in order {
                files[id]?.notBefore = nil
                files[id]?.isForced = false
            }
        }
        if let slowBatch = terms.slowBatch { sizer.limitFirst(to: slowBatch) }
        let isOnline = situation.reachability == .online
        if isOnline, !hasContact {
            spreadUntil = moment.instant.advanced(by: random.duration(from: .zero, to: settings.spread))
            heldUntil = nil
            failures = 0
            for id in order { files[id]?.notBefore = nil }
        }
        if situation.reachability == .offline || situation.reachability == .captive { cancelAll(&effects) }
        hasContact = isOnline
    }

    private mutating func cancelAll(_ effects: inout [Effect]) {
        for (call, id) in calls.sorted(by: { $0.key < $1.key }) { drop(call, of: id, &effects) }
    }

    /// Gives up a call: the server will tell how much of it arrived.
    mutating func drop(_ call: UInt64, of id: BlobID, _ effects: inout [Effect]) {
        effects.append(.cancel(call))
        calls[call] = nil
        guard var file = files[id] else { return }
        if let request = file.request {
            _ = file.machine.failed(request, TransportError(.cancelled, doing: "upload \(id)", detail: "the link is gone"))
        }
        file.call = nil
        file.request = nil
        file.inFlight = 0
        files[id] = file
    }

    mutating func forgetServer(_ effects: inout [Effect]) {
        cancelAll(&effects)
        for id in order {
            guard let file = files[id] else { continue }
            files[id]?.machine = UploadMachine(size: file.job.size, digest: file.job.digest, progress: UploadProgress())
        }
        sizer = ChunkSizer()
    }

    // MARK: Files

    mutating func add(_ job: UploadJob) {
        guard files[job.id] == nil else { return }
        files[job.id] = File(
            job: job, machine: UploadMachine(size: job.size, digest: job.digest, progress: job.progress))
        order.append(job.id)
        sort()
    }

    private mutating func sort() {
        order.sort { left, right in
            guard let first = files[left]?.job, let second = files[right]?.job else { return left < right }
            return UploadJob.isBefore(first, second)
        }
    }

    mutating func remove(_ id: BlobID, _ effects: inout [Effect]) {
        if let call = files[id]?.call { drop(call, of: id, &effects) }
        files[id] = nil
        order.removeAll { $0 == id }
        guard order.count < Self.window / 2, hasMore else { return }
        hasMore = false
        effects.append(.load(Self.window))
    }
}
