import HubServer
import SyncCore
import Testing

/// PROTOCOL A16 and H2: a placeholder tells nothing of the files of other devices.
@Suite("Scopes: files", .eachEngine)
struct ScopeFileTests {
    private let one = DeviceID.one
    private let two = DeviceID.two
    private let fleet: ScopeBench
    private let place: any StoragePlace
    private static let content = Array("a picture of a pump".utf8)

    init() throws {
        fleet = try ScopeBench()
        place = try StorageKind.folder.make()
        fleet.bench.hub.settings.uploads = HubUploads(try place.storage())
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-2")
    }

    private static func digest(_ bytes: [UInt8]) throws -> BlobDigest { try #require(BlobDigest(bytes: SHA256.hash(bytes))) }

    private static func placeholder(_ bytes: [UInt8] = content, caption: String? = nil) throws -> JSON {
        let placeholder = Placeholder(digest: try digest(bytes), size: Int64(bytes.count), type: "image/jpeg", isUploaded: false)
        guard let caption, var object = placeholder.json.object else { return placeholder.json }
        object["caption"] = .string(caption)
        return .object(object)
    }

    /// - Parameter record: The record that the upload names.
    private func upload(_ device: DeviceID, _ bytes: [UInt8] = content, for record: String? = nil) throws {
        func send(_ method: String, _ target: String, _ fields: [(String, String)], _ body: [UInt8] = []) -> HubResponse {
            var headers: HTTPHeaders = [Tus.resumable: Tus.version, HubHeader.device: device.text]
            for (name, value) in fields { headers[name] = value }
            return fleet.bench.hub.handle(HubRequest(method, target, headers: headers, body: body), at: fleet.bench.now)
        }
        var metadata = [("sha256", try Self.digest(bytes).hex)]
        if let record { metadata += [("entity", "work_orders"), ("record", record), ("field", "photo")] }
        let made = send("POST", "/v1/files", [(Tus.length, "\(bytes.count)"), (Tus.metadata, Tus.metadata(metadata))])
        let target = try #require(made.headers["Location"])
        let patched = send("PATCH", target, [("Content-Type", Tus.contentType), (Tus.offset, "0")], bytes)
        #expect(patched.status == 204)
    }

    private func state(_ id: String) throws -> String? {
        let name = RecordName(ScopeBench.orders, RecordID(trusted: id))
        return try fleet.bench.hub.record(name)?.data?["photo"]?.object?["state"]?.text
    }

    @Test("A file that only another device has uploaded does not show in a record; the upload of its own device does")
    func earlierUpload() throws {
        try upload(two)
        #expect(try fleet.push(one, .create, "a", ["site": "s-1", "photo": Self.placeholder()]).code == "accepted")
        #expect(try state("a") == "pending")
        try upload(one)
        #expect(try state("a") == "uploaded")
    }

    @Test("A later upload of another device does not show in a record that it has not named, and the record goes on waiting")
    func laterUpload() throws {
        #expect(try fleet.push(one, .create, "a", ["site": "s-1", "photo": Self.placeholder()]).code == "accepted")
        try upload(two)
        #expect(try state("a") == "pending")
        try upload(one)
        #expect(try state("a") == "uploaded")
    }

    @Test("An upload may name a record that its device receives, and no other")
    func named() throws {
        fleet.grant(two, "site", "s-1")
        #expect(try fleet.push(one, .create, "a", ["site": "s-1", "photo": Self.placeholder()]).code == "accepted")
        try upload(two, for: "a")
        #expect(try state("a") == "uploaded")
        let other = Array("another picture".utf8)
        #expect(try fleet.push(one, .create, "b", ["assignee": "gw-1", "photo": Self.placeholder(other)]).code == "accepted")
        try upload(two, other, for: "b")
        #expect(try state("b") == "pending")
    }

    @Test("A record that showed the file shows it again after another device has written the placeholder anew")
    func writtenAnew() throws {
        fleet.grant(two, "site", "s-1")
        #expect(try fleet.push(one, .create, "a", ["site": "s-1", "photo": Self.placeholder()]).code == "accepted")
        try upload(one)
        #expect(try state("a") == "uploaded")
        let version = try #require(try fleet.bench.hub.record("work_orders/a")?.version)
        let change: JSON = ["photo": try Self.placeholder(caption: "the pump")]
        #expect(try fleet.push(two, .update, "a", change, base: version).code == "accepted")
        #expect(try state("a") == "uploaded")
        #expect(try fleet.bench.hub.record("work_orders/a")?.data?["photo"]?.object?["caption"] == "the pump")
    }

    @Test("An upload of another device has one answer, whether it is there or not, and stays as it is")
    func foreignUpload() throws {
        let made = fleet.bench.hub.handle(
            HubRequest("POST", "/v1/files", headers: [Tus.resumable: Tus.version, HubHeader.device: two.text, Tus.length: "9"]),
            at: fleet.bench.now)
        let target = try #require(made.headers["Location"])
        func head(_ target: String, _ device: DeviceID) -> HubResponse {
            fleet.bench.hub.handle(
                HubRequest("HEAD", target, headers: [Tus.resumable: Tus.version, HubHeader.device: device.text]), at: fleet.bench.now)
        }
        let (theirs, nobodys) = (head(target, one), head("/v1/files/nothing", one))
        #expect(theirs.status == 404 && theirs.headers == nobodys.headers && theirs.body == nobodys.body)
        #expect(head(target, two).headers[Tus.offset] == "0")
    }
}
