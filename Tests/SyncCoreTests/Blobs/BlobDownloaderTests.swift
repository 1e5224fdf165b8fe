import SyncCore
import Testing

@Suite("The downloader: which file, when, how much")
struct BlobDownloaderTests {
    /// A downloader, a clock and a hub that gives what it is asked for.
    struct Rig {
        var downloader: BlobDownloader
        var moment = Moment(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 1_795_208_645_000))
        var terms = FileTerms(situation: Situation(reachability: .online), isBusy: false)
        var effects: [BlobDownloader.Effect] = []
        var answered: Set<UInt64> = []

        init(concurrent: Int = 3, attempts: Int = 5) {
            var settings = BlobDownloader.Settings()
            (settings.pace.concurrent, settings.pace.attempts, settings.pace.spread) = (concurrent, attempts, .zero)
            downloader = BlobDownloader(settings: settings, random: SeededRandom(seed: 7))
            terms.situation.uplink = Uplink(name: "eth0")
        }

        static func digest(_ number: Int64) -> BlobDigest { BlobDigest(bytes: SHA256.hash([UInt8(truncatingIfNeeded: number)]))! }

        static func job(_ number: Int64, size: Int64 = 3_000_000, isAsked: Bool = false, offset: Int64 = 0) -> DownloadJob {
            var progress = DownloadProgress()
            progress.offset = offset
            return DownloadJob(
                id: BlobID(number), digest: digest(number), size: size, wantedAt: Timestamp(milliseconds: 1_795_208_600_000),
                isAsked: isAsked, progress: progress)
        }

        @discardableResult
        mutating func handle(_ event: BlobDownloader.Event) -> [BlobDownloader.Effect] {
            let new = downloader.handle(event, terms, at: moment)
            effects += new
            return new
        }

        mutating func load(_ jobs: DownloadJob...) { handle(.loaded(jobs)) }

        mutating func pass(_ time: Duration) {
            moment = Moment(instant: moment.instant.advanced(by: time), wall: moment.wall.advanced(by: time))
            handle(.timer)
        }

        /// Requests without an answer so far.
        var open: [BlobDownloader.Call] {
            effects.compactMap { if case .send(let call) = $0 { call } else { nil } }.filter { !answered.contains($0.id) }
        }

        /// The hub gives `count` bytes, all that were asked for without it.
        @discardableResult
        mutating func serve(_ call: BlobDownloader.Call, _ count: Int64? = nil, cut: TransportError.Code? = nil) -> [BlobDownloader.Effect]
        {
            answered.insert(call.id)
            guard case .piece(let offset, let asked) = call.request else { return [] }
            let end = min(call.job.size, offset + (count ?? asked))
            let received = DownloadMachine.Received(offset: end, moved: end - offset)
            if let cut {
                return handle(
                    .answered(call.id, .failure(TransportError(cut, doing: "fetch", detail: "x")), received, took: .seconds(1)))
            }
            let range = "bytes \(offset)-\(end - 1)/\(call.job.size)"
            return handle(
                .answered(call.id, .success(DownloadBench.own(206, [("Content-Range", range)])), received, took: .seconds(1)))
        }

        mutating func refuse(_ call: BlobDownloader.Call, _ status: Int) {
            answered.insert(call.id)
            let nothing = DownloadMachine.Received(offset: call.request.offset, moved: 0)
            handle(.answered(call.id, .success(DownloadBench.own(status)), nothing, took: .seconds(1)))
        }

        var compares: [BlobDownloader.Call] { effects.compactMap { if case .compare(let call) = $0 { call } else { nil } } }
        var saved: [Int64] { effects.compactMap { if case .save(_, _, let progress) = $0 { progress.offset } else { nil } } }
        var cancels: [UInt64] { effects.compactMap { if case .cancel(let id) = $0 { id } else { nil } } }
        var endings: [BlobDownloader.Ending] { effects.compactMap { if case .end(_, let ending) = $0 { ending } else { nil } } }
    }

    @Test("Files with a waiting request come first, then the smallest rest, and three at a time; one on a metered link")
    func order() {
        var rig = Rig()
        rig.load(
            Rig.job(1, size: 5_000_000), Rig.job(2, size: 4_000_000), Rig.job(3, size: 9_000_000, isAsked: true),
            Rig.job(4, size: 9_000_000, offset: 8_999_000), Rig.job(5, size: 6_000_000))
        #expect(rig.open.map(\.job.id.number) == [3, 4, 2])
        #expect(rig.open.allSatisfy { $0.isFirst })
        var metered = Rig()
        metered.terms.situation.uplink = Uplink(name: "wwan0", isMetered: true)
        metered.load(Rig.job(1), Rig.job(2))
        #expect(metered.open.isEmpty, "a file waits for another link")
        metered.handle(.forced)
        #expect(metered.open.count == 1)
    }

    @Test("Piece after piece, then the comparison, then the end; every offset is stored")
    func whole() throws {
        var rig = Rig()
        rig.load(Rig.job(1, size: 600_000))
        rig.serve(rig.open[0])
        #expect(rig.saved == [262_144] && rig.open.map(\.isFirst) == [false])
        rig.serve(rig.open[0])
        let compare = try #require(rig.effects.compactMap { if case .compare(let call) = $0 { call } else { nil } }.first)
        #expect(rig.open.isEmpty && compare.request.offset == 600_000 && rig.downloader.isActive(BlobID(1)))
        rig.handle(.compared(compare.id, Rig.digest(1)))
        #expect(rig.endings == [.fetched(size: 600_000)] && !rig.downloader.isActive(BlobID(1)))
    }

    @Test("A comparison that could not read the part follows later, without a link and without a request")
    func comparedAgain() throws {
        var rig = Rig()
        rig.load(Rig.job(1, size: 100_000))
        rig.serve(rig.open[0])
        let first = try #require(rig.compares.first)
        rig.terms.situation.reachability = .offline
        rig.handle(.changed)
        #expect(rig.cancels.isEmpty, "it uses no link")
        rig.handle(.stumbled(first.id, BlobError(.io, doing: "read the part", detail: "x")))
        #expect(rig.compares == [first] && rig.effects.contains { if case .wake = $0 { true } else { false } })
        rig.pass(.seconds(300))
        let second = try #require(rig.compares.last)
        #expect(rig.compares.count == 2 && rig.open.isEmpty, "all bytes are here")
        rig.handle(.compared(second.id, Rig.digest(1)))
        #expect(rig.endings == [.fetched(size: 100_000)])
    }

    @Test("A link that goes away ends the request, and what came is kept: the next piece begins behind it, and nothing counts")
    func cut() {
        var rig = Rig()
        rig.load(Rig.job(1))
        let call = rig.open[0]
        rig.terms.situation.reachability = .offline
        rig.handle(.changed)
        #expect(rig.cancels == [call.id] && rig.open == [call], "its answer still tells what came")
        rig.serve(call, 100_000, cut: .cancelled)
        #expect(rig.saved == [100_000] && rig.open.isEmpty && rig.endings.isEmpty)
        rig.terms.situation.reachability = .online
        rig.handle(.changed)
        #expect(rig.open.first?.request.offset == 100_000 && rig.open.first?.job.progress.attempts == 0)
    }

    @Test("A break is waited out with the bytes that came; tries without progress park the file")
    func breaks() {
        var rig = Rig(attempts: 3)
        rig.load(Rig.job(1))
        rig.serve(rig.open[0], 200_000, cut: .broken)
        #expect(rig.open.isEmpty && rig.saved.last == 200_000)
        for _ in 0..<2 {
            rig.pass(.seconds(120))
            #expect(rig.open.first?.request.offset == 200_000)
            if let call = rig.open.first { rig.serve(call, 0, cut: .broken) }
        }
        guard case .failed("no-progress", _, let progress)? = rig.endings.first else {
            Issue.record("\(rig.endings)")
            return
        }
        #expect(progress.offset == 200_000, "a later try goes on there")
    }

    @Test("404 sets one file aside; 401 and 503 hold back all")
    func refusals() {
        var rig = Rig(concurrent: 1)
        rig.load(Rig.job(1), Rig.job(2))
        rig.refuse(rig.open[0], 404)
        guard case .failed("not-at-hub", _, _)? = rig.endings.first else {
            Issue.record("\(rig.endings)")
            return
        }
        #expect(rig.open.map(\.job.id.number) == [2])
        rig.refuse(rig.open[0], 401)
        #expect(rig.open.isEmpty)
        rig.pass(.seconds(59))
        #expect(rig.open.isEmpty)
        rig.pass(.seconds(120))
        #expect(rig.open.map(\.job.id.number) == [2])
    }

    @Test("No piece begins while a cycle runs, nor beyond the rest of a budget that uploads use at the same time")
    func terms() {
        var rig = Rig()
        rig.terms.isBusy = true
        rig.load(Rig.job(1))
        #expect(rig.open.isEmpty)
        rig.terms.isBusy = false
        rig.handle(.changed)
        #expect(rig.open.count == 1)
    }

    @Test("A removed file ends its request, and its part goes")
    func removed() {
        var rig = Rig()
        rig.load(Rig.job(1))
        let effects = rig.handle(.removed(BlobID(1)))
        #expect(rig.cancels == [rig.open[0].id])
        #expect(effects.contains { if case .discard(let id, _) = $0 { id == BlobID(1) } else { false } })
        #expect(rig.serve(rig.open[0]).isEmpty, "its answer is not needed")
    }

    // Fault: a running request went on after the record of its file had left the share of this device.
    @Test("A download whose record has left the share ends at once, running or comparing, and nothing of it stays")
    func withdrawn() throws {
        var rig = Rig(concurrent: 1)
        rig.load(Rig.job(1, size: 100_000), Rig.job(2, offset: 500_000), Rig.job(3))
        let running = rig.open[0]
        let effects = rig.handle(.cut(CutDownload(running.job.id, running.job.digest)))
        #expect(rig.cancels == [running.id])
        #expect(effects.contains(.discard(running.job.id, running.job.digest)))
        #expect(rig.endings == [.failed(code: "not-shown", why: CutDownload.why, DownloadProgress())])
        // Bytes of it that still come are neither kept nor stored, and the next file has its place.
        #expect(rig.serve(running, 50_000, cut: .cancelled).isEmpty && rig.saved.isEmpty)
        #expect(rig.open.map(\.job.id) == [BlobID(2)])
        rig.handle(.cut(CutDownload(BlobID(3), Rig.digest(3))))
        #expect(rig.endings.count == 2 && rig.cancels.count == 1, "one that waits has no request")

        var comparing = Rig()
        comparing.load(Rig.job(1, size: 100_000))
        comparing.serve(comparing.open[0])
        let call = try #require(comparing.compares.first)
        comparing.handle(.cut(CutDownload(BlobID(1), Rig.digest(1))))
        #expect(!comparing.downloader.isAwaiting(call.id) && comparing.handle(.compared(call.id, Rig.digest(1))).isEmpty)
    }

    @Test("The part of a download goes also where the file is not in memory")
    func withdrawnUnknown() {
        var rig = Rig()
        rig.load()
        #expect(rig.handle(.cut(CutDownload(BlobID(9), Rig.digest(9)))) == [.discard(BlobID(9), Rig.digest(9))])
    }
}
