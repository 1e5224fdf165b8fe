import Foundation
import Glibc
import SyncLinux

/// The socket that systemd listens on.
final class DatagramSocket {
    let name: String
    private let descriptor: Int32

    init(_ name: String) throws {
        self.name = name
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = name.hasPrefix("@") ? [0] + Array(name.utf8.dropFirst()) : Array(name.utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let result = withUnsafeBytes(of: &address) { buffer in
            bind(descriptor, buffer.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(2 + bytes.count))
        }
        guard result == 0 else { throw Errno(number: errno) }
    }

    deinit {
        close(descriptor)
    }

    func receive() -> String {
        var room = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &room, room.count, 0)
        return String(decoding: room.prefix(max(0, count)), as: UTF8.self)
    }
}
