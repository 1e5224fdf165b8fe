import Glibc

/// An error of Linux, or an unexpected fact about the system. One type serves files, directories, threads, signals and the service
/// manager's socket. (Transfers have ``TransportError``.)
package struct LinuxError: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Code: String, Sendable, CaseIterable {
        /// The file or directory does not exist.
        case missing
        /// The file or directory exists already.
        case exists
        /// This user lacks the permission.
        case denied
        /// The file system is mounted read-only, from the start or after an error.
        case readOnly
        /// No bytes or inodes are left, or the quota or the file size limit is reached.
        case full
        /// No descriptor, memory or thread is available at the moment.
        case exhausted
        /// A symbolic link, directory, device or socket where something else was expected.
        case wrongKind
        case wrongOwner
        /// The mode lets other users read a secret, or write where only this user may.
        case exposed
        case empty
        case tooLarge
        /// The content has the wrong form.
        case malformed
        /// Another process holds it.
        case inUse
        /// This file system does not store data as safely as the agent needs it.
        case unsuitable
        /// The new content is in place, but it is not known whether it would survive a power loss.
        case notDurable
        /// Any other error; `errno` has the number.
        case failed
    }

    package var code: Code
    /// The step, for the operator, for example `rename after fsync`.
    package var doing: String
    /// The file, directory or socket; `nil` where there is none.
    package var path: String?
    /// The right state, for example `mode 0600, owned by user 990`.
    package var expected: String?
    /// The kernel's number; `nil` when the agent itself refused.
    package var errno: Int32?

    package init(_ code: Code, doing: String, path: String? = nil, expected: String? = nil, errno: Int32? = nil) {
        self.code = code
        self.doing = doing
        self.path = path
        self.expected = expected
        self.errno = errno
    }

    /// `true` when the same call can succeed later without a change to the file or system by an operator. ``Code/failed`` is `false`: a
    /// disk that reports an error is not asked again (an `fsync` that failed once never becomes true).
    package var isRetryable: Bool {
        switch code {
        case .full, .exhausted, .inUse, .readOnly: true
        case .missing, .exists, .denied, .wrongKind, .wrongOwner, .exposed, .empty, .tooLarge, .malformed, .unsuitable,
            .notDurable, .failed:
            false
        }
    }

    package var description: String {
        var text = doing
        if let path { text += " \(path)" }
        text += ": " + (errno.map { Errno(number: $0).description } ?? code.words)
        if let expected { text += "; expected \(expected)" }
        return text
    }
}

/// The number that a system call left in `errno`.
package struct Errno: Error, Sendable, Hashable, CustomStringConvertible {
    package var number: Int32

    package init(number: Int32) {
        self.number = number
    }

    /// `errno` of this thread. Read it right after the call that failed.
    static var current: Errno { Errno(number: errno) }

    package var description: String {
        "\(String(cString: strerror(number))) (errno \(number))"
    }

    var code: LinuxError.Code {
        switch number {
        case ENOENT, ENOTDIR: .missing
        case EEXIST, ENOTEMPTY: .exists
        case EACCES, EPERM: .denied
        case EROFS: .readOnly
        case ENOSPC, EDQUOT, EFBIG: .full
        case EMFILE, ENFILE, ENOMEM, EAGAIN, ENOBUFS: .exhausted
        case ELOOP, EISDIR, ENXIO: .wrongKind
        default: .failed
        }
    }
}

extension LinuxError.Code {
    fileprivate var words: String {
        switch self {
        case .missing: "it is not there"
        case .exists: "it is there already"
        case .denied: "not allowed"
        case .readOnly: "read-only"
        case .full: "no space left"
        case .exhausted: "out of resources"
        case .wrongKind: "it is of another kind"
        case .wrongOwner: "it belongs to another user"
        case .exposed: "it is open to other users"
        case .empty: "it is empty"
        case .tooLarge: "it is too large"
        case .malformed: "it has unusable content"
        case .inUse: "it is in use"
        case .unsuitable: "it is on an unsuitable file system"
        case .notDurable: "it is not known to be on disk"
        case .failed: "failed"
        }
    }
}
