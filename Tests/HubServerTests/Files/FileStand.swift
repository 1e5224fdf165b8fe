import SyncCore
import Testing

@testable import HubServer

/// A hub that shares work orders out and keeps files, devices that upload and fetch them, and the table of links beside a look at all
/// documents.
final class FileStand {
    let fleet: ScopeBench
    let place: any StoragePlace
    private var uploads = 0

    /// - Parameter rules: By default those of ``ScopeBench``, and an entity `notes` without scopes.
    init(rules: RuleBook = ScopeBench.rules, at database: Hub.Place? = nil, files: (any StoragePlace)? = nil) throws {
        fleet = try ScopeBench(rules: rules, place: database)
        place = try files ?? StorageKind.folder.make()
        fleet.bench.hub.settings.uploads = HubUploads(try place.storage())
    }

    var hub: Hub { fleet.bench.hub }

    static func digest(_ bytes: [UInt8]) throws -> BlobDigest { try #require(BlobDigest(bytes: SHA256.hash(bytes))) }

    static func placeholder(_ bytes: [UInt8], isUploaded: Bool = false) throws -> JSON {
        Placeholder(digest: try digest(bytes), size: Int64(bytes.count), type: "image/jpeg", isUploaded: isUploaded).json
    }

    // MARK: Devices

    /// - Parameter record: The record that the upload names.
    func upload(_ bytes: [UInt8], by device: DeviceID, for record: String? = nil, type: String = "image/jpeg") throws {
        func send(_ method: String, _ target: String, _ fields: [(String, String)], _ body: [UInt8] = []) -> HubResponse {
            var headers: HTTPHeaders = [Tus.resumable: Tus.version, HubHeader.device: device.text]
            for (name, value) in fields { headers[name] = value }
            return hub.handle(HubRequest(method, target, headers: headers, body: body), at: fleet.bench.now)
        }
        var metadata = [("sha256", try Self.digest(bytes).hex), ("filetype", type)]
        if let record { metadata += [("entity", "work_orders"), ("record", record), ("field", "photo")] }
        let made = send("POST", "/v1/files", [(Tus.length, "\(bytes.count)"), (Tus.metadata, Tus.metadata(metadata))])
        let target = try #require(made.headers["Location"])
        let patched = send("PATCH", target, [("Content-Type", Tus.contentType), (Tus.offset, "0")], bytes)
        try #require(patched.status == 204)
    }

    func ask(_ digest: BlobDigest, by device: DeviceID, _ method: String = "GET", _ fields: [(String, String)] = []) -> HubResponse {
        fleet.bench.send(method, "/v1/blobs/\(digest.hex)", device: device, headers: fields)
    }

    /// Asks for a file as an agent does that would bring it.
    @discardableResult
    func offer(_ bytes: [UInt8], by device: DeviceID) throws -> HubResponse {
        ask(try Self.digest(bytes), by: device, "HEAD", [(Tus.length, "\(bytes.count)")])
    }

    /// Returns whether a record says that a file of it has not come yet.
    func isWaiting(_ id: String) throws -> Bool {
        try !Placeholder.waiting(in: #require(hub.record(RecordName(ScopeBench.orders, RecordID(trusted: id)))?.data)).isEmpty
    }

    /// The records that are to be looked at when a file comes.
    func waits() throws -> [String] {
        try hub.store.database.all("SELECT entity, record_id FROM blob_wait ORDER BY entity, record_id") { "\($0.text(0))/\($0.text(1))" }
    }

    /// Returns whether a device gets the file, with all of its bytes.
    func mayFetch(_ bytes: [UInt8], _ device: DeviceID) throws -> Bool {
        let answer = ask(try Self.digest(bytes), by: device)
        #expect(answer.status == 200 ? answer.body == bytes : answer.status == 404)
        #expect(ask(try Self.digest(bytes), by: device, "HEAD").status == answer.status)
        return answer.status == 200
    }

    func version(_ id: String) throws -> Int64 {
        try #require(try hub.record(RecordName(ScopeBench.orders, RecordID(trusted: id)))).version
    }

    // MARK: Links

    struct Link: Hashable, CustomStringConvertible {
        var digest: String
        var record: String

        var description: String { "\(record) \(digest.prefix(6))" }
    }

    /// The links of the table, and of them those that are shown.
    func links() throws -> (all: Set<Link>, shown: Set<Link>) {
        let rows = try hub.store.database.all("SELECT digest, entity, id, shown FROM record_file") {
            (Link(digest: $0.text(0), record: "\($0.text(1))/\($0.text(2))"), $0.int(3) == 1)
        }
        return (Set(rows.map(\.0)), Set(rows.filter(\.1).map(\.0)))
    }

    /// The links that a look at all documents finds, those that tombstones keep included.
    func scan() throws -> Set<Link> {
        let rows = try hub.store.database.all("SELECT entity, id, coalesce(data, kept) FROM record") {
            ("\($0.text(0))/\($0.text(1))", $0.isNull(2) ? nil : $0.text(2))
        }
        var found: Set<Link> = []
        for (record, text) in rows {
            guard let text, let document = try JSONReader.read(text, limits: .stored).object else { continue }
            for digest in Self.named(in: .object(document)) { found.insert(Link(digest: digest, record: record)) }
        }
        return found
    }

    /// Written apart from the hub's own search.
    private static func named(in value: JSON) -> [String] {
        var found: [String] = []
        var open = [value]
        while let next = open.popLast() {
            open += next.array ?? []
            guard let object = next.object else { continue }
            open += object.members.map(\.value)
            if let text = object["$blob"]?.text, text.hasPrefix("sha256:"), text.utf8.count == 71 {
                found.append(String(text.dropFirst(7)))
            }
        }
        return found
    }
}
