import CSyncLinux
import Foundation
import Glibc
import Synchronization

/// The service manager's side of sd_notify(3): a datagram socket where a program says that it is ready.
///
/// A thread takes in what comes, also while no test waits for it, as the service manager does: a full socket would hold up the
/// program.
final class ReadinessSocket: Sendable {
    let path: String
    private let descriptor: Int32
    private let heard = Heard()

    init(path: String) throws {
        self.path = path
        unlink(path)
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let result = UnixAddress.with(path) { bind(descriptor, $0, $1) }
        guard descriptor >= 0, result == 0 else {
            let error = StandError("bind \(path): \(String(cString: strerror(errno)))")
            close(descriptor)
            throw error
        }
        // Ends the wait for a program that neither gets ready nor ends.
        var patience = timeval(tv_sec: 300, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let thread = Thread { [descriptor, heard] in heard.takeIn(from: descriptor) }
        thread.start()
    }

    deinit {
        // Wakes the thread, which closes the descriptor.
        shutdown(descriptor, Int32(SHUT_RDWR))
        unlink(path)
    }

    /// Waits for `READY=1`, or for the end of the program.
    func ready(_ child: Child) async throws {
        try await hear("READY=1", child)
    }

    /// Waits for that line, which may have come already after the one that was last waited for, or for the end of the program.
    func hear(_ wanted: String, _ child: Child) async throws {
        child.onEnd { [heard] _ in heard.giveUp() }
        guard await heard.line(wanted) else { throw StandError("the program did not say \(wanted)") }
    }

    /// The lines that came and that no test has waited for yet.
    private final class Heard: Sendable {
        private struct State {
            var lines: [String] = []
            var waiting: (line: String, continuation: CheckedContinuation<Bool, Never>)?
            /// Nothing more will come.
            var isOver = false
        }

        private let state = Mutex(State())
        private static let linesMax = 10_000

        /// Waits for that line. Lines before it are forgotten.
        func line(_ wanted: String) async -> Bool {
            await withCheckedContinuation { continuation in
                let came: Bool? = state.withLock { state in
                    if let index = state.lines.firstIndex(of: wanted) {
                        state.lines.removeFirst(index + 1)
                        return true
                    }
                    state.lines = []
                    if state.isOver { return false }
                    precondition(state.waiting == nil, "two tests wait at one socket")
                    state.waiting = (wanted, continuation)
                    return nil
                }
                if let came { continuation.resume(returning: came) }
            }
        }

        func giveUp() {
            let waiting = state.withLock { state in
                state.isOver = true
                defer { state.waiting = nil }
                return state.waiting
            }
            waiting?.continuation.resume(returning: false)
        }

        func takeIn(from descriptor: Int32) {
            defer { close(descriptor) }
            var buffer = [UInt8](repeating: 0, count: 4_096)
            while true {
                let count = recv(descriptor, &buffer, buffer.count, 0)
                if count == 0 { return giveUp() }
                if count < 0 {
                    if errno == EINTR { continue }
                    // Silence for as long as the patience lasts ends a wait only.
                    if errno == EAGAIN, state.withLock({ $0.waiting == nil }) { continue }
                    return giveUp()
                }
                add(String(decoding: buffer.prefix(count), as: UTF8.self).split(separator: "\n").map(String.init))
            }
        }

        private func add(_ lines: [String]) {
            let waiting: CheckedContinuation<Bool, Never>? = state.withLock { state in
                guard let waiting = state.waiting, let index = lines.firstIndex(of: waiting.line) else {
                    if state.waiting == nil, state.lines.count < Self.linesMax { state.lines += lines }
                    return nil
                }
                state.waiting = nil
                state.lines = Array(lines[(index + 1)...])
                return waiting.continuation
            }
            waiting?.resume(returning: true)
        }
    }
}

enum UnixAddress {
    /// - Precondition: `path` has at most 107 bytes (unix(7)).
    static func with<Result>(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        precondition(bytes.count < MemoryLayout.size(ofValue: address.sun_path), "\(path) is too long for a socket")
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
