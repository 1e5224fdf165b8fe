import CSyncLinux
import Glibc
import SyncCore

/// A connection that says exactly the bytes it is told to. Its calls block: the agent's loop has a thread of its own. The receive
/// timeout only turns a hang into a failure.
final class RawConnection: Sendable {
    struct Failure: Error {
        var what: String
    }

    private let descriptor: Int32

    init(_ path: String) throws {
        descriptor = sync_unix_connect(path)
        guard descriptor >= 0 else { throw Failure(what: "connect \(errno)") }
        var time = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        close(descriptor)
    }

    /// Sends all of it, with `count` copies of a descriptor attached to the first byte.
    func send(_ text: String, with count: Int = 0, of attached: Int32 = -1) throws {
        let bytes = Array(text.utf8)
        if count > 0 {
            let descriptors = [Int32](repeating: attached, count: count)
            guard sync_send_descriptors(descriptor, bytes, bytes.count, descriptors, Int32(count)) == 0 else {
                throw Failure(what: "send with descriptors \(errno)")
            }
            return
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            let taken = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard taken > 0 else { throw Failure(what: "send \(errno)") }
            rest = rest.dropFirst(taken)
        }
    }

    /// Sends as much of it as the kernel takes now.
    ///
    /// - Returns: The number of bytes that the kernel took.
    func sendNow(_ bytes: ArraySlice<UInt8>) -> Int {
        var rest = bytes
        while !rest.isEmpty {
            let taken = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
            }
            guard taken > 0 else { break }
            rest = rest.dropFirst(taken)
        }
        return bytes.count - rest.count
    }

    func endSending() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Some bytes of the answer; none at its end.
    func receive() throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        let count = buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
        guard count >= 0 else { throw Failure(what: "receive \(errno)") }
        return Array(buffer.prefix(count))
    }

    /// All that comes until the agent closes the connection.
    func rest() -> String {
        var bytes: [UInt8] = []
        while let more = try? receive(), !more.isEmpty { bytes += more }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension AgentStand {
    /// Waits until the agent has served everything that was asked before: its loop and its store have each had a turn.
    func untilQuiet() async throws {
        for _ in 0..<3 { _ = try await send(.get, "/v1/status") }
    }
}
