import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// A server that commits to a standby, too, and shows a commit that the standby lacks, as it does while it shuts down.
@Suite("Commits that only the primary may have", .needsPostgres)
struct UnconfirmedReadTests {
    /// A server that waits for a standby which is not there, and a hub whose commits do not wait.
    private struct Stand {
        let bench: ReplicaBench
        let hasty: HubBench
        let hub: HubBench
        let reader: HubReader

        init() throws {
            bench = try ReplicaBench(try PostgresServer())
            hasty = try HubBench(seed: 2, place: .shared(try PostgresPlace(bench.url + "%20-csynchronous_commit%3Dlocal")))
            hub = try bench.hub()
            reader = try #require(try hub.hub.reader())
            _ = try hub.verdict(Sent("k-1", .create))
        }

        func awaitStandby(_ name: String) throws {
            try bench.server.query("ALTER SYSTEM SET synchronous_standby_names = '\(name)'")
            try bench.server.query("SELECT pg_reload_conf()")
            try bench.server.wait("SELECT current_setting('synchronous_standby_names') = '\(name)'")
        }

        /// - Parameter seconds: Time since the beginning of the test: attempts to reach a server have a pause between them.
        func pull(at seconds: Int64 = 0) throws -> (epoch: String?, ids: [String])? {
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
            let pull = PullRequest(
                streams: [StreamPosition(entity: "audits", cursor: nil)], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0)
            let request = HubRequest("POST", "/v1/sync/pull", headers: headers, body: PullMessages.request(pull))
            guard let answer = reader.answer([request], tokens: nil, at: hub.now.advanced(by: .seconds(seconds)))?[0] else { return nil }
            let ids = try PullMessages.readResponse(answer.body).pages.flatMap(\.records).map(\.id.text)
            return (answer.headers[HubHeader.epoch], ids)
        }
    }

    @Test("The own commit of a hub is confirmed by its answer, that of another one by a look, and without a standby all are")
    func confirmation() throws {
        let stand = try Stand()
        #expect(try stand.pull()?.ids == ["a-1"] && stand.reader.unconfirmed == nil)
        _ = try stand.hasty.verdict(Sent("k-2", .create, id: "a-2"), device: .two)
        #expect(try stand.pull()?.ids == ["a-1", "a-2"] && stand.reader.unconfirmed == nil)
        try stand.awaitStandby("absent")
        // The setting reaches a session with its next statement.
        #expect(try stand.pull()?.ids == ["a-1", "a-2"])
        #expect(try stand.pull() != nil && stand.reader.unconfirmed == nil)
        _ = try stand.hasty.verdict(Sent("k-3", seq: 2, .create, id: "a-3"), device: .two)
        #expect(try stand.pull()?.ids == ["a-1", "a-2", "a-3"])
        let read = try #require(stand.reader.unconfirmed)
        #expect(read.position.head == 3)
        #expect(stand.reader.look(at: stand.hub.now) == read.connection)
        stand.reader.confirm(read)
        #expect(try stand.pull() != nil && stand.reader.unconfirmed == nil)
        try stand.awaitStandby("")
        _ = try stand.hub.verdict(Sent("k-4", seq: 2, .create, id: "a-4"))
        try stand.awaitStandby("absent")
        #expect(try stand.pull()?.ids.count == 4 && stand.reader.unconfirmed == nil)
    }

    @Test("When the standby that takes over lacks a commit, the history goes on if nobody was shown the commit, and begins anew otherwise")
    func takeOver() throws {
        for isShown in [false, true] {
            let stand = try Stand()
            let epoch = stand.hub.hub.epoch
            // The commits of a backup would wait as well.
            let standby = try stand.bench.server.backUp(schema: stand.bench.schema)
            try stand.awaitStandby("absent")
            _ = try stand.pull()
            _ = try stand.hasty.verdict(Sent("k-2", .create, id: "a-2"), device: .two)
            #expect(try stand.pull()?.ids == ["a-1", "a-2"])
            // The hub that writes reads it as well, as it does for a request that its reader leaves to it.
            let pulled = try stand.hub.pull([("audits", nil)])
            #expect(pulled.pages.flatMap(\.records).count == 2)
            #expect(stand.hub.hub.takeUnconfirmed()?.position.head == 2 && stand.hub.hub.mark.head == 1)
            let read = try #require(stand.reader.unconfirmed)
            if isShown { stand.reader.confirm(read) }
            try stand.awaitStandby("")
            try stand.bench.server.restore(standby, schema: stand.bench.schema)
            try stand.bench.server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agenthub'")
            // An answer that is held back is given anew: another connection is no proof.
            #expect(stand.reader.look(at: stand.hub.now) == nil)
            #expect(stand.reader.look(at: stand.hub.now) == read.connection + 1)
            let answer = try stand.pull()
            if isShown {
                #expect(answer == nil, "it is left to the hub that writes, to which the device's cursor proves the loss")
                let proved = try stand.hub.pull([("audits", pulled.pages.first?.cursor)])
                #expect(proved.errors.map(\.problem.code) == ["epoch-changed"] && stand.hub.hub.epoch != epoch)
            } else {
                #expect(answer?.epoch == epoch && answer?.ids == ["a-1"])
                _ = try stand.hub.verdict(Sent("k-5", seq: 2, .create, id: "a-5"))
                #expect(try stand.pull()?.ids == ["a-1", "a-5"] && stand.hub.hub.epoch == epoch)
            }
        }
    }

    @Test("Over a former leader that is a standby now nothing is read for devices: it may have what its successor lacks")
    func formerLeader() throws {
        let stand = try Stand()
        let server = stand.bench.server
        #expect(try stand.pull()?.ids == ["a-1"])
        try server.stop(mode: "fast")
        try server.makeStandby()
        try server.start()
        #expect(try stand.pull() == nil, "the connection is lost")
        #expect(try stand.pull() == nil, "the server is a standby")
        // An operator may look at it.
        #expect(try HubInspector(try PostgresPlace(stand.bench.url)).stats().head == 1)
        try server.query("SELECT pg_promote()")
        #expect(try stand.pull(at: 10)?.ids == ["a-1"])
    }

    @Test(
        "A running hub answers a pull or a listing that shows the commit of another hub, after it has looked once more",
        arguments: [false, true])
    func service(isListing: Bool) async throws {
        let stand = try Stand()
        try stand.awaitStandby("absent")
        _ = try stand.hasty.verdict(Sent("k-2", .create, id: "a-2"), device: .two)
        try await ServiceTests.running(place: .shared(try PostgresPlace(stand.bench.url))) { running in
            let pull = PullRequest(
                streams: [StreamPosition(entity: "audits", cursor: nil)], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0)
            let start = ContinuousClock.now
            if isListing {
                let answer = try await running.send(.get, "/v1/sync/snapshot?entity=audits")
                #expect(try SnapshotMessages.readResponse(answer.body).records.map(\.id.text) == ["a-1", "a-2"])
            } else {
                let answer = try await running.send(.post, "/v1/sync/pull", body: PullMessages.request(pull))
                #expect(try PullMessages.readResponse(answer.body).pages.flatMap(\.records).map(\.id.text) == ["a-1", "a-2"])
            }
            // The head at the start is taken for known; no commit of this hub has confirmed it.
            #expect(ContinuousClock.now - start >= .milliseconds(100))
        }
    }
}
