import Agent
import LocalAPI
import SyncCore
import SyncLinux
import Testing

/// Files that go to the hub, with a whole agent and its socket.
@Suite("Files go up, with a whole agent in front of them")
struct FilesUpTests {
    private static let text = "a picture of a pump"
    private static let digest = BlobDigest(bytes: SHA256.hash(Array(text.utf8)))!

    /// An agent whose hub says that it has the file.
    private static func startWhereTheHubHasTheFile() async throws -> (hub: LoopbackHub, stand: AgentStand) {
        let (hub, folder) = (try LoopbackHub(), try AgentStand.makeFolder())
        let files = try BlobFiles(folder + "/blobs")
        hub.weather = .changes { request, response in
            guard request.method == .head else { return }
            response.status = 200
            response.headers[Tus.reprDigest] = Self.digest.field
        }
        // The tests ask for its state as fast as they can.
        let settings = "entities: { audits: {} }\naccess: [{ group: tests, role: admin, rate: 100000 }]\n"
        let stand = try await AgentStand.start(settings, hub: hub, in: folder) { environment in
            environment.blobs = files
            environment.spread = .zero
        }
        return (hub, stand)
    }

    // Fault: the question did not say that the device has the file, so at the hub the record that names the file went on to wait for it.
    @Test("The agent offers a file with its size, and does not bring what the hub has")
    func offers() async throws {
        let (hub, stand) = try await Self.startWhereTheHubHasTheFile()
        let added = try await stand.send(.post, "/v1/blobs", Self.text)
        #expect(added["id"] == "b-1", "\(added.text)")
        #expect(try await stand.sync()["result"] == "ok")
        var state = added["state"]
        while state == "pending" || state == "uploading" {
            state = try await stand.send(.get, "/v1/blobs")["items"]?.array?.first?.object?["state"]
        }
        #expect(state == "uploaded")
        let asked = hub.requests.filter { $0.url.contains("/v1/blobs/") || $0.url.contains("/v1/files") }
        #expect(asked.map(\.url) == ["http://127.0.0.1:9/v1/blobs/\(Self.digest.hex)"])
        #expect(asked.first?.method == .head && asked.first?.headers[Tus.length] == "\(Self.text.utf8.count)")
        try await stand.stop()
    }

    // Fault: the file was at the hub when the device offered it, and not for this device any more when its record came. It was not brought.
    @Test("The agent offers a file again once the hub has the record that shows it, and brings it if it may not read it any more")
    func offersAgain() async throws {
        let (hub, stand) = try await Self.startWhereTheHubHasTheFile()
        func state() async throws -> JSON? { try await stand.send(.get, "/v1/blobs")["items"]?.array?.first?.object?["state"] }
        func asked() -> [HTTPRequest] { hub.requests.filter { $0.url.contains("/v1/blobs/") || $0.url.contains("/v1/files") } }
        #expect(try await stand.send(.post, "/v1/blobs", Self.text)["id"] == "b-1")
        #expect(try await stand.sync()["result"] == "ok")
        while try await state() != "uploaded" {}
        #expect(asked().map(\.method) == [.head])

        hub.weather = .changes { request, response in
            guard request.url.contains("/v1/blobs/") || request.url.contains("/v1/files") else { return }
            response.status = request.method == .head ? 404 : 201
            guard request.method != .head else { return }
            response.headers["Location"] = "/v1/files/1"
            response.headers[Tus.resumable] = Tus.version
            response.headers[Tus.offset] = "\(Self.text.utf8.count)"
            response.headers[Tus.reprDigest] = Self.digest.field
        }
        let made = try await stand.send(
            .post, "/v1/mutations",
            #"{"entity":"audits","record_id":"a-1","action":"create","data":{},"blobs":[{"field":"photo","blob":"b-1"}]}"#)
        #expect(made.status == 201, "\(made.text)")
        #expect(try await stand.sync()["result"] == "ok")
        // Each question of an app gives the agent a turn.
        while asked().count < 3 { _ = try await state() }
        #expect(asked().map(\.method) == [.head, .head, .post])
        while try await state() != "uploaded" {}
        try await stand.stop()
    }

    // Fault: `why` said that the file goes after the files before it, where there was no other.
    @Test("The only file says why it has not begun: its device has just found the hub")
    func whyAlone() async throws {
        let folder = try AgentStand.makeFolder()
        let files = try BlobFiles(folder + "/blobs")
        let stand = try await AgentStand.start("entities: { audits: {} }\n", in: folder) { $0.blobs = files }
        #expect(try await stand.send(.post, "/v1/blobs", Self.text)["id"] == "b-1")
        #expect(try await stand.sync(force: false)["result"] == "ok")
        let why = try await stand.send(.get, "/v1/why/b-1")
        #expect(why["verdict"] == "allow" && why["until"]?.text != nil, "\(why.text)")
        #expect(
            why["sentence"]
                == "nothing holds it back: it is sent soon, because a device begins with its files a little after it has found the hub")
        try await stand.stop()
    }
}
