package import SyncCore
import Synchronization

/// Sends the engine's questions to an existing backend (PROTOCOL A13): it adds address and credentials, and runs at most two requests at a
/// time. ``RestExchange`` and ``RestListing`` choose the requests and interpret the answers.
package final class RestClient: Sendable {
    package struct Settings: Sendable {
        package var mapping: RestMapping
        package var tls: TLSIdentity
        package var proxy: HTTPProxy?
        package var userAgent: String

        package init(mapping: RestMapping, tls: TLSIdentity, proxy: HTTPProxy? = nil, userAgent: String) {
            self.mapping = mapping
            self.tls = tls
            self.proxy = proxy
            self.userAgent = userAgent
        }
    }

    /// Reads a secret again for each request, because it may be replaced at run time. The error never contains a byte of it.
    package typealias SecretReader = @Sendable (_ file: String) throws -> String

    /// Stores a request that is about to leave. `false`: it must not leave.
    typealias Keeper = @Sendable (RestAttempt, MutationKey) async -> Bool

    private let transport: any HTTPTransport
    private let time: any TimeSource
    private let secret: SecretReader
    private let settings: Mutex<Settings>

    package init(settings: Settings, transport: any HTTPTransport, time: any TimeSource, secret: @escaping SecretReader) {
        self.settings = Mutex(settings)
        self.transport = transport
        self.time = time
        self.secret = secret
    }

    package func use(_ settings: Settings) {
        self.settings.withLock { $0 = settings }
    }

    func answer(_ question: RestQuestion, over uplink: Uplink?, keep: @escaping Keeper) async -> RestReply {
        let settings = settings.withLock { $0 }
        switch question {
        case .push(let batch): return await push(batch.mutations, settings, over: uplink, keep: keep)
        case .pull(let streams): return await pull(streams, settings, over: uplink)
        }
    }

    /// The smallest request there is: whether the backend answers. It shows no credentials.
    package func look(over uplink: Uplink?) async -> Result<HTTPResponse, TransportError> {
        let settings = settings.withLock { $0 }
        var deadlines = HTTPRequest.Deadlines()
        (deadlines.connect, deadlines.total) = (.seconds(3), .seconds(5))
        var request = HTTPRequest(
            .get, settings.mapping.baseURL + settings.mapping.probe, headers: ["User-Agent": settings.userAgent],
            tls: settings.tls, proxy: settings.proxy, deadlines: deadlines, maxResponseBytes: 64 << 10)
        request.interface = uplink?.boundInterface
        return await transport.answer(to: request)
    }

    /// `true` if the backend itself answers, by the rule of reachability (``ProbeClient``): otherwise the state could be online
    /// while the breaker stays open.
    package func probe(over uplink: Uplink?) async -> (isGood: Bool, traffic: Traffic) {
        let result = await look(over: uplink)
        let mapping = settings.withLock { $0.mapping }
        let rule = ProbeClient(backend: mapping.baseURL + mapping.probe, tls: TLSIdentity())
        guard case .good = rule.outcome(of: result, nonce: "") else { return (false, result.traffic) }
        return (true, result.traffic)
    }

    // MARK: Pushing

    private struct End: Sendable {
        var index: Int
        var verdict: RestResult.Verdict?
        var refusal: HubReply.Refusal?
        var notes = Notes()
    }

    /// Further facts of the requests.
    private struct Notes: Sendable {
        var traffic = Traffic()
        var wasAnswered = false
        var certificateEndsAt: Timestamp?

        mutating func add(_ result: Result<HTTPResponse, TransportError>) {
            traffic.add(result.traffic)
            guard case .success(let response) = result else { return }
            wasAnswered = true
            certificateEndsAt = response.certificateEndsAt ?? certificateEndsAt
        }

        mutating func add(_ other: Notes) {
            traffic.add(other.traffic)
            wasAnswered = wasAnswered || other.wasAnswered
            certificateEndsAt = other.certificateEndsAt ?? certificateEndsAt
        }
    }

    private func push(
        _ mutations: [OutgoingMutation], _ settings: Settings, over uplink: Uplink?, keep: @escaping Keeper
    ) async -> RestReply {
        var ends: [End] = []
        var rest = Array(mutations.enumerated())[...]
        await withTaskGroup(of: End.self) { group in
            for (index, mutation) in rest.prefix(Limits.restParallel) {
                group.addTask { await self.exchange(mutation, index, settings, over: uplink, keep: keep) }
            }
            rest = rest.dropFirst(Limits.restParallel)
            while let end = await group.next() {
                ends.append(end)
                // The number of claimed mutations is at most as large; if it is larger, the rest stays in flight when no server answers.
                guard end.refusal == nil, let (index, mutation) = rest.popFirst() else { continue }
                group.addTask { await self.exchange(mutation, index, settings, over: uplink, keep: keep) }
            }
        }
        ends.sort { $0.index < $1.index }
        var reply = RestReply.pushed(ends.map { (mutations[$0.index].key, $0.verdict, $0.refusal) })
        var notes = Notes()
        for end in ends { notes.add(end.notes) }
        reply.record(notes.traffic, wasAnswered: notes.wasAnswered, certificateEndsAt: notes.certificateEndsAt)
        return reply
    }

    private func exchange(
        _ mutation: OutgoingMutation, _ index: Int, _ settings: Settings, over uplink: Uplink?, keep: Keeper
    ) async -> End {
        var exchange = RestExchange(mutation, settings.mapping)
        var step = exchange.begin()
        var end = End(index: index)
        while true {
            switch step {
            case .request(let request):
                let result = await carry(request, settings, over: uplink)
                end.notes.add(result)
                step = exchange.answered(result, now: time.now().wall)
            case .keep(let attempt): step = exchange.kept(await keep(attempt, mutation.key))
            case .end(let verdict, let refusal):
                (end.verdict, end.refusal) = (verdict, refusal)
                return end
            }
        }
    }

    // MARK: Pulling

    private enum Page: Sendable {
        case page(StreamPage)
        case error(StreamError)
        case refused(HubReply.Refusal)
    }

    private func pull(_ streams: [StreamPosition], _ settings: Settings, over uplink: Uplink?) async -> RestReply {
        var response = PullResponse(epoch: nil, head: 0, pages: [])
        var refusal: HubReply.Refusal?
        var notes = Notes()
        var rest = streams[...]
        while refusal == nil, !rest.isEmpty {
            let now = Array(rest.prefix(Limits.restParallel))
            rest = rest.dropFirst(now.count)
            await withTaskGroup(of: (Int, Page, Notes).self) { group in
                for (index, stream) in now.enumerated() {
                    group.addTask {
                        let (page, notes) = await self.page(of: stream, settings, over: uplink)
                        return (index, page, notes)
                    }
                }
                var pages: [(index: Int, page: Page)] = []
                while let (index, page, told) = await group.next() {
                    notes.add(told)
                    pages.append((index, page))
                }
                for (_, page) in pages.sorted(by: { $0.index < $1.index }) {
                    switch page {
                    case .page(let page): response.pages.append(page)
                    case .error(let error): response.errors.append(error)
                    case .refused(let found): refusal = refusal ?? found
                    }
                }
            }
        }
        var reply = RestReply(.pulled(response), refusal: refusal)
        reply.record(notes.traffic, wasAnswered: notes.wasAnswered, certificateEndsAt: notes.certificateEndsAt)
        return reply
    }

    private func page(of stream: StreamPosition, _ settings: Settings, over uplink: Uplink?) async -> (Page, Notes) {
        var notes = Notes()
        func failed(_ detail: String, status: Int = 0) -> Page {
            .error(StreamError(entity: stream.entity, problem: Problem("list", status: status, detail: Printable.text(detail))))
        }
        let cursor = RestCursor(stream.cursor)
        guard let entity = settings.mapping.entities[stream.entity], let list = entity.list else {
            return (failed("rest.entities.\(stream.entity) has no list"), notes)
        }
        guard let request = RestListing.request(list, cursor, now: time.now().wall) else {
            return (failed("the place of the next page is not one of this server: \(cursor.next ?? "")", status: 410), notes)
        }
        let result = await carry(request, settings, over: uplink)
        notes.add(result)
        let now = time.now().wall
        switch result {
        case .failure(let error): return (.refused(HubReply.Refusal(.transport(error.code), error.description)), notes)
        case .success(let response):
            guard (200...299).contains(response.status) else {
                let problem = RestAnswer.problem(response)
                if let refusal = RestExchange.refusal(after: response, problem, now) { return (.refused(refusal), notes) }
                // "Gone" for a list that is read from its beginning is no reason to begin again.
                let isGone = response.status == 410 && stream.cursor == nil
                return (failed(problem.detail, status: isGone ? 404 : response.status), notes)
            }
            do throws(ReplyError) {
                return (.page(try RestListing.read(response, stream.entity, entity, list, after: cursor, now: now)), notes)
            } catch {
                return (failed("the answer to the list is not as mapped: \(error)"), notes)
            }
        }
    }

    // MARK: Transfer

    private func carry(
        _ request: RestRequest, _ settings: Settings, over uplink: Uplink?
    ) async -> Result<HTTPResponse, TransportError> {
        var headers: HTTPHeaders = ["Accept": "application/json", "User-Agent": settings.userAgent]
        for (name, value) in settings.mapping.headers.sorted(by: { $0.key < $1.key }) {
            if let file = value.file {
                do {
                    headers[name] = value.prefix + (try secret(file))
                } catch {
                    return .failure(TransportError(.credentials, doing: "ask the backend", detail: "\(error)"))
                }
            } else {
                headers[name] = value.text
            }
        }
        for field in request.headers.fields { headers[field.name] = field.value }
        var carried = HTTPRequest(
            request.method, settings.mapping.baseURL + request.target, headers: headers,
            body: request.body.map { .bytes($0) } ?? .none, tls: settings.tls, proxy: settings.proxy,
            maxResponseBytes: Limits.hubResponseBytes, maxInflateRatio: Limits.inflateRatio, acceptsGzip: true,
            keepsConnection: request.isRepeatable)
        carried.interface = uplink?.boundInterface
        carried.bytesPerSecond = uplink?.bytesPerSecond
        return await transport.answer(to: carried)
    }
}

extension RestReply {
    fileprivate mutating func record(_ traffic: Traffic, wasAnswered: Bool, certificateEndsAt: Timestamp?) {
        self.traffic = traffic
        self.wasAnswered = wasAnswered
        self.certificateEndsAt = certificateEndsAt
    }
}
