import SyncCore
import Testing

/// One download in memory: a machine, a part, and a server that may be cut or lie.
struct DownloadBench {
    let content: [UInt8]
    let digest: BlobDigest
    var machine: DownloadMachine
    var part: [UInt8] = []
    /// Bytes of bodies that left the server.
    var wire = 0
    var requests = 0
    let now = Timestamp(milliseconds: 1_800_000_000_000)

    init(_ content: [UInt8], said size: Int64? = nil, limit: Int64 = 1 << 40) {
        self.content = content
        digest = BlobDigest(bytes: SHA256.hash(content))!
        machine = DownloadMachine(size: size ?? Int64(content.count), digest: digest, progress: DownloadProgress(), limit: limit)
    }

    static func own(_ status: Int, _ headers: [(String, String)] = []) -> HTTPResponse {
        HTTPResponse(status: status, headers: HTTPHeaders([(HubHeader.version, "1")] + headers))
    }

    /// The answer of a hub that does as the contract says, and its body.
    func honest(_ request: DownloadMachine.Request) -> (HTTPResponse, [UInt8]) {
        let tag = ("ETag", digest.entityTag)
        guard case .piece(let offset, let count) = request else {
            return (Self.own(200, [tag, ("Content-Length", "\(content.count)")]), content)
        }
        guard offset < content.count else { return (Self.own(416, [("Content-Range", "bytes */\(content.count)")]), []) }
        let end = min(content.count, Int(offset + count))
        let range = "bytes \(offset)-\(end - 1)/\(content.count)"
        return (Self.own(206, [tag, ("Content-Range", range)]), Array(content[Int(offset)..<end]))
    }

    /// Takes an answer as the agent does.
    ///
    /// - Parameter cut: The transfer breaks after this number of bytes of the body.
    mutating func take(
        _ request: DownloadMachine.Request, _ response: HTTPResponse, _ body: [UInt8], cut: Int? = nil
    ) -> DownloadMachine.Outcome {
        requests += 1
        let came = body.prefix(cut ?? body.count)
        wire += came.count
        part = Array(part.prefix(Int(request.offset)))
        if case .bytes(let skip, let end, _, _) = DownloadIntake(request, digest).judge(response.status, response.headers) {
            part += came.dropFirst(Int(clamping: skip)).prefix(Int(clamping: end - request.offset))
        }
        let received = DownloadMachine.Received(offset: Int64(part.count), moved: Int64(came.count))
        if cut != nil { return machine.broke(request, TransportError(.broken, doing: "fetch", detail: "cut"), received) }
        return machine.answered(request, response, received, at: now)
    }

    mutating func compare() -> DownloadMachine.Outcome {
        let outcome = machine.compared(BlobDigest(bytes: SHA256.hash(part))!)
        if outcome != .done { part = [] }
        return outcome
    }
}

@Suite("Download of one file")
struct DownloadMachineTests {
    private static let content = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 251) }

    @Test("Pieces follow each other by Range and If-Range, and the digest ends it")
    func pieces() {
        var bench = DownloadBench(Self.content)
        var outcome = DownloadMachine.Outcome.next
        while outcome == .next {
            let request = bench.machine.request(chunk: 30_000)
            if bench.requests == 1 {
                let headers = bench.machine.headers(of: request)
                #expect(headers.map(\.0) == ["Range", "If-Range"])
                #expect(headers.map(\.1) == ["bytes=30000-59999", bench.digest.entityTag])
            }
            let (response, body) = bench.honest(request)
            outcome = bench.take(request, response, body)
        }
        #expect(outcome == .compare && bench.machine.isComparing)
        #expect(bench.requests == 4 && bench.wire == Self.content.count)
        #expect(bench.compare() == .done && bench.part == Self.content)
    }

    @Test("A cut keeps what came, and the next piece begins there")
    func cut() {
        var bench = DownloadBench(Self.content)
        let first = bench.machine.request(chunk: 80_000)
        let (response, body) = bench.honest(first)
        guard case .wait(true, nil, _) = bench.take(first, response, body, cut: 50_001) else {
            Issue.record("a cut is waited out")
            return
        }
        #expect(bench.machine.request(chunk: 80_000) == .piece(at: 50_001, count: 49_999))
        #expect(bench.machine.progress.attempts == 0, "what came counts as progress")
    }

    struct Answer: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var status: Int
        var headers: [(String, String)] = []
        var isForeign = false
        var expected: String
    }

    @Test(
        "Every answer has one meaning",
        arguments: [
            Answer(testDescription: "not there, or not for this device", status: 404, expected: "failed not-at-hub"),
            Answer(testDescription: "gone", status: 410, expected: "failed not-at-hub"),
            Answer(testDescription: "a proxy's 404", status: 404, isForeign: true, expected: "wait"),
            Answer(testDescription: "a portal's 200", status: 200, isForeign: true, expected: "wait"),
            Answer(testDescription: "credentials", status: 401, expected: "refused"),
            Answer(testDescription: "blocked", status: 403, expected: "refused"),
            Answer(testDescription: "overloaded", status: 503, headers: [("Retry-After", "7")], expected: "wait 7"),
            Answer(testDescription: "too many", status: 429, expected: "wait"),
            Answer(testDescription: "an error of the hub", status: 500, expected: "counts"),
            Answer(testDescription: "206 without a range", status: 206, expected: "counts"),
            Answer(
                testDescription: "another part", status: 206, headers: [("Content-Range", "bytes 5-9/100000")], expected: "counts"),
            Answer(
                testDescription: "another file", status: 206,
                headers: [("ETag", "\"sha256:00\""), ("Content-Range", "bytes 0-9/100000")], expected: "counts"),
            Answer(testDescription: "416 without the size", status: 416, expected: "counts"),
            Answer(
                testDescription: "416 for bytes that there are", status: 416, headers: [("Content-Range", "bytes */9")], expected: "counts"),
            Answer(
                testDescription: "too large", status: 416, headers: [("Content-Range", "bytes */9000000")], expected: "failed too-large"),
            Answer(testDescription: "a redirect", status: 302, expected: "counts"),
        ])
    func meanings(_ answer: Answer) {
        var bench = DownloadBench(Self.content, limit: 1_000_000)
        let response = HTTPResponse(
            status: answer.status, headers: HTTPHeaders((answer.isForeign ? [] : [(HubHeader.version, "1")]) + answer.headers))
        let body = [UInt8](repeating: 7, count: 100)
        let outcome = bench.take(bench.machine.request(chunk: 1_000), response, body)
        let text: String =
            switch outcome {
            case .next: "next"
            case .compare: "compare"
            case .wait(let counts, let asked, _): counts ? "counts" : "wait" + (asked.map { " \($0.components.seconds)" } ?? "")
            case .refused: "refused"
            case .done: "done"
            case .failed(let code, _): "failed \(code)"
            }
        #expect(text == answer.expected)
        #expect(bench.part.isEmpty, "not a byte of it was taken")
    }

    @Test("A server that ignores Range gives the first piece, and then everything as one request, of which the first part is passed over")
    func noRange() {
        var bench = DownloadBench(Self.content)
        func all(_ request: DownloadMachine.Request) -> DownloadMachine.Outcome {
            bench.take(request, DownloadBench.own(200, [("Content-Length", "\(Self.content.count)")]), Self.content)
        }
        #expect(all(bench.machine.request(chunk: 30_000)) == .next && bench.part.count == 30_000)
        let rest = bench.machine.request(chunk: 30_000)
        #expect(rest == .rest(at: 30_000) && bench.machine.bytes(of: rest) == Self.content.count && bench.machine.headers(of: rest).isEmpty)
        #expect(all(rest) == .compare)
        #expect(bench.compare() == .done && bench.part == Self.content)
    }

    @Test("A record that says too little or too much about the size costs one request", arguments: [0, 1, 999, 100_001, 5_000_000])
    func wrongSize(_ said: Int64) {
        var bench = DownloadBench(Self.content, said: said)
        var outcome = DownloadMachine.Outcome.next
        while outcome == .next {
            let request = bench.machine.request(chunk: 40_000)
            let (response, body) = bench.honest(request)
            outcome = bench.take(request, response, body)
        }
        #expect(outcome == .compare && bench.compare() == .done && bench.part == Self.content)
        #expect(bench.wire == Self.content.count && bench.requests <= 4)
    }

    @Test("After a restart with all bytes here, the hub's 416 confirms the size, and not a byte comes twice")
    func wholeAtStart() {
        var progress = DownloadProgress()
        progress.offset = Int64(Self.content.count)
        var bench = DownloadBench(Self.content)
        bench.machine = DownloadMachine(size: progress.offset, digest: bench.digest, progress: progress, limit: 1 << 40)
        bench.part = Self.content
        let request = bench.machine.request(chunk: 1_000)
        let (response, body) = bench.honest(request)
        #expect(response.status == 416 && bench.take(request, response, body) == .compare)
        #expect(bench.compare() == .done && bench.wire == 0)
    }

    @Test("Wrong bytes are thrown away and fetched anew twice, then the file fails")
    func wrongBytes() {
        var bench = DownloadBench(Self.content)
        var wrong = Self.content
        wrong[7] ^= 1
        for round in 1...3 {
            let request = bench.machine.request(chunk: 1 << 20)
            #expect(request == .piece(at: 0, count: Int64(wrong.count)))
            let (response, _) = bench.honest(request)
            #expect(bench.take(request, response, wrong) == .compare)
            let outcome = bench.compare()
            if round < 3 {
                guard case .wait(true, nil, _) = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
            } else {
                guard case .failed("digest-mismatch", _) = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
            }
        }
        #expect(bench.machine.progress.offset == 0)
    }

    @Test("A part of this device that is damaged or too large for the disk is no fault of the hub")
    func stumbles() {
        var bench = DownloadBench(Self.content)
        let request = bench.machine.request(chunk: 50_000)
        let (response, body) = bench.honest(request)
        #expect(bench.take(request, response, body) == .next)
        guard case .wait(true, nil, _) = bench.machine.stumbled(BlobError(.damaged, doing: "go on", detail: "shorter")) else {
            Issue.record("a damaged part begins anew")
            return
        }
        #expect(bench.machine.progress.offset == 0)
        guard case .failed("no-room", _) = bench.machine.stumbled(BlobError(.full, doing: "write", detail: "no space")) else {
            Issue.record("a full disk sets the file aside")
            return
        }
    }

    @Test("Answers that count nothing count from the eleventh in a row on")
    func idle() {
        var bench = DownloadBench(Self.content)
        for round in 1...12 {
            guard case .wait(let counts, _, _) = bench.take(bench.machine.request(chunk: 1_000), DownloadBench.own(503), []) else {
                Issue.record("503 is waited out")
                return
            }
            #expect(counts == (round > DownloadMachine.idleAnswersMax), "round \(round)")
        }
    }

    @Test(
        "Ranges of answers",
        arguments: [
            ("bytes 100-199/500", "100..<200/500"), ("bytes 0-0/*", "0..<1/nil"), ("bytes */500", "nil/500"), ("Bytes 1-2/3", "1..<3/3"),
            ("bytes */*", ""), ("bytes 5-4/9", ""), ("bytes 5-9/9", ""), ("bytes -1-4/9", ""), ("items 0-1/2", ""), ("bytes 0-1", ""),
            ("bytes 0-9223372036854775807/*", ""), ("bytes 99999999999999999999-1/2", ""), ("", ""),
        ])
    func ranges(_ text: String, _ expected: String) {
        let read = ContentRange(text).map { range in
            "\(range.range.map { "\($0)" } ?? "nil")/\(range.total.map { "\($0)" } ?? "nil")"
        }
        #expect(read ?? "" == expected)
    }
}

@Suite("Downloads under random cuts and lies")
struct DownloadPropertyTests {
    // Fault: a wrong byte is accepted, or bytes come again that were here.
    @Test("With any server only the right bytes are accepted; with cuts alone, no more comes than the file and the lost bytes")
    func never() {
        var random = SeededRandom(seed: 26_5)
        for round in 0..<200 {
            let size = Int(random.next() % 60_000) + 1
            var state = random.next()
            let content = (0..<size).map { _ -> UInt8 in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return UInt8(truncatingIfNeeded: state >> 33)
            }
            var bench = DownloadBench(content)
            let lies = round % 2 == 1
            var lost = 0
            var end: DownloadMachine.Outcome?
            for _ in 0..<4_000 {
                let request = bench.machine.request(chunk: 1 << Int(10 + random.next() % 9))
                let outcome: DownloadMachine.Outcome
                if lies, random.next() % 3 == 0 {
                    let (response, body) = Self.lie(bench, request, &random)
                    outcome = bench.take(
                        request, response, body, cut: random.next() % 4 == 0 ? Int(random.next() % UInt64(body.count + 1)) : nil)
                } else {
                    let (response, body) = bench.honest(request)
                    let isCut = random.next() % 3 == 0
                    let sent = isCut ? Int(random.next() % UInt64(body.count + 1)) : body.count
                    // The last bytes before a cut are lost on the way.
                    let arrived = isCut ? sent - min(sent, Int(random.next() % 2_000)) : sent
                    lost += sent - arrived
                    bench.wire += sent - arrived
                    outcome = bench.take(request, response, body, cut: isCut ? arrived : nil)
                }
                switch outcome {
                case .next, .wait, .refused: continue
                case .compare:
                    let compared = bench.compare()
                    if compared == .done { #expect(bench.part == content, "round \(round)") }
                    if case .wait = compared { continue }
                    end = compared
                case .done, .failed: end = outcome
                }
                break
            }
            if !lies {
                #expect(end == .done, "round \(round): \(String(describing: end))")
                #expect(bench.wire <= size + lost, "round \(round)")
            }
            #expect(Int64(bench.wire) <= UploadMachine.spentMax(size: Int64(size)) + Int64(size) + (1 << 20), "round \(round)")
        }
    }

    /// An answer that is not as the contract says.
    private static func lie(
        _ bench: DownloadBench, _ request: DownloadMachine.Request, _ random: inout SeededRandom
    ) -> (HTTPResponse, [UInt8]) {
        var (response, body) = bench.honest(request)
        switch random.next() % 8 {
        case 0: return (DownloadBench.own(200, [("Content-Length", "\(bench.content.count)")]), bench.content)
        case 1:
            if !body.isEmpty { body[Int(random.next() % UInt64(body.count))] ^= 0x40 }
        case 2: response.headers["Content-Range"] = "bytes */\(random.next() % 300_000)"
        case 3: response = DownloadBench.own(416, [("Content-Range", "bytes */\(random.next() % 300_000)")])
        case 4: body += [1, 2, 3]
        case 5: response.headers["Content-Range"] = "bytes \(request.offset)-\(request.offset + 9)/\(random.next() % 300_000)"
        case 6: response.headers["ETag"] = "\"sha256:0\""
        default: response = HTTPResponse(status: 503)
        }
        return (response, body)
    }
}
