import CSyncLinux
import Glibc

/// One datagram to a socket of this machine.
enum UnixDatagram {
    static let maxPath = 108

    /// - Parameters:
    ///   - address: A path, or a NUL and a name in the abstract namespace; shorter than ``maxPath``.
    ///   - wait: Longest wait for a full socket; `nil` for none.
    /// - Returns: The error when it was not sent; `nil` when it was.
    static func send(_ bytes: [UInt8], to address: [UInt8], wait: Duration? = nil) -> Errno? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return .current }
        defer { close(descriptor) }
        if let wait {
            var limit = timeval(tv_sec: Int(wait.components.seconds), tv_usec: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
        var target = sockaddr_un()
        target.sun_family = sa_family_t(AF_UNIX)
        // An abstract name ends with the given length, so a further NUL would be part of it. A path gets its NUL from the zeros.
        let length = MemoryLayout<sockaddr_un>.offset(of: \.sun_path).map { $0 + address.count } ?? 0
        withUnsafeMutableBytes(of: &target.sun_path) { $0.copyBytes(from: address.prefix(maxPath - 1)) }
        let flags = Int32(MSG_NOSIGNAL) | (wait == nil ? Int32(MSG_DONTWAIT) : 0)
        let sent = withUnsafePointer(to: &target) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bytes.withUnsafeBytes { sendto(descriptor, $0.baseAddress, $0.count, flags, address, socklen_t(length)) }
            }
        }
        return sent >= 0 ? nil : .current
    }
}
