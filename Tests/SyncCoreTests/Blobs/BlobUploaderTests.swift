import SyncCore
import Testing

@Suite("The uploader: which file, when, how much")
struct BlobUploaderTests {
    /// An uploader, a clock and a server that takes what it is told.
    struct Rig {
        var uploader: BlobUploader
        var moment = Moment(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 1_795_208_645_000))
        var terms = FileTerms(situation: Situation(reachability: .online), isBusy: false)
        var effects: [BlobUploader.Effect] = []
        var wakeAt: Instant?

        init(concurrent: Int = 3, attempts: Int = 5, server: UploadMachine.Server = UploadMachineTests.foreign) {
            var settings = BlobUploader.Settings(server: server)
            settings.pace.concurrent = concurrent
            settings.pace.attempts = attempts
            settings.pace.spread = .zero
            uploader = BlobUploader(settings: settings, random: SeededRandom(seed: 7))
            terms.situation.uplink = Uplink(name: "eth0")
        }

        static func job(_ number: Int64, size: Int64 = 3_000_000, isCritical: Bool = false, offset: Int64 = 0) -> UploadJob {
            var job = UploadJob(
                id: BlobID(number), digest: UploadMachineTests.digest, size: size, type: "image/jpeg", filename: "p.jpg",
                createdAt: Timestamp(milliseconds: 1_795_208_600_000), isCritical: isCritical)
            job.progress.offset = offset
            return job
        }

        @discardableResult
        mutating func handle(_ event: BlobUploader.Event) -> [BlobUploader.Effect] {
            let new = uploader.handle(event, terms, at: moment)
            effects += new
            for case .wake(let at) in new { wakeAt = at }
            return new
        }

        mutating func load(_ jobs: UploadJob...) { handle(.loaded(jobs)) }

        mutating func pass(_ time: Duration) {
            moment.instant = moment.instant.advanced(by: time)
            moment.wall = moment.wall.advanced(by: time)
            handle(.timer)
        }

        /// Calls without an answer so far.
        var open: [BlobUploader.Call] {
            var open: [UInt64: BlobUploader.Call] = [:]
            for effect in effects {
                switch effect {
                case .send(let call): open[call.id] = call
                case .cancel(let id): open[id] = nil
                case .save, .end, .load, .wake, .report: break
                }
            }
            for id in answered { open[id] = nil }
            return open.values.sorted { $0.id < $1.id }
        }
        var answered: Set<UInt64> = []

        mutating func answer(_ call: BlobUploader.Call, _ response: HTTPResponse, took: Duration = .seconds(1)) {
            answered.insert(call.id)
            handle(.answered(call.id, .success(response), took: took))
        }

        mutating func fail(_ call: BlobUploader.Call, _ code: TransportError.Code) {
            answered.insert(call.id)
            handle(.answered(call.id, .failure(TransportError(code, doing: "send", detail: "x")), took: .seconds(1)))
        }

        /// Answers a call as a good server does.
        mutating func serve(_ call: BlobUploader.Call) {
            switch call.request {
            case .create(let count):
                answer(call, UploadMachineTests.reply(201, ["Location": "/files/\(call.job.id)", Tus.offset: "\(count ?? 0)"]))
            case .send(let offset, let count): answer(call, UploadMachineTests.reply(204, [Tus.offset: "\(offset + Int64(count))"]))
            case .ask: answer(call, UploadMachineTests.reply(200, [Tus.offset: "\(call.job.progress.offset)"]))
            case .verify:
                answered.insert(call.id)
                handle(.downloaded(call.id, .success(call.job.digest)))
            case .lookUp, .destroy: answer(call, UploadMachineTests.reply(204))
            }
        }

        var endings: [BlobUploader.Ending] { effects.compactMap { if case .end(_, let ending) = $0 { ending } else { nil } } }
        var ended: [BlobID] { effects.compactMap { if case .end(let id, _) = $0 { id } else { nil } } }
    }

    @Test("Files of critical mutations go first, then the smallest rest, and three at a time")
    func order() {
        var rig = Rig()
        rig.load(
            Rig.job(1, size: 5_000_000), Rig.job(2, size: 4_000_000), Rig.job(3, size: 9_000_000, isCritical: true),
            Rig.job(4, size: 9_000_000, offset: 8_999_000), Rig.job(5, size: 6_000_000))
        #expect(rig.open.map(\.job.id.number) == [3, 4, 2])
    }

    // Fault: every waiting file was said to go after the files before it, also the first one.
    @Test("A file that nothing holds back has not begun for the spread, for a cycle, for the files before it, or is next")
    func turn() throws {
        var rig = Rig(concurrent: 1)
        rig.terms.situation.reachability = .offline
        rig.load(Rig.job(1), Rig.job(2))
        var settings = rig.uploader.settings
        settings.pace.spread = .seconds(60)
        rig.handle(.settings(settings))
        rig.terms.situation.reachability = .online
        rig.handle(.changed)
        func turn(_ number: Int64) -> FileTurn { rig.uploader.turn(of: BlobID(number), rig.terms, at: rig.moment) }
        let until = try #require(turn(1).until)
        #expect(until > rig.moment.wall && until <= rig.moment.wall.advanced(by: .seconds(60)))
        rig.terms.isBusy = true
        rig.pass(.seconds(61))
        #expect(turn(1) == .afterCycle)
        rig.terms.isBusy = false
        #expect([turn(1), turn(2)] == [.next, .behindOthers])
        rig.handle(.changed)
        #expect(rig.open.map(\.job.id.number) == [1])
        #expect(turn(2) == .behindOthers)
        #expect(FileTurn.next.sentence("sent") == "nothing holds it back: it is sent next")
    }

    @Test("One at a time on a metered link and on a slow one")
    func oneAtATime() {
        var rig = Rig()
        rig.terms.situation.uplink = Uplink(name: "wwan0", isMetered: true)
        rig.terms.situation.isForced = true
        rig.load(Rig.job(1), Rig.job(2))
        rig.handle(.forced)
        #expect(rig.open.count == 1)
        var slow = Rig()
        slow.load(Rig.job(1, size: 50_000_000))
        slow.serve(slow.open[0])
        slow.answer(slow.open[0], UploadMachineTests.reply(204, [Tus.offset: "1048576"]), took: .seconds(60))
        slow.handle(.added(Rig.job(2)))
        #expect(slow.open.count == 1)
    }

    @Test("A file that the hub has when it is offered is spared; one that the hub compares after the last piece was brought")
    func spared() throws {
        let whole = UploadMachineTests.reply(200, [Tus.reprDigest: UploadMachineTests.digest.field])
        var job = Rig.job(1)
        job.named = 7
        var spared = Rig(server: UploadMachineTests.hub)
        spared.load(job)
        spared.answer(try #require(spared.open.first), whole)
        #expect(spared.endings == [.spared(named: 7)])

        var brought = Rig(server: UploadMachineTests.hub)
        brought.load(job)
        brought.answer(try #require(brought.open.first), UploadMachineTests.reply(404))
        for _ in 0..<20 { if let call = brought.open.first, call.request != .lookUp { brought.serve(call) } }
        brought.answer(try #require(brought.open.first), whole)
        #expect(brought.endings == [.uploaded(isVerified: true, url: "https://hub.example/files/b-1")])
    }

    @Test("A file goes all the way, each piece saved")
    func whole() {
        var rig = Rig()
        rig.load(Rig.job(1, size: 5_000_000))
        for _ in 0..<20 { for call in rig.open { rig.serve(call) } }
        #expect(rig.ended == [BlobID(1)])
        #expect(rig.uploader.isIdle)
        let offsets = rig.effects.compactMap { if case .save(_, let progress) = $0 { progress.offset } else { nil } }
        #expect(offsets == offsets.sorted() && offsets.last == 5_000_000)
    }

    struct Stop: Sendable {
        var what: String
        var change: @Sendable (inout FileTerms) -> Void
    }

    @Test(
        "A changed verdict stops a file before its next piece, and it goes on where it stopped",
        arguments: [
            Stop(what: "metered") { $0.situation.uplink = Uplink(name: "eth0", isMetered: true) },
            Stop(what: "battery") { $0.situation.power = .low },
            Stop(what: "saver") { $0.situation.power = .saver },
            Stop(what: "window") { $0.situation.isWindowOpen = false },
            Stop(what: "pause") { $0.situation.pause = EngineMemory.Pause(until: nil, reason: "x", uid: 0) },
            Stop(what: "budget") { $0.situation.budgets = [Budget(limit: 1_000, used: 1_000)] },
            Stop(what: "a cycle runs") { $0.isBusy = true },
            Stop(what: "the hub is away") { $0.situation.reachability = .degraded },
        ])
    func stops(_ stop: Stop) throws {
        var rig = Rig()
        let free = rig.terms
        rig.load(Rig.job(1, size: 20_000_000))
        rig.serve(rig.open[0])
        rig.serve(rig.open[0])
        let underWay = try #require(rig.open.first)
        stop.change(&rig.terms)
        rig.handle(.changed)
        // The piece under way is not thrown away, unless its link is another one now.
        if let call = rig.open.first { rig.serve(call) }
        #expect(rig.open.isEmpty, "\(stop.what)")
        let calls = rig.effects.filter { if case .send = $0 { true } else { false } }.count
        rig.pass(.seconds(3_600))
        #expect(rig.effects.filter { if case .send = $0 { true } else { false } }.count == calls, "\(stop.what)")
        rig.terms = free
        rig.handle(.changed)
        rig.pass(.seconds(1))
        let next = try #require(rig.open.first, "\(stop.what)")
        guard case .send(let before, let count) = underWay.request else { throw Wrong() }
        switch next.request {
        case .send(let offset, _): #expect(offset == before + Int64(count), "\(stop.what)")
        case .ask: #expect(stop.what == "metered")
        default: Issue.record("\(stop.what): \(next.request)")
        }
    }

    struct Wrong: Error {}

    @Test("When the link is gone, the pieces under way are given up and count nothing")
    func offline() {
        var rig = Rig(attempts: 1)
        rig.load(Rig.job(1), Rig.job(2))
        for call in rig.open { rig.serve(call) }
        #expect(rig.open.count == 2)
        rig.terms.situation.reachability = .offline
        rig.handle(.changed)
        #expect(rig.open.isEmpty)
        #expect(rig.ended.isEmpty)
        rig.terms.situation.reachability = .online
        rig.handle(.changed)
        rig.pass(.seconds(1))
        #expect(rig.open.map(\.request) == [.ask, .ask])
    }

    @Test("Five tries without progress park a file with its reason; silence of the network parks nothing")
    func attempts() {
        var rig = Rig()
        rig.load(Rig.job(1))
        for _ in 0..<40 {
            if let call = rig.open.first { rig.answer(call, UploadMachineTests.reply(500)) }
            rig.pass(.seconds(120))
        }
        #expect(rig.ended == [BlobID(1)])
        guard case .end(_, .failed("no-progress", let why, _))? = rig.effects.first(where: { if case .end = $0 { true } else { false } })
        else {
            Issue.record("not parked")
            return
        }
        #expect(why.contains("500"))

        var quiet = Rig()
        quiet.load(Rig.job(1))
        for _ in 0..<40 {
            if let call = quiet.open.first { quiet.fail(call, .unreachable) }
            quiet.pass(.seconds(120))
        }
        #expect(quiet.ended.isEmpty)
    }

    @Test("A server's wish holds everything; a file's own trouble holds that file")
    func holds() {
        var rig = Rig(concurrent: 1)
        rig.load(Rig.job(1), Rig.job(2, size: 4_000_000))
        rig.answer(rig.open[0], UploadMachineTests.reply(500))
        #expect(rig.open.map(\.job.id.number) == [2])
        rig.answer(rig.open[0], UploadMachineTests.reply(503, ["Retry-After": "300"]))
        #expect(rig.open.isEmpty)
        rig.pass(.seconds(299))
        #expect(rig.open.isEmpty)
        rig.pass(.seconds(65))
        #expect(!rig.open.isEmpty)
        #expect(rig.wakeAt != nil)
    }

    @Test("The rest of a budget is used up by a smaller piece")
    func smallerPiece() {
        var rig = Rig()
        rig.terms.situation.budgets = [Budget(limit: 10_000_000, used: 8_500_000)]
        rig.load(Rig.job(1, size: 20_000_000))
        rig.serve(rig.open[0])
        guard case .send(0, let count)? = rig.open.first?.request else {
            Issue.record("nothing was sent")
            return
        }
        #expect(count < 500_000 && count >= ChunkSizer.smallest)
    }

    @Test("A file that is gone, or not what it was, ends as missing")
    func missing() {
        var rig = Rig()
        rig.load(Rig.job(1))
        rig.handle(.lost(rig.open[0].id, why: "gone"))
        #expect(rig.effects.contains(.end(BlobID(1), .missing(why: "gone"))))
    }

    @Test("No more files are held than the window, and more are asked for as they go")
    func window() {
        var rig = Rig(concurrent: 1)
        rig.handle(.loaded((1...Int64(FilePace.window)).map { Rig.job($0, size: 10) }))
        for _ in 0..<(FilePace.window * 2) { if let call = rig.open.first { rig.serve(call) } }
        #expect(rig.effects.contains(.load(FilePace.window)))
    }

    @Test("An answer to a call that was given up changes nothing")
    func late() {
        var rig = Rig()
        rig.load(Rig.job(1))
        let call = rig.open[0]
        rig.handle(.removed(BlobID(1)))
        let before = rig.effects.count
        rig.handle(.answered(call.id, .success(UploadMachineTests.reply(201, ["Location": "/files/1"])), took: .zero))
        #expect(rig.effects.count == before)
    }
}
