import Foundation
import LocalAPI
import PowerCutKit
import ProcessStand
import SyncCore

/// The log of a gateway's disk, and its answers, while files came down to it in two lives: ahead of any question, for an app that waits,
/// and in a part that the first life leaves and the second one continues.
struct FetchRecording {
    /// Each ends with the end of the power.
    private(set) var lives: [IOLog] = []
    /// The files that records show, with their sizes in bytes.
    private(set) var files: [BlobDigest: Int64] = [:]
    /// The first life left a part of a file that was on the medium.
    private(set) var leftPart = false

    static let entities = """
              photos: { kind: record, files: ahead }
              audits: { kind: record }
        """

    /// Large enough for several pieces, each of which is synced.
    private static let largeBytes = 3_000_000
    /// A fast disk may have all of one before the pause holds.
    private static let largeFiles = 4

    /// - Parameter stand: Its hub runs, and its agent has never run.
    init(on stand: Stand) async throws {
        let neighbour = try await Neighbour("gw-2", on: stand)
        var small: [BlobDigest] = []
        var large: [BlobDigest] = []
        do {
            for (entity, bytes) in [("photos", 300_000), ("photos", 70_000), ("audits", 500_000), ("audits", 1)] {
                small.append(try await bring(bytes, entity, neighbour, stand))
            }
            for number in 0..<Self.largeFiles { large.append(try await bring(Self.largeBytes + number, "audits", neighbour, stand)) }
            // If the record came after its file, the hub's change of the placeholder comes with the next pull.
            try await neighbour.sync()
            try await neighbour.sync()
        } catch {
            let log = neighbour.log
            await neighbour.stop()
            throw StandError("\(error)\nthe end of the neighbour's log:\n\(log)")
        }
        await neighbour.stop()
        try FileManager.default.createDirectory(
            atPath: "\(stand.folder)/agent", withIntermediateDirectories: false, attributes: [.posixPermissions: NSNumber(value: 0o700)])
        var partIsLeft = false
        lives.append(
            try await Self.live(1, on: stand) {
                let synced = try await stand.sync()
                guard synced == "ok" else { throw StandError("the records do not come: \(synced)") }
                for digest in small { try await Self.fetch(digest, on: stand) }
                for digest in large where !partIsLeft { partIsLeft = try await Self.leavesPart(of: digest, on: stand) }
            })
        leftPart = partIsLeft
        lives.append(
            try await Self.live(2, on: stand) {
                _ = try await stand.client.resume()
                for digest in large + small { try await Self.fetch(digest, on: stand) }
            })
    }

    private mutating func bring(_ bytes: Int, _ entity: String, _ neighbour: Neighbour, _ stand: Stand) async throws -> BlobDigest {
        let (path, digest) = try stand.file("f\(files.count)", bytes: bytes)
        let added = try await neighbour.agentctl("blobs", "add", path, "--for", "\(entity)/r-\(files.count)", "--field", "photo", "--watch")
        guard added.status == 0 else { throw StandError("a file was not brought: \(added.talk)") }
        files[digest] = Int64(bytes)
        return digest
    }

    private static func live(_ number: Int, on stand: Stand, _ body: () async throws -> Void) async throws -> IOLog {
        let log = "\(stand.folder)/fetch-\(number).log"
        await stand.setEnvironment(agent: Interposer(root: "\(stand.folder)/agent", log: log).environment)
        try await stand.startAgent()
        try await body()
        await stand.killAgent()
        return try IOLog(path: log)
    }

    /// Only the bytes themselves are asked for: an answer that describes a file names its digest, which would count as the promise that
    /// it is here.
    private static func fetch(_ digest: BlobDigest, on stand: Stand) async throws {
        let came = try await stand.get(digest, wait: "2m")
        guard came.status == 200, SHA256.hash(came.body) == digest.bytes else {
            throw StandError("\(digest) does not come: \(came.status)")
        }
    }

    /// - Returns: `false` if the file was whole before the pause held, or nothing of it is here.
    private static func leavesPart(of digest: BlobDigest, on stand: Stand) async throws -> Bool {
        guard try await part(of: digest, on: stand) != nil else { return false }
        _ = try await stand.client.pause(PauseBody())
        // The piece that was under way ends on its own; until then nothing holds the file up. The bytes of the piece are in the next
        // answer.
        while let part = try await part(of: digest, on: stand), !part.waits { await Pause.short() }
        if let part = try await part(of: digest, on: stand), part.offset > 0 { return true }
        _ = try await stand.client.resume()
        return false
    }

    /// - Returns: The bytes of a file that are here, and `waits` when a reason keeps it from going on; `nil` for a complete file.
    private static func part(of digest: BlobDigest, on stand: Stand) async throws -> (offset: Int64, waits: Bool)? {
        let asked = try await stand.get(digest, wait: nil)
        guard asked.status == 503 else { return nil }
        let members = try JSONReader.read(asked.body).object
        guard let offset = members?["offset"]?.int else { throw StandError("\(digest) is answered without its offset") }
        return (offset, members?["reason"] != nil)
    }
}
