import Agent
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP
import SyncLinux
import SyncThreads

/// Answers apps while there is no usable configuration (``ConfigurationStandby``), and checks for one.
///
/// The socket belongs to the service manager: it stays open, and the next start takes it over.
struct StandbyServer {
    enum End {
        /// The service manager or a person requested the stop.
        case stopped
        case configured
        case outOfPatience
    }

    private let standby: ConfigurationStandby
    private let socket: HTTPEndpoint
    private let notifier: ReadinessNotifier?

    /// Interval between checks of the files.
    private static let pace: Duration = .seconds(1)

    init(_ standby: ConfigurationStandby, on socket: HTTPEndpoint, _ notifier: ReadinessNotifier?) {
        (self.standby, self.socket, self.notifier) = (standby, socket, notifier)
    }

    /// - Parameter isConfigured: Returns whether there is a usable configuration by now.
    func run(until isConfigured: () -> Bool) throws -> End {
        let ended = Promise<Void>()
        let signals = try SignalSource { signal in
            switch signal {
            case .terminate, .interrupt: ended.fulfil()
            // The files are checked all the time.
            case .hangUp: break
            }
        }
        defer { signals.close() }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        // The loop has no work left.
        defer { try? group.syncShutdownGracefully() }
        let executor = LoopExecutor(group.next())
        var configuration = HTTPServerConfiguration(endpoint: try socket.another(), problemBody: HTTPProblem.localBody)
        configuration.limits = .localAPI
        let handler = RefusingHandler(problem: HTTPProblem(standby.problem))
        let server = try executor.wait { [configuration] in try await HTTPServer.start(configuration, on: group, handler: handler) }
        defer { executor.wait { await server.stop(within: .seconds(1)) } }
        say(.status(standby.problem.detail))
        if standby.isStarted { say(.ready) }
        let clocks = SystemClocks()
        let began = clocks.now().instant
        while ended.wait(atMost: Self.pace) == nil {
            if isConfigured() { return .configured }
            if let patience = standby.patience, began.duration(to: clocks.now().instant) >= patience { return .outOfPatience }
            if notifier?.watchdogTimeout != nil { say(.watchdog) }
        }
        return .stopped
    }

    private func say(_ message: ReadinessNotifier.Message) {
        // A service manager that does not listen does not prevent the answers.
        try? notifier?.send(message)
    }
}

/// Refuses all requests with the same problem.
private struct RefusingHandler: HTTPHandler {
    let problem: HTTPProblem

    func admit(_ request: RequestHead) -> HTTPAdmission { .refuse(problem) }
}
