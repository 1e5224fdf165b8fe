import EdgeSync
import Foundation
import Testing

/// Reading and copying files that may have to come from the hub first, over connections that break.
@Suite("Files of the client for apps", .timeLimit(.minutes(10)))
struct FileContentTests {
    let time = TestTime()

    /// The file "abc".
    private static let name = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    private static let digest = "Repr-Digest: sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:\r\n"

    private static func whole(_ bytes: String = "abc") -> FakeAgent.Step {
        .answer("HTTP/1.1 200 OK\r\n\(digest)Content-Length: 3\r\n\r\n\(bytes)")
    }

    private static func fetching(_ members: String = "") -> FakeAgent.Step {
        .problem(503, "blob-fetching", members: #","blob":"b-7","offset":1,"size":3"# + members)
    }

    private func client(_ agent: FakeAgent, deadline: Duration = .seconds(30)) throws(EdgeSyncError) -> AgentClient {
        try AgentClient(socket: agent.path, deadline: deadline, policy: RetryPolicy(), environment: time.environment)
    }

    private func fails<Value>(
        _ call: () async throws(EdgeSyncError) -> Value
    ) async -> EdgeSyncError? {
        do {
            _ = try await call()
            return nil
        } catch { return error }
    }

    @Test("A wait is made of slices of whole seconds, and ends at its time")
    func slices() {
        var wait = FileWait(.seconds(70.5))
        #expect(wait.slice == 30)
        let first = wait.again(after: .seconds(30), asked: 30)
        #expect(first == .zero && wait.slice == 30)
        let second = wait.again(after: .seconds(30), asked: 30)
        #expect(second == .zero && wait.slice == 10)
        let third = wait.again(after: .seconds(10), asked: 10)
        #expect(third == .seconds(0.5) && wait.slice == 0)
        let last = wait.again(after: .zero, asked: 0)
        #expect(last == nil)
    }

    @Test("An agent that answers too early is asked once in a second")
    func early() {
        var wait = FileWait(.seconds(2))
        var pauses: [Duration] = []
        while let pause = wait.again(after: .zero, asked: wait.slice) { pauses.append(pause) }
        #expect(pauses == [.seconds(1), .seconds(1)])
    }

    @Test("A file that is on its way is an error at once with its progress, unless the call waits")
    func fetching() async throws {
        let agent = try FakeAgent([Self.fetching(#","reason":"metered""#), Self.fetching(), Self.whole()])
        let client = try client(agent)
        let error = await fails { () throws(EdgeSyncError) in try await client.bytes(of: "b-7") }
        #expect(error?.code == .blobFetching && error?.isTransient == true && error?.request == "GET /v1/blobs/b-7/content")
        #expect(error?.fileProgress == .init(id: "b-7", offset: 1, size: 3, reason: "metered"))
        #expect(time.pauses.isEmpty)
        #expect(try await client.bytes(of: "b-7", wait: .seconds(60)) == Array("abc".utf8))
        #expect(
            agent.requests.map { $0.line.components(separatedBy: " ")[1] } == [
                "/v1/blobs/b-7/content", "/v1/blobs/b-7/content?wait=30s", "/v1/blobs/b-7/content?wait=30s",
            ])
    }

    @Test("A file may leave the device and come again while it is read, and the agent may restart")
    func comesAgain() async throws {
        let part: FakeAgent.Step = .answer(
            "HTTP/1.1 206 Part\r\n\(Self.digest)Content-Range: bytes 2-2/3\r\nContent-Length: 1\r\n\r\nc")
        let agent = try FakeAgent([
            .close(reads: true), Self.fetching(), .answer("HTTP/1.1 200 OK\r\n\(Self.digest)Content-Length: 3\r\n\r\nab"),
            Self.fetching(), .close(reads: true), part,
        ])
        #expect(try await client(agent).bytes(of: Self.name, wait: .seconds(60)) == Array("abc".utf8))
        #expect(agent.requests.map { $0.fields["range"] } == [nil, nil, nil, "bytes=2-", "bytes=2-", "bytes=2-"])
    }

    @Test("A file is named by id, digest, placeholder or what the agent said of it, and another file is refused")
    func names() async throws {
        let placeholder = #"{"$blob":"\#(Self.name)","size":3,"type":"a/b","state":"uploaded"}"#
        let record =
            #"{"entity":"e","id":"r","version":1,"sync_status":"synced","deleted":false,"etag":"x","data":{"n":1,"photo":\#(placeholder),"#
            + #""more":[\#(placeholder),{"$blob":7},"x"]}}"#
        let stored =
            #"{"id":"b-7","digest":"\#(Self.name)","size":3,"type":"a/b","filename":"x","state":"fetched","direction":"down","offset":3,"#
            + #""attempts":0,"links":[],"verified":true,"kept":true,"pinned":true,"created_at":null,"done_at":null}"#
        let agent = try FakeAgent([.json(200, record), .json(200, stored)], otherwise: { _ in Self.whole() })
        let client = try client(agent)
        let read = try await client.record("e", "r")
        #expect(read.files().map(\.field) == ["photo", "more"] && read.files("photo").count == 1)
        let shown = try #require(read.files("photo").first)
        #expect(shown.digest == Self.name && shown.size == 3 && shown.type == "a/b" && shown.isUploaded)
        let file = try await client.file("b-7")
        #expect(file.isFromHub && file.isPinned)
        for bytes in [
            try await client.bytes(of: "b-7"), try await client.bytes(of: Self.name), try await client.bytes(of: shown),
            try await client.bytes(of: file),
        ] { #expect(bytes == Array("abc".utf8)) }
        #expect(agent.requests.suffix(3).allSatisfy { $0.line.contains("/v1/blobs/\(Self.name)/content") })

        let other = "sha256:" + String(repeating: "0", count: 64)
        #expect(await fails { () throws(EdgeSyncError) in try await client.bytes(of: other) }?.kind == .badAnswer)
        let count = agent.requests.count
        for bad in ["", "sha256:", other + "0", other.replacingOccurrences(of: "0", with: "A")] {
            #expect(await fails { () throws(EdgeSyncError) in try await client.bytes(of: bad) }?.kind == .invalidArgument)
            #expect(await fails { () throws(EdgeSyncError) in try await client.fetchFile(bad) }?.kind == .invalidArgument)
        }
        #expect(agent.requests.count == count)
    }

    @Test("A copy appears whole under its name, and a failed one leaves what was there and no part")
    func saves() async throws {
        let folder = "/tmp/edgesync-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let agent = try FakeAgent([Self.whole("abd"), .problem(409, "blob-not-fetched"), Self.whole(), Self.whole(), Self.whole()])
        let client = try client(agent)
        let path = "\(folder)/photo.jpg"
        try "old".write(toFile: path, atomically: false, encoding: .utf8)
        #expect(await fails { () throws(EdgeSyncError) in try await client.saveFile("b-7", to: path) }?.code == .digestMismatch)
        #expect(await fails { () throws(EdgeSyncError) in try await client.saveFile("b-7", to: path) }?.code == .blobNotFetched)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
        #expect(try await client.saveFile("b-7", to: path) == 3)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "abc")
        for bad in ["\(path)/below", folder, "/nowhere/x", ""] {
            #expect(await fails { () throws(EdgeSyncError) in try await client.saveFile("b-7", to: bad) }?.kind == .localFile)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["photo.jpg"])
    }

    @Test("A copy goes into a descriptor that the app has opened")
    func copies() async throws {
        let agent = try FakeAgent([Self.whole()])
        let pipe = Pipe()
        #expect(try await client(agent).copyFile("b-7", into: pipe.fileHandleForWriting.fileDescriptor) == 3)
        try pipe.fileHandleForWriting.close()
        #expect(try pipe.fileHandleForReading.readToEnd() == Data("abc".utf8))
    }

    @Test("A file in memory has at most as many bytes as the caller says")
    func bounded() async throws {
        let agent = try FakeAgent([Self.whole()])
        #expect(await fails { () throws(EdgeSyncError) in try await client(agent).bytes(of: "b-7", max: 2) }?.code == .tooLarge)
    }

    @Test("To fetch and to pin are requests without a body, which may be repeated")
    func commands() async throws {
        let stored =
            #"{"id":"b-7","digest":"\#(Self.name)","size":3,"type":"a/b","filename":"x","state":"fetching","direction":"down","offset":0,"#
            + #""attempts":0,"links":[],"verified":false,"kept":false,"created_at":null,"done_at":null}"#
        let agent = try FakeAgent([.close(reads: true)], otherwise: { _ in .json(202, stored) })
        let client = try client(agent)
        let fetched = try await client.fetchFile(Self.name)
        let pinned = try await client.pinFile("b-7")
        let unpinned = try await client.unpinFile(fetched)
        #expect([fetched, pinned, unpinned].allSatisfy { $0.state == "fetching" && $0.isFromHub && !$0.isPinned })
        #expect(
            agent.requests.map(\.line)
                == ["\(Self.name)/fetch", "\(Self.name)/fetch", "b-7/pin", "\(Self.name)/unpin"].map {
                    "POST /v1/blobs/\($0) HTTP/1.1"
                })
        #expect(agent.requests.allSatisfy { $0.body.isEmpty && $0.fields["content-length"] == "0" })
    }
}
