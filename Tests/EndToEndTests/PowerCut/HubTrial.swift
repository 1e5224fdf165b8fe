import Foundation
import PowerCutKit
import SyncCore
import SyncLinux
import SyncStore

/// The same for the hub: every verdict that left is in force, every file that arrived is there, and the history is the same.
actor HubTrial {
    private let folder: String
    private let transport: CurlTransport
    private var count = 0

    init(folder: String) throws {
        self.folder = folder
        transport = try CurlTransport(name: "trial", idleConnections: 2)
    }

    /// - Returns: The fault that was found; `nil` for none.
    func fault(of state: Disk.State, _ promises: Promises) async throws -> String? {
        count += 1
        let place = "\(folder)/\(count)"
        try state.write(to: "\(place)/hub")
        defer { try? FileManager.default.removeItem(atPath: place) }
        return try await fault(in: place, promises)
    }

    /// The same of a disk that is at `place/hub` already.
    func fault(in place: String, _ promises: Promises) async throws -> String? {
        let hub: LoneHub
        do {
            hub = try await LoneHub.start(in: place)
        } catch {
            return "the hub does not start: \(error)"
        }
        do {
            if let fault = try await faultInAnswers(hub.url, promises) {
                await hub.child.stop(SIGKILL)
                return fault
            }
        } catch {
            await hub.child.stop(SIGKILL)
            return "the hub does not answer: \(error) \(EndedAtStart.log(of: place))"
        }
        await hub.child.stop(SIGKILL)
        let integrity = try Database.openReader(path: "\(place)/hub/hub.db").pragma("integrity_check")
        guard integrity == "ok" else { return "integrity: \(integrity.prefix(200))" }
        return try faultInFiles("\(place)/hub/blobs", promises)
    }

    private func faultInAnswers(_ hub: String, _ promises: Promises) async throws -> String? {
        let keys = Array(promises.accepted.keys)
        for start in stride(from: 0, to: keys.count, by: 500) {
            let body = JSON.object(["keys": JSON.list(Array(keys[start..<min(keys.count, start + 500)]))])
            let (answer, epoch) = try await post("\(hub)/v1/sync/known", body.json)
            if let before = promises.epoch, before != epoch { return "EPOCH: the history \(before) became \(epoch ?? "none")" }
            let unknown = answer.object?["unknown"]?.array ?? []
            if !unknown.isEmpty { return "LOST: \(unknown.count) accepted keys, such as \(unknown[0].json)" }
        }
        for digest in promises.files {
            let found = try await transport.send(HTTPRequest(.head, "\(hub)/v1/blobs/\(digest)", headers: Self.headers))
            guard found.status == 200 else { return "LOST: the file \(digest) (\(found.status))" }
        }
        return try await faultInRecords(hub, promises.accepted.values.max() ?? 0)
    }

    private func faultInRecords(_ hub: String, _ promised: Int64) async throws -> String? {
        var cursors = ["work_orders": "null", "readings": "null"]
        var readings: [JSONObject] = []
        var newest: Int64 = 0
        var goesOn = true
        while goesOn {
            goesOn = false
            let streams = cursors.sorted { $0.key < $1.key }.map { #"{"entity":"\#($0.key)","cursor":\#($0.value)}"# }
            let (answer, _) = try await post("\(hub)/v1/sync/pull", #"{"streams":[\#(streams.joined(separator: ","))],"limit":1000}"#)
            newest = answer.object?["head"]?.int ?? 0
            for stream in answer.object?["streams"]?.array ?? [] {
                guard let entity = stream.object?["entity"]?.text, let cursor = stream.object?["cursor"]?.text else { continue }
                cursors[entity] = "\"\(cursor)\""
                if stream.object?["has_more"]?.bool == true { goesOn = true }
                for record in stream.object?["records"]?.array ?? [] {
                    guard let id = record.object?["id"]?.text, let data = record.object?["data"]?.object else { continue }
                    let fault = entity == "readings" ? CutLoad.fault(ofReading: data) : CutLoad.fault(ofRecord: id, data)
                    if let fault { return fault }
                    if entity == "readings" { readings.append(data) }
                }
            }
        }
        if newest < promised { return "LOST: version \(promised) was given, the head is \(newest)" }
        return CutLoad.fault(ofLists: readings) ?? CutLoad.repeated(readings)
    }

    private func faultInFiles(_ folder: String, _ promises: Promises) throws -> String? {
        let files = try BlobFiles(folder)
        for digest in try files.kept() {
            guard try files.hash(digest) == digest else { return "HALF A FILE under the name \(digest)" }
        }
        return nil
    }

    private func post(_ url: String, _ body: String) async throws -> (JSON, epoch: String?) {
        let request = HTTPRequest(.post, url, headers: Self.headers, body: .bytes(Array(body.utf8)))
        let response = try await transport.send(request)
        guard response.status == 200 else {
            throw StandError("\(url): \(response.status) \(String(decoding: response.body, as: UTF8.self))")
        }
        return (try JSONReader.read(response.body), response.headers["Sync-Epoch"])
    }

    static let headers: HTTPHeaders = [
        "Sync-Version": "1", "Sync-Device": Stand.device, "Sync-Replica": "0199c3f2-a1b4-7000-8000-00000000abcd",
        "Content-Type": "application/json",
    ]
}
