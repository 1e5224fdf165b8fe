import Foundation
import Glibc

/// The service manager's side of sd_notify(3): a datagram socket where a program says that it is ready.
final class ReadinessSocket: Sendable {
    let path: String
    private let descriptor: Int32

    init(path: String) throws {
        self.path = path
        unlink(path)
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let result = UnixAddress.with(path) { bind(descriptor, $0, $1) }
        // Ends the wait for a program that neither gets ready nor ends.
        var patience = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        guard descriptor >= 0, result == 0 else {
            throw StandError("bind \(path): \(String(cString: strerror(errno)))")
        }
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    /// Waits for `READY=1`, or for the end of the program.
    func ready(_ child: Child) async throws {
        try await hear("READY=1", child)
    }

    /// Waits for that line, or for the end of the program.
    func hear(_ wanted: String, _ child: Child) async throws {
        let (path, descriptor) = (path, descriptor)
        // The end of the program comes in as a message like any other, so that one wait serves both.
        child.onEnd { _ in
            let sender = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
            let message = Array("ENDED=1".utf8)
            _ = UnixAddress.with(path) { sendto(sender, message, message.count, 0, $0, $1) }
            close(sender)
        }
        let isReady = await withCheckedContinuation { continuation in
            let thread = Thread {
                var buffer = [UInt8](repeating: 0, count: 4_096)
                while true {
                    let count = recv(descriptor, &buffer, buffer.count, 0)
                    let lines = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self).split(separator: "\n")
                    if lines.contains(Substring(wanted)) { return continuation.resume(returning: true) }
                    if count < 0 && errno != EINTR || lines.contains("ENDED=1") {
                        return continuation.resume(returning: false)
                    }
                }
            }
            thread.start()
        }
        guard isReady else { throw StandError("the program did not say \(wanted)") }
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
