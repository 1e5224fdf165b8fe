import Foundation
import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import Testing

/// A server that goes away, hangs, or says no.
@Suite("Failures of the database server", .needsPostgres)
struct ServerFailureTests {
    private static let endOthers = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agenthub'
        """

    @Test("A connection that was cut between two requests is made again, and no device notices")
    func idleConnection() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        _ = try hub.verdict(Sent("k-1", .create))
        try bench.server.query(Self.endOthers)
        #expect(try hub.verdict(Sent("k-2", seq: 2, .create, id: "a-2")).word == "accepted")
        try bench.server.query(Self.endOthers)
        #expect(try hub.follow("audits").pages.flatMap(\.records).count == 2)
    }

    @Test("A connection that is cut before the commit takes everything with it, and the repeated push goes through once")
    func cutBeforeCommit() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        hub.hub.beforeCommit = {
            _ = try? bench.server.query(Self.endOthers)  // The expectation below fails then.
            return true
        }
        let push = [Sent("k-1", .create), Sent("k-2", seq: 2, .create, id: "a-2")]
        let answer = hub.push(push)
        #expect(answer.status == 503 && answer.headers["Retry-After"] == "5")
        hub.hub.beforeCommit = nil
        #expect(try bench.hub().hub.head == 0)
        #expect(try hub.verdicts(push).map(\.verdict.word) == ["accepted", "accepted"])
        #expect(try hub.hub.stats().counters.applied == 2)
    }

    @Test("A replica that stops in the middle of a push loses its turn: the others go on, and it repeats")
    func hangs() throws {
        let bench = try ReplicaBench()
        _ = try bench.hub()
        let ofSchema = "WHERE relnamespace = '\(bench.schema)'::regnamespace"
        let (reached, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let hanging = Worker {
            defer { reached.signal() }
            // Longer than the pauses of a hub that works on a busy machine.
            let hub = try bench.hub { $0.patience.idleMilliseconds = 2_000 }
            hub.hub.beforeCommit = {
                reached.signal()
                goOn.wait()
                return true
            }
            let first = hub.push([Sent("k", .create, id: "hanging")]).status
            hub.hub.beforeCommit = nil
            return (first, try hub.verdict(Sent("k", .create, id: "hanging")).word)
        }
        reached.wait()
        let outcome = Result {
            let version = try bench.hub().verdict(Sent("k", .create, id: "other"), device: .two).version
            try bench.server.wait(
                "NOT EXISTS (SELECT FROM pg_locks WHERE relation IN (SELECT oid FROM pg_class \(ofSchema)))", schema: bench.schema)
            return version
        }
        goOn.signal()
        #expect(try outcome.get() == 1, "the server has ended the transaction that did nothing")
        let (first, second) = try hanging.join()
        #expect(first == 503 && second == "accepted")
    }

    @Test("The limits of time that are shipped are those of the manual, and the sessions of a hub have them")
    func patience() throws {
        let patience = PostgresPlace.Patience()
        #expect(patience.lockMilliseconds == 5_000 && patience.statementMilliseconds == 15_000)
        #expect(patience.stalledMilliseconds == 400 && patience.connectSeconds == 5)
        var root = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        let manual = try String(contentsOf: root.appendingPathComponent("deploy/docs/hub-on-postgresql.md"), encoding: .utf8)
            .replacing("\n  ", with: " ").replacing("\n", with: " ")
        for sentence in [
            "when its hub is silent for \(patience.idleMilliseconds / 1_000) s",
            "a push which had to lock first after \(patience.idleWithPushesMilliseconds / 1_000) s",
            "a replica that has waited 0.\(TransactionPurpose.busyMilliseconds / 100) s for the lock",
            "the hub waits \(patience.answerMilliseconds / 1_000) s for an answer",
            "plan its statements anew every \(patience.plansMilliseconds / 1_000) s",
        ] {
            #expect(manual.contains(sentence), "\(sentence)")
        }
        let place = try PostgresPlace(try ReplicaBench().url)
        let settings = """
            SELECT current_setting('statement_timeout') || ' ' || current_setting('lock_timeout') || ' '
            || current_setting('idle_in_transaction_session_timeout') || ' ' || current_setting('jit') || ' '
            || current_setting('bytea_output')
            """
        for database in [try place.open(), try place.openForReading(mayLag: false)] {
            #expect(try database.first(settings) { $0.text(0) } == "15s 5s 4s off hex")
        }
        let pushing = try place.open()
        try pushing.begin(.writingIfFree)
        #expect(try pushing.first(settings) { $0.text(0) } == "15s 500ms 1s off hex")
        try pushing.rollback()
        #expect(try pushing.first(settings) { $0.text(0) } == "15s 5s 4s off hex")
    }

    @Test("A server that is stopped and started, or crashes, costs answers and nothing else")
    func restarts() throws {
        let server = try PostgresServer()
        let bench = try ReplicaBench(server)
        let hub = try bench.hub()
        _ = try hub.verdict(Sent("k-0", .create, id: "a-0"))
        for (round, mode) in ["fast", "immediate"].enumerated() {
            try server.stop(mode: mode)
            let push = [Sent("k-\(round + 1)", seq: Int64(round + 2), .create, id: "a-\(round + 1)")]
            #expect(hub.push(push).status == 503)
            #expect(hub.send("GET", "/readyz").status == 503)
            #expect(hub.send("GET", "/v1/probe?n=x").status == 204, "the hub is here, whatever its database does")
            try server.start()
            // Its attempts have a pause between them, by the clock that the requests bring.
            hub.now = hub.now.advanced(by: .seconds(10))
            #expect(try hub.verdicts(push).map(\.verdict.word) == ["accepted"])
        }
        #expect(try hub.hub.stats().counters.applied == 3)
    }

    @Test("A standby is no place for a hub: it calls itself not ready, and goes on when the standby is promoted")
    func standby() throws {
        let server = try PostgresServer()
        let bench = try ReplicaBench(server)
        let hub = try bench.hub()
        _ = try hub.verdict(Sent("k-1", .create))
        try server.stop(mode: "fast")
        try server.makeStandby()
        try server.start()
        let push = [Sent("k-2", seq: 2, .create, id: "a-2")]
        #expect(hub.push(push).status == 503)
        hub.now = hub.now.advanced(by: .seconds(10))
        #expect(hub.send("GET", "/readyz").status == 503)
        let error = #expect(throws: HubError.self) { try bench.hub() }
        #expect(error?.description.contains("the server is a standby") == true, "\(error?.description ?? "")")
        try server.query("SELECT pg_promote()")
        hub.now = hub.now.advanced(by: .seconds(10))
        #expect(try hub.verdicts(push).map(\.verdict.word) == ["accepted"])
    }

    @Test("A commit whose wait for its standby is cancelled is not acknowledged, and the repeated push waits for the standby")
    func withoutStandby() throws {
        let server = try PostgresServer()
        let bench = try ReplicaBench(server)
        let hub = try bench.hub()
        _ = try hub.verdict(Sent("k-1", .create))
        try server.query("ALTER SYSTEM SET synchronous_standby_names = 'absent'")
        try server.query("SELECT pg_reload_conf()")
        try server.wait("SELECT current_setting('synchronous_standby_names') = 'absent'")
        let push = [Sent("k-2", seq: 2, .create, id: "a-2")]
        let pushing = Worker { try bench.hub(seed: 2).push(push).status }
        let isWaiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'agenthub'"
        try server.wait("SELECT count(*) > 0 \(isWaiting)")
        try server.query("SELECT pg_cancel_backend(pid) \(isWaiting)")
        #expect(try pushing.join() == 503, "the server has answered COMMIT, and a warning")
        try server.query("ALTER SYSTEM RESET synchronous_standby_names")
        try server.query("SELECT pg_reload_conf()")
        #expect(try hub.verdicts(push).map(\.verdict.word) == ["duplicate"])
    }

    @Test("Where the server says that two transactions met, the push is done again, and takes effect once")
    func serializationFailures() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        // A rollback does not reset a sequence, so the first two inserts fail, on whatever connection.
        try bench.server.query(
            """
            CREATE SEQUENCE tries; CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'met' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$;
            CREATE TRIGGER meet BEFORE INSERT ON record FOR EACH ROW EXECUTE FUNCTION meet();
            """, schema: bench.schema)
        #expect(try hub.verdict(Sent("k-1", .create)).word == "accepted")
        #expect(try hub.hub.stats().counters.json == ["applied": 1, "duplicates": 0, "conflicts": 0, "rejected": 0, "retried": 0])
        #expect(hub.hub.head == 1)
        try bench.server.query("ALTER SEQUENCE tries MINVALUE -1000 RESTART WITH -1000", schema: bench.schema)
        let answer = hub.push([Sent("k-2", seq: 2, .create, id: "a-2")])
        #expect(answer.status == 503 && String(decoding: answer.body, as: UTF8.self).contains("overloaded"))
        #expect(hub.hub.head == 1)
    }

    @Test("A request that the server refuses does not affect the others of its transaction")
    func isolated() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        try bench.server.query("ALTER TABLE record ADD CHECK (id <> 'bad')", schema: bench.schema)
        func request(_ device: DeviceID, _ id: String) -> HubRequest {
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: device, replica: "r").write(to: &headers)
            let body: JSON = ["mutations": .array([.object(Sent("k-\(id)", .create, id: id).json)])]
            return HubRequest("POST", "/v1/sync/push", headers: headers, body: body.bytes)
        }
        let answers = hub.hub.handle([request(.one, "a-1"), request(.two, "bad"), request(.one, "a-2")], at: hub.now)
        #expect(answers.map(\.status) == [200, 503, 200])
        #expect(try hub.follow("audits").pages.flatMap(\.records).map(\.id.text) == ["a-1", "a-2"])
        #expect(try hub.hub.stats().keys == 2)
    }

    @Test(
        "A server that is not there is said in one line, and a URL that does not read is too, without what it holds",
        arguments: [
            ("postgres:///x?host=/nowhere&user=hub", "/nowhere"), ("mysql://x", "expected postgres://"),
            ("postgres://u:secret@[::1/x", "expected postgres://"), ("postgres:///x?sslmode=maybe&host=/nowhere", "sslmode"),
        ])
    func notThere(_ url: String, _ word: String) throws {
        let error = #expect(throws: HubError.self) {
            try Hub(.shared(try PostgresPlace(url)), settings: Hub.Settings(), random: SeededRandom(seed: 1))
        }
        #expect(error?.description.contains(word) == true && error?.description.contains("secret") == false, "\(error?.description ?? "")")
    }
}
