/// The reason why a server could not start. A retry helps only after the cause in `detail` was changed, except for ``Code/addressInUse``.
package struct HTTPServerError: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Code: String, Sendable, CaseIterable {
        /// Another process answers at the address.
        case addressInUse
        /// The file at the path is no socket (but a regular file, symbolic link, directory, …).
        case notASocket
        /// The socket file belongs to another user.
        case foreignSocket
        /// The directory of the socket does not exist, or another user could replace its content.
        case badDirectory
        /// Empty, longer than 107 bytes, or with a NUL.
        case badPath
        /// The name has no address.
        case unresolved
        /// The inherited descriptor is not a listening stream socket.
        case notListening
        /// The kernel refused; `detail` has its words.
        case system
    }

    package var code: Code
    /// The step, such as `listen on /run/agentd/agent.sock`.
    package var doing: String
    package var detail: String

    init(_ code: Code, doing: String, detail: String) {
        self.code = code
        self.doing = doing
        self.detail = detail
    }

    package var description: String { "\(doing): \(detail)" }
}
