import CSyncLinux
import Glibc

extension HTTPEndpoint {
    /// The sockets that systemd handed over (sd_listen_fds(3)): descriptors 3 and up, as many as `LISTEN_FDS` says, if
    /// `LISTEN_PID` is this process. Marks them close-on-exec.
    ///
    /// - Parameters:
    ///   - environment: The process environment.
    ///   - processID: Of this process: variables inherited through a fork are meant for the parent.
    /// - Returns: Empty without activation.
    /// - Throws: `.notListening` for a descriptor that is no listening stream socket.
    package static func activated(
        environment: [String: String], processID: Int32
    ) throws(HTTPServerError) -> [HTTPEndpoint] {
        guard let pid = environment["LISTEN_PID"], Int32(pid) == processID,
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), count > 0
        else { return [] }
        // More than this is a mistake in the unit, and a number to count to.
        let first: Int32 = 3, most: Int32 = 64
        var endpoints: [HTTPEndpoint] = []
        for descriptor in first..<(first + min(count, most)) {
            try checkListening(descriptor)
            // It stays open either way; only a child process could tell the difference.
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
