import NIOCore
import SyncCore
import SyncHTTP

/// The hub's address for monitoring (`--metrics`): the figures of all devices together, apart from the port of the devices.
///
/// It speaks plain HTTP and asks for no credential, as other exporters of figures do. So it belongs on a loopback address, or in a network
/// that only monitoring reaches.
final class MetricsHandler: HTTPHandler {
    private let worker: HubWorker
    private let environment: HubService.Environment

    /// Largest number of connections. The one that has been silent longest is closed for a further one.
    static let connectionsMax = 8

    private init(_ worker: HubWorker, _ environment: HubService.Environment) {
        (self.worker, self.environment) = (worker, environment)
    }

    /// The server at the address.
    struct Listening: Sendable {
        private let server: HTTPServer

        fileprivate init(_ server: HTTPServer) { self.server = server }

        /// With the port that the kernel chose if it was left open.
        var address: String { server.address.description }

        func stop(within grace: Duration) async { await server.stop(within: grace) }
    }

    /// - Returns: `nil` when the hub has no such address.
    /// - Throws: When it cannot be listened on. An operator who has asked for figures would miss them only when they are needed.
    static func listen(
        at place: HubService.Options.Address?, _ worker: HubWorker, on group: any EventLoopGroup,
        _ environment: HubService.Environment
    ) async throws(HTTPServerError) -> Listening? {
        guard let place else { return nil }
        var configuration = HTTPServerConfiguration(
            endpoint: .tcp(host: place.host, port: place.port), problemBody: HubHandler.problemBody)
        configuration.limits.connections = connectionsMax
        configuration.refused = { [figures = worker.figures] problem, _ in figures.countRefusal(problem.code) }
        return Listening(
            try await HTTPServer.start(configuration, on: group, handler: MetricsHandler(worker, environment)))
    }

    // MARK: Requests

    private enum Page: String {
        case alive = "/healthz"
        case ready = "/readyz"
        case figures = "/metrics"
    }

    func admit(_ head: RequestHead) -> HTTPAdmission {
        let request = HubRequest(head)
        guard let page = Page(rawValue: request.path) else {
            return .refuse(Hub.notFound)
        }
        guard request.method == "GET" else {
            return .refuse(Hub.wrongMethod, allowing: "GET")
        }
        return .stream(limit: 0) { [self] exchange in
            switch page {
            case .alive:
                let response = Hub.finish(Hub.alive, at: environment.time.now().wall)
                worker.traffic.count(request, response)
                exchange.respond(response)
            case .ready: worker.view(.asked(.readyz, isGet: true)) { exchange.respond($0) }
            case .figures: worker.view(.figures) { exchange.respond($0) }
            }
        }
    }
}
