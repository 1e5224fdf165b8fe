import Logging
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP

/// Between HTTP and the hub's thread: admits, reads the body, hands over, compresses the answer.
final class HubHandler: HTTPHandler {
    private let worker: HubWorker
    private let environment: HubService.Environment
    #if ABLATIONS
        private let faults: HubFaults?
    #endif

    /// Answers above this are compressed for whoever asks; below it gzip rarely saves a packet.
    private static let compressOver = 1_024

    init(worker: HubWorker, options: HubService.Options, environment: HubService.Environment) {
        self.worker = worker
        self.environment = environment
        #if ABLATIONS
            faults = options.faults
        #endif
    }

    func admit(_ head: RequestHead) -> HTTPAdmission {
        let request = HubRequest(head)
        let endpoint = Endpoint.find(request.path)
        #if ABLATIONS
            if let faults, let refused = faults.instead(of: endpoint) { return .answering(refused) }
        #endif
        // Strangers are turned away before their body is read, and cost neither memory nor a turn of the hub.
        if endpoint?.isForDevices == true {
            do throws(HubRefusal) {
                let gate = HubGate(
                    tokens: environment.tokens(), now: environment.time.now().wall, mayLag: worker.keepsTokens)
                _ = try gate.caller(request.headers, certificate: request.certificateDevice, isTus: endpoint?.isTus ?? false)
            } catch {
                if let response = try? error.answer() { return .answering(Hub.finish(response, at: environment.time.now().wall)) }
            }
        }
        // A body of any size goes to the disk and not through memory.
        if let uploads = worker.uploads, endpoint?.isTus == true, request.method == "PATCH" || request.method == "POST" {
            return takeFile(request, uploads)
        }
        let asksFiles = endpoint == .file || endpoint == .blob
        let declared = head.contentLength ?? Limits.hubRequestBytes
        switch worker.place(rank: endpoint?.rank ?? 2, bytes: min(declared, Limits.hubRequestBytes)) {
        case .none(let seconds): return .answering(overloaded(seconds))
        case .slot(let slot):
            let loop = MultiThreadedEventLoopGroup.currentEventLoop
            return .collect(limit: Limits.hubRequestBytes) { [self] exchange, body in
                var whole = request
                whole.body = body
                if asksFiles, let uploads = worker.uploads { return ask(whole, slot, exchange, uploads) }
                let job = HubWorker.Job(request: whole, slot: slot) { [self] response in
                    // Compressing belongs to the threads of the sockets: the hub's own has a database to serve.
                    guard let loop else { return send(response, to: request, exchange) }
                    loop.execute { self.send(response, to: request, exchange) }
                }
                worker.submit(job)
            }
        }
    }

    private func takeFile(_ head: HubRequest, _ uploads: HubUploads) -> HTTPAdmission {
        guard case .slot(let slot) = worker.place(rank: 2, bytes: uploads.storage.traits.bytesPerUpload) else {
            return .answering(overloaded(2))
        }
        return .stream(limit: nil) { [self] exchange in ask(head, slot, exchange, uploads) }
    }

    /// Asks the hub, does on the files' threads what it wants done first, and asks again, until it has an answer.
    private func ask(
        _ request: HubRequest, _ slot: HubWorker.Slot, _ exchange: HTTPExchange, _ uploads: HubUploads,
        step: HubRequest.FileStep = .begin
    ) {
        var now = request
        now.fileStep = step
        worker.submit(HubWorker.Job(request: now, slot: slot) { [self] response in
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
                        uploads.tell(error)
                        failure = error
                    }
                    ask(request, slot, exchange, uploads, step: .fenced(failure))
                }
            case .show(let digest, let size):
                loop.execute { [self] in show(digest, size, response, to: request, slot, exchange, uploads, on: loop) }
            }
        })
    }

    private func show(
        _ digest: BlobDigest, _ size: Int64, _ response: HubResponse, to request: HubRequest, _ slot: HubWorker.Slot,
        _ exchange: HTTPExchange, _ uploads: HubUploads, on loop: any EventLoop
    ) {
        do throws(BlobError) {
            if request.method == "GET" {
                let reader = try uploads.storage.read(digest)
                guard reader.size == size else { throw BlobError(.notFound, doing: "read \(digest)", detail: "it has \(reader.size) bytes") }
                log(response, to: request)
                FileOutput(exchange, reader, readBytes: uploads.storage.traits.readBytes, holding: slot, on: loop).begin(response)
            } else {
                guard try uploads.storage.size(of: digest) == size else { throw BlobError(.notFound, doing: "look at \(digest)", detail: "gone") }
                send(response, to: request, exchange)
            }
        } catch {
            if error.code != .notFound { uploads.tell(error) }
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

    private func overloaded(_ seconds: Int) -> HubResponse {
        let problem = Problem("overloaded", status: 503, detail: "too much is being asked at the moment", retryAfter: seconds)
        return Hub.finish(HubResponse(problem), at: environment.time.now().wall)
    }

    @Sendable static func problemBody(_ problem: HTTPProblem) -> [UInt8] {
        Problem(problem.code, status: problem.status, detail: problem.detail).json(prefix: Problem.hubPrefix).bytes
    }
}

extension HTTPAdmission {
    /// Answers without having read the body.
    fileprivate static func answering(_ response: HubResponse) -> HTTPAdmission {
        .stream(limit: Limits.hubRequestBytes) { $0.respond(response) }
    }
}

extension HTTPExchange {
    func respond(_ response: HubResponse) {
        respond(
            status: response.status, headers: response.headers.fields.map { ($0.name, $0.value) }, body: response.body)
    }
}

extension HubRequest {
    /// The head alone; only the fields that mean something here.
    init(_ head: RequestHead) {
        var headers: HTTPHeaders = [:]
        for name in HubRequest.headerNames {
            if let value = head.header(name) { headers[name] = value }
        }
        var subject: DeviceID?
        if case .remote(_, _, let name?) = head.peer { subject = DeviceID(name) }
        self.init(head.method.rawValue, head.target, headers: headers, certificateDevice: subject)
    }

    private static let headerNames = [
        "Authorization", "Accept-Encoding", "Content-Encoding", HubHeader.version, HubHeader.versionUnderscored,
        HubHeader.device, HubHeader.replica, HubHeader.session, HubHeader.config, HubHeader.epoch, HubHeader.waiting, "If-None-Match",
        "Content-Type", Tus.resumable, Tus.offset, Tus.length, Tus.metadata, Tus.checksum,
    ]
}
