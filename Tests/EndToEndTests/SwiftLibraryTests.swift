import EdgeSync
import Foundation
import Testing

extension EndToEnd {
    /// The calls of the library for apps in Swift, each against a real agent and hub.
    @Suite("SwiftLibrary")
    struct SwiftLibraryTests {
        private static let hubEntities = """
              readings: { kind: event }
              inspections: { kind: record }
              work_orders: { kind: record, undo: true, fields: { finding: manual } }
              orders: { kind: reference }
            """
        // The office alone writes orders. The device believes that it may, so the hub refuses what it sends.
        private static let agentEntities =
            hubEntities.replacingOccurrences(of: "orders: { kind: reference }", with: "orders: { kind: record }")
            + "\nlocked: [entities.orders]"

        private static func with(_ body: (Stand, AgentClient) async throws -> Void) async throws {
            try await Stand.with(entities: agentEntities, hubEntities: hubEntities) { stand in
                try await body(stand, AgentClient(socket: stand.socketPath))
            }
        }

        /// Audits in their second version, which are filled in by forms.
        private static let audits = """
              forms: { kind: reference }
              audits:
                form: { entity: forms, ref: form_id, path: schema }
                complete: { when: { status: [completed] } }
                validate: reject
                schema: 2
                versions:
                  1: { schema: { properties: { site: { type: string } } } }
                  2:
                    schema: { properties: { site_id: { type: string } } }
                    up: [ { rename: { site: site_id } } ]
            """
        private static let doors =
            #"{"id":"doors","data":{"schema":{"title":"Fire doors","sections":[{"id":"doors","fields":["#
            + #"{"id":"closes","type":"choice","choices":["pass","fail"],"required":true},"#
            + #"{"id":"reason","type":"text","required":true,"visible_when":{"closes":"fail"}}]}]}}}"#

        private func code(_ call: @Sendable () async throws(EdgeSyncError) -> Void) async -> EdgeSyncError.Code? {
            do {
                try await call()
                return nil
            } catch { return error.code }
        }

        @Test("Lists and batches are stored once however often they are sent, and waited for together")
        func manyMutations() async throws {
            try await Self.with { _, agent in
                let list: [Mutation] = [.create("inspections", "i-1", ["n": 1]), .update("inspections", "i-1", ["m": 2])]
                let receipts = try await agent.enqueueAtomic(list, key: "list-1")
                let again = try await agent.enqueueAtomic(list, key: "list-1")
                #expect(again.map(\.id) == receipts.map(\.id) && again.allSatisfy(\.isRepeat) && !receipts[0].isRepeat)

                let many = (0..<600).map { Mutation.event("readings", ["v": .integer($0)]) } + [.update("inspections", "i-9", ["n": 1])]
                let first = try await agent.enqueue(contentsOf: many, keyPrefix: "import-")
                let second = try await agent.enqueue(contentsOf: many, keyPrefix: "import-")
                #expect(first.count == 601 && !first.contains { $0.isRepeat } && second.dropLast().allSatisfy { $0.isRepeat })
                for (one, other) in zip(first, second).dropLast() { #expect(try one.result.get() == other.result.get()) }
                #expect(throws: EdgeSyncError.self) { try first[600].result.get() }

                let ids = try receipts.map(\.id) + first.dropLast().map { try $0.result.get() }
                let items = try await agent.wait(forAll: ids)
                #expect(items.map(\.id) == ids && items.allSatisfy { $0.outcome == .delivered })
                // The mutations are more than one page.
                #expect(try await agent.mutations(entity: "readings").all().count == 600)
                #expect(try await agent.status().enqueued == 602)
            }
        }

        @Test("Records are changed by operations, read in every view, and protected by their etag")
        func records() async throws {
            try await Self.with { stand, agent in
                try await agent.wait(for: agent.enqueue(.create("inspections", "i-1", ["n": 1])).id).requireDelivered()
                #expect(try await agent.readiness().isReady)
                #expect(try await agent.entities().contains { $0.name == "inspections" && $0.kind == "record" && $0.records == 1 })
                let receipt = try await agent.enqueue(
                    .update("inspections", "i-1", operations: [.init("count", .increment, 3), .init("list", .append, "x")]))
                #expect(receipt.data == ["n": 1, "count": 3, "list": "x"])
                _ = try await stand.settle()
                let record = try await agent.record("inspections", "i-1", view: .both)
                #expect(record.data == receipt.data && record.base == receipt.data && record.syncStatus == "synced")
                #expect(try await agent.record("inspections", "i-1", unless: record.etag) == nil)
                var stale = Mutation.delete("inspections", "i-1")
                stale.ifMatch = "\"0.0.0-0.0\""
                let change = stale
                #expect(await code { () throws(EdgeSyncError) in try await agent.enqueue(change) } == .preconditionFailed)
                #expect(await code { () throws(EdgeSyncError) in _ = try await agent.record("inspections", "i-9") } == .notFound)
                let unknown = Query("nonsense")
                #expect(await code { () throws(EdgeSyncError) in _ = try await agent.records(unknown).all() } == .unknownEntity)
                let large = Mutation.update("inspections", "i-1", ["x": .string(String(repeating: "x", count: 2_000_000))])
                #expect(await code { () throws(EdgeSyncError) in try await agent.enqueue(large) } == .tooLarge)
            }
        }

        @Test("A mutation is explained and cancelled while it waits, undone when the hub has it, and corrected when it is refused")
        func decisions() async throws {
            try await Self.with { stand, agent in
                let first = try await agent.enqueue(.upsert("work_orders", "wo-1", ["status": "open"]))
                try await agent.wait(for: first.id).requireDelivered()
                let second = try await agent.enqueue(.update("work_orders", "wo-1", ["status": "done"]))
                try await agent.wait(for: second.id).requireDelivered()
                #expect(try await agent.undo(second.id, dryRun: true).mutation == nil)
                let undone = try await agent.undo(second.id)
                #expect(undone.fields == ["status"] && undone.mutation?.data == ["status": "open"])
                #expect(await code { () throws(EdgeSyncError) in try await agent.undo(second.id) } == .alreadyUndone)
                #expect(await code { () throws(EdgeSyncError) in try await agent.cancel(second.id) } == .alreadySent)

                #expect(try await stand.agentctl("pause").status == 0)
                let waiting = try await agent.enqueue(.update("work_orders", "wo-1", ["n": 1]))
                let late = await code { () throws(EdgeSyncError) in _ = try await agent.wait(for: waiting.id, timeout: .milliseconds(300)) }
                #expect(late == "deadline-passed")
                #expect(try await agent.why(waiting.id).reason == "paused")
                #expect(try await agent.mutation(waiting.id).deferred == "paused")
                #expect(try await agent.cancel(waiting.id) == [waiting.id])
                #expect(try await agent.wait(for: waiting.id).outcome == .cancelled)
                #expect(try await stand.agentctl("resume").status == 0)

                let order = try await agent.enqueue(.create("orders", "o-1", ["status": "open"]))
                let rejected = try await agent.wait(for: order.id)
                #expect(rejected.outcome == .rejected && rejected.problem?.code == "forbidden")
                #expect(throws: EdgeSyncError.self) { try rejected.requireDelivered() }
                let retried = try await agent.retry(order.id, data: ["status": "closed"])
                #expect(try await agent.wait(for: retried.id).outcome == .rejected)
                try await agent.discard(retried.id, reason: "wrong form")
                #expect(try await agent.mutation(retried.id).outcome == .discarded)
            }
        }

        @Test("A conflict is listed with both sides, and decided once, for the version that was looked at")
        func conflicts() async throws {
            try await Self.with { stand, agent in
                try await agent.wait(for: agent.enqueue(.upsert("work_orders", "wo-1", ["finding": "none"])).id).requireDelivered()
                // The office writes while the device is away, and both mean the same field.
                _ = await stand.stopHub()
                var change = Mutation.update("work_orders", "wo-1", ["finding": "rail loose"])
                change.author = "ines"
                let receipt = try await agent.enqueue(change)
                let file = "\(stand.folder)/published"
                try #"{"id":"wo-1","data":{"finding":"rail bent"}}"#.write(toFile: file, atomically: false, encoding: .utf8)
                let published = try await Child.run(
                    [Programs.agenthub, "publish", "work_orders", file, "--data", "\(stand.folder)/hub"], in: stand.folder)
                #expect(published.status == 0, "\(published.talk)")
                try await stand.startHub()
                #expect(try await agent.wait(for: receipt.id).outcome == .conflict)

                let conflict = try #require(try await agent.conflicts(entity: "work_orders").all().first)
                let field = try #require(conflict.fields.first)
                #expect(field.name == "finding" && field.local.value == "rail loose" && field.local.author == "ines")
                #expect(field.remote.value == "rail bent" && field.base == "none")
                let (id, version) = (conflict.id, conflict.remoteVersion)
                #expect(
                    await code { () throws(EdgeSyncError) in
                        try await agent.resolveConflict(id, choice: .local, expectRemoteVersion: 999)
                    } == .versionMismatch)
                let decision = try await agent.resolveConflict(
                    id, fields: ["finding": .value("both")], comment: "seen on site", expectRemoteVersion: version)
                try await agent.wait(for: try #require(decision)).requireDelivered()
                #expect(try await agent.record("work_orders", "wo-1").data == ["finding": "both"])
                #expect(await code { () throws(EdgeSyncError) in try await agent.resolveConflict(id, choice: .remote) } == .alreadyResolved)
            }
        }

        @Test("An app goes on in the first version of a schema beside one in the second, and is told how far a record is by its form")
        func versionsAndForms() async throws {
            try await Stand.with(entities: Self.audits) { stand in
                let file = "\(stand.folder)/forms.ndjson"
                try Stand.write(Self.doors + "\n", to: file)
                let published = try await Child.run(
                    [Programs.agenthub, "publish", "forms", file, "--data", "\(stand.folder)/hub"], in: stand.folder)
                #expect(published.status == 0, "\(published.talk)")
                let plain = try AgentClient(socket: stand.socketPath)
                while await code({ () throws(EdgeSyncError) in _ = try await plain.record("forms", "doors") }) == .notFound {
                    _ = try await stand.sync()
                }
                let old = try AgentClient(socket: stand.socketPath, schemas: ["audits": 1])
                let new = try AgentClient(socket: stand.socketPath, schemas: ["audits": 2])
                let receipt = try await old.enqueue(.upsert("audits", "a-1", ["site": "s-1", "form_id": "doors", "closes": "fail"]))
                #expect(receipt.form == nil && receipt.data?["site"] == "s-1" && receipt.data?["site_id"] == nil)
                #expect(try await new.record("audits", "a-1").data?["site_id"] == "s-1")
                #expect(try await plain.record("audits", "a-1").data?["site_id"] == "s-1")
                var change = Mutation.update("audits", "a-1", ["site": "s-2"])
                change.schema = 1
                try await new.enqueue(change)
                let found = try await old.records(Query("audits", where: .field("site").equals("s-2"))).all()
                #expect(found.map(\.id) == ["a-1"] && found[0].data?["site_id"] == nil)

                let progress = try await old.progress("audits", "a-1")
                #expect(progress.form.state == .judged && progress.form.id == "doors" && progress.title == "Fire doors")
                #expect(progress.percent == 50 && progress.isComplete == false && progress.holes.map(\.pointer) == ["/reason"])
                #expect(progress.sections.map(\.counts.missing) == [1])
                let done = Mutation.update("audits", "a-1", ["status": "completed"])
                #expect(await code { () throws(EdgeSyncError) in try await old.enqueue(done) } == .validation)
                try await old.enqueue(.update("audits", "a-1", ["status": "completed", "reason": "hinge"]))
                let complete = try await old.progress("audits", "a-1")
                #expect(complete.percent == 100 && complete.isComplete == true && complete.saysComplete)
                let absent = try await old.enqueue(.upsert("audits", "a-2", ["form_id": "roofs"]))
                #expect(absent.form == .absent)
                #expect(try await old.progress("audits", "a-2").form.state == .absent)

                let ahead = try AgentClient(socket: stand.socketPath, schemas: ["audits": 3])
                do throws(EdgeSyncError) {
                    _ = try await ahead.record("audits", "a-1")
                    Issue.record("an unknown version was accepted")
                } catch {
                    #expect(error.code == .validation && error.status == 422 && error.fields.map(\.pointer) == ["/schema"], "\(error)")
                }
                try await stand.settle()
                let record = try await new.record("audits", "a-1", view: .server)
                #expect(record.syncStatus == "synced" && record.data?["site_id"] == "s-2" && record.data?["reason"] == "hinge")
            }
        }

        @Test("A file is stored once, shown by a record, uploaded, and read back")
        func files() async throws {
            try await Self.with { stand, agent in
                let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
                let file = try await agent.addFile(bytes: bytes, filename: "p 1.jpg", type: "image/jpeg")
                let path = "\(stand.folder)/p1.jpg"
                try Data(bytes).write(to: URL(fileURLWithPath: path))
                #expect(try await agent.addFile(at: path).id == file.id)
                #expect(file.filename == "p 1.jpg" && file.size == bytes.count && file.type == "image/jpeg")
                var change = Mutation.create("inspections", "i-1", [:])
                change.attachments = [.init("photo", file.id)]
                try await agent.enqueue(change)
                for try await event in agent.follow([.blob], after: FeedEvent.Position(rawValue: 0)) {
                    if case .file(let state) = event.content, state.id == file.id, state.state == "uploaded" { break }
                }
                let uploaded = try await agent.file(file.id)
                #expect(uploaded.links == [StoredFile.Link(entity: "inspections", recordID: "i-1", field: "photo")])
                #expect(try await agent.files(states: ["uploaded"]).all().map(\.id) == [file.id])
                #expect(try await agent.retryFile(file.id).state == "uploaded")
                #expect(try await agent.bytes(of: file.id) == bytes)
                #expect(await code { () throws(EdgeSyncError) in _ = try await agent.addFile(at: path, readBy: .agent) } == .validation)
                #expect(await code { () throws(EdgeSyncError) in _ = try await agent.bytes(of: "b-99") } == .notFound)
            }
        }
    }
}
