import ExampleKit
import SyncCore
import SyncStore

/// Runs worked examples with the store of an agent whose server is an existing backend: one that knows whole documents, versions of them
/// and `If-Match`. Changes of other devices are in the backend before this one sends.
struct ExampleBackend {
    /// The device that comes last is the agent; what the other one does just happens to the backend.
    static func failures(of example: WorkedExample, _ order: WorkedExample.Order) throws -> [String] {
        guard let last = example.devices(order).last else { return [] }
        let agent = try RestDevice(last, example)
        let own = example.steps(order).filter { $0.device == last }
        if own.first?.seen != .nothing { try agent.list() }
        for step in own where step.seen != .all { try agent.ask(step) }
        for step in example.steps(order) {
            if step.device != last {
                if step.answerIfFirst.isAccepted { agent.backend.change(try step.content.placed(under: example.rules)) }
                continue
            }
            if step.seen == .all {
                try agent.list()
                try agent.ask(step)
            }
            try agent.send()
        }
        try agent.list()
        try agent.send()
        return try agent.differences(from: example, order)
    }
}

/// A record of a backend.
private final class Backend {
    private(set) var document: JSONObject?
    private var version = 1
    var etag: String { "\"v\(version)\"" }

    init(_ document: JSONObject?) { self.document = document }

    /// The document as the backend shows it.
    var shown: JSONObject? {
        document.map { document in
            var shown = document
            shown["id"] = .string(RestDevice.id.text)
            return shown
        }
    }

    func change(_ content: MutationContent) {
        document = Fold.apply(content, to: document)
        version += 1
    }

    func answer(_ request: RestRequest) throws -> HTTPResponse {
        func response(_ status: Int, _ body: JSON? = nil) -> HTTPResponse {
            var headers: HTTPHeaders = ["Content-Type": "application/json"]
            headers["ETag"] = etag
            return HTTPResponse(status: status, headers: headers, body: body?.bytes ?? [])
        }
        func sent() throws -> JSONObject? {
            var object = try JSONReader.read(request.body ?? []).object
            object?["id"] = nil
            object?["ref"] = nil
            return object
        }
        if request.method == .get, request.target.hasPrefix("/e?") {
            let found = shown.map { (document: JSONObject) -> JSON in
                var found = document
                found["ref"] = .string(RestDevice.id.text)
                return .object(found)
            }
            return response(200, .array(found.map { [$0] } ?? []))
        }
        if request.method == .post {
            if document != nil { return response(409) }
            document = try sent()
            version += 1
            return response(201, .object(["id": .string(RestDevice.id.text)]))
        }
        guard let shown else { return response(404) }
        if request.method == .get { return response(200, .object(shown)) }
        if let condition = request.headers["If-Match"], condition != etag { return response(412) }
        document = request.method == .delete ? nil : try sent()
        version += 1
        return response(request.method == .delete ? 204 : 200, .object([:]))
    }
}

private final class RestDevice {
    static let entity = EntityName(trusted: "e")
    static let id = WorkedExample.record
    let backend: Backend
    private let name: String
    private let store: Store
    private let mapping: RestMapping
    private var now: Moment
    private let app = Requester(app: AppName(trusted: "app"), uid: 1_000)
    private var asked: [(step: WorkedExample.Step, answer: Result<Enqueued, StoreError>)] = []
    private var problems: [String] = []

    init(_ name: String, _ example: WorkedExample) throws {
        self.name = name
        backend = Backend(example.start)
        mapping = try Self.mapping()
        let dawn = RFC3339.timestamp("2026-11-20T06:00:00Z") ?? Timestamp(milliseconds: 0)
        now = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: dawn)
        var options = StoreOptions(
            device: DeviceID(trusted: name), bootID: "boot", rules: RuleBook([Self.entity: example.rules]), seed: 1)
        options.rest = mapping
        store = try Store(try Database.inMemory(), options, at: now)
    }

    private static func mapping() throws -> RestMapping {
        func path(_ text: String) throws -> PathTemplate { try PathTemplate(text) ?? { throw ExampleError("no path \(text)") }() }
        var entity = RestEntity()
        entity.clientID = "ref"
        entity.create = .init(method: .post, path: try path("/e"), body: .document, ok: [201])
        entity.create?.id = AnswerSource("$.id")
        entity.update = .init(method: .put, path: try path("/e/{server_id}"), body: .document, ok: [200])
        entity.update?.version = AnswerSource("header:ETag")
        entity.update?.ifMatch = true
        entity.delete = .init(method: .delete, path: try path("/e/{server_id}"), body: .none, ok: [204])
        entity.delete?.ifMatch = true
        entity.read = .init(path: try path("/e/{server_id}"))
        entity.read?.version = AnswerSource("header:ETag")
        entity.lookup = .init(path: try path("/e?ref={id}"))
        entity.list = .init(path: try path("/e"), items: .whole)
        var mapping = RestMapping()
        mapping.idempotency = .init()
        mapping.entities = [Self.entity: entity]
        return mapping
    }

    private func wait(until wall: Timestamp) {
        let rest = max(now.wall.duration(to: wall), .seconds(30))
        now = Moment(instant: now.instant.advanced(by: rest), wall: now.wall.advanced(by: rest))
    }

    /// Reads the backend's list.
    func list() throws {
        wait(until: now.wall)
        var page = StreamPage(entity: Self.entity, cursor: "{}", hasMore: false, records: [], deletions: [])
        if let shown = backend.shown {
            let mark = RestMark(serverID: .string(Self.id.text), etag: backend.etag)
            var record = StreamPage.Record(id: mark.plainID, record: HubRecord(version: 0, data: shown))
            record.mark = mark
            page.records.append(record)
        }
        _ = try store.applyPull(PullResponse(epoch: nil, head: 0, pages: [page]), at: now)
    }

    func ask(_ step: WorkedExample.Step) throws {
        wait(until: step.at)
        let mutation = step.mutation(of: Self.entity)
        do throws(StoreError) {
            asked.append((step, .success(try store.enqueue([mutation], by: app, at: now)[0])))
        } catch {
            guard error.problem != nil else { throw error }
            asked.append((step, .failure(error)))
        }
    }

    /// Sends until nothing waits any more.
    func send() throws {
        for _ in 0..<20 {
            wait(until: now.wall)
            let batch = try store.claim(BatchLimits(mutations: 50, bytes: 1 << 20), at: now)
            guard let mutation = batch?.mutations.first else { return }
            var exchange = RestExchange(mutation, mapping)
            var step = exchange.begin()
            steps: while true {
                switch step {
                case .keep(let attempt): step = exchange.kept(try store.keepAttempt(attempt, of: mutation.key, at: now))
                case .request(let request): step = exchange.answered(.success(try backend.answer(request)), now: now.wall)
                case .end(let verdict, _):
                    guard let verdict else {
                        problems.append("the outcome of a change is not known")
                        return
                    }
                    _ = try store.applyRest([RestResult(mutation.key, verdict)], next: nil, at: now)
                    break steps
                }
            }
        }
        problems.append("\(name) sends without end")
    }

    func differences(from example: WorkedExample, _ order: WorkedExample.Order) throws -> [String] {
        var differences = problems
        let weaker = example.weaker?.documents[name]
        let wanted = weaker.map { $0.object } ?? example.outcome(order).document
        let document = backend.document?.withoutMarks
        if document != wanted {
            differences.append("the backend's record is \(document?.json ?? "gone"), expected \(wanted?.json ?? "none") with \(name) last")
        }
        let view = try store.reads.record(RecordName(Self.entity, Self.id))?.view.flatMap { text -> JSONObject? in
            var view = try JSONReader.read(text).object
            view?["id"] = nil
            view?["ref"] = nil
            return view?.withoutMarks
        }
        let hasConflict = try store.reads.openConflicts() > 0
        if view != document, !hasConflict {
            differences.append("\(name) shows \(view?.json ?? "nothing"), the backend has \(document?.json ?? "nothing")")
        }
        if weaker != nil { return differences }
        for (number, one) in asked.enumerated() {
            let wanted = example.answer(to: one.step, order)
            let found = try word(of: one.answer)
            let expected =
                switch wanted.verdict {
                case .accepted: "accepted"
                case .conflict: "conflict"
                case .rejected(let code, _): "rejected \(code)"
                case .ended(let state): state
                }
            if found != expected { differences.append("change \(number + 1) of \(name) ends as \(found), expected \(expected)") }
        }
        return differences
    }

    private func word(of answer: Result<Enqueued, StoreError>) throws -> String {
        guard case .success(let enqueued) = answer else {
            guard case .failure(let error) = answer else { return "" }
            return "rejected \(error.problem?.code ?? "")"
        }
        let mutation = try store.reads.mutation(enqueued.key, at: now)
        switch mutation?.presentState {
        case .done, .superseded, .cancelled: return "accepted"
        case .conflicted: return "conflict"
        case .rejected: return "rejected \(mutation?.problem?.code ?? "")"
        case let state: return state?.name ?? "gone"
        }
    }
}
