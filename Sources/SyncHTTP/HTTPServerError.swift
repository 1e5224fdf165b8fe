/// Why a server could not start. Trying again helps only after what `detail` says was changed, except for
/// ``Code/addressInUse``.
package struct HTTPServerError: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Code: String, Sendable, CaseIterable {
        /// Somebody answers there.
        case addressInUse
        /// What is at the path is no socket (regular file, symbolic link, directory, …).
        case notASocket
        /// The socket file belongs to another user.
        case foreignSocket
        /// The directory of the socket does not exist, or somebody else could replace what is in it.
        case badDirectory
        /// Empty, longer than 107 bytes, or with a NUL.
        case badPath
        /// The name has no address.
        case unresolved
        /// The inherited descriptor is not a listening stream socket.
        case notListening
        /// The kernel said no; `detail` has its words.
        case system
    }

    package var code: Code
    /// What was being done: `listen on /run/agentd/agent.sock`.
    package var doing: String
    package var detail: String

    package init(_ code: Code, doing: String, detail: String) {
        self.code = code
        self.doing = doing
        self.detail = detail
    }

    package var description: String { "\(doing): \(detail)" }
}
