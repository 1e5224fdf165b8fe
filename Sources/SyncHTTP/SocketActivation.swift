import CSyncLinux
import Glibc

extension HTTPEndpoint {
    /// The sockets that this process was started with.
    package static func activated() throws(HTTPServerError) -> [HTTPEndpoint] {
        let environment = ["LISTEN_PID", "LISTEN_FDS"].reduce(into: [String: String]()) { result, name in
            result[name] = getenv(name).map { String(cString: $0) }
        }
        return try activated(environment: environment, processID: getpid())
    }

    /// `true` when a client waits at an inherited socket for its connection to be accepted.
    package var isAsked: Bool {
        guard case .inherited(let descriptor) = self else { return false }
        var one = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&one, 1, 0) == 1
    }

    /// The same inherited socket under another descriptor, for a server that closes it at its end; any other endpoint unchanged.
    package func another() throws(HTTPServerError) -> HTTPEndpoint {
        guard case .inherited(let descriptor) = self else { return self }
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
        guard copy >= 0 else {
            throw HTTPServerError(.system, doing: "copy descriptor \(descriptor)", detail: String(cString: strerror(errno)))
        }
        return .inherited(descriptor: copy)
    }

    /// The sockets that systemd passed on (sd_listen_fds(3)): descriptors 3 and up, in the number of `LISTEN_FDS`, if `LISTEN_PID` is this
    /// process. Marks them close-on-exec.
    ///
    /// - Parameters:
    ///   - environment: The process environment.
    ///   - processID: Id of this process: variables inherited through a fork are meant for the parent.
    /// - Returns: Empty without activation.
    /// - Throws: `.notListening` for a descriptor that is no listening stream socket.
    package static func activated(
        environment: [String: String], processID: Int32
    ) throws(HTTPServerError) -> [HTTPEndpoint] {
        guard let pid = environment["LISTEN_PID"], Int32(pid) == processID,
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), count > 0
        else { return [] }
        // A larger number is a mistake in the unit; the limit bounds the loop.
        let first: Int32 = 3, most: Int32 = 64
        var endpoints: [HTTPEndpoint] = []
        for descriptor in first..<(first + min(count, most)) {
            try checkListening(descriptor)
            // It stays open either way; only a child process could notice the difference.
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            endpoints.append(.inherited(descriptor: descriptor))
        }
        return endpoints
    }

    static func checkListening(_ descriptor: Int32) throws(HTTPServerError) {
        guard sync_is_listening(descriptor) == 1 else {
            throw HTTPServerError(
                .notListening, doing: "take over descriptor \(descriptor)",
                detail: "it is not a listening stream socket (a .socket unit needs ListenStream= and Accept=no)")
        }
    }
}
