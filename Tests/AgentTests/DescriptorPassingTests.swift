import Agent
import CSyncLinux
import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import SyncLinux
import Testing

/// Descriptors that come with requests to the agent, on each of its routes.
struct DescriptorPassingTests {
    /// One request of each method on each path, most of them refused: what counts is what stays open.
    private static let requests: [String] = {
        let paths = [
            "/v1/healthz", "/v1/readyz", "/v1/status", "/v1/metrics", "/v1/entities", "/v1/links", "/v1/links/eth0", "/v1/power",
            "/v1/config", "/v1/config/check", "/v1/config/reload", "/v1/records/audits", "/v1/records/audits/a-1", "/v1/query",
            "/v1/mutations", "/v1/mutations/bulk", "/v1/mutations/m-1", "/v1/mutations/m-1/retry", "/v1/mutations/m-1/discard",
            "/v1/rejected/m-1", "/v1/conflicts", "/v1/conflicts/c-1", "/v1/conflicts/c-1/resolve", "/v1/usage", "/v1/audit",
            "/v1/checklist", "/v1/diagnostics/bundle", "/v1/why/m-1", "/v1/plan", "/v1/sync", "/v1/pause", "/v1/resume", "/v1/blobs",
            "/v1/blobs/b-1", "/v1/blobs/b-1/content", "/v1/blobs/b-1/retry", "/v1/nothing", "/", "*",
        ]
        return paths.flatMap { path in
            ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"].map {
                "\($0) \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            }
        }
    }()

    @Test("On every route, with 1, 2 and 253 descriptors attached, none is left when the connection is closed", arguments: [1, 2, 253])
    func everyRoute(count: Int) async throws {
        let stand = try await AgentStand.start()
        let file = try MarkedFile(in: stand.folder)
        for request in Self.requests {
            let connection = try RawConnection(stand.socket)
            try connection.send(request, with: count, of: file.descriptor)
            #expect(connection.rest().hasPrefix("HTTP/1.1 "), "\(request)")
        }
        // A stream of events does not end by itself.
        let events = try RawConnection(stand.socket)
        try events.send("GET /v1/events HTTP/1.1\r\nHost: a\r\n\r\n", with: count, of: file.descriptor)
        #expect(try events.receive().starts(with: "HTTP/1.1 200".utf8))
        try await stand.untilQuiet()
        #expect(try file.othersOpen() == 0)
        try await stand.stop()
    }

    @Test("Without a role nothing stays open either")
    func noRole() async throws {
        let stand = try await AgentStand.start("access: [ { user: \"4000000\", role: read } ]\n")
        let file = try MarkedFile(in: stand.folder)
        for request in Self.requests {
            let connection = try RawConnection(stand.socket)
            try connection.send(request, with: 3, of: file.descriptor)
            _ = connection.rest()
        }
        try await stand.untilQuiet()
        #expect(try file.othersOpen() == 0)
        try await stand.stop()
    }

    private static let add =
        "POST /v1/blobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\nBlob-Source: fd\r\nContent-Length: 0\r\n\r\n"

    @Test("A file is handed over by exactly one descriptor; two are refused by their number, and all are closed")
    func handedOver() async throws {
        let folder = try AgentStand.makeFolder()
        let stand = try await AgentStand.start(in: folder) { $0.blobs = BlobFiles(at: folder + "/blobs") }
        let file = try MarkedFile(in: stand.folder)
        #expect(write(file.descriptor, "photo", 5) == 5)
        for (count, status, words) in [
            (1, "201", "\"b-1\""), (2, "400", "2 descriptors"), (253, "400", "253 descriptors"), (0, "400", "no descriptor"),
        ] {
            let connection = try RawConnection(stand.socket)
            try connection.send(Self.add, with: count, of: file.descriptor)
            let answer = connection.rest()
            #expect(answer.hasPrefix("HTTP/1.1 \(status) ") && answer.contains(words), "\(answer)")
        }
        try await stand.untilQuiet()
        #expect(try file.othersOpen() == 0)
        try await stand.stop()
    }

    @Test("A descriptor that cannot be read is the caller's mistake, and the answer says why")
    func unreadable() async throws {
        let folder = try AgentStand.makeFolder()
        let stand = try await AgentStand.start(in: folder) { $0.blobs = BlobFiles(at: folder + "/blobs") }
        let path = stand.folder + "/photo"
        #expect(FileManager.default.createFile(atPath: path, contents: Data("photo".utf8)))
        let pathOnly: Int32 = 0o10000000  // O_PATH, open(2)
        for (flags, words) in [
            (pathOnly, "not open for reading"), (O_WRONLY, "not open for reading"), (O_RDONLY | O_DIRECTORY, "no regular file"),
        ] {
            let descriptor = open(flags & O_DIRECTORY == 0 ? path : stand.folder, flags | O_CLOEXEC)
            #expect(descriptor >= 0)
            let connection = try RawConnection(stand.socket)
            try connection.send(Self.add, with: 1, of: descriptor)
            close(descriptor)
            let answer = connection.rest()
            #expect(answer.hasPrefix("HTTP/1.1 422 ") && answer.contains(words), "\(answer)")
        }
        try await stand.stop()
    }
}
