import HubPostgres
import PostgresStand
import SyncCore
import Synchronization
import Testing

@testable import HubServer

/// The ways in which the server finds the rows that devices ask for. A plan is made without the values, over tables whose statistics may be
/// missing: the first minute of a new database may bring the largest fleet.
@Suite("Plans of a server", .needsPostgres)
struct PostgresPlanTests {
    /// Keeps the connections that a hub and its reader open, so that a test can ask about their statements.
    private final class Watched: HubDatabasePlace {
        let place: PostgresPlace
        private let opened = Mutex<[Held]>([])

        init(_ place: PostgresPlace) { self.place = place }

        var description: String { place.description }
        var databases: [any HubDatabase] { opened.withLock { $0.map(\.database) } }

        func open() throws(DatabaseError) -> any HubDatabase { held(try place.open()) }
        func openForReading(mayLag: Bool) throws(DatabaseError) -> any HubDatabase { held(try place.openForReading(mayLag: mayLag)) }

        private func held(_ database: any HubDatabase) -> any HubDatabase {
            let held = Held(database: database)
            opened.withLock { $0.append(held) }
            return database
        }
    }

    /// Used by one thread, that of the test.
    private struct Held: @unchecked Sendable {
        let database: any HubDatabase
    }

    private struct Plan: CustomStringConvertible {
        var statement: String
        var lines: [String]

        var description: String { statement.prefix(200) + "\n" + lines.joined(separator: "\n") }
    }

    private static func plans(_ databases: [any HubDatabase]) throws -> [Plan] { try databases.flatMap { try plans($0) } }

    private static let cursor = "DECLARE stream NO SCROLL CURSOR FOR "

    /// The plans of all statements that the connection has prepared. They are made without values, as a connection of the hub demands.
    /// A plan that the session has kept is shown as it is.
    private static func plans(_ database: any HubDatabase) throws -> [Plan] {
        let statements = try database.all("SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements ORDER BY name")
        {
            ($0.text(0), $0.text(1), Int($0.int(2)))
        }
        var plans: [Plan] = []
        for (prepared, text, count) in statements {
            // The rows of a cursor are planned when it is declared.
            let isStreamed = text.hasPrefix(cursor)
            let (name, statement) = isStreamed ? ("streamed", String(text.dropFirst(cursor.count))) : (prepared, text)
            let words = statement.split(separator: " ").first.map(String.init) ?? ""
            guard ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"].contains(words) else { continue }
            // A decision sends values in settings before its statements, and a plan depends on them.
            for part in statement.split(separator: "current_setting('agenthub.").dropFirst() {
                let name = "agenthub." + part.prefix { $0 != "'" }
                let value = ["agenthub.base", "agenthub.shift", "agenthub.same"].contains(name) ? "0" : "{}"
                _ = try database.text("SELECT set_config('\(name)', '\(value)', false)")
            }
            let values = count > 0 ? "(" + Array(repeating: "NULL", count: count).joined(separator: ", ") + ")" : ""
            if isStreamed { try database.execute("PREPARE streamed AS \(statement)") }
            plans.append(Plan(statement: statement, lines: try database.all("EXPLAIN EXECUTE \(name)\(values)") { $0.text(0) }))
            if isStreamed { try database.execute("DEALLOCATE streamed") }
        }
        return plans
    }

    /// Tables that grow with the fleet. Walking through one of them is never the way.
    private static let large = [
        "record", "mutation_key_text", "mutation_key_13", "device_number", "replica", "device", "refused_create", "blob", "blob_wait",
        "record_scope", "record_file", "device_keeping", "commit_log",
    ]

    /// Statements that walk through a table on purpose: once for a hub whose own row is gone, for the `total` of a first page, for the
    /// comparison of a whole entity, once when the scope fields of an entity have changed, and once a day for the texts of old rejections.
    /// The commits of a device are asked for when it has lost scopes: an entry of their index stands for 128 pages, so the server rightly
    /// walks through a part that is as small as here, and `KeyTableTests` holds that each part has the index. Some files are asked for
    /// until the database has the id of its folder; here there are none, and with statistics the server rightly walks.
    private static func isRare(_ statement: String) -> Bool {
        statement.hasPrefix("SELECT coalesce(max(n), 0) FROM (SELECT max(version)") || statement.hasPrefix("SELECT count(*) FROM record")
            || statement.hasPrefix(comparison)
            || statement.hasPrefix("DELETE FROM record_scope WHERE entity = ") && !statement.contains("scope = ")
            || statement.hasPrefix("UPDATE mutation_key") || statement.hasPrefix("SELECT version FROM mutation_key WHERE device = ")
            || isOfStart(statement) || statement.hasPrefix("SELECT digest FROM blob ORDER BY digest LIMIT")
    }

    private static let comparison = "SELECT id, version FROM record WHERE entity = "

    /// The first row of the log of commits, and the numbers of devices, of a database of before and of a new one.
    private static func isOfStart(_ statement: String) -> Bool {
        statement.hasPrefix("INSERT INTO commit_log") && (statement.contains("SELECT 1, head") || statement.contains("coalesce(max(n), 0)"))
            || statement.hasPrefix("INSERT INTO device_number") && statement.contains("FROM device)")
    }

    private static func check(_ databases: [any HubDatabase], _ when: String) throws {
        let plans = try Self.plans(databases)
        #expect(plans.count >= 12, "\(when): only \(plans.count) statements were seen")
        #expect(plans.contains { $0.statement.hasPrefix(comparison) }, "\(when): no whole entity was compared")
        for plan in plans where !isRare(plan.statement) {
            for table in large {
                #expect(
                    !plan.lines.contains { $0.contains("Seq Scan on \(table) ") || $0.hasSuffix("Seq Scan on \(table)") },
                    "\(when): \(plan)")
            }
            #expect(!plan.lines.contains { $0.contains("Seq Scan on mutation_key_p") }, "\(when): \(plan)")
        }
        func uses(_ index: String, _ condition: String, _ statements: (String) -> Bool) {
            let found = plans.filter { statements($0.statement) }
            #expect(!found.isEmpty, "\(when): no statement for \(index)")
            for plan in found {
                let place = plan.lines.firstIndex { $0.contains("using \(index) ") || $0.contains("Index Scan on \(index)") }
                #expect(place != nil, "\(when): expected \(index)\n\(plan)")
                guard let place else { continue }
                // All of the condition is in the index: a filter would read what it throws away.
                #expect(plan.lines[place...].dropFirst().first?.contains(condition) == true, "\(when): expected \(condition)\n\(plan)")
            }
        }
        // A record by its name, one or many at once; never the feed of its whole entity.
        uses("record_pkey", "(id = ") { $0.hasPrefix("SELECT") && $0.contains("FROM record WHERE entity = ") && $0.contains("id = ") }
        // A part of the seeds, between two ids or to the end.
        uses("record_pkey", "(id > ") { $0.contains("data LIKE") }
        uses("record_by_commit", "ROW(version, id) > ") { !$0.contains("record_scope") && $0.contains("(version, id) > (") }
        uses("record_by_commit", "ROW(version, id) > ") {
            $0.contains("unnest") && !$0.contains("record_scope") && $0.contains("(version, id) > (")
        }
        // The newest commit of each entity, one step in each index for it, and of each scope.
        uses("record_by_commit", "= found.name") { $0.contains("AS newest FROM found") }
        uses("record_pkey", "entity IS NOT NULL") { $0.contains("SELECT min(entity) FROM record") }
        uses("record_scope_by_commit", "version > ") { $0.contains("ORDER BY version DESC LIMIT 1") }
        uses("record_scope_by_commit", "ROW(version, id) > ") { $0.contains("FROM record_scope") && $0.contains("(version, id) > (") }
        uses("record_scope_pkey", "(id > ") { $0.contains("FROM record_scope") && $0.contains("id > u.v3") }
        uses("record_scope_pkey", "(scope = ") { $0.hasPrefix("SELECT id, version FROM record_scope WHERE entity = ") }
        uses("record_file_pkey", "(digest = ") { $0.hasPrefix("SELECT r.") && $0.contains("FROM record_file WHERE digest = ") }
        for (table, index) in [("mutation_key_p\(KeyTables.part(of: .one, in: 16))", "by_key"), ("mutation_key_text", "pkey")] {
            uses("\(table)_\(index)", "(key = ") { $0.contains("uuid_send(k.fingerprint)") && $0.contains("FROM \(table) k") }
        }
        uses("device_number_pkey", "(device = ") { $0.contains("INSERT INTO mutation_key") && !$0.contains("mutation_key_13") }
        // Housekeeping, which must find what is old without looking at the rest.
        uses("record_by_commit", "ROW(version, id) <= ") { $0.hasPrefix("DELETE FROM record WHERE (entity || '')") }
        uses("record_tombstone", "updated_at_ms < ") { $0.hasPrefix("SELECT entity, id, version FROM record") }
        uses("record_scope_past", "at_ms < ") { $0.hasPrefix("SELECT entity, scope, id, version FROM record_scope") }
        uses("refused_create_past", "at_ms < ") { $0.hasPrefix("SELECT device, entity, id FROM refused_create") }
        uses("record_file_record", "(id = ") { $0.contains("digest FROM record_file WHERE entity = ") && $0.contains("unnest") }
        // Rows that were read are compared one by one, never by a walk through the table.
        uses("record_pkey", "(entity = u.v1)") { $0.hasPrefix("SELECT 1 / ") && $0.contains("FROM record r") }
        uses("mutation_key_p0_by_key", "(device = u.v1)") { $0.hasPrefix("SELECT 1 / ") && $0.contains("FROM mutation_key k") }
        uses("mutation_key_text_pkey", "(device = u.v1)") { $0.hasPrefix("SELECT 1 / ") && $0.contains("FROM mutation_key_text k") }
        // The newest row of a device comes first, whatever else the index has.
        uses("replica_newest", "(device = ") { $0.contains("FROM replica WHERE device = ") && $0.contains("unnest") }
        uses("replica_returning", "(device = ") { $0.contains("FROM replica WHERE device = ") && $0.contains("unnest") }
        uses("device_newest", "(id = ") { $0.contains("SELECT replica FROM device WHERE id = ") }
        uses("replica_newest", "(device = u.v1)") { $0.hasPrefix("SELECT 1 / ") && $0.contains("FROM replica r") }
        uses("device_newest", "(id = u.v1)") { $0.hasPrefix("SELECT 1 / ") && $0.contains("FROM device d") }
        uses("replica_newest", "(device = u.v1)") { $0.hasPrefix("WITH pair") && $0.contains("INSERT INTO replica") }
        uses("device_newest", "(id = u.v1)") { $0.hasPrefix("WITH pair") && $0.contains("INSERT INTO device") }
    }

    /// Every request of a device.
    private static func use(_ bench: HubBench, _ reader: HubReader, _ name: String, from first: Int) throws {
        for device in [DeviceID.one, .two] {
            let typed = [first, first + 1].map { Sent(KeysBefore.uuid($0), seq: Int64($0), .create, id: "\(name)-\($0)") }
            _ = bench.push(typed, device: device)
            _ = bench.push([typed[0], Sent("\(name)-d", .update, dependsOn: [KeysBefore.uuid(first)])], device: device)
            _ = bench.send("POST", "/v1/sync/hello", ["device_id": .string(device.text)], device: device)
            _ = bench.push([Sent("\(name)-1", .create, id: name), Sent("\(name)-2", seq: 2, .update, id: name)], device: device)
            _ = bench.push([Sent("\(name)-3", seq: 3, .update, id: "nothing-\(name)")], device: device)
        }
        // A key that is known.
        _ = bench.push([Sent("\(name)-1", .create, id: name)])
        _ = bench.push([Sent("\(name)-n", .create, "notes", id: name)])
        // A file that records show, and one that none does.
        let digest = String(repeating: "ab", count: 32)
        let photo: JSON = ["$blob": .string("sha256:" + digest), "size": 1, "type": "image/jpeg", "state": "pending"]
        _ = bench.push([Sent("\(name)-p", seq: 4, .create, "work_orders", id: "\(name)-p", data: ["assignee": "gw-1", "photo": photo])])
        _ = bench.send("GET", "/v1/blobs/" + digest)
        _ = bench.push([Sent("\(name)-o", .create, "work_orders", id: "\(name)-o", data: ["assignee": "gw-1", "site": "s-1"])])
        // The hub answers what its reader leaves.
        try read(bench, reader)
        let before = bench.readerAnswers
        bench.reader = reader
        try read(bench, reader)
        bench.reader = nil
        #expect(bench.readerAnswers - before >= 8)
        let news = reader.changes(after: HubSight(head: 0), at: bench.now) { Dictionary(uniqueKeysWithValues: $0.map { ($0, [1]) }) }
        #expect(news?.changes.scopes[ScopeBench.orders] != nil)
        // Events with a file, and what housekeeping finds of them after 8 days.
        for part in 1...2 {
            let event = Sent("\(name)-e\(part)", seq: Int64(9 + part), .create, "log", id: "\(name)-e\(part)", data: ["photo": photo])
            _ = bench.push([event])
            bench.now = bench.now.advanced(by: .seconds(4 * 86_400))
            try bench.hub.housekeep(at: bench.now)
        }
        #expect(try bench.hub.record(RecordName("log", RecordID(trusted: "\(name)-e1"))) == nil)
    }

    /// Every request that only reads.
    private static func read(_ bench: HubBench, _ reader: HubReader) throws {
        func share(_ site: String) {
            bench.hub.settings.access.devices[.one, default: Grants()].scopes["site"] = [site]
            reader.hub.settings.access = bench.hub.settings.access
        }
        func compare(_ entity: EntityName, at cursor: String) throws {
            let request = VerifyMessages.request(VerifyRequest(entity: entity, cursor: cursor, digest: EntityDigest()))
            let answer = bench.send("POST", "/v1/sync/verify", try JSONReader.read(request))
            #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
        }
        let orders = ScopeBench.orders
        share("s-1")
        let pulled = try bench.pull([("notes", nil), ("audits", nil)], namesEntities: true)
        #expect(pulled.pages.count == 2 && pulled.entities?.contains("notes") == true)
        try compare("audits", at: try #require(pulled.pages.last?.cursor))
        try compare(orders, at: try #require(try bench.pull([(orders, nil)]).pages.first?.cursor))
        for isSeed in [false, true] {
            _ = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 1_000, isSeed: isSeed))
        }
        _ = bench.send("POST", "/v1/sync/known", ["keys": .list([KeysBefore.uuid(1), "k-1"])])
        // A scope that is gained, and one that is lost.
        let cursor = try bench.pull([(orders, nil)]).pages.first?.cursor
        share("s-2")
        _ = try bench.pull([(orders, cursor)])
        _ = try bench.list(SnapshotRequest(entity: orders, after: nil, limit: 10))
    }

    private static var rules: RuleBook {
        var (rules, log, audits) = (ScopeBench.rules, EntityRules(), EntityRules())
        (log.kind, log.keepEvents) = (.event, .seconds(7 * 86_400))
        audits.seedFilter = SeedFilter(["assignee": SeedFilter.device])
        (rules.entities["log"], rules.entities["audits"], rules.entities["notes"]) = (log, audits, EntityRules())
        return rules
    }

    @Test(
        "Every statement of a device's requests goes by an index, over empty and over full tables, with and without statistics",
        arguments: [false, true])
    func indexes(_ isAnalyzed: Bool) throws {
        let bench = try ReplicaBench()
        var place = try PostgresPlace(bench.url)
        // Each transaction is planned anew, as it is after some seconds.
        place.patience.plansMilliseconds = 0
        let watched = Watched(place)
        let hub = try HubBench(rules: Self.rules, place: .shared(watched))
        let reader = try #require(try hub.hub.reader())
        let files = try StorageKind.folder.make()
        let folder = try #require(try files.storage() as? any IdentifiedFolder)
        var random = SeededRandom(seed: 1)
        hub.hub.settings.uploads = HubUploads(SharedFolder(folder, candidate: FolderID(using: &random)) { _ in })
        try Self.use(hub, reader, "empty", from: 100)
        if isAnalyzed {
            // An operator does so each night. Over a table of one page the server rightly walks, and keeps the plan.
            try bench.server.query("ANALYZE", schema: bench.schema)
            try Self.use(hub, reader, "small", from: 150)
            let plans = try Self.plans(watched.databases)
            #expect(plans.contains { $0.lines.contains { $0.contains("Seq Scan on record ") } }, "there is nothing to renew")
        } else {
            try Self.check(watched.databases, "empty tables without statistics")
        }
        // Rows as of a fleet, put there at once: the server has had no time to look at them.
        try bench.server.query(
            """
            ALTER TABLE record SET (autovacuum_enabled = off); ALTER TABLE mutation_key_text SET (autovacuum_enabled = off);
            INSERT INTO record(entity, id, version, data, hlc, writer, origin_key, updated_at_ms)
            SELECT 'audits', 'r-' || n, 10 + n, '{"a":1}', '0199c3f2a1b4-0007-9f2c11ab', 'gw', 'k', 1 FROM generate_series(1, 30000) n;
            INSERT INTO record_scope(entity, scope, id, since, version, state, at_ms)
            SELECT 'work_orders', n % 500, 'r-' || n, n, n, 0, 1 FROM generate_series(1, 30000) n;
            INSERT INTO device_number(device, number) SELECT 'd-' || n, n % 16 * 134217728 + 1000 + n FROM generate_series(0, 4999) n;
            INSERT INTO mutation_key(device, key, fingerprint, status, version)
            SELECT n % 500 % 16 * 134217728 + 1000 + n % 500, CAST(lpad(to_hex(n), 32, '0') AS UUID), '00112233445566778899aabbccddeeff', 0, n
            FROM generate_series(1, 60000) n;
            INSERT INTO mutation_key_text(device, key, fingerprint, status, version)
            SELECT n % 500 % 16 * 134217728 + 1000 + n % 500, 'k-' || n, '00112233445566778899aabbccddeeff', 0, n FROM generate_series(1, 30000) n;
            INSERT INTO device(id, first_seen_ms, last_seen_ms) SELECT 'd-' || n, 1, 1 FROM generate_series(1, 3000) n;
            INSERT INTO replica(device, id, first_seen_ms, last_seen_ms) SELECT 'd-' || n, 'r', 1, 1 FROM generate_series(1, 3000) n;
            INSERT INTO refused_create(device, entity, id, version, at_ms)
            SELECT 'd-' || n, 'audits', 'r', 1, 1795208400000 + n FROM generate_series(1, 3000) n;
            INSERT INTO device_keeping(device, entity, since_ms) SELECT 'd-' || n, 'audits', 1 FROM generate_series(1, 3000) n;
            INSERT INTO blob_wait(digest, entity, record_id)
            SELECT lpad(to_hex(n), 64, 'cd'), 'work_orders', 'r-' || n FROM generate_series(1, 3000) n;
            INSERT INTO record_file(digest, entity, id, shown, namer)
            SELECT lpad(to_hex(n % 500), 64, 'ab'), 'work_orders', 'r-' || n, 1, '' FROM generate_series(1, 30000) n;
            INSERT INTO commit_log(n, head, linked, granted, applied, duplicates, conflicts, rejected, retried)
            SELECT n, 40000, 40000, 1, 0, 0, 0, 0, 0 FROM generate_series(1000, 9000) n
            """, schema: bench.schema)
        try Self.use(hub, reader, "full", from: 200)
        try Self.check(watched.databases, isAnalyzed ? "full tables with the statistics of small ones" : "full tables without statistics")
        guard isAnalyzed else { return }
        try bench.server.query("ANALYZE", schema: bench.schema)
        try Self.use(hub, reader, "known", from: 300)
        try Self.check(watched.databases, "full tables with statistics")
    }

    @Test("While keys lie in the table of before, they are found by its key, and moved page by page")
    func earlierKeys() throws {
        let bench = try ReplicaBench()
        do { _ = try bench.hub().verdict(Sent("k-1", .create)) }
        try KeysBefore.goBack(bench)
        // The table has as many rows as that of a fleet, because the planner rightly walks through a table of one page.
        try bench.server.query(
            """
            ALTER TABLE mutation_key SET (autovacuum_enabled = off);
            INSERT INTO mutation_key(device, key, fingerprint, status, version, at_ms)
            SELECT 'gw-1', 'k-' || n, '\\x00112233445566778899aabbccddeeff', 0, n, 1 FROM generate_series(10, 30000) n
            """, schema: bench.schema)
        let place = Watched(try PostgresPlace(bench.url))
        let hub = try HubBench(rules: Self.rules, place: .shared(place))
        let database = try #require(place.databases.last)
        func check(_ when: String) throws {
            var run = try hub.hub.beginHousekeeping(at: hub.now)
            run.keysMax = 1
            while !run.isOver {
                if case .earlierKeys? = run.task {
                    try hub.hub.housekeep(&run)
                    break
                }
                try hub.hub.housekeep(&run)
            }
            let plans = try Self.plans(database).filter { $0.lines.contains { $0.contains(" on mutation_key_13") } }
            for plan in plans where !Self.isRare(plan.statement) {
                #expect(!plan.lines.contains { $0.contains("Seq Scan on mutation_key_13") }, "\(when): \(plan)")
                let line = plan.lines.first { $0.contains(" on mutation_key_13") && $0.contains("Scan") } ?? ""
                let isMove = plan.statement.contains("ctid")
                #expect(line.contains(isMove ? "Tid Range Scan" : "mutation_key_13_pkey"), "\(when): \(plan)")
            }
            #expect(plans.contains { $0.statement.contains("uuid_send(k.fingerprint)") }, "\(when)")
            #expect(plans.contains { $0.statement.contains("SKIP LOCKED") }, "\(when)")
        }
        _ = hub.push([Sent(KeysBefore.uuid(4), seq: 4, .create, id: "a-4"), Sent("k-5", seq: 5, .create, id: "a-5")])
        try check("without statistics")
        try bench.server.query("ANALYZE", schema: bench.schema)
        _ = hub.push([Sent(KeysBefore.uuid(6), seq: 6, .create, id: "a-6"), Sent("k-7", seq: 7, .create, id: "a-7")])
        try check("with statistics")
    }

    @Test("The check sees a record that is looked for in the feed of its entity")
    func control() throws {
        let bench = try ReplicaBench()
        let place = try PostgresPlace(bench.url)
        _ = try HubBench(place: .shared(place))
        try bench.server.query(
            "DROP INDEX record_by_commit; CREATE INDEX record_by_commit ON record(entity, version, id)", schema: bench.schema)
        let database = try place.open()
        _ = try database.all("SELECT data FROM record WHERE entity = ? AND id = ?", .text("audits"), .text("a-1")) { $0.text(0) }
        let plan = try #require(try Self.plans(database).first { $0.statement.hasPrefix("SELECT data FROM record") })
        #expect(!plan.lines.contains { $0.contains("using record_pkey ") }, "\(plan)")
    }

    @Test("A database of before gets its index while another hub goes on writing; one that was left half done is made anew")
    func upgrade() throws {
        let bench = try ReplicaBench()
        let old = try bench.hub()
        #expect(try old.verdict(Sent("k-1", .create)).word == "accepted")
        // As the step before left it, and a build that broke off.
        try KeysBefore.goBack(bench)
        try bench.server.query(
            """
            DROP INDEX record_by_commit; CREATE INDEX record_feed ON record(entity, version, id); UPDATE hub_schema SET version = 5;
            CREATE INDEX record_by_commit ON record(version)
            """, schema: bench.schema)
        try bench.server.query(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'record_by_commit'::regclass", schema: bench.schema)
        let workers = (0..<3).map { index in Worker { try bench.hub(seed: UInt64(index)).hub.epoch } }
        #expect(Set(try workers.map { try $0.join() }) == [old.hub.epoch])
        #expect(try old.verdict(Sent("k-2", seq: 2, .create, id: "a-2")).word == "accepted")
        let indexes = try bench.server.query(
            """
            SELECT c.relname, i.indisvalid, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relname LIKE 'record_%' AND c.relnamespace = current_schema()::regnamespace ORDER BY 1
            """, schema: bench.schema)
        #expect(indexes.contains { $0[0] == "record_by_commit" && $0[1] == "t" && $0[2]?.contains("version, id") == true }, "\(indexes)")
        #expect(!indexes.contains { $0[0] == "record_feed" }, "\(indexes)")
        #expect(try bench.server.query("SELECT version FROM hub_schema", schema: bench.schema) == [["17"]])
    }
}
