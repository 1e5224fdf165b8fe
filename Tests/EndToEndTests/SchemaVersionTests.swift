import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// A schema goes on while devices are away and apps stay as they are (PROTOCOL D7).
    @Suite("Versions of a schema")
    struct SchemaVersionTests {
        private static let first = """
            1:
              schema:
                required: [site]
                properties: { site: { type: string }, severity: { enum: [minor, major] } }
            """
        private static let second = """
            2:
              schema:
                required: [site_id, inspector]
                additionalProperties: false
                properties: { site_id: { type: string }, severity: { enum: [low, high] }, inspector: { type: string } }
              up:
                - rename: { site: site_id }
                - values: { severity: { minor: low, major: high } }
                - default: { inspector: unknown }
            """

        private static func audits(_ present: Int) -> String {
            let versions = [first, second].prefix(present).joined(separator: "\n")
            let inner = versions.split(separator: "\n").map { "      " + $0 }.joined(separator: "\n")
            return "  audits:\n    validate: reject\n    schema: \(present)\n    versions:\n\(inner)"
        }

        /// One request of an app that speaks the version that its header names.
        private func app(_ version: Int, _ stand: Stand, _ arguments: String...) async throws -> JSON {
            let output = try await Child.run(
                ["/usr/bin/curl", "-s", "--unix-socket", stand.socketPath, "-H", "Schema: audits=\(version)"] + arguments, in: stand.folder)
            return try JSONReader.read(output.text)
        }

        @Test("Fifty audits of a device that was away are accepted by the hub's second version, and its app goes on in the first")
        func fifty() async throws {
            try await Stand.with(entities: "  work_orders: { kind: record }", hubEntities: Self.audits(1)) { stand in
                try await stand.settle()
                let before = try await stand.agentctl("enqueue", "audits", "a-0", "--data", #"{"site":"s-0","severity":"major"}"#)
                #expect(before.status == 0, "\(before.talk)")
                try await stand.settle()
                await stand.stopHub()
                for number in 1...50 {
                    let data = #"{"site":"s-\#(number)","severity":"minor"}"#
                    #expect(try await stand.agentctl("enqueue", "audits", "a-\(number)", "--data", data).status == 0)
                }
                let second = "\(stand.folder)/second.yaml"
                try Stand.write("entities:\n\(Self.audits(2))\n", to: second)
                let applied = try await Child.run(
                    [Programs.agenthub, "entities", "apply", second, "--data", "\(stand.folder)/hub"], in: stand.folder)
                #expect(applied.status == 0, "\(applied.text)\(applied.talk)")
                try await stand.startHub()
                let status = try await stand.settle()
                #expect(status.outbox.count(.rejected) == 0)

                let records = try await stand.hubRecords("audits")
                #expect(records.count == 51)
                for record in records {
                    let severity: JSON = record.id == "a-0" ? "high" : "low"
                    let number = record.id.dropFirst(2)
                    #expect(record.data == ["site_id": .string("s-\(number)"), "severity": severity, "inspector": "unknown"])
                }
                // The device has the second version by now, or takes it over with its next cycle.
                for _ in 0..<50 {
                    if try await app(2, stand, "http://agent/v1/records/audits/a-7").object?["data"] != nil { break }
                    _ = try await stand.sync()
                }
                let new = try await app(2, stand, "http://agent/v1/records/audits/a-7")
                #expect(new.object?["data"] == ["site_id": "s-7", "severity": "low", "inspector": "unknown"], "\(new.json)")
                let old = try await app(1, stand, "http://agent/v1/records/audits/a-7")
                #expect(old.object?["data"] == ["site": "s-7", "severity": "minor"], "\(old.json)")
                let found = try await app(1, stand, "http://agent/v1/records/audits?filter=severity:eq:major")
                #expect(found.object?["items"]?.array?.compactMap { $0.object?["id"]?.text } == ["a-0"], "\(found.json)")
                let body = #"{"entity":"audits","record_id":"a-7","action":"update","data":{"severity":"major","site":"s-77"}}"#
                let change = try await app(1, stand, "-H", "Content-Type: application/json", "-d", body, "http://agent/v1/mutations")
                #expect(change.object?["id"] != nil, "\(change.json)")
                try await stand.settle()
                let changed = try await stand.hubRecords("audits").first { $0.id == "a-7" }
                #expect(changed?.data == ["site_id": "s-77", "severity": "high", "inspector": "unknown"])
                let refused = try await app(
                    1, stand, "-H", "Content-Type: application/json", "-d", body.replacingOccurrences(of: "major", with: "low"),
                    "http://agent/v1/mutations")
                #expect(refused.object?["errors"]?.array?.first?.object?["pointer"] == "/data/severity", "\(refused.json)")
            }
        }

        @Test("A device whose own file says version 1 goes on beside a hub of version 2, and is whole when its file follows")
        func locked() async throws {
            try await Stand.with(entities: Self.audits(1), hubEntities: Self.audits(2), agent: false) { stand in
                try await stand.configureLocked()
                try await stand.startAgent()
                let peer = try await PlainPeer("peer", on: stand)
                try await peer.create("audits", "b-1", #"{"site":"s-1"}"#, at: await stand.hubURL)
                #expect(try await stand.agentctl("enqueue", "audits", "a-1", "--data", #"{"site":"s-9"}"#).status == 0)
                try await stand.settle()
                for _ in 0..<50 {
                    if try await stand.agentctl("get", "audits", "b-1").status == 0 { break }
                    _ = try await stand.sync()
                }
                #expect(try await stand.agentctl("get", "audits", "b-1").text.contains("s-1"))
                #expect(try await stand.hubRecords("audits").map(\.data).allSatisfy { $0["inspector"] == "unknown" })
            }
        }
    }
}

extension Stand {
    /// The hub has no say in the entities of this device.
    fileprivate func configureLocked() async throws {
        try Stand.write(try await token(for: Stand.device) + "\n", to: "\(folder)/token")
        configure(configuration + "locked: [entities]\n")
    }
}
