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

    static let entities = """
              photos: { kind: record, files: ahead }
              audits: { kind: record }
        """

    /// Large enough for several pieces, each of which is synced.
    private static let largeBytes = 3_000_000
    /// The hub's answer with such a file is cut there in the first life.
    private static let partBytes = 2_000_000

    /// - Parameter stand: Its hub runs, and its agent has never run. A relay stands between them while it records.
    init(on stand: Stand) async throws {
        let neighbour = try await Neighbour("gw-2", on: stand)
        var small: [BlobDigest] = []
        // The first life brings a part of the first one, and nothing of the other one.
        let cut: BlobDigest
        let whole: BlobDigest
        do {
            for (entity, bytes) in [("photos", 300_000), ("photos", 70_000), ("audits", 500_000), ("audits", 1)] {
                small.append(try await bring(bytes, entity, neighbour, stand))
            }
            cut = try await bring(Self.largeBytes, "audits", neighbour, stand)
            whole = try await bring(Self.largeBytes + 1, "audits", neighbour, stand)
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
        let relay = try TamperingRelay(hubPort: await stand.hubPort)
        await stand.placeBetween("http://127.0.0.1:\(relay.port)")
        lives.append(
            try await Self.live(1, on: stand) {
                let synced = try await stand.sync()
                guard synced == "ok" else { throw StandError("the records do not come: \(synced)") }
                for digest in small { try await Self.fetch(digest, on: stand) }
                relay.use { Self.cut($0, $1, of: cut) }
                try await Self.comesInPart(cut, on: stand)
            })
        relay.use(nil)
        lives.append(
            try await Self.live(2, on: stand) {
                for digest in [cut, whole] + small { try await Self.fetch(digest, on: stand) }
            })
        await stand.placeBetween(nil)
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
            throw StandError("\(digest) does not come: \(came.status) \(String(decoding: came.body.prefix(1_000), as: UTF8.self))")
        }
    }

    /// The hub's answer, without what lies behind the part.
    private static func cut(_ path: String, _ answer: TamperingRelay.Answer, of digest: BlobDigest) -> TamperingRelay.Answer {
        guard path.contains("\(digest)"), answer.status == 200 || answer.status == 206 else { return answer }
        // The rest of the file from some offset on, or a piece of it.
        let start = answer["Content-Range"].flatMap { Int($0.drop { !$0.isNumber }.prefix { $0.isNumber }) } ?? 0
        var answer = answer
        answer.missing = max(0, min(answer.body.count, start + answer.body.count - partBytes))
        answer.body.removeLast(answer.missing)
        return answer
    }

    /// Waits for the part of a file. The question makes the agent fetch it.
    private static func comesInPart(_ digest: BlobDigest, on stand: Stand) async throws {
        while true {
            let asked = try await stand.get(digest, wait: nil)
            guard asked.status == 503, let offset = try JSONReader.read(asked.body).object?["offset"]?.int else {
                throw StandError("\(digest) is not answered with its offset: \(asked.status)")
            }
            if offset > 0 { return }
            await Pause.short()
        }
    }
}
