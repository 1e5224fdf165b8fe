import SyncCore
import Testing

/// One row per rule of PROTOCOL H1 and H2, and per way to fail.
@Suite("One upload: the next request, given the last answer")
struct UploadMachineTests {
    static let digest = BlobDigest(bytes: SHA256.hash(Array("photo".utf8)))!
    static let other = BlobDigest(bytes: SHA256.hash(Array("other".utf8)))!
    static let now = Timestamp(milliseconds: 1_795_208_645_000)
    static let hub = UploadMachine.Server(
        files: "https://hub.example/v1/files", blobs: "https://hub.example/v1/blobs/", verify: .digest)
    static let foreign = UploadMachine.Server(files: "https://tus.example/files", blobs: nil, verify: .download)
    static let plain = UploadMachine.Server(files: "https://tus.example/files", blobs: nil, verify: .none)
    static let size: Int64 = 10_000
    static let chunk = 4_000

    /// The server's answer; `tus` and `hub` say who it claims to be.
    static func reply(
        _ status: Int, _ headers: HTTPHeaders = [:], tus: Bool = true, hub: Bool = true, body: String = ""
    ) -> HTTPResponse {
        var headers = headers
        if tus { headers[Tus.resumable] = "1.0.0" }
        if hub { headers[HubHeader.version] = "1" }
        return HTTPResponse(status: status, headers: headers, body: Array(body.utf8))
    }

    /// The next request after an answer.
    enum Then: Hashable { case lookUp, create, ask, send(Int64), verify, destroy, done(Bool), failed(String), wait(counts: Bool), refused }

    struct Row: Sendable {
        var what: String
        var state: State
        var server = hub
        var answer: Result<HTTPResponse, TransportError>
        /// The machine's conclusion from the answer.
        var now: Then
        /// The next request; `nil` for none.
        var next: Then?

        init(
            _ what: String, _ state: State, _ answer: HTTPResponse, _ now: Then, next: Then? = nil,
            server: UploadMachine.Server = hub
        ) {
            (self.what, self.state, self.now, self.next, self.server) = (what, state, now, next, server)
            self.answer = .success(answer)
        }

        init(_ what: String, _ state: State, error: TransportError.Code, _ now: Then, next: Then? = nil) {
            (self.what, self.state, self.now, self.next) = (what, state, now, next)
            answer = .failure(TransportError(error, doing: "send", detail: "x"))
        }
    }

    enum State: Sendable { case fresh, absent, made, half, resumed, last, whole, spoiled }

    /// A machine brought into a state by ordinary answers.
    static func machine(_ state: State, _ server: UploadMachine.Server) -> UploadMachine {
        var progress = UploadProgress()
        if state == .resumed {
            progress.url = "\(server.files)/7"
            progress.offset = 4_000
        }
        var machine = UploadMachine(size: size, digest: digest, progress: progress)
        func answer(_ response: HTTPResponse) {
            let request = machine.request(server, chunk: chunk)
            _ = machine.answered(request, response, server, at: now)
        }
        if state == .fresh || state == .resumed { return machine }
        if server.blobs != nil { answer(reply(404)) }
        if state == .absent { return machine }
        answer(reply(201, ["Location": "\(server.files)/7"]))
        if state == .made { return machine }
        answer(reply(204, [Tus.offset: "4000"]))
        if state == .half { return machine }
        answer(reply(204, [Tus.offset: "8000"]))
        if state == .last { return machine }
        answer(reply(204, [Tus.offset: "10000"]))
        if state == .whole { return machine }
        _ = machine.downloaded(other)
        return machine
    }

    static let rows: [Row] = [
        // Looking up.
        Row("known already", .fresh, reply(200, [Tus.reprDigest: digest.field]), .done(true)),
        Row("a portal says 200", .fresh, reply(200, tus: false, hub: false, body: "<html>"), .wait(counts: false), next: .lookUp),
        Row("the hub says 200 about another", .fresh, reply(200, [Tus.reprDigest: other.field]), .wait(counts: true), next: .lookUp),
        Row("not known", .fresh, reply(404), .create),
        Row("a proxy says 404", .fresh, reply(404, tus: false, hub: false), .wait(counts: false), next: .lookUp),
        Row("an older hub", .fresh, reply(405), .create),
        Row("credentials", .fresh, reply(401), .refused, next: .lookUp),
        Row("overload", .fresh, reply(503, ["Retry-After": "7"]), .wait(counts: false), next: .lookUp),
        // Creating.
        Row("made", .absent, reply(201, ["Location": "/v1/files/7"]), .send(0)),
        Row("made at another origin", .absent, reply(201, ["Location": "https://evil.example/7"]), .wait(counts: true), next: .create),
        Row("made without a place", .absent, reply(201), .wait(counts: true), next: .create),
        Row("made, says a portal", .absent, reply(201, ["Location": "/v1/files/7"], tus: false), .wait(counts: false), next: .create),
        Row("too large for the server", .absent, reply(413), .failed("too-large")),
        Row("too large for a proxy before the hub", .absent, reply(413, tus: false, hub: false), .wait(counts: false), next: .create),
        Row(
            "too large for a proxy before another server", .absent, reply(413, tus: false, hub: false), .wait(counts: true), next: .create,
            server: foreign),
        Row("no room", .absent, reply(507), .wait(counts: false), next: .create),
        Row("server error", .absent, reply(500), .wait(counts: true), next: .create),
        Row("blocked", .absent, reply(403), .refused, next: .create),
        Row("no answer", .absent, error: .broken, .wait(counts: true), next: .create),
        Row("no link", .absent, error: .unreachable, .wait(counts: false), next: .create),
        // Sending.
        Row("taken", .half, reply(204, [Tus.offset: "8000"]), .send(8_000)),
        Row("taken in part", .half, reply(204, [Tus.offset: "5000"]), .send(5_000)),
        Row("taken, without a word how much", .half, reply(204), .ask),
        Row("an offset before the piece", .half, reply(204, [Tus.offset: "3999"]), .ask),
        Row("an offset beyond the piece", .half, reply(204, [Tus.offset: "8001"]), .ask),
        Row("garbage for an offset", .half, reply(204, [Tus.offset: "-1"]), .ask),
        Row("a portal takes it", .half, reply(200, [Tus.offset: "8000"], tus: false), .wait(counts: false), next: .ask),
        Row("wrong offset is no error", .half, reply(409), .wait(counts: false), next: .ask),
        Row("locked is no error", .half, reply(423), .wait(counts: false), next: .ask),
        Row("busy is no error", .half, reply(503), .wait(counts: false), next: .ask),
        Row("another server's is no error", .half, reply(421), .wait(counts: false), next: .ask),
        Row("wrong type, and the offset moved all the same", .half, reply(415), .wait(counts: true), next: .ask),
        Row("server error", .half, reply(500), .wait(counts: true), next: .ask),
        Row("piece too large", .half, reply(413), .wait(counts: true), next: .ask),
        Row("checksum", .half, reply(460), .wait(counts: true), next: .ask),
        Row("gone", .half, reply(404), .wait(counts: true), next: .lookUp),
        Row("expired", .half, reply(410), .wait(counts: true), next: .lookUp),
        Row("gone, says a proxy", .half, reply(404, tus: false, hub: false), .wait(counts: false), next: .ask),
        Row(
            "gone, without a header, from a foreign server", .half, reply(404, tus: false, hub: false), .wait(counts: true), next: .ask,
            server: foreign),
        Row("too little of the piece", .half, reply(204, [Tus.offset: "4999"]), .wait(counts: true), next: .send(4_999)),
        Row("nothing of the piece", .half, reply(204, [Tus.offset: "4000"]), .wait(counts: true), next: .send(4_000)),
        Row("an offset of 2^63", .half, reply(204, [Tus.offset: "9223372036854775808"]), .ask),
        Row("credentials", .half, reply(401), .refused, next: .ask),
        Row("credentials, says a portal", .half, reply(401, tus: false, hub: false), .wait(counts: false), next: .ask),
        Row("cut", .half, error: .broken, .wait(counts: true), next: .ask),
        Row("stalled", .half, error: .timedOut, .wait(counts: true), next: .ask),
        Row("link gone", .half, error: .cancelled, .wait(counts: false), next: .ask),
        // The end.
        Row("all there, digest right", .last, reply(204, [Tus.offset: "10000", Tus.reprDigest: digest.field]), .done(true)),
        Row("all there, digest wrong", .last, reply(204, [Tus.offset: "10000", Tus.reprDigest: other.field]), .destroy),
        Row("the hub found the digest wrong", .last, reply(422, body: "{\"type\":\"urn:edge-sync:digest-mismatch\"}"), .destroy),
        Row("422 for another reason", .last, reply(422, body: "{}"), .wait(counts: true), next: .ask),
        Row("all there, no digest, hub", .last, reply(204, [Tus.offset: "10000"]), .lookUp),
        Row("all there, no digest, foreign", .last, reply(204, [Tus.offset: "10000"]), .verify, server: foreign),
        Row("all there, but not verifiable", .last, reply(204, [Tus.offset: "10000"]), .done(false), server: plain),
        // Asking.
        Row("where it was", .resumed, reply(200, [Tus.offset: "4000", Tus.length: "10000"]), .send(4_000)),
        Row("further than we remember", .resumed, reply(200, [Tus.offset: "9000"]), .send(9_000)),
        Row("lost what it had", .resumed, reply(200, [Tus.offset: "0"]), .send(0)),
        Row("all of it", .resumed, reply(200, [Tus.offset: "10000", Tus.reprDigest: digest.field]), .done(true)),
        Row("more than there is", .resumed, reply(200, [Tus.offset: "13631"]), .destroy),
        Row("another length", .resumed, reply(200, [Tus.offset: "4000", Tus.length: "10001"]), .destroy),
        Row("no offset", .resumed, reply(200), .wait(counts: true), next: .ask),
        Row("a portal", .resumed, reply(200, [Tus.offset: "4000"], tus: false), .wait(counts: false), next: .ask),
        Row("unknown", .resumed, reply(404), .wait(counts: true), next: .lookUp),
        Row("unknown to a foreign server", .resumed, reply(404), .wait(counts: true), next: .create, server: foreign),
        Row("expired", .resumed, reply(410), .wait(counts: true), next: .lookUp),
        Row("locked", .resumed, reply(423), .wait(counts: false), next: .ask),
        // Comparing.
        Row("the server's digest", .whole, reply(200, [Tus.reprDigest: digest.field]), .done(true), server: foreign),
        Row("the server's digest is another", .whole, reply(200, [Tus.reprDigest: other.field]), .destroy, server: foreign),
        Row("the server has none", .whole, reply(200), .done(false), server: foreign),
        Row("the hub knows it", .whole, reply(200, [Tus.reprDigest: digest.field]), .done(true)),
        Row("the hub does not know it", .whole, reply(404), .destroy),
        Row("the hub cannot tell", .whole, reply(405), .wait(counts: true), next: .lookUp),
        // Destroying.
        Row("destroyed", .spoiled, reply(204), .create, server: foreign),
        Row("was gone", .spoiled, reply(404), .create, server: foreign),
        Row("does not destroy", .spoiled, reply(405), .create, server: foreign),
        Row("not this server", .spoiled, reply(421), .wait(counts: false), next: .destroy, server: foreign),
        Row("not now", .spoiled, reply(503), .wait(counts: false), next: .destroy, server: foreign),
        Row("server error", .spoiled, reply(500), .wait(counts: true), next: .destroy, server: foreign),
    ]

    @Test("After every answer, what follows", arguments: rows)
    func row(_ row: Row) {
        var machine = Self.machine(row.state, row.server)
        let request = machine.request(row.server, chunk: Self.chunk)
        let outcome: UploadMachine.Outcome =
            switch row.answer {
            case .success(let response): machine.answered(request, response, row.server, at: Self.now)
            case .failure(let error): machine.failed(request, error)
            }
        let next = Self.word(machine.request(row.server, chunk: Self.chunk))
        switch outcome {
        case .next: #expect(next == row.now, "\(row.what)")
        case .wait(let counts, _, _):
            #expect(row.now == .wait(counts: counts), "\(row.what)")
            #expect(next == row.next, "\(row.what)")
        case .refused:
            #expect(row.now == .refused, "\(row.what)")
            #expect(next == row.next, "\(row.what)")
        case .done(let isVerified): #expect(row.now == .done(isVerified), "\(row.what)")
        case .failed(let code, _): #expect(row.now == .failed(code), "\(row.what)")
        }
        #expect(machine.progress.offset >= 0 && machine.progress.offset <= Self.size)
    }

    private static func word(_ request: UploadMachine.Request) -> Then {
        switch request {
        case .lookUp: .lookUp
        case .create: .create
        case .ask: .ask
        case .send(let offset, _): .send(offset)
        case .verify: .verify
        case .destroy: .destroy
        }
    }

    @Test("A file that fits into a piece goes with its creation")
    func small() {
        var machine = UploadMachine(size: 900, digest: Self.digest, progress: UploadProgress())
        _ = machine.answered(.lookUp, Self.reply(404), Self.hub, at: Self.now)
        #expect(machine.request(Self.hub, chunk: 1_000) == .create(with: 900))
        let whole = Self.reply(201, ["Location": "/v1/files/7", Tus.offset: "900", Tus.reprDigest: Self.digest.field])
        var other = machine
        #expect(machine.answered(.create(with: 900), whole, Self.hub, at: Self.now) == .done(isVerified: true))
        // A server that only made the upload is asked how much it took.
        let made = Self.reply(201, ["Location": "/v1/files/7"])
        #expect(other.answered(.create(with: 900), made, Self.hub, at: Self.now) == .next)
        #expect(other.request(Self.hub, chunk: 1_000) == .ask)
    }

    @Test("A wrong digest begins again twice, then it is the file's own end")
    func restarts() {
        var machine = UploadMachine(size: Self.size, digest: Self.digest, progress: UploadProgress())
        var outcomes: [UploadMachine.Outcome] = []
        for _ in 0...UploadMachine.restartsMax {
            while true {
                let request = machine.request(Self.foreign, chunk: 10_000)
                let response: HTTPResponse
                switch request {
                case .create(let count):
                    response = Self.reply(201, ["Location": "/files/9", Tus.offset: "\(count ?? 0)"])
                case .send(let offset, let count): response = Self.reply(204, [Tus.offset: "\(offset + Int64(count))"])
                case .destroy: response = Self.reply(204)
                case .lookUp, .ask, .verify: response = Self.reply(500)
                }
                if request == .verify { break }
                _ = machine.answered(request, response, Self.foreign, at: Self.now)
            }
            outcomes.append(machine.downloaded(Self.other))
        }
        #expect(outcomes.dropLast().allSatisfy { $0 == .next })
        guard case .failed(let code, _)? = outcomes.last else {
            Issue.record("after \(UploadMachine.restartsMax) restarts it must end, not \(String(describing: outcomes.last))")
            return
        }
        #expect(code == "digest-mismatch")
        // A retry begins afresh.
        machine.rearm()
        #expect(machine.request(Self.foreign, chunk: 1_000) == .create(with: nil))
    }

    @Test("An offset that advances by a good part of the piece forgets the attempts before it, a smaller step does not")
    func attempts() {
        var machine = Self.machine(.half, Self.hub)
        machine.count()
        machine.count()
        _ = machine.failed(.send(at: 4_000, count: 4_000), TransportError(.broken, doing: "send", detail: "cut"))
        _ = machine.answered(.ask, Self.reply(200, [Tus.offset: "4000"]), Self.hub, at: Self.now)
        #expect(machine.progress.attempts == 2)
        _ = machine.failed(.send(at: 4_000, count: 4_000), TransportError(.broken, doing: "send", detail: "cut"))
        _ = machine.answered(.ask, Self.reply(200, [Tus.offset: "4001"]), Self.hub, at: Self.now)
        #expect(machine.progress.attempts == 2)
        _ = machine.failed(.send(at: 4_001, count: 4_000), TransportError(.broken, doing: "send", detail: "cut"))
        _ = machine.answered(.ask, Self.reply(200, [Tus.offset: "5001"]), Self.hub, at: Self.now)
        #expect(machine.progress.attempts == 0)
    }

    @Test("With any answers of a server the machine goes on, and never beyond the file", arguments: 0..<400)
    func anything(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        let server = [Self.hub, Self.foreign, Self.plain][seed % 3]
        var machine = UploadMachine(size: Self.size, digest: Self.digest, progress: UploadProgress())
        let statuses = [200, 201, 204, 301, 400, 404, 409, 410, 413, 415, 422, 423, 460, 500, 503, 507]
        let offsets = ["", "0", "1", "4000", "9999", "10000", "10001", "-1", "x", "99999999999999999999"]
        for _ in 0..<60 {
            let request = machine.request(server, chunk: 1 + Int(random.next() % 6_000))
            if case .send(let offset, let count) = request {
                #expect(offset >= 0 && count > 0 && offset + Int64(count) <= Self.size)
            }
            var headers: HTTPHeaders = [:]
            if random.next() % 4 > 0 { headers[Tus.offset] = offsets[Int(random.next() % 10)] }
            if random.next() % 4 == 0 { headers[Tus.length] = offsets[Int(random.next() % 10)] }
            if random.next() % 2 == 0 { headers["Location"] = ["/files/7", "", "http://x/", "7"][Int(random.next() % 4)] }
            if random.next() % 5 == 0 { headers[Tus.reprDigest] = [Self.digest.field, Self.other.field, "?"][Int(random.next() % 3)] }
            let response = Self.reply(
                statuses[Int(random.next() % 16)], headers, tus: random.next() % 4 > 0, hub: random.next() % 4 > 0)
            let outcome = machine.answered(request, response, server, at: Self.now)
            if case .done(true) = outcome { #expect(response.headers[Tus.reprDigest] == Self.digest.field) }
            if case .wait(true, _, _) = outcome { machine.count() }
            #expect((0...Self.size).contains(machine.progress.offset))
            if case .done = outcome { return }
            if case .failed = outcome { return }
        }
    }
}
