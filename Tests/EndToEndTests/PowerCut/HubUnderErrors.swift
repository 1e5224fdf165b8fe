import Foundation
import Glibc
import PowerCutKit
import SyncCore
import SyncLinux

/// The hub at work while calls fail: pushes of changes and events, a pull after each, and files by tus. The other side is a
/// plain client that repeats whatever was not answered, with the same keys, and goes on at the offset that it is told.
final class HubUnderErrors: UnderErrors {
    let name = "hub"
    private let transport: CurlTransport
    private let trial: HubTrial

    init(folder: String) throws {
        transport = try CurlTransport(name: "errors", idleConnections: 2)
        trial = try HubTrial(folder: folder)
    }

    func close() { transport.close() }

    func begin(in place: String) async throws {
        let hub = try await LoneHub.start(in: place)
        await hub.child.stop()
        // The hub leaves it there. A folder that was copied or restored has none, and SQLite makes it anew: it makes an empty file
        // longer, the one truncation of the hub that can need room.
        let index = "\(place)/\(name)/hub.db-shm"
        if FileManager.default.fileExists(atPath: index) { try FileManager.default.removeItem(atPath: index) }
    }

    /// Everything is in force, and the same work done once more is known to it as far as it had answered, and done once.
    func fault(in place: String, _ promises: Promises) async throws -> String? {
        if let fault = try await trial.fault(in: place, promises) { return fault }
        let again: ErrorBench.Work
        do {
            again = try await work(in: place, [:], mustGoOn: true)
        } catch {
            return "repeated: \(error)"
        }
        guard again.isDone, again.status == 0 else { return "what is repeated is not taken: \(EndedAtStart.log(of: place))" }
        if let twice = again.promises.accepted.first(where: { $0.value > 0 && promises.accepted[$0.key] != nil }) {
            return "TWICE: \(twice.key) was accepted before, and again as version \(twice.value)"
        }
        return try await trial.fault(in: place, again.promises)
    }

    func fault(of state: Disk.State, _ promises: Promises) async throws -> String? { try await trial.fault(of: state, promises) }

    fileprivate static let steps = 6

    func work(in place: String, _ environment: [String: String], mustGoOn: Bool) async throws -> ErrorBench.Work {
        let hub = try await LoneHub.start(in: place, environment: environment)
        var work = ErrorBench.Work()
        let client = Caller(hub.url, transport, attempts: mustGoOn ? 2_000 : 3)
        work.isDone = true
        for number in 1...Self.steps where work.isDone { work.isDone = await client.step(number) }
        for number in 1...2 where work.isDone { work.isDone = await client.upload(number) }
        work.promises = client.promises
        work.isThere = await client.isAnswered()
        work.status = await hub.child.stop()
        return work
    }
}

/// Speaks the protocol of the hub, as often as it takes.
private final class Caller {
    private(set) var promises = Promises()
    private let hub: String
    private let transport: CurlTransport
    private let attempts: Int
    private var version: Int64 = 0

    init(_ hub: String, _ transport: CurlTransport, attempts: Int) {
        self.hub = hub
        self.transport = transport
        self.attempts = attempts
    }

    func isAnswered() async -> Bool { await send(.get, "/healthz") != nil }

    /// A change of the record, an event, and what the hub has now.
    func step(_ number: Int) async -> Bool {
        let order: JSONObject = ["n": .int(Int64(number)), "s\(number)": 1, "t": .string(CutLoad.text("w0-0", number))]
        let reading: JSONObject = ["r": .int(Int64(number)), "t": .string(CutLoad.text("r", number))]
        let mutations: [JSON] = [
            mutation(number * 2 - 1, number == 1 ? "create" : "update", "work_orders", "w0-0", order, base: version),
            mutation(number * 2, "create", "readings", "r-\(number)", reading, base: 0),
        ]
        // Also of work that is repeated, by a client that remembers all that it has sent.
        let sent = JSON.int(Int64(HubUnderErrors.steps * 2))
        let body = JSON.object(["acked_seq": 0, "max_sent_seq": sent, "mutations": .array(mutations)])
        let isTaken = await again { [self] in
            guard let answer = await send(.post, "/v1/sync/push", Array(body.json.utf8)), answer.status == 200 else { return false }
            return take(answer)
        }
        guard isTaken else { return false }
        return await again { [self] in
            let pull = #"{"streams":[{"entity":"work_orders","cursor":null},{"entity":"readings","cursor":null}],"limit":100}"#
            return await send(.post, "/v1/sync/pull", Array(pull.utf8))?.status == 200
        }
    }

    private func mutation(_ seq: Int, _ action: String, _ entity: String, _ id: String, _ data: JSONObject, base: Int64) -> JSON {
        [
            "seq": .int(Int64(seq)), "idempotency_key": .string("errors-\(seq)"), "entity": .string(entity), "record_id": .string(id),
            "action": .string(action), "base_version": .int(base),
            "hlc": .string(HybridTime(milliseconds: 1_700_000_000_000 + UInt64(seq), counter: 0, node: "0000000a").description),
            "client_updated_at": "2026-11-20T21:04:05.120Z", "data": .object(data),
        ]
    }

    /// - Returns: `true` when the answer had a verdict for each mutation.
    private func take(_ answer: HTTPResponse) -> Bool {
        guard let results = try? PushMessages.readResponse(answer.body).results, results.count == 2 else { return false }
        if let epoch = answer.headers["Sync-Epoch"] { promises.epoch = epoch }
        for result in results {
            switch result.verdict {
            case .accepted(let version, _, _, _):
                promises.accepted[result.key.text] = version
                if result == results[0] { self.version = version }
            case .duplicate(.accepted, let current):
                // A duplicate no longer names the version of the acceptance.
                promises.accepted[result.key.text] = promises.accepted[result.key.text] ?? 0
                if result == results[0], case .record(let record) = current { version = record.version }
            case .duplicate, .conflict, .rejected, .retry: return false
            }
        }
        return true
    }

    /// A file by tus: created, in two pieces, and asked for at the end.
    func upload(_ number: Int) async -> Bool {
        let bytes = Array((0..<40).map { CutLoad.text("file\(number)", $0) }.joined().utf8)
        guard let digest = BlobDigest(bytes: SHA256.hash(bytes)) else { return false }
        var place: String?
        return await again { [self] in
            if place == nil {
                let metadata = Tus.metadata([("filename", "f\(number)"), ("filetype", "image/png"), ("sha256", digest.hex)])
                let made = await send(.post, "/v1/files", headers: [(Tus.length, "\(bytes.count)"), (Tus.metadata, metadata)])
                guard made?.status == 201, let location = made?.headers["Location"] else { return false }
                place = location
            }
            guard let at = place else { return false }
            let head = await send(.head, at)
            // Gone: either it was whole, or all begins anew.
            if head?.status == 404 || head?.status == 410 { place = nil }
            if let offset = Tus.count(head?.headers[Tus.offset]), offset < bytes.count {
                let end = offset == 0 ? bytes.count / 2 : bytes.count
                let headers = [(Tus.offset, "\(offset)"), ("Content-Type", Tus.contentType)]
                let sent = await send(.patch, at, Array(bytes[Int(offset)..<end]), headers: headers)
                guard sent?.status == 204 else { return false }
            }
            guard await send(.head, "/v1/blobs/\(digest)")?.status == 200 else { return false }
            promises.files.insert(digest.hex)
            return true
        }
    }

    private func again(_ attempt: () async -> Bool) async -> Bool {
        for _ in 0..<attempts {
            if await attempt() { return true }
        }
        return false
    }

    /// - Returns: The answer; `nil` when none came.
    private func send(
        _ method: HTTPRequest.Method, _ path: String, _ body: [UInt8]? = nil, headers: [(String, String)] = []
    ) async -> HTTPResponse? {
        var all = HubTrial.headers
        if path.hasPrefix("/v1/files") { all["Content-Type"] = nil }
        for (name, value) in [(Tus.resumable, Tus.version)] + headers { all[name] = value }
        var request = HTTPRequest(method, hub + path, headers: all)
        if let body { request.body = .bytes(body) }
        return try? await transport.send(request)
    }
}
