import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// Folders that programs of earlier commits have written, as they left them: opened by the present programs.
    @Suite("Folders of earlier programs")
    struct KeptFolderTests {
        /// One folder of `Kept`, made by the same steps each time: notes n-1 to n-3 and a reading at the hub, n-1 deleted, a refused note,
        /// a file, and while the sync was paused a change of n-2, one of n-3 and another reading.
        struct Kept: Sendable, CustomTestStringConvertible {
            /// The schema's number in the agent's database.
            var schema: Int
            /// The first programs had no files, and a hub without schemas that could refuse something.
            var isFirst: Bool { schema == 1 }

            var folder: URL { URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Kept/schema-\(schema)") }
            var testDescription: String { "schema \(schema)" }
        }

        @Test(
            "All of it is there, what waited goes, once, and nothing is repeated", arguments: [Kept(schema: 1), Kept(schema: 9)], [0, 400])
        func open(_ kept: Kept, _ daysLater: Int64) async throws {
            try await Stand.with(hub: false, agent: false) { stand in
                // The folder was put away for as long as that, whenever this runs.
                let clock = try ClockWarp("\(stand.folder)/clock")
                clock.pass(.seconds(daysLater * 86_400))
                await stand.setEnvironment(agent: clock.environment, hub: clock.environment)
                let files = FileManager.default
                for name in ["hub", "agent", "token"] {
                    try? files.removeItem(atPath: "\(stand.folder)/\(name)")
                    try files.copyItem(atPath: kept.folder.appendingPathComponent(name).path, toPath: "\(stand.folder)/\(name)")
                }
                try? files.removeItem(atPath: "\(stand.folder)/entities.yaml")
                try files.copyItem(
                    atPath: kept.folder.appendingPathComponent("entities.yaml").path, toPath: "\(stand.folder)/entities.yaml")
                for secret in ["token", "hub/tokens"] { chmod("\(stand.folder)/\(secret)", 0o600) }
                try await stand.startHub()
                await stand.configure(
                    """
                    hub: { url: "\(await stand.hubURL)", device: pump-17, token_file: "\(stand.folder)/token" }
                    socket: { path: "\(stand.socketPath)", mode: "0600" }
                    access: [{ user: "\(geteuid())", role: admin, app: stand }]
                    store: { path: "\(stand.folder)/agent" }
                    links: [{ match: "*", metered: false }]
                    entities: { notes: { kind: record, critical_fields: [state] }, readings: { kind: event } }

                    """)
                try await stand.startAgent()

                let before = try await stand.client.status().value
                #expect(before.outbox.isBalanced && before.outbox.enqueued == (kept.isFirst ? 8 : 9), "\(before)")
                #expect(
                    before.outbox.count(.done) == 5 && before.outbox.count(.rejected) == (kept.isFirst ? 0 : 1)
                        && before.outbox.count(.pending) == 3)
                #expect(before.sync.pause != nil, "a pause outlives the update")
                #expect(before.database.integrity == "ok" && before.alarms.isEmpty)
                func note(_ id: String) async throws -> Output { try await stand.agentctl("get", "notes", id) }
                #expect(try await note("n-2").text.contains("changed"), "what waits shows in the mirror")
                #expect(try await note("n-1").status == 1)
                let refused = try await stand.client.mutations(MutationListQuery(states: [.rejected])).value.items.first
                if let refused {
                    #expect(try await stand.client.mutation(MutationKey(trusted: refused.id)).value.data == #"{"title":7}"#)
                }

                _ = try await stand.client.resume()
                let after = try await stand.settleButRefused()
                #expect(after.outbox.count(.done) == 8 && after.outbox.isBalanced, "\(after.outbox)")
                let notes = try await stand.hubRecords("notes").sorted { $0.id < $1.id }
                #expect(notes.map(\.id) == ["n-2", "n-3"])
                #expect(notes.first?.data == ["title": "changed", "n": 2, "state": "open"])
                #expect(notes.last?.data == ["title": "note 3", "n": 33])
                #expect(try await stand.hubRecords("readings").count == 2)
                #expect(try await stand.hubApplied() == 8, "what the hub had was not applied again")
                if !kept.isFirst {
                    _ = try await stand.agentctl("blobs", "retry", "b-1")
                    #expect(try await stand.agentctl("blobs", "show", "b-1").text.contains("f.txt"))
                }
                guard let refused else { return }
                let again = try await stand.client.retry(MutationKey(trusted: refused.id), RetryBody(data: ["title": "seven"])).value
                _ = try await stand.settle()
                #expect(try await stand.client.mutation(again.id).value.state == "done")
            }
        }
    }
}

extension Stand {
    /// Syncs until nothing waits to be sent.
    fileprivate func settleButRefused() async throws -> StatusDocument {
        for _ in 0..<50 {
            _ = try await sync()
            let status = try await client.status().value
            if status.outbox.count(.pending) == 0, status.outbox.count(.inFlight) == 0 { return status }
        }
        throw StandError("it does not drain: \(try await client.status().value.outbox)")
    }
}
