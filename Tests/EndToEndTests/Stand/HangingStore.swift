import Foundation
import Glibc
import ProcessStand
import RepetitionOracle
import SyncCore
import Synchronization

/// An object store that takes requests and never comes to an end with any: it says nothing, or begins a list that has no end.
final class HangingStore: Sendable {
    enum Manner: String, Sendable, CaseIterable {
        /// The connection is made, and no byte ever comes.
        case silent = "says nothing"
        /// A page of a list begins, and no byte follows.
        case begun = "begins a page and stops"
        /// One entry of a page after the other, as fast as they are read.
        case endless = "sends a page without end"
        /// Whole pages, each of which says that there is another one.
        case paging = "has always another page"
    }

    let port: UInt16
    private let listener: Int32
    private let state: SharedState

    /// Outlives the store by the last request of a thread.
    private final class SharedState: Sendable {
        let seen = Mutex<(oracle: RepetitionOracle, targets: [String])>((RepetitionOracle(limits: WatchedServers.limits), []))

        func saw(_ line: String) -> Int {
            var now = timespec()
            clock_gettime(CLOCK_MONOTONIC, &now)
            return seen.withLock { seen in
                seen.oracle.saw(line, atSeconds: Int64(now.tv_sec))
                seen.targets.append(line)
                WatchedServers.complain(seen.oracle.complaints, of: "the object store")
                seen.oracle = seen.oracle.complaints.isEmpty ? seen.oracle : RepetitionOracle(limits: WatchedServers.limits)
                return seen.targets.count
            }
        }
    }

    init(_ manner: Manner) throws {
        let listening = FreePorts.socket()
        listener = listening
        state = SharedState()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                bind(listening, generic, size) == 0 && listen(listening, 64) == 0 && getsockname(listening, generic, &size) == 0
            }
        }
        guard result else { throw StandError("listen: \(String(cString: strerror(errno)))") }
        port = UInt16(bigEndian: address.sin_port)
        Thread { [listener, state] in
            while true {
                let client = accept(listener, nil, nil)
                if client < 0 { return }
                _ = fcntl(client, F_SETFD, FD_CLOEXEC)
                Thread {
                    Self.serve(client, manner, state)
                    close(client)
                }.start()
            }
        }.start()
    }

    deinit {
        // Wakes `accept` with an error; closing alone would not.
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    /// First lines of the requests so far.
    var requests: [String] { state.seen.withLock { $0.targets } }

    private static func serve(_ client: Int32, _ manner: Manner, _ state: SharedState) {
        while let line = readHead(client) {
            let number = state.saw(line)
            switch manner {
            case .silent: break
            case .begun: _ = send(head(length: 1_000) + "<ListBucketResult>", to: client)
            case .endless:
                guard send(head(length: nil) + "<ListBucketResult>", to: client) else { return }
                while send(entry(number), to: client) {}
                return
            case .paging:
                let page =
                    "<ListBucketResult><IsTruncated>true</IsTruncated>\(entry(number))"
                    + "<NextContinuationToken>t-\(number)</NextContinuationToken></ListBucketResult>"
                guard send(head(length: page.utf8.count) + page, to: client) else { return }
            }
        }
    }

    private static func entry(_ number: Int) -> String {
        "<Contents><Key>hub/partial/u-\(number)/1</Key><Size>1</Size><LastModified>2026-11-20T21:00:00.000Z</LastModified></Contents>"
    }

    private static func head(length: Int?) -> String {
        "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n" + (length.map { "Content-Length: \($0)\r\n" } ?? "Connection: close\r\n")
            + "\r\n"
    }

    /// - Returns: The first line of a request; `nil` when the client has had enough.
    private static func readHead(_ client: Int32) -> String? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = recv(client, &piece, piece.count, 0)
            guard count > 0 else { return nil }
            bytes += piece.prefix(count)
            let text = String(decoding: bytes, as: UTF8.self)
            if text.contains("\r\n\r\n") { return text.prefix { $0 != "\r\n" }.description }
        }
    }

    private static func send(_ text: String, to client: Int32) -> Bool {
        let bytes = Array(text.utf8)
        return Glibc.send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }
}
