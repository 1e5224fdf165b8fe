import SyncCore
import SyncLinux

extension FuzzTarget {
    /// Header fields of tus, one a line. A field that was read writes back to the same; no address leads to another origin.
    static let tus = FuzzTarget("tus", lengthMax: 2_048) { bytes in
        for line in bytes.split(separator: 10) {
            let text = line.asText
            if let count = Tus.count(text) { try claim(count >= 0, "a length of \(count)") }
            if let pairs: [String: String] = Tus.metadata(text) {
                try claim(pairs.count <= 32, "\(pairs.count) pairs")
                let written: String = Tus.metadata(pairs.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
                let same: [String: String]? = Tus.metadata(written)
                try claim(same == pairs, "\(text) became \(written)")
            }
            if let sum = Tus.checksum(text) {
                let written = sum.algorithm + " " + Base64.encode(sum.bytes)
                try claim(
                    Tus.checksum(written).map { $0.algorithm == sum.algorithm && $0.bytes == sum.bytes } == true,
                    "\(text) became \(written)")
            }
            for base in ["https://hub.example.com/v1/files", "http://127.0.0.1:8080/v1/files?x=1"] {
                guard let place = Tus.location(text, base: base) else { continue }
                let origin = base.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)[2].split(separator: "/")[
                    0]
                let scheme = base.split(separator: ":")[0]
                try claim(place.hasPrefix("\(scheme)://\(origin)/"), "\(text) leads to \(place)")
                try claim(!place.split(separator: "?")[0].split(separator: "/").contains(".."), "\(text) leads up: \(place)")
                try claim(Tus.location(place, base: base) == place, "\(place) is another place the second time")
            }
            _ = Placeholder.waiting(in: (try? JSONReader.read(Array(line)))?.object ?? [:])
        }
    }

    /// A tus server's answers, one a line: `status,flags,offset,length,Location`. Whatever the answers are, only bytes of the file are
    /// sent, nothing goes to another origin, nothing is called verified without the digest, and no server is asked without end.
    static let tusAnswers = FuzzTarget("tus-answers", lengthMax: 4_096) { bytes in
        var rest = bytes[...]
        guard let kind = choice(&rest, of: 3) else { return }
        let size: Int64 = 9_000
        let files = "https://tus.example/files"
        let server =
            kind == 0
            ? UploadMachine.Server(files: files, blobs: "https://tus.example/blobs/", verify: .digest)
            : UploadMachine.Server(files: files, blobs: nil, verify: kind == 1 ? .download : .none)
        let digest = BlobDigest(bytes: SHA256.hash(Array("file".utf8)))
        let other = BlobDigest(bytes: SHA256.hash(Array("other".utf8)))
        guard let digest, let other else { return }
        let lines = rest.split(separator: 10).prefix(32).map { line in
            line.asText.split(separator: ",", maxSplits: 4, omittingEmptySubsequences: false).map(String.init)
        }
        guard !lines.isEmpty else { return }
        var settings = BlobUploader.Settings(server: server)
        settings.pace.spread = .zero
        var uploader = BlobUploader(settings: settings, random: SeededRandom(seed: 7))
        var moment = Moment(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 1_763_700_000_000))
        var situation = Situation(reachability: .online)
        situation.uplink = Uplink(name: "eth0")
        let terms = FileTerms(situation: situation, isBusy: false)
        let job = UploadJob(
            id: BlobID(1), digest: digest, size: size, type: "x/y", filename: "f", createdAt: Timestamp(milliseconds: 1_763_600_000_000))
        var queue = uploader.handle(.loaded([job]), terms, at: moment)
        var (wake, requests, sent) = (nil as Instant?, 0, Int64(0))
        // The lines come round and round: a file must end, or wait longer and longer, whatever they are.
        while requests < 400 {
            var call: BlobUploader.Call?
            for effect in queue {
                switch effect {
                case .send(let sending): call = sending
                case .wake(let at): wake = at
                case .end(_, .uploaded(let isVerified, _)):
                    try claim(isVerified || server.verify != .digest || server.blobs == nil, "the hub's file is not verified")
                    return
                case .end: return
                case .cancel, .save, .load, .report: break
                }
            }
            guard let call else {
                guard let next = wake else { return }
                let pause = max(.milliseconds(10), moment.instant.duration(to: next))
                moment = Moment(instant: moment.instant.advanced(by: pause), wall: moment.wall.advanced(by: pause))
                wake = nil
                // A day of waiting is enough for a file.
                if moment.instant.nanoseconds > 86_400 * 1_000_000_000 { return }
                queue = uploader.handle(.timer, terms, at: moment)
                continue
            }
            let line = lines[requests % lines.count]
            requests += 1
            if case .send(let offset, let count) = call.request {
                try claim(offset >= 0 && count > 0 && offset + Int64(count) <= size, "bytes \(offset) and \(count) of \(size)")
                sent += Int64(count)
            }
            if let url = call.job.progress.url { try claim(url.hasPrefix("https://tus.example/"), "bytes go to \(url)") }
            let flags = Int(line.dropFirst().first ?? "") ?? 0
            var headers: HTTPHeaders = []
            if flags & 1 != 0 { headers[Tus.resumable] = Tus.version }
            if flags & 2 != 0 { headers[HubHeader.version] = "1" }
            if flags & 4 != 0 { headers[Tus.reprDigest] = other.field }
            if line.count > 2, !line[2].isEmpty { headers[Tus.offset] = line[2] }
            if line.count > 3, !line[3].isEmpty { headers[Tus.length] = line[3] }
            if line.count > 4 { headers["Location"] = line[4] }
            let status = Int(line.first ?? "") ?? 500
            let response = HTTPResponse(status: status, headers: headers, body: flags & 8 != 0 ? Array("digest-mismatch".utf8) : [])
            if call.request == .verify, server.verify == .download {
                queue = uploader.handle(.downloaded(call.id, .success(flags & 4 != 0 ? other : nil)), terms, at: moment)
            } else {
                queue = uploader.handle(.answered(call.id, .success(response), took: .milliseconds(1)), terms, at: moment)
            }
        }
        try claim(
            moment.instant.nanoseconds >= 3_600 * 1_000_000_000,
            "\(requests) requests and \(sent) bytes in \(moment.instant.nanoseconds / 1_000_000_000) s")
    }

    /// gzip from outside: never more than the limits, and what comes out packs and opens again.
    static let gunzip = FuzzTarget("gunzip") { bytes in
        let gzip = ZlibCompressor()
        for (most, ratio) in [(256, 1_000), (1 << 20, 20), (1 << 20, 1_000)] {
            guard let opened = gzip.gunzip(bytes, maxBytes: most, maxRatio: ratio) else { continue }
            try claim(opened.count <= most, "\(opened.count) bytes where \(most) were allowed")
            try claim(opened.count <= bytes.count * ratio, "\(bytes.count) bytes became \(opened.count)")
        }
        guard let packed = gzip.gzip(bytes) else { return }
        try claim(packed.count < bytes.count, "packed to more than it was")
        try claim(gzip.gunzip(packed, maxBytes: bytes.count, maxRatio: 2_000) == bytes, "packed and opened, other bytes")
    }
}
