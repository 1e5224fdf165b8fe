import BenchKit
import Glibc
import SyncCore

/// A connection to a hub on the loopback interface that waits for each answer, and the requests that a measurement writes to it.
enum FleetSocket {
    static func connect(_ port: UInt16) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, size) }
        }
        guard descriptor >= 0, result == 0 else { throw BenchError("a connection to the hub cannot be made (errno \(errno))") }
        return descriptor
    }

    /// A POST with the headers that every device sends.
    ///
    /// - Parameter more: Further header lines, each with its end.
    static func request(_ path: String, of device: String, more: String = "", _ body: String) -> [UInt8] {
        Array(
            """
            POST \(path) HTTP/1.1\r\nHost: hub\r\nSync-Version: 1\r\nSync-Device: \(device)\r\nSync-Replica: r-\(device)\r\n\
            Sync-Can: revocations\r\n\(more)\
            Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)
            """.utf8)
    }

    static func send(_ bytes: [UInt8], over descriptor: Int32) throws {
        guard Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            throw BenchError("the hub closed a connection (errno \(errno))")
        }
    }

    /// The body of the next answer, which must have that status.
    static func receive(_ descriptor: Int32, status: Int = 200) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw BenchError("the hub closed a connection before its answer") }
            bytes += buffer[..<count]
            guard let answer = FleetAnswer(bytes) else { continue }
            guard answer.status == status else {
                throw BenchError("the hub answered \(answer.status): \(String(decoding: bytes[answer.body].prefix(300), as: UTF8.self))")
            }
            return Array(bytes[answer.body])
        }
    }

    /// The streams of a pull's answer; one without news may be left out.
    static func streams(in body: [UInt8]) throws -> [JSON] {
        // An unreadable answer is thrown as an error below.
        guard let streams = (try? JSONReader.read(body))?.object?["streams"]?.array else {
            throw BenchError("the answer to a pull does not read: \(String(decoding: body.prefix(300), as: UTF8.self))")
        }
        return streams
    }

    /// The only stream of a pull's answer.
    static func stream(in body: [UInt8]) throws -> JSONObject {
        guard let stream = try streams(in: body).first?.object else {
            throw BenchError("a pull brought no page: \(String(decoding: body.prefix(300), as: UTF8.self))")
        }
        return stream
    }

    static func cursor(in body: [UInt8]) throws -> String {
        guard let cursor = try stream(in: body)["cursor"]?.text else { throw BenchError("a pull brought no cursor") }
        return cursor
    }
}
