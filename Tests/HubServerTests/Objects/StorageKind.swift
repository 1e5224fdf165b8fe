import Foundation
import HubServer
import ObjectStand
import StorageKit
import SyncCore
import SyncLinux
import Testing

/// The storage of a hub's files. The contract is one, so the tests of it are one: a test with the trait `.eachStorage` runs once for each
/// of these.
enum StorageKind: String, CaseIterable {
    /// SeaweedFS is a real store; the simulated one is there without it, and stricter. The one in memory is that of the simulation.
    case folder, memory, simulated, seaweed

    @TaskLocal static var current = StorageKind.folder

    static var tried: [StorageKind] { allCases.filter { $0 != .seaweed || SeaweedServer.isInstalled } }

    func make() throws -> any StoragePlace {
        switch self {
        case .folder: try FolderPlace()
        case .memory: MemoryPlace()
        case .simulated: SimObjectStore()
        case .seaweed: try SeaweedPlace()
        }
    }
}

struct EachStorage: TestTrait, SuiteTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        guard testCase != nil else { return try await function() }
        for kind in StorageKind.tried { try await StorageKind.$current.withValue(kind) { try await function() } }
    }
}

extension Trait where Self == EachStorage {
    /// Runs the test with a folder, files in memory, a simulated object store, and a real one where it is installed.
    static var eachStorage: Self { EachStorage() }
}

/// Outlives the processes that use it.
protocol StoragePlace: AnyObject {
    /// Opens the storage as one process does: it shares nothing in memory with another one.
    func storage() throws -> any BlobStorage
}

private final class FolderPlace: StoragePlace {
    private let path = FileManager.default.temporaryDirectory.appendingPathComponent("storage-\(UUID().uuidString.prefix(13))").path

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false) }
    deinit { try? FileManager.default.removeItem(atPath: path) }

    func storage() throws -> any BlobStorage { try BlobFiles(path + "/blobs") }
}

/// What is synced stays, as on a disk.
private final class MemoryPlace: StoragePlace {
    private let files = MemoryBlobs()

    func storage() throws -> any BlobStorage { files }
}

extension SimObjectStore: StoragePlace {
    func storage() throws -> any BlobStorage { try blobs() }
}

private final class SeaweedPlace: StoragePlace {
    private let server: SeaweedServer
    private let place: ObjectStorePlace
    private let transport: CurlTransport

    init() throws {
        server = try SeaweedServer.shared.get()
        place = try ObjectStorePlace(server.newPlace(), endpoint: server.endpoint, region: SeaweedServer.region)
        transport = try CurlTransport(name: "s3")
    }

    func storage() throws -> any BlobStorage {
        let credentials = try #require(ObjectStoreCredentials(keyID: SeaweedServer.keyID, secret: SeaweedServer.secret))
        return ObjectBlobs(
            ObjectStore(
                place, credentials, caFile: nil, transport: transport, time: SystemClocks(), newDigest: { FileHash() },
                report: { _ in }))
    }
}
