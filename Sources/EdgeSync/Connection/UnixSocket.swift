import Glibc
import Synchronization

/// A connection to a Unix socket. One thread reads and writes it; any thread may interrupt it.
final class UnixSocket: Sendable {
    private struct State {
        /// -1 before it is opened and after it is closed.
        var descriptor: Int32 = -1
        var isInterrupted = false
    }

    private let state = Mutex(State())

    deinit {
        close()
    }

    /// Connects. A Unix socket accepts at once or not at all, so there is nothing to wait for.
    func open(_ path: String) throws(EdgeSyncError) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { throw UnixSocket.failure(errno, path) }
        let result = withUnsafePointer(to: address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else {
            let error = errno
            _ = Glibc.close(descriptor)
            throw UnixSocket.failure(error, path)
        }
        let isInterrupted = state.withLock { state in
            state.descriptor = descriptor
            return state.isInterrupted
        }
        if isInterrupted { throw .cancelled }
    }

    /// Lets each present and later wait end. The connection is of no use any more.
    func interrupt() {
        state.withLock { state in
            state.isInterrupted = true
            // The lock keeps the number from being closed, and reused for another file, before this call.
            if state.descriptor >= 0 { _ = shutdown(state.descriptor, Int32(SHUT_RDWR)) }
        }
    }

    var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

    func close() {
        state.withLock { state in
            if state.descriptor >= 0 { _ = Glibc.close(state.descriptor) }
            state.descriptor = -1
        }
    }

    // MARK: For the thread of the connection

    enum Moved {
        case bytes(Int)
        case nothing
        case end
        case failure(String)
    }

    /// Writes what the kernel accepts now.
    func write(_ bytes: ArraySlice<UInt8>) -> Moved {
        moved(bytes.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) })
    }

    /// Reads what is there.
    func read(into buffer: inout [UInt8]) -> Moved {
        let result = moved(buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) })
        if case .bytes(0) = result { return .end }
        return result
    }

    /// Waits until the socket can be read, or written where that is wanted, and at most this time.
    func wait(writing: Bool, _ time: Duration) {
        var request = pollfd(fd: descriptor, events: Int16(writing ? POLLIN | POLLOUT : POLLIN), revents: 0)
        let milliseconds = time.components.seconds * 1000 + time.components.attoseconds / 1_000_000_000_000_000
        // One more, because poll(2) must not return before the time is over. The upper limit is some hours.
        _ = poll(&request, 1, Int32(clamping: min(max(0, milliseconds) + 1, 10_000_000)))
    }

    private var descriptor: Int32 { state.withLock { $0.descriptor } }

    private func moved(_ count: Int) -> Moved {
        if count >= 0 { return .bytes(count) }
        switch errno {
        case EAGAIN, EINTR: return .nothing
        case let error: return .failure(String(cString: strerror(error)))
        }
    }

    private static func failure(_ error: Int32, _ path: String) -> EdgeSyncError {
        switch error {
        case ENOENT, ENOTDIR: .unreachable("there is no socket at \(path)", code: .noSocket)
        case EACCES, EPERM: .notPermitted("this user may not open the socket \(path)")
        case ECONNREFUSED: .unreachable("no agent listens at the socket \(path)")
        default: .unreachable("the socket \(path) accepts no connection: \(String(cString: strerror(error)))")
        }
    }
}

extension UnixSocket {
    static let defaultPath = "/run/agentd/agent.sock"

    /// The given path, or the value of `AGENTD_SOCKET`, or ``defaultPath``.
    static func path(_ given: String?) throws(EdgeSyncError) -> String {
        var path = given ?? getenv("AGENTD_SOCKET").map { String(cString: $0) } ?? defaultPath
        if given == nil, path.isEmpty { path = defaultPath }
        guard (1...Limits.socketPathBytes).contains(path.utf8.count), !path.utf8.contains(0) else {
            throw .invalidArgument("the path of a socket has 1 to \(Limits.socketPathBytes) bytes: \(path)")
        }
        return path
    }
}

extension Duration {
    /// Time of a clock that never jumps.
    static func monotonicNow() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
    }
}
