import Foundation
import Glibc
import PostgresStand
import ProcessStand
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// The real hub on a database of an older schema, whose keys it moves while it serves.
    @Suite("Keys of an earlier schema", .enabled(if: PostgresServer.isInstalled, "PostgreSQL is not installed here"))
    struct KeyMoveTests {
        /// Enough for many slices.
        private static let others = 60_000
        private static let sent = 20

        /// Pushes mutations with keys of both forms, always the same, and returns the words of the hub.
        private static func push(_ stand: Stand) async throws -> Set<String> {
            let mutations = (1...sent).map { n in
                let key = n.isMultiple(of: 2) ? KeysBefore.uuid(n) : "k-\(n)"
                return #"{"seq":\#(n),"idempotency_key":"\#(key)","entity":"work_orders","record_id":"w-\#(n)","action":"create","#
                    + #""data":{"n":\#(n)},"base_version":0,"hlc":"0199c3f2a1b4-0000-9f2c11ab"}"#
            }
            let request = HTTPRequest(
                .post, "\(await stand.hubURL)/v1/sync/push",
                headers: [
                    "Sync-Version": "1", "Sync-Device": "peer", "Sync-Replica": "0199c3f2-a1b4-7000-8000-00000000abcd",
                    "Content-Type": "application/json",
                ], body: .bytes(Array(#"{"acked_seq":0,"mutations":[\#(mutations.joined(separator: ","))]}"#.utf8)))
            // A connection to a hub that was killed is not used again.
            stand.transport.closeIdleConnections()
            let response = try await stand.transport.send(request)
            guard response.status == 200 else {
                throw StandError("push: \(response.status) \(String(decoding: response.body, as: UTF8.self))")
            }
            let results = try JSONReader.read(response.body).object?["results"]?.array ?? []
            guard results.count == sent else { throw StandError("\(results.count) results") }
            return Set(results.map { $0.object?["status"]?.text ?? "" })
        }

        /// A session that keeps rows for itself, which a move leaves: on a busy machine it would be over before the hub is killed.
        private struct RowKeeper {
            private let server: PostgresServer
            /// True for the session alone.
            private let isKeeper: String

            init(_ server: PostgresServer, _ schema: String, beyond seq: Int) throws {
                self.server = server
                isKeeper = "query LIKE 'BEGIN; %\(schema).mutation_key_13%pg_sleep%' AND pid <> pg_backend_pid()"
                let sql = """
                    BEGIN; SELECT count(*) FROM (SELECT FROM \(schema).mutation_key_13 WHERE seq > \(seq) FOR UPDATE) AS kept;
                    SELECT pg_sleep(86400)
                    """
                // It ends with an error when it is ended.
                let thread = Thread { _ = try? server.query(sql, schema: schema) }
                thread.start()
                try server.wait("EXISTS (SELECT FROM pg_stat_activity WHERE \(isKeeper) AND wait_event = 'PgSleep')")
            }

            func end() throws {
                try server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \(isKeeper)")
                try server.wait("NOT EXISTS (SELECT FROM pg_stat_activity WHERE \(isKeeper))")
            }
        }

        @Test("The hub is killed again and again while it moves its keys: each mutation stays known, and no key is lost or doubled")
        func killed() async throws {
            let server = try PostgresServer.shared.get()
            let database = try server.newURL()
            let schema = PostgresServer.schema(of: database)
            func number(_ sql: String) throws -> Int { try server.query(sql, schema: schema)[0][0].flatMap { Int($0) } ?? -1 }
            let left = "SELECT count(*) FROM \(schema).mutation_key_13"
            let all = """
                SELECT (SELECT count(*) FROM mutation_key) + (SELECT count(*) FROM mutation_key_text)
                + (SELECT count(*) FROM mutation_key_earlier)
                """
            try await Stand.with(hub: false, agent: false) { stand in
                let clock = try ClockWarp("\(stand.folder)/clock")
                await stand.setEnvironment(agent: [:], hub: clock.environment)
                await stand.setHubArguments(["--database", database, "--open"])
                try await stand.startHub()
                #expect(try await Self.push(stand) == ["accepted"])
                await stand.killHub()
                try server.query(KeysBefore.statements, schema: schema)
                try server.query(
                    """
                    INSERT INTO mutation_key(device, key, fingerprint, seq, status, version, at_ms)
                    SELECT 'peer', '0199c3f2-a1b4-7007-9000-' || lpad(to_hex(n), 12, '0'), decode(md5(CAST(n AS TEXT)), 'hex'), n, 0, 1, 1
                    FROM generate_series(1, \(Self.others)) AS n
                    """, schema: schema)
                let total = Self.others + Self.sent
                for round in 0..<3 {
                    try await stand.startHub()
                    #expect(try await Self.push(stand) == ["duplicate"], "round \(round)")
                    // Housekeeping begins a minute after the start.
                    let before = try number(left)
                    let keeper = try RowKeeper(server, schema, beyond: Self.others / 4 * (round + 1))
                    clock.pass(.seconds(61))
                    try server.wait("(\(left)) < \(before)", schema: schema)
                    await stand.killHub()
                    try keeper.end()
                    #expect(try number(left) > 0, "round \(round): in the middle")
                    #expect(try number(all) == total, "round \(round)")
                }
                try await stand.startHub()
                #expect(try await Self.push(stand) == ["duplicate"])
                clock.pass(.seconds(61))
                var looks = 0
                while try number("SELECT count(*) FROM pg_class WHERE oid = to_regclass('\(schema).mutation_key_13')") > 0 {
                    try server.query("SELECT pg_sleep(0.005)")
                    looks += 1
                    // It stays until the next day if another session had it just then, such as one that cleans up.
                    if looks.isMultiple(of: 2_000) { clock.pass(.seconds(24 * 3_600)) }
                }
                #expect(try await Self.push(stand) == ["duplicate"])
                #expect(try number(all) == total)
                let invalid = """
                    SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                    WHERE c.relnamespace = current_schema()::regnamespace AND NOT i.indisvalid
                    """
                #expect(try number(invalid) == 0)
                await stand.killHub()
            }
        }
    }
}
