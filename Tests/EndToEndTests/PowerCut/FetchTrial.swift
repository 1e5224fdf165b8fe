import Foundation
import Glibc
import LocalAPI
import PowerCutKit
import SyncCore
import SyncLinux
import SyncStore

/// Opens disks that a cut could have left while files came down, with the real agent and its hub, and judges what is served.
actor FetchTrial {
    private let folder: String
    private let transport: CurlTransport
    private let hub: String
    private let token: String
    private let files: [(digest: BlobDigest, size: Int64)]
    private var count = 0

    /// - Parameter stand: Its hub runs. The agents of the trial show its token, one after the other.
    init(on stand: Stand, files: [BlobDigest: Int64], folder: String) async throws {
        self.folder = folder
        self.files = files.map { ($0.key, $0.value) }.sorted { $0.digest.hex < $1.digest.hex }
        hub = await stand.hubURL
        token = try String(contentsOfFile: "\(stand.folder)/token", encoding: .utf8)
        transport = try CurlTransport(name: "trial", idleConnections: 2)
    }

    /// - Returns: The fault that was found; `nil` for none.
    func fault(of state: Disk.State, _ promises: Promises) async throws -> String? {
        count += 1
        let place = "\(folder)/\(count)"
        try state.write(to: "\(place)/agent")
        // `try?`: a folder that stays is removed with the one around it.
        defer { try? FileManager.default.removeItem(atPath: place) }
        try Stand.write(token, to: "\(place)/token")
        let agent: LoneAgent
        do {
            agent = try await LoneAgent.start(in: place, over: transport, hub: hub, entities: FetchRecording.entities)
        } catch {
            return "the agent does not start: \(error)"
        }
        do {
            let fault = try await faultInAnswers(agent, promises)
            await agent.child.stop(SIGKILL)
            return try fault ?? faultOnDisk("\(place)/agent")
        } catch {
            await agent.child.stop(SIGKILL)
            return "the agent does not answer: \(error) \(EndedAtStart.log(of: place))"
        }
    }

    private func faultInAnswers(_ agent: LoneAgent, _ promises: Promises) async throws -> String? {
        let alarms = try await agent.client.status().value.alarms
        guard alarms.isEmpty else { return "alarms: \(alarms)" }
        // At once: what was served before is served, and of the rest not a byte before all of it is here.
        for (digest, _) in files {
            let answer = try await get(digest, wait: nil, at: agent.place)
            if answer.status == 200 {
                guard SHA256.hash(answer.body) == digest.bytes else { return "WRONG BYTES: \(digest) at once" }
            } else {
                // The record itself may be unknown yet.
                guard answer.status == 503 || answer.status == 404 else { return "\(digest) is answered with \(answer.status)" }
                if promises.files.contains(digest.hex) { return "LOST: \(digest) was served before, and is answered with \(answer.status)" }
            }
        }
        // The power may have gone in a pause.
        _ = try await agent.client.resume()
        let synced = try await agent.client.sync(SyncBody(SyncRequest(isForced: true), waits: true)).value.outcome
        guard synced?.result == "ok" else { return "no cycle: \(synced?.result ?? "none") \(synced?.detail ?? "")" }
        for (digest, _) in files {
            let answer = try await get(digest, wait: "2m", at: agent.place)
            guard answer.status == 200 else {
                return "NEVER: \(digest) is answered with \(answer.status) \(String(decoding: answer.body.prefix(300), as: UTF8.self))"
            }
            guard SHA256.hash(answer.body) == digest.bytes else { return "WRONG BYTES: \(digest) after it came" }
        }
        let blobs = try await agent.client.status().value.blobs
        let bytes = files.reduce(0) { $0 + $1.size }
        guard blobs?.fetching == 0, blobs?.fetchFailed == 0, blobs?.bytesKept == bytes else {
            return "ROOM: \(String(describing: blobs)), and all \(bytes) bytes are here"
        }
        return nil
    }

    private func get(_ digest: BlobDigest, wait: String?, at place: String) async throws -> HTTPResponse {
        var request = HTTPRequest(
            .get, "http://localhost/v1/blobs/\(digest)/content" + (wait.map { "?wait=\($0)" } ?? ""), socketPath: "\(place)/s",
            maxResponseBytes: 1 << 30)
        request.deadlines.firstByte = .seconds(180)
        request.deadlines.idle = .seconds(180)
        request.deadlines.total = nil
        return try await transport.send(request)
    }

    /// All files have come, and no rest of a part is left.
    private func faultOnDisk(_ folder: String) throws -> String? {
        let database = try Database.openReader(path: "\(folder)/agent.db")
        let integrity = try database.pragma("integrity_check")
        guard integrity == "ok" else { return "integrity: \(integrity.prefix(200))" }
        let reads = StoreReads(database: database)
        let disk = try BlobFiles("\(folder)/blobs")
        let kept = try disk.kept()
        guard Set(kept) == Set(files.map(\.digest)) else { return "\(kept.count) files are on the disk, expected \(files.count)" }
        for digest in kept {
            guard try disk.hash(digest) == digest else { return "HALF A FILE under the name \(digest)" }
            guard let row = try reads.blob(digest), row.hasFile else { return "no row says that \(digest) is here" }
        }
        let left = try disk.incoming().map(\.name)
        return left.isEmpty ? nil : "LEFT OVER: \(left)"
    }
}
