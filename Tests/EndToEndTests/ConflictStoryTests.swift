import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// Two inspectors, two devices, one hub: everything that can happen to the same records, told as one story.
    @Suite("Conflicts")
    struct ConflictStoryTests {
        private static let entities = """
              audits:
                kind: record
                fields: { notes: append, visits: counter, tags: set, form: merge, peak: max }
                critical_fields: [finding]
              sites: { kind: record }
              orders: { kind: record }
            """
        /// The office alone writes orders; the devices believe that they may, and do not let the hub tell them.
        private static let agentEntities = entities + "\nlocked: [entities.orders]"
        private static let hubEntities = entities.replacing("orders: { kind: record }", with: "orders: { kind: reference }")

        private static func name(_ entity: String, _ id: String) -> RecordName {
            RecordName(EntityName(trusted: entity), RecordID(trusted: id))
        }

        @discardableResult
        private static func write(
            _ client: AgentClient, _ action: NewMutation.Action, _ entity: String, _ id: String, _ data: JSONObject = [:],
            by author: String
        ) async throws -> MutationKey {
            let mutation = NewMutation(action, EntityName(trusted: entity), RecordID(trusted: id), data: data, author: author)
            return try await client.enqueue(mutation).value.id
        }

        private static func document(_ client: AgentClient, _ entity: String, _ id: String) async throws -> JSONObject? {
            try await client.record(name(entity, id)).value.data.flatMap { try JSONReader.read($0).object }
        }

        @Test("A value that the hub merges away is in the audit trail of its device, and in the hub's list")
        func lostAtHub() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                let ines = stand.client
                try await Self.write(ines, .create, "audits", "a-1", ["form": ["bolts": 8, "rails": 2], "state": "open"], by: "ines")
                _ = try await stand.settle()
                _ = try await ines.pause(PauseBody(reason: "in the tunnel"))
                try await Self.write(ines, .update, "audits", "a-1", ["form": ["bolts": 6, "rails": 2], "state": "done"], by: "ines")
                // The office writes later, and what Ines has is pushed before she hears of it.
                await stand.stopHub()
                let file = "\(stand.folder)/audit"
                try Stand.write(#"{"id":"a-1","data":{"form":{"bolts":7,"rails":2},"state":"late"}}"# + "\n", to: file)
                let published = try await Child.run(
                    [Programs.agenthub, "publish", "audits", file, "--data", "\(stand.folder)/hub"], in: stand.folder)
                #expect(published.status == 0, "\(published.talk)")
                try await stand.startHub()
                _ = try await ines.resume()
                _ = try await stand.settle()
                #expect(try await Self.document(ines, "audits", "a-1") == ["form": ["bolts": 7, "rails": 2], "state": "late"])
                let trail = try await ines.audit(AuditQuery(after: 0, limit: 100)).value.items.filter { $0.verb == "lost" }
                let fields = trail.compactMap { $0.detail.flatMap { try? JSONReader.read($0) }?.object?["field"]?.text }
                #expect(Set(fields) == ["form.bolts", "state"] && fields.count == 2, "\(trail)")
                let listed = try await Child.run([Programs.agenthub, "lost", "audits", "--data", "\(stand.folder)/hub"], in: stand.folder)
                #expect(listed.text.contains("form.bolts") && listed.text.contains("\(Stand.device), ines"), "\(listed.text)")
            }
        }

        @Test("Two inspectors work on one audit: what can be merged is, what only people decide is asked and decided, nothing is lost")
        func story() async throws {
            try await Stand.with(entities: Self.agentEntities, hubEntities: Self.hubEntities) { stand in
                let ines = stand.client
                let neighbour = try await Neighbour("gw-2", on: stand)
                do {
                    try await Self.tell(stand, ines, neighbour)
                } catch {
                    let log = neighbour.log
                    await neighbour.stop()
                    throw StandError("\(error)\nthe end of the neighbour's log:\n\(log)")
                }
                await neighbour.stop()
            }
        }

        private static func tell(_ stand: Stand, _ ines: AgentClient, _ neighbour: Neighbour) async throws {
            let tom = neighbour.client
            // Both know the audit and the site.
            try await write(
                ines, .create, "audits", "a-1",
                ["notes": "Rail", "visits": 1, "tags": ["safety"], "finding": "open", "form": ["bolts": 8, "rails": 2], "peak": 3],
                by: "ines")
            try await write(ines, .create, "sites", "s-1", ["name": "Yard"], by: "ines")
            _ = try await stand.settle()
            try await neighbour.sync()
            #expect(try await document(tom, "audits", "a-1")?["finding"] == "open")
            #expect(try await document(tom, "sites", "s-1") == ["name": "Yard"])

            // Out of reach of each other, both go on.
            _ = try await ines.pause(PauseBody(reason: "in the tunnel"))
            _ = try await tom.pause(PauseBody(reason: "in the tunnel"))
            try await write(
                ines, .update, "audits", "a-1",
                [
                    "notes": "Rail loose", "visits": 2, "tags": ["safety", "rail"], "finding": "fail",
                    "form": ["bolts": 6, "rails": 2], "peak": 7,
                ], by: "ines")
            try await write(ines, .delete, "sites", "s-1", by: "ines")
            try await write(ines, .create, "orders", "o-1", ["bolts": 4], by: "ines")
            try await write(
                tom, .update, "audits", "a-1",
                [
                    "notes": "Rail, rusty", "visits": 3, "tags": ["paint"], "finding": "pass",
                    "form": ["bolts": 8, "rails": 3], "peak": 5,
                ], by: "tom")
            let renamed = try await write(tom, .update, "sites", "s-1", ["name": "North yard"], by: "tom")

            // Ines comes out first. The office refuses her order, and her mirror forgets it.
            _ = try await ines.resume()
            for _ in 0..<3 { _ = try await stand.sync() }
            let refused = try await stand.agentctl("rejected", "list", "--json")
            #expect(refused.text.contains("forbidden") && refused.text.contains("o-1"), "\(refused.text)")
            #expect(try await document(ines, "orders", "o-1") == nil)

            // Then Tom. One field is in dispute, the rest is merged; the site is gone, and his change of it is listed.
            _ = try await tom.resume()
            for _ in 0..<3 { try await neighbour.sync() }
            let listed = try await tom.conflicts(ConflictListQuery()).value.items
            let conflict = try #require(listed.first)
            #expect(listed.count == 1 && conflict.kind == "field" && conflict.record == name("audits", "a-1"))
            let side = try #require(conflict.fields.first)
            #expect(conflict.fields.count == 1 && side.name == "finding" && side.base == "open")
            #expect(side.local.value == "pass" && side.local.author == "tom" && side.local.device == "gw-2" && side.local.at != nil)
            #expect(
                side.remote.value == "fail" && side.remote.author == "ines" && side.remote.device == Stand.device && side.remote.at != nil)
            let record = try await tom.record(name("audits", "a-1")).value
            #expect(record.status == "conflict" && record.conflict == "c-1")
            #expect(try await document(tom, "audits", "a-1")?["finding"] == "pass", "his own word is what he sees")
            let gone = try await tom.mutation(renamed).value
            #expect(gone.state == "rejected" && gone.problem?.code == "deleted" && gone.data == #"{"name":"North yard"}"#)

            // The neighbour's screens show the conflict.
            let status = try await neighbour.agentctl("status")
            #expect(
                status.status == 3 && status.text.contains("CONFLICTS 1") && status.text.contains("agentctl conflicts show c-1"),
                "\(status.text)")
            let shown = try await neighbour.agentctl("conflicts", "show", "c-1")
            #expect(shown.status == 0)
            for word in ["BASE", "LOCAL", "REMOTE", "open", "pass", "fail", "ines", "tom", "gw-2"] {
                #expect(shown.text.contains(word), "\(word) in:\n\(shown.text)")
            }
            #expect(shown.text.split(separator: "\n").allSatisfy { $0.count <= 80 })
            let old = try await neighbour.agentctl("conflicts", "resolve", "c-1", "--local", "--expect", "1")
            #expect(old.status == 1 && old.talk.contains("version"), "\(old.talk)")
            let nothing = try await neighbour.agentctl("conflicts", "show", "c-9")
            #expect(nothing.status == 1)
            let unclear = try await neighbour.agentctl("conflicts", "resolve", "c-1")
            #expect(unclear.status == 64)

            // The neighbour decides it.
            let decided = try await neighbour.agentctl(
                "conflicts", "resolve", "c-1", "--value", #"finding="fail, agreed""#, "--expect", "\(conflict.remoteVersion)",
                "--comment", "called Ines", "--author", "tom", "--json")
            #expect(decided.status == 0 && decided.text.contains("resolving"), "\(decided.text) \(decided.talk)")
            for _ in 0..<3 { try await neighbour.sync() }
            let closed = try await tom.conflict(conflict.id).value
            #expect(closed.state == "resolved" && closed.into != nil)
            #expect(closed.history?.contains { $0.object?["comment"] == "called Ines" } == true)
            #expect(try await neighbour.agentctl("conflicts", "resolve", "c-1", "--local").status == 1)
            for _ in 0..<2 { _ = try await stand.sync() }

            // The refused changes are discarded, and then everything is the same everywhere.
            _ = try await tom.discard(renamed)
            let order = try await ines.mutations(MutationListQuery(states: [.rejected])).value.items.first?.id
            _ = try await ines.discard(try #require(order.flatMap { MutationKey($0) }))
            let expected: JSONObject = [
                "notes": "Rail loose, rusty", "visits": 4, "tags": ["rail", "paint"], "finding": "fail, agreed",
                "form": ["bolts": 6, "rails": 3], "peak": 7,
            ]
            let atHub = try await stand.hubRecords("audits")
            #expect(atHub.map(\.id) == ["a-1"])
            for field in expected.names {
                #expect(atHub.first?.data[field] == expected[field], "\(field) at the hub")
                #expect(try await document(ines, "audits", "a-1")?[field] == expected[field], "\(field) at ines")
                #expect(try await document(tom, "audits", "a-1")?[field] == expected[field], "\(field) at tom")
            }
            #expect(atHub.first?.data.count == expected.count)
            #expect(try await stand.hubRecords("sites").isEmpty)
            #expect(try await stand.hubRecords("orders").isEmpty)
            for client in [ines, tom] {
                let status = try await client.status().value
                #expect(status.outbox.open == 0 && status.conflicts == 0 && status.outbox.isBalanced)
                #expect(try await client.record(name("audits", "a-1")).value.status == "synced")
                #expect(try await document(client, "sites", "s-1") == nil)
            }
        }
    }
}
