import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// A foreign backend that does not know the agent, with ids, versions and rules of its own.
    @Suite(
        "An existing REST backend", .disabled(if: RestBackend.python == nil, "EDGE_SYNC_PYTHON names no Python with djangorestframework"))
    struct RestTests {
        private static func with(_ body: (Stand, RestBackend) async throws -> Void) async throws {
            try await Stand.with(entities: Stand.standardEntities, hub: false, agent: false) { stand in
                let backend = try await RestBackend(on: stand)
                do {
                    try await stand.configure(backend.configuration(of: stand))
                    try await stand.startAgent()
                    try await body(stand, backend)
                } catch {
                    let seen = (try? await backend.faults()) ?? []
                    await backend.stop()
                    throw StandError("\(error)\nthe last requests: \(seen.suffix(30))")
                }
                await backend.stop()
            }
        }

        private static func name(_ entity: String, _ id: String) -> RecordName {
            RecordName(EntityName(trusted: entity), RecordID(trusted: id))
        }

        @discardableResult
        private static func write(
            _ stand: Stand, _ action: NewMutation.Action, _ entity: String, _ id: String, _ data: JSONObject = [:],
            _ operations: [FieldOperation] = []
        ) async throws -> MutationKey {
            let mutation = NewMutation(
                action, EntityName(trusted: entity), RecordID(trusted: id), data: data, operations: operations, author: "ines")
            return try await stand.client.enqueue(mutation).value.id
        }

        private static func document(_ stand: Stand, _ entity: String, _ id: String) async throws -> JSONObject? {
            try await stand.client.record(name(entity, id)).value.data.flatMap { try JSONReader.read($0).object }
        }

        /// A record that the backend made has one id on both sides. A record that an app made has no number as its name here.
        private static func serverID(_ stand: Stand, _ entity: String, _ id: String) async throws -> Int64? {
            try await stand.client.record(name(entity, id)).value.serverID.flatMap { Int64($0) } ?? Int64(id)
        }

        /// Every record here is, field by field, what the backend shows, with ids and names of each side's own.
        private static func compare(_ stand: Stand, _ backend: RestBackend, _ records: [(entity: String, id: String)]) async throws {
            for (entity, id) in records {
                let local = try await document(stand, entity, id)
                guard let number = try await serverID(stand, entity, id) else {
                    Issue.record("\(entity)/\(id) has no id at the backend: \(String(describing: local))")
                    continue
                }
                let row = try await backend.rows(entity)[number]
                guard var local else {
                    #expect(row == nil, "\(entity)/\(id) is gone here and \(number) is there")
                    continue
                }
                guard var row else {
                    Issue.record("\(entity)/\(id) is here and \(number) is not there")
                    continue
                }
                for (field, parent) in [("site", "sites"), ("order", "orders")] where local[field]?.isNull == false {
                    let named = local[field]?.idText ?? ""
                    let known = try await serverID(stand, parent, named) ?? Int64(named)
                    #expect(known == row[field]?.int, "\(entity)/\(id).\(field): \(named) is \(String(describing: known)) there")
                    (local[field], row[field]) = (nil, nil)
                }
                if entity == "orders" {
                    row["headline"] = row["title"]
                    row["title"] = nil
                }
                #expect(local == row, "\(entity)/\(id)")
            }
        }

        @Test("Offline work is sent with its references; changes, additions and deletions of others come back; nothing is asked twice")
        func roundTrip() async throws {
            try await Self.with { stand, backend in
                _ = try await stand.client.pause(PauseBody(reason: "in the tunnel"))
                try await Self.write(stand, .create, "remarks", "r-1", ["text": "first", "order": "o-1"])
                try await Self.write(
                    stand, .create, "orders", "o-1", ["headline": "Pump", "site": "s-1", "visits": 1, "notes": "a", "finding": ""])
                try await Self.write(stand, .create, "sites", "s-1", ["name": "Yard"])
                for number in 2...12 { try await Self.write(stand, .create, "sites", "s-\(number)", ["name": .string("Yard \(number)")]) }
                _ = try await stand.client.resume()
                _ = try await stand.settle()
                #expect(try await backend.rows("sites").count == 12)
                #expect(try await backend.rows("orders").count == 1)
                #expect(try await backend.rows("remarks").count == 1)
                var known: [(entity: String, id: String)] = [("remarks", "r-1"), ("orders", "o-1")]
                for number in 1...12 { known.append(("sites", "s-\(number)")) }
                try await Self.compare(stand, backend, known)
                #expect(try await Self.document(stand, "remarks", "r-1")?["order"] == "o-1", "apps keep the name that they gave")

                // The office works, too: more than one page of it.
                let pump = try #require(try await Self.serverID(stand, "orders", "o-1"))
                try await backend.change(order: pump, ["title": "Pump 7"])
                let yard = try #require(try await Self.serverID(stand, "sites", "s-1"))
                for number in 1...7 {
                    let row: JSONObject = ["title": .string("Office \(number)"), "site": .int(yard)]
                    let made = try JSONReader.read(try await backend.call(.post, "/api/orders/", row).body)
                    let id = try #require(made.object?["id"]?.int)
                    known.append(("orders", String(id)))
                }
                #expect(try await stand.sync() == "ok")
                #expect(try await Self.document(stand, "orders", "o-1")?["headline"] == "Pump 7")
                try await Self.compare(stand, backend, known)
                let office = try #require(known.last?.id)
                #expect(
                    try await Self.document(stand, "orders", office)?["site"] == "s-1",
                    "a reference to what was made here has its name here")

                // Here one of theirs is changed and one is deleted; there, ours.
                try await Self.write(stand, .update, "orders", office, ["headline": "Ours"])
                try await Self.write(stand, .delete, "orders", known[known.count - 2].id)
                try await Self.write(stand, .update, "remarks", "r-1", ["text": "no such request"])
                _ = try await stand.sync()
                _ = try await stand.sync()
                #expect(try await backend.rows("orders")[Int64(office) ?? 0]?["title"] == "Ours")
                #expect(try await backend.rows("orders").count == 7)
                let refused = try await stand.client.mutations(MutationListQuery(states: [.rejected])).value.items
                #expect(refused.map(\.problem?.code) == ["unsupported"])
                let tag = try await backend.call(.get, "/api/orders/\(pump)/", nil).headers["ETag"] ?? ""
                try await backend.call(.delete, "/api/orders/\(pump)/", nil, [("If-Match", tag)])
                #expect(try await stand.sync() == "ok")
                #expect((try? await Self.document(stand, "orders", "o-1")) == nil)
                let doctor = try await stand.client.checklist().value.findings.first { $0.id == "backend_writes" }
                #expect(doctor?.severity == .warn && doctor?.detail.contains("remarks: a creation whose answer is lost is parked") == true)
            }
        }

        @Test(
            "Two sides change one record: counts add up, texts are joined, what people decide is asked, and nothing is overwritten unseen")
        func conflicts() async throws {
            try await Self.with { stand, backend in
                try await Self.write(stand, .create, "orders", "o-1", ["headline": "Pump", "visits": 1, "notes": "a", "finding": "open"])
                _ = try await stand.settle()
                let pump = try #require(try await Self.serverID(stand, "orders", "o-1"))
                _ = try await stand.client.pause(PauseBody(reason: "in the tunnel"))
                try await Self.write(stand, .update, "orders", "o-1", ["visits": 3, "notes": "a, ours", "headline": "Pump ours"])
                try await backend.change(order: pump, ["visits": 11, "notes": "a, theirs"])
                try await backend.faults(forget: true)
                // The relay says 412 once more while the change is under way; then it goes on what is there.
                try await backend.faults([("PATCH", "/api/orders/", "412", 1)])
                _ = try await stand.client.resume()
                _ = try await stand.settle()
                let row = try #require(try await backend.rows("orders")[pump])
                #expect(row["visits"] == 13 && row["title"] == "Pump ours" && row["notes"]?.text?.hasPrefix("a, theirs") == true)
                #expect(row["notes"]?.text?.contains("ours") == true)
                let patches = try await backend.faults().filter { $0[0] == "PATCH" }
                #expect(patches.allSatisfy { !$0[3].isEmpty } && patches.count == 2, "\(patches)")
                try await Self.compare(stand, backend, [("orders", "o-1")])

                _ = try await stand.client.pause(PauseBody(reason: "in the tunnel"))
                try await Self.write(stand, .update, "orders", "o-1", ["finding": "pass"])
                try await backend.change(order: pump, ["finding": "fail"])
                _ = try await stand.client.resume()
                _ = try await stand.sync()
                let asked = try #require(try await stand.client.conflicts(ConflictListQuery()).value.items.first)
                #expect(try await backend.rows("orders")[pump]?["finding"] == "fail")
                _ = try await stand.client.resolve(asked.id, ConflictDecision(.all(.local)))
                _ = try await stand.settle()
                #expect(try await backend.rows("orders")[pump]?["finding"] == "pass")
                try await Self.compare(stand, backend, [("orders", "o-1")])
            }
        }

        @Test(
            "Lost answers: repeated under a key, looked up, read, or held when the outcome cannot be known; a killed agent remembers that")
        func lostAnswers() async throws {
            try await Self.with { stand, backend in
                try await backend.faults([
                    ("POST", "/api/sites/", "reset-after", 1), ("POST", "/api/orders/", "reset-after", 1),
                    ("POST", "/api/remarks/", "500-after", 1),
                ])
                _ = try await stand.client.pause(PauseBody(reason: "together"))
                try await Self.write(stand, .create, "sites", "s-1", ["name": "Yard"])
                try await Self.write(stand, .create, "orders", "o-1", ["headline": "Pump", "visits": 1, "notes": "", "finding": ""])
                let remark = try await Self.write(stand, .create, "remarks", "r-1", ["text": "lost"])
                _ = try await stand.client.resume()
                for _ in 0..<4 { _ = try? await stand.sync() }
                await stand.killAgent()
                try await stand.startAgent()
                try await Self.untilHeld(stand, remark)
                #expect(try await backend.rows("sites").count == 1)
                #expect(try await backend.rows("orders").count == 1)
                #expect(try await backend.rows("remarks").count == 1)
                let held = try await stand.client.mutation(remark).value
                #expect(held.state == "held" && held.problem?.code == "outcome-unknown")
                try await Self.compare(stand, backend, [("sites", "s-1"), ("orders", "o-1")])

                // A count whose answer is lost: the backend's number may contain it or the count of another client, so the agent does not
                // add it again.
                try await backend.faults([("PATCH", "/api/orders/", "reset-after", 1)])
                let count = try await Self.write(stand, .update, "orders", "o-1", [:], [FieldOperation("visits", .increment, 1)])
                try await Self.untilHeld(stand, count)
                #expect(try await backend.rows("orders").values.first?["visits"] == 2)
                #expect(try await stand.client.mutation(count).value.problem?.code == "outcome-unknown")
                // The operator has looked, and it is there.
                _ = try await stand.client.discard(count)
                _ = try await stand.client.discard(remark)
                #expect(try await stand.sync() == "ok")
                try await Self.compare(stand, backend, [("sites", "s-1"), ("orders", "o-1")])
            }
        }

        @Test("A list that shows a creation before its lost answer is repeated makes no second record of it")
        func listedBeforeItsAnswer() async throws {
            try await Self.with { stand, backend in
                // A request that the backend is still busy with ends no cycle, so the list comes before the next repeat.
                try await backend.faults([("POST", "/api/sites/", "reset-after", 1), ("POST", "/api/sites/", "409", 1)])
                try await Self.write(stand, .create, "sites", "s-1", ["name": "Yard"])
                _ = try await stand.settle()
                let seen = try await backend.faults()
                let order = seen.compactMap { request in
                    request[1].hasPrefix("/api/sites/") && ["POST", "GET"].contains(request[0]) ? request[0] + request[2] : nil
                }
                let refused = try #require(order.firstIndex(of: "POST409"))
                let repeated = try #require(order[refused...].firstIndex(of: "POST"))
                #expect(order[refused..<repeated].contains("GET"), "\(order)")
                #expect(
                    try await stand.client.query(RecordListQuery(EntityName(trusted: "sites"))).value.items.map(\.name.id.text) == ["s-1"])
                try await Self.compare(stand, backend, [("sites", "s-1")])
            }
        }

        @Test("A quarter of all requests is lost, broken or refused: everything arrives once, or is held and named", arguments: [1, 2])
        func faults(_ seed: Int) async throws {
            try await Self.with { stand, backend in
                var random = SeededRandom(seed: UInt64(seed))
                try await backend.faults(share: 0.25, seed: seed)
                var visits: [String: Int] = [:]
                var known: [(entity: String, id: String)] = []
                var remarks: [MutationKey: String] = [:]
                for number in 1...8 {
                    try await Self.write(stand, .create, "sites", "s-\(number)", ["name": .string("Yard \(number)")])
                    try await Self.write(
                        stand, .create, "orders", "o-\(number)",
                        ["headline": .string("Order \(number)"), "site": .string("s-\(number)"), "visits": 0, "notes": "", "finding": ""])
                    known += [("sites", "s-\(number)"), ("orders", "o-\(number)")]
                    let key = try await Self.write(
                        stand, .create, "remarks", "r-\(number)", ["text": .string("remark \(number)"), "order": .string("o-\(number)")])
                    remarks[key] = "remark \(number)"
                    if Bool.random(using: &random) { _ = try? await stand.sync() }
                    let id = "o-\(Int.random(in: 1...number, using: &random))"
                    try await Self.write(stand, .update, "orders", id, ["headline": .string("Renamed \(number)")])
                    visits[id, default: 0] += 1
                }
                for _ in 0..<12 { _ = try? await stand.sync() }
                try await backend.faults()
                // Only the mutation that waits for its own retry is left now.
                let end = ContinuousClock.now + FieldStand.patience
                var open = try await Self.open(stand)
                while !open.isEmpty, ContinuousClock.now < end {
                    _ = try? await stand.sync()
                    open = try await Self.open(stand)
                }
                #expect(open.isEmpty, "\(open)")
                let held = try await stand.client.mutations(MutationListQuery(states: [.held])).value.items
                #expect(held.allSatisfy { $0.problem?.code == "outcome-unknown" && $0.record.entity.text == "remarks" }, "\(held)")
                #expect(try await stand.client.mutations(MutationListQuery(states: [.rejected, .failed, .conflicted])).value.items.isEmpty)
                #expect(try await backend.rows("sites").count == 8)
                #expect(try await backend.rows("orders").count == 8)
                let texts = try await backend.rows("remarks").values.compactMap { $0["text"]?.text }
                #expect(Set(texts).count == texts.count, "\(texts)")
                for (key, text) in remarks where !held.contains(where: { $0.id == key.text }) {
                    #expect(texts.contains(text))
                    known.append(("remarks", "r-" + text.dropFirst(7)))
                }
                _ = try await stand.sync()
                try await Self.compare(stand, backend, known)
            }
        }

        /// Syncs until the outcome of the mutation cannot be found out any more and it is held.
        private static func untilHeld(_ stand: Stand, _ key: MutationKey) async throws {
            let end = ContinuousClock.now + FieldStand.patience
            while ContinuousClock.now < end {
                _ = try? await stand.sync()
                if try await stand.client.mutation(key).value.state == MutationState.held.name { return }
            }
        }

        /// The mutations that still have to go.
        private static func open(_ stand: Stand) async throws -> [String] {
            try await stand.client.mutations(MutationListQuery(states: [.pending, .inFlight])).value.items.map {
                "\($0.record) \($0.state)"
            }
        }
    }
}
