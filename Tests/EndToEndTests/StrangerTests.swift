import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// Unknown callers, and callers that take more than their part, beside a known one: with the real programs at their own limits.
    @Suite("Strangers at the real programs")
    struct StrangerTests {
        /// Ten times the connections that a hub has at one time. `EDGE_SYNC_STRANGERS` sets another number.
        private static let count = ProcessInfo.processInfo.environment["EDGE_SYNC_STRANGERS"].flatMap { Int($0) } ?? 10_240

        @Test(
            "10,240 strangers at the hub, and the agent's changes get through meanwhile, each once",
            arguments: [
                "", "GET /healthz HTTP/1.1\r\nHost: hub\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
                "POST /v1/devices/enroll HTTP/1.1\r\nHost: hub\r\nSync-Version: 1\r\nContent-Length: 4000\r\n\r\n{",
                "GET /metrics HTTP/1.1\r\nHost: hub\r\n\r\n",
            ])
        func hub(_ bytes: String) async throws {
            try await Stand.with(entities: Stand.standardEntities) { stand in
                let crowd = try Crowd(room: Self.count)
                for round in 1...10 {
                    try crowd.come(Self.count / 10, to: Int(await stand.hubPort), saying: bytes)
                    let body = #"{"entity":"readings","action":"create","data":{"n":\#(round)}}"#
                    #expect(try await stand.client.enqueue(body: Array(body.utf8)).status == 201)
                    #expect(try await stand.sync() == "ok")
                    #expect(try await stand.hubApplied() == Int64(round))
                    // On a kept connection this caller is a stranger that has been silent for long, which the hub may close at any time.
                    #expect(try await stand.hub(.get, "/readyz", isFresh: true).status == 200)
                }
                let page = String(decoding: try await stand.hub(.get, "/metrics", isFresh: true).body, as: UTF8.self)
                #expect(
                    page.contains("agenthub_overloaded_total{by=\"all\"} 0\n") && page.contains("agenthub_connections_refused_total 0\n"))
                // They give back their resources before the stand counts those of the hub.
                crowd.leave()
                while try await unknown(stand) > 8 { await Pause.short() }
            }
        }

        /// Connections that the hub has open with callers that it does not know, the one that asks included.
        private func unknown(_ stand: Stand) async throws -> Int {
            let name = "agenthub_connections{caller=\"unknown\"} "
            let page = String(decoding: try await stand.hub(.get, "/metrics", isFresh: true).body, as: UTF8.self)
            let line = try #require(page.split(separator: "\n").first { $0.hasPrefix(name) })
            return try #require(Int(line.dropFirst(name.utf8.count)))
        }

        @Test(
            "Eight users that open as many event streams as they can leave root and every other user an answer",
            .enabled(if: geteuid() == 0 && Programs.canActAsOthers, "only root can act as several users, with setpriv and curl"))
        func eventStreams() async throws {
            try await Stand.with(entities: Stand.standardEntities, hub: false, agent: false) { stand in
                let users = (2_001...2_008).map { $0 }
                let rules = users.map { "  - { user: \"\($0)\", role: read }\n" }.joined()
                await stand.configure(
                    """
                    hub: { url: "http://127.0.0.1:9", device: stand }
                    socket: { path: "\(stand.socketPath)", mode: "0666" }
                    access:
                      - { user: "0", role: admin, rate: 100000 }
                    \(rules)store: { path: "\(stand.folder)/agent" }
                    entities:
                    \(stand.entities)

                    """)
                chmod(stand.folder, 0o755)
                try await stand.startAgent()
                var readers: [Child] = []
                for user in users {
                    let urls = Array(repeating: "http://localhost/v1/events", count: 8)
                    readers.append(
                        try Child(
                            Programs.acting(as: user) + [
                                "/usr/bin/curl", "-sN", "-Z", "--parallel-immediate", "--parallel-max", "8", "--unix-socket",
                                stand.socketPath,
                            ]
                                + urls, log: "\(stand.folder)/readers.log"))
                }
                func streams() async throws -> String {
                    // Refused, this is an answer, too: it has no such line.
                    let answer = try await stand.transport.send(
                        HTTPRequest(.get, "http://localhost/v1/metrics", socketPath: stand.socketPath))
                    return String(decoding: answer.body, as: UTF8.self).split(separator: "\n").first {
                        $0.hasPrefix("agentd_event_streams ")
                    }.map { String($0.dropFirst(21)) } ?? "no answer"
                }
                // Four of each of the eight users; a fifth is refused. Without that limit the 64 streams refuse this very question.
                while try await streams() != "32" {
                    let isAlive = readers.allSatisfy(\.isRunning)
                    try #require(isAlive, "a reader ended")
                    await Pause.short()
                }
                #expect(try await stand.agentctl("status").status != 69)
                let health = [
                    "/usr/bin/curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", stand.socketPath,
                    "http://localhost/v1/healthz",
                ]
                // (One of the eight has no connection left: its own eight are its own affair.)
                for user in [2_009, 0] {
                    let answer = try await Child.run(Programs.acting(as: user) + health, in: stand.folder)
                    #expect(answer.text == "200", "user \(user)")
                }
                for reader in readers { await reader.stop(SIGKILL) }
            }
        }
    }
}

extension Programs {
    fileprivate static var canActAsOthers: Bool {
        ["/usr/bin/setpriv", "/usr/bin/curl"].allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }
    }

    fileprivate static func acting(as user: Int) -> [String] {
        ["/usr/bin/setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups"]
    }
}

/// TCP connections from many addresses of the loopback that say a few bytes and then nothing.
private final class Crowd {
    private var descriptors: [Int32] = []

    /// - Throws: When this process may not open so many files.
    init(room: Int) throws {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw StandError("getrlimit \(errno)") }
        let wanted = UInt(room + 512)
        guard limit.rlim_max >= wanted else {
            throw StandError("this needs \(wanted) open files (ulimit -Hn), or fewer EDGE_SYNC_STRANGERS")
        }
        limit.rlim_cur = max(limit.rlim_cur, wanted)
        guard setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw StandError("setrlimit \(errno)") }
    }

    deinit {
        leave()
    }

    func leave() {
        for descriptor in descriptors { close(descriptor) }
        descriptors = []
    }

    func come(_ count: Int, to port: Int, saying text: String) throws {
        let bytes = Array(text.utf8)
        for _ in 0..<count {
            let descriptor = FreePorts.socket()
            guard descriptor >= 0 else { throw StandError("socket \(errno)") }
            descriptors.append(descriptor)
            var own = sockaddr_in()
            own.sin_family = sa_family_t(AF_INET)
            // 127.0.9.1 to 127.0.9.20
            own.sin_addr.s_addr = (0x7F00_0901 + UInt32(descriptors.count % 20)).bigEndian
            var other = sockaddr_in()
            other.sin_family = sa_family_t(AF_INET)
            other.sin_port = in_port_t(port).bigEndian
            other.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            func call(_ address: inout sockaddr_in, _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Bool {
                withUnsafePointer(to: &address) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        body(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                    }
                }
            }
            guard call(&own, bind), call(&other, connect) else { throw StandError("connect \(errno)") }
            // It may be closed already: that is the hub's right.
            _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        }
    }
}
