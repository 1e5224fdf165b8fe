import Glibc
import Logging
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP

/// The hub's own socket, for the commands of an operator on this machine. They work through the hub that serves, because only one process
/// may write an SQLite file.
///
/// Only root and the hub's own user are served, by the credentials that the kernel knows. Both may read and write the database anyway, so
/// they need no token. The socket is for commands of the same release, and no part of the contract; only `/metrics` is for people as well.
final class OperatorHandler: HTTPHandler {
    private let worker: HubWorker
    private let log: Logger
    private let owner = geteuid()

    /// Largest set of records that is published as a whole, bytes. It is in memory as text, and ``PublishedLines`` reads it in slices.
    static let setBytesMax = 128 << 20

    init(_ worker: HubWorker, _ log: Logger) {
        (self.worker, self.log) = (worker, log)
    }

    /// The server of the socket, and the keeper of its file.
    struct Listening: Sendable {
        let server: HTTPServer
        let keeper: SocketFileKeeper

        func stop(within grace: Duration) async {
            await keeper.stop()
            await server.stop(within: grace)
        }
    }

    /// Without the socket the hub serves all the same: devices do not need it.
    ///
    /// - Returns: `nil` after it has written to the log why there is no socket.
    static func listen(
        at path: String?, _ worker: HubWorker, on group: any EventLoopGroup, _ log: Logger
    ) async -> Listening? {
        guard let path else { return nil }
        let mode: UInt16 = 0o600
        var configuration = HTTPServerConfiguration(
            endpoint: .unix(path: path, mode: mode), problemBody: HubHandler.problemBody)
        configuration.limits.connections = 8
        configuration.limits.connectionsKeptForRoot = 4
        // A command reads its file between two requests.
        configuration.limits.bodyIdleTime = .seconds(120)
        configuration.limits.idleTime = .seconds(300)
        do throws(HTTPServerError) {
            let server = try await HTTPServer.start(configuration, on: group, handler: OperatorHandler(worker, log))
            let keeper = SocketFileKeeper(server, mode: mode, group: nil, on: LoopExecutor(group.next())) { report($0, to: log) }
            // All resources of the hub are open when it says that it listens.
            await keeper.begin()
            return Listening(server: server, keeper: keeper)
        } catch {
            log.warning(
                "the socket for operators cannot be opened, so agenthub publish and entities apply work only while no hub runs",
                metadata: ["error": "\(error)", "hint": "\(hint(for: error))"])
            return nil
        }
    }

    private static func report(_ news: SocketFileKeeper.News, to log: Logger) {
        switch news {
        case .isBack(let address):
            log.warning(
                "the file of the operators' socket was removed while the hub was listening on it, and was created again",
                metadata: ["path": "\(address)", "hint": "find out what removes files there"])
        case .isGone(let address, let error):
            log.error(
                "the file of the operators' socket is gone and cannot be created again; the hub retries every 30 seconds",
                metadata: ["path": "\(address)", "error": "\(error)", "hint": "\(hint(for: error))"])
        }
    }

    private static func hint(for error: HTTPServerError) -> String {
        switch error.code {
        case .badPath: "choose a folder with a shorter path"
        case .addressInUse, .notASocket, .foreignSocket: "remove the file, and start the hub again"
        case .badDirectory: "the folder must belong to the hub's user, and no other user may write there"
        case .unresolved, .notListening, .system: "start the hub again"
        }
    }

    // MARK: Requests

    private enum Endpoint: String, CaseIterable {
        case status = "/v1/operator/status"
        case publish = "/v1/operator/publish"
        case entities = "/v1/operator/entities"
        case figures = "/metrics"

        var method: String {
            switch self {
            case .status, .figures: "GET"
            case .publish, .entities: "POST"
            }
        }

        /// Largest body, bytes.
        var bytesMax: Int {
            switch self {
            case .status, .figures: 0
            case .publish: OperatorHandler.setBytesMax
            // A file of entities has at most 1 MB, which escapes make longer.
            case .entities: 8 << 20
            }
        }
    }

    func admit(_ head: RequestHead) -> HTTPAdmission {
        guard case .local(let peer) = head.peer, peer.uid == 0 || peer.uid == owner else {
            return .refuse(status: 403, code: "forbidden", detail: "this socket is for root and for the hub's own user")
        }
        let request = HubRequest(head)
        guard let endpoint = Endpoint(rawValue: request.path) else {
            return .refuse(Hub.notFound)
        }
        guard endpoint.method == request.method else {
            return .refuse(Hub.wrongMethod)
        }
        return .collect(limit: endpoint.bytesMax) { [self] exchange, body in
            var whole = request
            whole.body = body
            switch endpoint {
            case .status: exchange.respond(HubResponse(json: JSON.object(["version": .string(ProductVersion.text)]).bytes))
            case .publish: publish(whole, exchange)
            case .entities: applyEntities(whole, exchange)
            case .figures: worker.view(.figures) { exchange.respond($0) }
            }
            log.debug("operator", metadata: ["path": "\(request.path)", "uid": "\(peer.uid)", "pid": "\(peer.pid)"])
        }
    }

    private func answer(_ exchange: HTTPExchange, _ work: @escaping @Sendable (Hub, Timestamp) -> HubResponse) {
        worker.operate(work) { exchange.respond($0) }
    }

    private func publish(_ request: HubRequest, _ exchange: HTTPExchange) {
        guard let entity = request.query["entity"].flatMap({ EntityName($0) }),
            let first = request.query["line"].map({ Int($0) }) ?? 1, (1...Int(Int32.max)).contains(first)
        else {
            return exchange.respond(
                HubResponse(Problem("malformed", status: 400, detail: "expected entity, and the number of the first line")))
        }
        let lines = PublishedLines(request.body, firstLine: first)
        answer(exchange) { hub, now in
            do throws(Hub.PublishFailure) {
                let published = try hub.publish(lines, to: entity, at: now)
                let object: JSONObject = [
                    "published": .int(Int64(published.count)), "unshared": .int(Int64(published.unshared)), "head": .int(published.head),
                ]
                return HubResponse(json: JSON.object(object).bytes)
            } catch {
                return OperatorHandler.refusal(error)
            }
        }
    }

    private static func refusal(_ failure: Hub.PublishFailure) -> HubResponse {
        switch failure {
        case .line(let fault):
            HubResponse(
                Problem("validation", status: 422, detail: fault.detail, members: ["line": .int(Int64(fault.line))]))
        case .hub(let error): refusal(error)
        }
    }

    // MARK: Entities

    private func applyEntities(_ request: HubRequest, _ exchange: HTTPExchange) {
        // A body that is no JSON has none of the members.
        let body = (try? JSONReader.read(request.body))?.object ?? [:]
        guard let text = body["text"]?.text, let name = body["name"]?.text, let by = body["by"]?.text else {
            return exchange.respond(HubResponse(Problem("malformed", status: 400, detail: "expected text, name and by")))
        }
        let (over, drops) = (body["over"]?.int, body["drop_scopes"]?.bool ?? false)
        answer(exchange) { [log] hub, now in
            do throws(EntityFailure) {
                let outcome = try hub.apply(EntityText(text, of: name, by: by, at: now), over: over, droppingScopes: drops)
                outcome.write(to: log)
                return HubResponse(json: JSON.object(outcome.json).bytes)
            } catch {
                return OperatorHandler.refusal(error)
            }
        }
    }

    private static func refusal(_ failure: EntityFailure) -> HubResponse {
        switch failure {
        case .settings(let fault): HubResponse(Problem("validation", status: 422, detail: fault.detail))
        case .superseded(let number):
            HubResponse(
                Problem(
                    "validation", status: 409, detail: EntityFailure.superseded(detail: number), members: ["generation": .int(number)]))
        case .hub(let error): refusal(error)
        }
    }

    /// An operator gets the cause, which devices do not.
    private static func refusal(_ error: HubError) -> HubResponse {
        HubResponse(Problem("maintenance", status: 503, detail: error.description))
    }
}
