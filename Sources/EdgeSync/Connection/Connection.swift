/// One connection with its thread. It is closed when this object is gone.
final class Connection: Sendable {
    private let thread: SocketThread
    private let socket = UnixSocket()

    init() throws(EdgeSyncError) {
        thread = try SocketThread()
    }

    deinit {
        // The thread may still be in a call whose task is gone.
        socket.interrupt()
    }

    /// Connects, and begins an exchange.
    ///
    /// - Parameter end: Time of the monotonic clock at which the exchange fails; `nil` if it may take any time.
    func begin(_ request: Request, at path: String, end: Duration?) async -> Result<Exchange, EdgeSyncError> {
        await perform { [socket] () throws(EdgeSyncError) in
            try socket.open(path)
            return try Exchange(request, socket, end: end)
        }
    }

    /// Performs a call that may block on the thread of the connection. The cancellation of the task interrupts it.
    func perform<Value: Sendable>(
        _ call: @escaping @Sendable () throws(EdgeSyncError) -> Value
    ) async -> Result<Value, EdgeSyncError> {
        let result = await withTaskCancellationHandler {
            await thread.run(call)
        } onCancel: {
            socket.interrupt()
        }
        if case .failure = result, socket.isInterrupted { return .failure(.cancelled) }
        return result
    }
}
