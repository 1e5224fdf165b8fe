import Logging
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP
import Synchronization

/// The layer between HTTP and the hub's thread: authenticates, admits, reads the body, passes the request on, and compresses the answer.
final class HubHandler: HTTPHandler {
    private let worker: HubWorker
    private let environment: HubService.Environment
    private let attempts = Mutex(AttemptLimit(at: .now()))
    /// Endpoints that another address of this hub serves (``MetricsHandler``).
    private let elsewhere: Set<Endpoint>
    #if ABLATIONS
        private let faults: HubFaults?
    #endif

    /// Size above which answers are compressed, bytes; for smaller ones gzip rarely saves a packet.
    private static let compressOver = 1_024

    init(worker: HubWorker, options: HubService.Options, environment: HubService.Environment) {
        self.worker = worker
        self.environment = environment
        elsewhere = options.metrics == nil ? [] : [.metrics]
        #if ABLATIONS
            faults = options.faults
        #endif
    }

    /// The order keeps the cost of unknown callers low. Malformed requests and public endpoints are answered from the head. The caller must
    /// be authenticated before a body is read or a place is taken.
    func admit(_ head: RequestHead) -> HTTPAdmission {
        let request = HubRequest(head)
        let endpoint = Endpoint.find(request.path)
        #if ABLATIONS
            if let faults, let refused = faults.instead(of: endpoint) { return .answering(refused) }
        #endif
        guard let endpoint, !elsewhere.contains(endpoint) else { return answering(HubResponse(Hub.notFound), to: request) }
        if endpoint.isForDevices { return admit(request, at: endpoint) }
        // The hub alone knows whether it has this path at present, with any method.
        if endpoint == .metrics { return viewing(endpoint, for: request, limit: Limits.hubRequestBytes) }
        guard endpoint.methods.contains(request.method) else { return answering(Hub.wrongMethod(at: endpoint), to: request) }
        switch endpoint {
        case .probe: return answering(Hub.probed(request), to: request)
        case .healthz: return answering(Hub.alive, to: request)
        case .enroll:
            return .collect(limit: Hub.enrolmentBytes) { [self] exchange, body in
                var whole = request
                whole.body = body
                enrol(whole, exchange, mayLag: worker.keepsTokens)
            }
        // Only `readyz` comes to here: the others are admitted above.
        case .readyz, .metrics, .hello, .pull, .push, .snapshot, .known, .config, .verify, .diagnostics, .token, .files, .file, .blob:
            return viewing(endpoint, for: request, limit: 0)
        }
    }

    private func viewing(_ endpoint: Endpoint, for request: HubRequest, limit: Int) -> HTTPAdmission {
        .stream(limit: limit) { [self] exchange in
            let loop = MultiThreadedEventLoopGroup.currentEventLoop
            worker.view(.asked(endpoint, isGet: request.method == "GET")) { [self] response in
                guard let loop else { return send(response, to: request, exchange) }
                loop.execute { self.send(response, to: request, exchange) }
            }
        }
    }

    // MARK: Callers

    private func admit(_ request: HubRequest, at endpoint: Endpoint, mayLag: Bool = true) -> HTTPAdmission {
        let now = environment.time.now().wall
        let gate = HubGate(tokens: environment.tokens(), grace: worker.tokenGrace, now: now)
        do throws(HubRefusal) {
            try HubGate.checkVersion(request.hubHeaders, isTus: endpoint.isTus)
            if mayLag, worker.keepsTokens, gate.lacksToken(request.headers) { return lookingUp(request, at: endpoint) }
            let caller = try gate.caller(request, at: endpoint)
            guard endpoint.methods.contains(request.method) else { return answering(Hub.wrongMethod(at: endpoint), to: request) }
            return .known(admit(request, at: endpoint, of: caller.device))
        } catch {
            return answering(refused(error), to: request)
        }
    }

    /// Asks the database whether another replica has issued the token.
    private func lookingUp(_ request: HubRequest, at endpoint: Endpoint) -> HTTPAdmission {
        .later { [self] decision in
            worker.lookUpTokens { problem in
                decision.make { [self] _ in
                    if let problem { return answering(HubResponse(problem), to: request) }
                    return admit(request, at: endpoint, mayLag: false)
                }
            }
        }
    }

    private func admit(_ request: HubRequest, at endpoint: Endpoint, of device: DeviceID) -> HTTPAdmission {
        // A body of any size goes to the disk and not through memory.
        if let uploads = worker.uploads, endpoint.isTus, request.method == "PATCH" || request.method == "POST" {
            switch worker.place(for: Admission.Request(device, rank: 2, bytes: uploads.storage.traits.bytesPerUpload)) {
            case .none(_, let isOwn): return answering(overloaded(2, isOwn), to: request)
            case .slot(let slot):
                return .stream(limit: nil) { [self] exchange in ask(request, slot, exchange, uploads) }
            }
        }
        let asksFiles = endpoint == .file || endpoint == .blob
        let bytes = min(request.contentLength ?? Limits.hubRequestBytes, Limits.hubRequestBytes)
        // A body without a length may turn out too large for a wait.
        let isPatient = request.contentLength != nil && worker.patience(of: request, bytes: bytes) != nil
        switch worker.place(for: Admission.Request(device, rank: endpoint.rank, bytes: bytes, isPatient: isPatient)) {
        case .none(let seconds, let isOwn): return answering(overloaded(seconds, isOwn), to: request)
        case .slot(let slot):
            return .collect(limit: Limits.hubRequestBytes) { [self] exchange, body in
                var whole = request
                whole.body = body
                if asksFiles, let uploads = worker.uploads { return ask(whole, slot, exchange, uploads) }
                submit(whole, slot, exchange)
            }
        }
    }

    private func submit(_ request: HubRequest, _ slot: HubWorker.Slot, _ exchange: HTTPExchange) {
        let loop = MultiThreadedEventLoopGroup.currentEventLoop
        let wait = worker.wait(of: request) { exchange.standBy() }
        var job = HubWorker.Job(request: request, slot: slot) { [self] response in
            var response = response
            if let wait, response.status == 200 { response.headers[WaitPreference.appliedField] = WaitPreference.text(wait.seconds) }
            // The sockets' threads compress: the hub's own thread serves the database.
            guard let loop else { return send(response, to: request, exchange) }
            loop.execute { [response] in self.send(response, to: request, exchange) }
        }
        job.wait = wait
        job.request.mayWait = wait != nil
        job.request.push = BodyReader(compressor: environment.compressor).earlyPush(in: request)
        if let wait { exchange.onClose { [worker] in worker.leave(wait) } }
        worker.submit(job)
    }

    // MARK: Enrolment

    /// Only a valid token reaches the hub's thread. Others cost one hash.
    private func enrol(_ request: HubRequest, _ exchange: HTTPExchange, mayLag: Bool) {
        let now = environment.time.now().wall
        let gate = HubGate(tokens: environment.tokens(), grace: worker.tokenGrace, now: now)
        do throws(HubRefusal) {
            let token = try Hub.enrolmentToken(request)
            if mayLag, gate.tokens?.find(token) == nil { return enrolLater(request, exchange) }
            let entry = try gate.enrolling(token)
            switch worker.place(for: Admission.Request(entry.device, rank: Endpoint.enroll.rank, bytes: request.body.count)) {
            case .none(let seconds, let isOwn): answer(overloaded(seconds, isOwn), to: request, exchange)
            case .slot(let slot): submit(request, slot, exchange)
            }
        } catch {
            worker.figures.failedEnrolments.add(1, ordering: .relaxed)
            let refusal = refused(error)
            guard isBeyondLimit(exchange.request.peer) else { return answer(refusal, to: request, exchange) }
            worker.figures.limitedEnrolments.add(1, ordering: .relaxed)
            let problem = Problem(
                "too-many-attempts", status: 429, detail: "too many enrolments with an invalid token", retryAfter: 10)
            // Each further attempt then costs a connection, and an address has few of them.
            answer(HubResponse(problem), to: request, exchange, closes: true)
        }
    }

    private func enrolLater(_ request: HubRequest, _ exchange: HTTPExchange) {
        let loop = MultiThreadedEventLoopGroup.currentEventLoop
        worker.lookUpTokens { [self] problem in
            (loop ?? worker.loop).execute { [self] in
                if let problem { return answer(HubResponse(problem), to: request, exchange) }
                enrol(request, exchange, mayLag: false)
            }
        }
    }

    /// Counts a failed enrolment, and returns whether there were too many.
    private func isBeyondLimit(_ peer: HTTPPeer) -> Bool {
        !attempts.withLock { $0.fail(peer.group, at: .now()) }
    }

    // MARK: Answers from the head

    private func refused(_ refusal: HubRefusal) -> HubResponse {
        do throws(DatabaseError) {
            return try refusal.answer()
        } catch {
            // A decision from the head alone uses no database.
            return HubResponse(Hub.unavailable(error))
        }
    }

    private func answering(_ response: HubResponse, to request: HubRequest) -> HTTPAdmission {
        let finished = Hub.finish(response, at: environment.time.now().wall)
        worker.traffic.count(request, finished)
        return .answering(finished)
    }

    private func answer(_ response: HubResponse, to request: HubRequest, _ exchange: HTTPExchange, closes: Bool = false) {
        let finished = Hub.finish(response, at: environment.time.now().wall)
        worker.traffic.count(request, finished)
        log(finished, to: request)
        exchange.respond(finished, closes: closes)
    }

    private func overloaded(_ seconds: Int, _ isOwn: Bool) -> HubResponse {
        let detail = isOwn ? "this device has too many requests in progress" : "the hub has too many requests in progress"
        return HubResponse(Problem("overloaded", status: 503, detail: detail, retryAfter: seconds))
    }

    // MARK: Files

    /// Asks the hub, does the requested work on files on their threads, and asks again, until there is a final answer.
    private func ask(
        _ request: HubRequest, _ slot: HubWorker.Slot, _ exchange: HTTPExchange, _ uploads: HubUploads,
        step: HubRequest.FileStep = .begin
    ) {
        var now = request
        now.fileStep = step
        worker.submit(
            HubWorker.Job(request: now, slot: slot) { [self] response in
                let loop = worker.files.next()
                switch response.work {
                case nil: send(response, to: request, exchange)
                case .write(let grant):
                    FileIntake(exchange, grant, uploads, on: loop) { [self] end in
                        ask(request, slot, exchange, uploads, step: .end(grant, end))
                    }.begin()
                case .fence(let id, let offset):
                    loop.execute { [self] in
                        var failure: BlobError?
                        do throws(BlobError) {
                            try uploads.fence(id, at: offset)
                        } catch {
                            uploads.reportFailure(error)
                            failure = error
                        }
                        ask(request, slot, exchange, uploads, step: .fenced(failure))
                    }
                case .show(let digest, let size, let range):
                    loop.execute { [self] in show(digest, size, range, response, to: request, slot, exchange, uploads, on: loop) }
                }
            })
    }

    private func show(
        _ digest: BlobDigest, _ size: Int64, _ range: Range<Int64>, _ response: HubResponse, to request: HubRequest,
        _ slot: HubWorker.Slot, _ exchange: HTTPExchange, _ uploads: HubUploads, on loop: any EventLoop
    ) {
        do throws(BlobError) {
            if request.method == "GET" {
                let reader = try uploads.storage.read(digest)
                guard reader.size == size else {
                    throw BlobError(.notFound, doing: "read \(digest)", detail: "it has \(reader.size) bytes")
                }
                log(response, to: request)
                FileOutput(exchange, reader, range, uploads, holding: slot, on: loop).begin(response)
            } else {
                guard try uploads.storage.size(of: digest) == size else {
                    throw BlobError(.notFound, doing: "look at \(digest)", detail: "gone")
                }
                log(response, to: request)
                exchange.begin(response, length: Int(size))
                exchange.end()
            }
        } catch {
            if error.code != .notFound { uploads.reportFailure(error) }
            let problem = error.code == .notFound ? Hub.noBlob : UploadBody.problem(error)
            send(Hub.finish(HubResponse(problem), at: environment.time.now().wall), to: request, exchange)
        }
    }

    private func log(_ response: HubResponse, to request: HubRequest) {
        environment.log.debug(
            "answered",
            metadata: [
                "method": "\(request.method)", "path": "\(request.path)", "status": "\(response.status)",
                "device": "\(request.headers[HubHeader.device] ?? "")", "session": "\(request.headers[HubHeader.session] ?? "")",
            ])
    }

    private func send(_ response: HubResponse, to request: HubRequest, _ exchange: HTTPExchange) {
        var response = response
        log(response, to: request)
        if response.body.count > HubHandler.compressOver, ContentCoding.acceptsGzip(request.headers["Accept-Encoding"]),
            let smaller = environment.compressor?.gzip(response.body)
        {
            response.body = smaller
            response.headers["Content-Encoding"] = "gzip"
        }
        if response.body.count > HubHandler.compressOver { response.headers["Vary"] = "Accept-Encoding" }
        #if ABLATIONS
            if let faults, faults.spoil(response, exchange) { return }
        #endif
        exchange.respond(response)
    }

    @Sendable static func problemBody(_ problem: HTTPProblem) -> [UInt8] {
        Problem(problem.code, status: problem.status, detail: problem.detail).json(prefix: Problem.hubPrefix).bytes
    }
}

extension HTTPAdmission {
    /// - Parameter method: The method that the path takes; `nil` does not name it.
    static func refuse(_ problem: Problem, allowing method: String? = nil) -> HTTPAdmission {
        .refuse(
            HTTPProblem(
                status: problem.status, code: problem.code, detail: problem.detail, headers: method.map { [("Allow", $0)] } ?? []))
    }

    /// Answers without reading the body.
    fileprivate static func answering(_ response: HubResponse) -> HTTPAdmission {
        .stream(limit: Limits.hubRequestBytes) { $0.respond(response) }
    }
}

extension HTTPExchange {
    /// Sends the head of an answer whose body has this many bytes, which a `HEAD` does not get.
    func begin(_ response: HubResponse, length: Int) {
        begin(status: response.status, headers: response.headers.fields.map { ($0.name, $0.value) }, length: length)
    }

    func respond(_ response: HubResponse, closes: Bool = false) {
        respond(
            status: response.status, headers: response.headers.fields.map { ($0.name, $0.value) }, body: response.body,
            closes: closes)
    }
}

extension HubRequest {
    /// Reads the head alone, and only the header fields that have a meaning here.
    init(_ head: RequestHead) {
        var headers: HTTPHeaders = [:]
        for name in HubRequest.headerNames {
            if let value = head.header(name) { headers[name] = value }
        }
        // A list of preferences may be spread over several fields.
        let preferences = head.headers(WaitPreference.field)
        if !preferences.isEmpty { headers[WaitPreference.field] = preferences.joined(separator: ",") }
        // Several fields are several ranges, which are ignored.
        if head.headers("Range").count > 1 { headers["Range"] = nil }
        let known = head.headers("If-None-Match")
        if !known.isEmpty { headers["If-None-Match"] = known.joined(separator: ",") }
        var subject: DeviceID?
        if case .remote(_, _, let name?) = head.peer { subject = DeviceID(name) }
        self.init(head.method.rawValue, head.target, headers: headers, certificateDevice: subject)
        contentLength = head.contentLength
    }

    private static let headerNames =
        HubRequestHeaders.names + [
            "Authorization", "Accept-Encoding", "Content-Encoding", "If-None-Match", "If-Range", "Range", "Content-Type", Tus.resumable,
            Tus.offset, Tus.length, Tus.metadata, Tus.checksum,
        ]
}
