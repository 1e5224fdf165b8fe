import SyncCore
import SyncLinux

/// Another device, as small as a device can be. It speaks the protocol by hand, so that a client without the agent's message code sees the
/// hub, too.
actor PlainPeer {
    /// A record as the feed shows it.
    struct Change: Sendable {
        var entity: String
        var id: String
        var data: JSONObject
    }

    private let device: String
    private let token: String
    private let transport: CurlTransport
    private var seq = 0
    private var cursors: [String: String] = [:]

    init(_ device: String, on stand: Stand) async throws {
        self.device = device
        token = try await stand.token(for: device)
        transport = stand.transport
    }

    /// Writes a whole record.
    func create(_ entity: String, _ id: String, _ data: String, at hub: String) async throws {
        seq += 1
        let mutation =
            #"{"seq":\#(seq),"idempotency_key":"\#(device)-\#(seq)","entity":"\#(entity)","record_id":"\#(id)","#
            + #""action":"create","data":\#(data),"base_version":0,"hlc":"0199c3f2a1b4-0000-9f2c11ab"}"#
        let answer = try await post("\(hub)/v1/sync/push", #"{"acked_seq":0,"mutations":[\#(mutation)]}"#)
        let status = answer.object?["results"]?.array?.first?.object?["status"]?.text
        guard status == "accepted" else { throw StandError("the hub did not take the record: \(answer)") }
    }

    /// Everything new of these entities since the last call.
    func pull(_ entities: [String], from hub: String) async throws -> [Change] {
        var changes: [Change] = []
        var more = true
        while more {
            let streams = entities.map { entity in
                #"{"entity":"\#(entity)","cursor":\#(cursors[entity].map { "\"\($0)\"" } ?? "null")}"#
            }
            let answer = try await post(
                "\(hub)/v1/sync/pull", #"{"streams":[\#(streams.joined(separator: ","))],"limit":500}"#)
            more = false
            for stream in answer.object?["streams"]?.array ?? [] {
                guard let entity = stream.object?["entity"]?.text, let cursor = stream.object?["cursor"]?.text else {
                    continue
                }
                cursors[entity] = cursor
                more = more || stream.object?["has_more"]?.bool == true
                for record in stream.object?["records"]?.array ?? [] {
                    guard let id = record.object?["id"]?.text, let data = record.object?["data"]?.object else {
                        continue
                    }
                    changes.append(Change(entity: entity, id: id, data: data))
                }
            }
        }
        return changes
    }

    private func post(_ url: String, _ body: String) async throws -> JSON {
        let request = HTTPRequest(
            .post, url,
            headers: [
                "Authorization": "Bearer \(token)", "Sync-Version": "1", "Sync-Device": device,
                "Sync-Replica": "0199c3f2-a1b4-7000-8000-00000000abcd", "Content-Type": "application/json",
            ], body: .bytes(Array(body.utf8)))
        let response = try await transport.send(request)
        guard response.status == 200 else {
            throw StandError("\(url): \(response.status) \(String(decoding: response.body, as: UTF8.self))")
        }
        return try JSONReader.read(response.body)
    }
}
