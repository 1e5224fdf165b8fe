import Glibc
import SyncHTTP
import Testing

struct PeerTests {
    @Test("A local peer is who the kernel says, groups included")
    func local() async throws {
        let peers = Log<HTTPPeer>()
        try await withServer(admit: {
            peers.append($0.peer)
            return echo($0)
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = try client.answer()
            var groups = [gid_t](repeating: 0, count: 65_536)
            groups.removeLast(groups.count - Int(getgroups(Int32(groups.count), &groups)))
            guard case .local(let peer) = peers.entries.first else {
                Issue.record("not a local peer")
                return
            }
            #expect(peer.uid == geteuid())
            #expect(peer.gid == getegid())
            #expect(peer.pid == getpid())
            #expect(peer.groups.sorted() == groups.sorted())
        }
    }

    @Test("A remote peer has an address and a port, and the name that its TLS layer gives it")
    func remote() async throws {
        let peers = Log<HTTPPeer>()
        try await withServer(
            on: .tcp, configure: { $0.tlsSubject = { _ in "device-17" } },
            admit: {
                peers.append($0.peer)
                return echo($0)
            }
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = try client.answer()
            var address = sockaddr_in()
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutablePointer(to: &address) {
                _ = $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(client.descriptor, $0, &size) }
            }
            let port = Int(UInt16(bigEndian: address.sin_port))
            #expect(peers.entries == [.remote(address: "127.0.0.1", port: port, tlsSubject: "device-17")])
        }
    }
}
