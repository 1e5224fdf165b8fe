import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// The database of a gateway is put back from a copy, and apps go on before the hub is reached.
    @Suite("An older copy of the agent's database")
    struct OlderCopyTests {
        private static let orders = EntityName(trusted: "work_orders")
        private static let entities = "      work_orders: { kind: record, fields: { n: counter } }"

        private func change(_ action: NewMutation.Action, _ data: JSONObject, adding count: Int) -> NewMutation {
            NewMutation(
                action, Self.orders, RecordID(trusted: "w-1"), data: data,
                operations: action == .create ? [] : [FieldOperation("n", .increment, .int(count))])
        }

        @Test(
            "A change that waited in the copy and was sent since is not mixed with a new edit: both count once", arguments: [false, true])
        func editedAgain(_ wasEditedBefore: Bool) async throws {
            try await Stand.with(entities: Self.entities) { stand in
                _ = try await stand.client.enqueue(change(.create, ["n": 0, "t": "new"], adding: 0))
                _ = try await stand.settle()
                await stand.stopHub()
                _ = try await stand.client.enqueue(change(.update, ["t": "first"], adding: 1))
                await stand.stopAgent()
                let folder = "\(stand.folder)/agent", copy = "\(stand.folder)/agent-copy"
                try FileManager.default.copyItem(atPath: folder, toPath: copy)

                // In the time that the copy does not know, the change is sent, perhaps with another edit in it.
                try await stand.startAgent()
                if wasEditedBefore { _ = try await stand.client.enqueue(change(.update, ["u": "lost"], adding: 100)) }
                try await stand.startHub()
                _ = try await stand.settle()
                await stand.stopHub()
                await stand.stopAgent()
                // The whole folder, as an image of the machine: the mark beside the database goes back with it.
                try FileManager.default.removeItem(atPath: folder)
                try FileManager.default.moveItem(atPath: copy, toPath: folder)

                try await stand.startAgent()
                _ = try await stand.client.enqueue(change(.update, ["t": "second"], adding: 10))
                try await stand.startHub()
                let status = try await stand.settle()
                #expect(status.outbox.counts[.rejected, default: 0] == 0, "nothing waits for a person")
                let data = try #require(try await stand.hubRecords("work_orders").first?.data)
                #expect(data["n"]?.int == (wasEditedBefore ? 111 : 11), "\(JSON.object(data).json)")
                #expect(data["t"] == "second")
                #expect(try await stand.sync() == "ok")
                let shown = try await stand.client.record(RecordName(Self.orders, RecordID(trusted: "w-1"))).value
                #expect(try shown.data.map { try JSONReader.read($0) } == .object(data))
            }
        }

        @Test("A file that was taken after the copy was made is taken up again with its bytes, and uploaded")
        func newerFile() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                await stand.stopHub()
                await stand.stopAgent()
                let database = "\(stand.folder)/agent/agent.db", copy = "\(stand.folder)/copy.db"
                try FileManager.default.copyItem(atPath: database, toPath: copy)
                try await stand.startAgent()
                let (path, digest) = try stand.file("rail.jpg", bytes: 200_000)
                #expect(try await stand.agentctl("blobs", "add", path).status == 0)
                await stand.stopAgent()
                try FileManager.default.removeItem(atPath: path)
                try FileManager.default.removeItem(atPath: database)
                try FileManager.default.moveItem(atPath: copy, toPath: database)

                try await stand.startHub()
                try await stand.startAgent()
                // A listing waits until the folder was looked through.
                let (other, _) = try stand.file("other.jpg", bytes: 10)
                #expect(try await stand.agentctl("blobs", "add", other).status == 0)
                let items = try await stand.client.blobs(BlobListQuery()).value.items
                let item = try #require(items.first { $0.digest == digest.description })
                try await stand.untilUploaded([item.id])
                #expect(try stand.hubBytes(digest).map { SHA256.hash($0) } == digest.bytes)
            }
        }

        @Test("A file whose record was sent is kept until it is uploaded; by force its loss is told, and the same file heals it")
        func files() async throws {
            try await Stand.with(entities: "      audits: { kind: record }") { stand in
                await stand.stopHub()
                let (path, _) = try stand.file("rail.jpg", bytes: 300_000)
                let added = try await stand.agentctl("blobs", "add", path, "--for", "audits/a-1", "--field", "photo", "--json")
                let id = try #require(BlobItem(try JSONReader.read(added.text))?.id)
                let refused = try await stand.agentctl("blobs", "remove", id)
                #expect(refused.status == 1 && refused.talk.contains("agentctl blobs remove \(id) --force"), "\(refused.talk)")
                let forced = try await stand.agentctl("blobs", "remove", id, "--force")
                #expect(forced.status == 0 && forced.text == "\(id) missing\n", "\(forced.text)\(forced.talk)")
                let blob = try #require(BlobID(id))
                let lost = try await stand.client.blob(blob).value
                #expect(lost.state == "missing" && lost.error?.contains("removed by uid") == true)
                #expect(try await stand.client.status().value.blobs?.missing == 1)
                _ = try await stand.agentctl("blobs", "add", path)
                #expect(try await stand.client.blob(blob).value.state != "missing")
            }
        }

        @Test("agentctl get shows the etag that enqueue --if-match takes; a stale one is refused with the next step")
        func conditions() async throws {
            try await Stand.with(entities: "      audits: { kind: record }") { stand in
                _ = try await stand.agentctl("enqueue", "audits", "a-1", "--data", #"{"n":1}"#)
                let note = try await stand.agentctl("get", "audits", "a-1").talk
                let tag = try #require(note.split(separator: "\"").dropFirst().first.map { String($0) }, "\(note)")
                #expect(try await stand.agentctl("enqueue", "audits", "a-1", "--data", #"{"n":2}"#, "--if-match", tag).status == 0)
                let stale = try await stand.agentctl("enqueue", "audits", "a-1", "--data", #"{"n":3}"#, "--if-match", tag)
                #expect(
                    stale.status == 1 && stale.talk.contains("changed since it was read") && stale.talk.contains("read the record again"))
                let odd = try await stand.agentctl("enqueue", "audits", "a-1", "--data", #"{"n":3}"#, "--if-match", "a b")
                #expect(odd.status == 64 && odd.talk.contains("--if-match"))
            }
        }
    }
}
