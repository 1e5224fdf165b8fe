import Foundation
import HubPostgres
import PostgresStand
import SyncCore
import SyncLinux
import Synchronization
import Testing

@testable import HubServer

/// The folder of files of hubs over a server's database, whose mount is missing, or which is another one at each replica.
@Suite("Folder of files that replicas share", .needsPostgres)
struct SharedFolderTests {
    /// A place where a file system is mounted, or missing: the folder beneath it is there then.
    private final class MountPoint {
        private let top = FileManager.default.temporaryDirectory.appendingPathComponent("mount-\(UUID().uuidString.prefix(13))").path
        var path: String { top + "/point" }
        var files: BlobFiles { BlobFiles(at: path + "/blobs") }

        init() throws {
            for name in ["point", "beneath"] {
                try FileManager.default.createDirectory(atPath: "\(top)/\(name)", withIntermediateDirectories: true)
            }
        }

        deinit { try? FileManager.default.removeItem(atPath: top) }

        func unmount() throws {
            try FileManager.default.moveItem(atPath: path, toPath: top + "/disk")
            try FileManager.default.moveItem(atPath: top + "/beneath", toPath: path)
        }

        func mount() throws {
            try FileManager.default.moveItem(atPath: path, toPath: top + "/beneath")
            try FileManager.default.moveItem(atPath: top + "/disk", toPath: path)
        }

        var names: [String] { get throws { try FileManager.default.subpathsOfDirectory(atPath: path) } }
        var id: String? { get throws { try files.folderID()?.text } }
    }

    /// A hub that has just started, and what it has reported of its folder.
    private final class Replica {
        let bench: HubBench
        let folder: SharedFolder
        private let reports: Reports

        private final class Reports: Sendable {
            let list = Mutex<[String]>([])
        }

        init(_ database: ReplicaBench, _ place: MountPoint, _ seed: UInt64, settles: Bool = true) throws {
            let reports = Reports()
            self.reports = reports
            bench = try database.hub(seed: seed)
            var random = SeededRandom(seed: seed)
            folder = SharedFolder(place.files, candidate: FolderID(using: &random)) { change in
                let text =
                    switch change {
                    case .wrong(let detail): detail
                    case .right: "right"
                    }
                reports.list.withLock { $0.append(text) }
            }
            bench.hub.settings.uploads = HubUploads(folder)
            if settles { try bench.hub.settleFolder() }
        }

        var reported: [String] { reports.list.withLock { $0 } }

        private func tus(_ method: String, _ target: String, _ fields: [(String, String)], _ body: [UInt8] = []) -> HubResponse {
            var headers: HTTPHeaders = [Tus.resumable: Tus.version, HubHeader.device: "gw-1"]
            for (name, value) in fields { headers[name] = value }
            return bench.hub.handle(HubRequest(method, target, headers: headers, body: body), at: bench.now)
        }

        func begin(_ bytes: [UInt8]) throws -> String {
            try #require(tus("POST", "/v1/files", [(Tus.length, "\(bytes.count)")]).headers["Location"])
        }

        func bring(_ bytes: ArraySlice<UInt8>, to upload: String) -> HubResponse {
            tus("PATCH", upload, [("Content-Type", Tus.contentType), (Tus.offset, "\(bytes.startIndex)")], Array(bytes))
        }

        func upload(_ bytes: [UInt8]) throws -> HubResponse { bring(bytes[...], to: try begin(bytes)) }

        func fetch(_ bytes: [UInt8]) throws -> HubResponse { bench.send("GET", "/v1/blobs/\(try FileStand.digest(bytes).hex)") }

        func text(_ path: String) -> String { String(decoding: bench.send("GET", path).body, as: UTF8.self) }
    }

    private static let (one, two) = (Array("a file".utf8), Array("another one".utf8))

    private static func id(_ database: ReplicaBench) throws -> String? {
        try database.server.query("SELECT id FROM file_folder", schema: database.schema).first?[0]
    }

    @Test("A hub that starts over an empty mount point takes no files there, syncs records, and goes on when the mount comes")
    func missingMount() throws {
        let (database, place) = (try ReplicaBench(), try MountPoint())
        #expect(try Replica(database, place, 1).upload(Self.one).status == 204)
        let id = try #require(try place.id)
        #expect(try Self.id(database) == id)
        try place.unmount()
        let hub = try Replica(database, place, 2)
        let fault = "its id is missing, and the database expects the folder with the id \(id)"
        #expect(hub.reported == [fault])
        let refused = try hub.upload(Self.two)
        #expect(refused.status == 503 && refused.headers["Retry-After"] == "10")
        #expect(try hub.fetch(Self.one).status == 503, "404 would tell the device that the file is gone")
        #expect(try hub.bench.verdict(Sent("k-1", .create)).word == "accepted")
        #expect(hub.bench.send("GET", "/readyz").status == 200)
        #expect(hub.text("/readyz") == "ready, but the folder of files is not that of the database\n")
        #expect(hub.text("/metrics").contains("agenthub_file_folder_up 0\n"))
        #expect(hub.reported == [fault], "it is told once")
        #expect(try place.names == [])
        try place.mount()
        #expect(try hub.upload(Self.two).status == 204)
        #expect(try hub.fetch(Self.one).body == Self.one)
        #expect(hub.reported == [fault, "right"])
        #expect(hub.text("/readyz") == "ready\n")
        #expect(hub.text("/metrics").contains("agenthub_file_folder_up 1\n"))
    }

    @Test("A mount that goes while the hub runs is noticed before a file is taken, and before one is told to be missing")
    func lostMount() throws {
        let (database, place) = (try ReplicaBench(), try MountPoint())
        let hub = try Replica(database, place, 1)
        #expect(try hub.upload(Self.one).status == 204)
        try place.unmount()
        #expect(try hub.upload(Self.two).status == 503)
        #expect(try hub.fetch(Self.one).status == 503)
        #expect(try place.names == [])
        try place.mount()
        #expect(try hub.fetch(Self.one).status == 200)
    }

    @Test("Replicas that start with one new folder agree on its id")
    func shared() throws {
        let (database, place) = (try ReplicaBench(), try MountPoint())
        let hubs = [try Replica(database, place, 1, settles: false), try Replica(database, place, 2, settles: false)]
        // Both have looked into the database before one of them has an id.
        for hub in hubs { hub.folder.expect(FolderFacts(id: nil, sample: [])) }
        for hub in hubs { #expect(throws: BlobError.self) { try hub.folder.check() } }
        for hub in hubs { hub.bench.hub.claimFolder() }
        for hub in hubs { try hub.folder.check() }
        #expect(hubs.allSatisfy { $0.reported == [] })
        #expect(try hubs[0].upload(Self.one).status == 204)
        #expect(try hubs[1].fetch(Self.one).body == Self.one)
        let id = try place.id
        #expect(try id != nil && Self.id(database) == id)
    }

    @Test("Of two replicas with folders of their own the first one to tell the database has the files, also if both are new")
    func separate() throws {
        let (database, places) = (try ReplicaBench(), [try MountPoint(), try MountPoint()])
        let hubs = try zip(places, [1, 2]).map { try Replica(database, $0, $1, settles: false) }
        for hub in hubs { hub.folder.expect(FolderFacts(id: nil, sample: [])) }
        for hub in hubs { #expect(throws: BlobError.self) { try hub.folder.check() } }
        for hub in hubs { hub.bench.hub.claimFolder() }
        let ids = try places.map { try #require(try $0.id) }
        #expect(try Self.id(database) == ids[0])
        #expect(try hubs[0].upload(Self.one).status == 204)
        #expect(try hubs[1].upload(Self.two).status == 503)
        #expect(hubs[1].reported == ["its id is \(ids[1]), and the database expects the folder with the id \(ids[0])"])
        // One that comes later does not even give its folder an id.
        let place = try MountPoint()
        #expect(try Replica(database, place, 3).upload(Self.two).status == 503)
        #expect(try place.names == [])
    }

    @Test("A database of before whose mount is missing at the update gets the id of the folder that has its files, once it is mounted")
    func update() throws {
        let (database, place) = (try ReplicaBench(), try MountPoint())
        let before = try database.hub(seed: 1)
        before.hub.settings.uploads = HubUploads(place.files)
        let bytes = Self.one
        var headers: HTTPHeaders = [Tus.resumable: Tus.version, HubHeader.device: "gw-1", Tus.length: "\(bytes.count)"]
        headers["Content-Type"] = Tus.contentType
        #expect(before.hub.handle(HubRequest("POST", "/v1/files", headers: headers, body: bytes), at: before.now).status == 201)
        #expect(try place.id == nil && Self.id(database) == nil)
        try place.unmount()
        let hub = try Replica(database, place, 2)
        #expect(hub.reported == ["it has 0 of 1 files of the database that were looked for"])
        #expect(try hub.upload(Self.two).status == 503)
        #expect(try place.names == [] && Self.id(database) == nil)
        try place.mount()
        // The look that finds the files comes after the question to the database, so the device comes once more.
        #expect(try hub.fetch(bytes).status == 503)
        #expect(try hub.fetch(bytes).body == bytes)
        let id = try #require(try place.id)
        #expect(try Self.id(database) == id)
        #expect(hub.reported == ["it has 0 of 1 files of the database that were looked for", "right"])
    }

    @Test("A folder that an operator adopts is the right one for all replicas, and one that served the former folder stops in the middle")
    func adopted() throws {
        let (database, former, place) = (try ReplicaBench(), try MountPoint(), try MountPoint())
        let hub = try Replica(database, former, 1)
        #expect(try hub.upload(Self.one).status == 204)
        let upload = try hub.begin(Self.two)
        #expect(hub.bring(Self.two[..<4], to: upload).status == 204)
        let command = try database.hub(seed: 3).hub
        let id = try #require(FolderID("00112233445566aa"))
        #expect(try command.adoptFolder(place.files, as: id, mayLack: false) == .incomplete(found: 0, sample: 1))
        #expect(try place.names == [] && Self.id(database) == former.id)
        #expect(try command.adoptFolder(place.files, as: id, mayLack: true) == .done(id))
        #expect(try Self.id(database) == id.text && place.id == id.text)
        #expect(hub.bring(Self.two[4...], to: upload).status == 503)
        #expect(try hub.bench.hub.store.database.number("SELECT count(*) FROM blob") == 1, "no file was acknowledged")
        let next = try Replica(database, place, 2)
        #expect(next.reported == [])
        #expect(try next.upload(Self.two).status == 204)
        let other = try #require(FolderID("ffeeddccbbaa9988"))
        #expect(try command.adoptFolder(place.files, as: other, mayLack: false) == .known(id))
        // A copy without the id has the files, and needs no permission to lack some.
        try FileManager.default.removeItem(atPath: place.path + "/blobs/files.id")
        #expect(try next.fetch(Self.two).status == 503)
        #expect(try command.adoptFolder(place.files, as: other, mayLack: false) == .done(other))
        #expect(try next.fetch(Self.two).body == Self.two)
    }

    @Test("An id that cannot be read is no id of another folder: files are refused, nothing is written, and the reason is told")
    func unreadable() throws {
        let (database, place) = (try ReplicaBench(), try MountPoint())
        #expect(try Replica(database, place, 1).upload(Self.one).status == 204)
        let path = place.path + "/blobs/files.id"
        try Data("torn".utf8).write(to: URL(fileURLWithPath: path))
        let hub = try Replica(database, place, 2)
        #expect(hub.reported == ["read the id of the folder of files: \(path): expected 16 hexadecimal digits"])
        #expect(try hub.fetch(Self.one).status == 503)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("torn".utf8))
    }
}
