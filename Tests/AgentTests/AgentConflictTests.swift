import Foundation
import LocalAPI
import SyncCore
import Testing

@Suite("Conflicts, over the socket, with a whole agent behind them")
struct AgentConflictTests {
    private static let rules = """
        entities:
          audits: { critical_fields: [finding] }
          orders: {}
        access:
          - { user: "\(getuid())", role: admin, app: inspector }
        """

    /// An agent with `audits/a-1` in dispute: local "fail", remote "pass".
    private static func disputed(_ settings: String = rules) async throws -> AgentStand {
        let stand = try await AgentStand.start(settings)
        try stand.hub.publish("audits", "a-1", ["finding": "open", "note": "n"])
        _ = try await stand.sync()
        _ = try await stand.enqueue(
            #"{"entity":"audits","record_id":"a-1","action":"update","data":{"finding":"fail"},"author":"ines"}"#)
        try stand.hub.publish("audits", "a-1", ["finding": "pass", "note": "n"])
        _ = try await stand.sync()
        return stand
    }

    @Test("A conflict is listed with both sides, shown with its history, and in status and record")
    func shown() async throws {
        let stand = try await Self.disputed()
        let list = try await stand.send(.get, "/v1/conflicts?entity=audits&state=open")
        let item = try #require(list["items"]?.array?.first?.object)
        #expect(item["id"] == "c-1" && item["kind"] == "field" && item["state"] == "open" && item["history"] == nil)
        let side = try #require(item["fields"]?.array?.first?.object)
        #expect(side["field"] == "finding" && side["base"] == "open")
        #expect(side["local"]?.object?["value"] == "fail" && side["local"]?.object?["author"] == "ines")
        #expect(side["remote"]?.object?["value"] == "pass" && side["remote"]?.object?["device"] == "hub")
        #expect(side["remote"]?.object?["at"] != nil)
        let one = try await stand.send(.get, "/v1/conflicts/c-1")
        #expect(one["history"]?.array?.count == 1)
        #expect(try await stand.send(.get, "/v1/conflicts?entity=orders")["items"]?.array?.isEmpty == true)
        #expect(try await stand.send(.get, "/v1/conflicts/c-2").code == "not-found")
        #expect(try await stand.send(.get, "/v1/conflicts/12").code == "malformed")
        let record = try await stand.send(.get, "/v1/records/audits/a-1")
        #expect(record["sync_status"] == "conflict" && record["conflict"] == "c-1")
        let status = try await stand.send(.get, "/v1/status")
        #expect(status["overall"]?.object?["level"] == "attention" && status["conflicts"]?.object?["open"] == 1)
        try await stand.stop()
    }

    @Test("What waits behind a conflict says so")
    func why() async throws {
        let stand = try await Self.disputed()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"update","data":{"note":"m"}}"#)
        let why = try await stand.send(.get, "/v1/why/\(id)")
        #expect(why["reason"] == "conflict")
        try await stand.stop()
    }

    @Test("A decision goes to the hub; one about an older state is refused with the new sides, a second one as well")
    func resolved() async throws {
        let stand = try await Self.disputed()
        let item = try await stand.send(.get, "/v1/conflicts/c-1")
        let version = try #require(item["remote_version"]?.int)
        let old = try await stand.send(.post, "/v1/conflicts/c-1/resolve", #"{"choice":"local","expect_remote_version":1}"#)
        #expect(old.status == 409 && old.code == "version-mismatch" && old["version"]?.int == version)
        #expect(old["fields"]?.array?.first?.object?["remote"]?.object?["value"] == "pass")
        #expect(try await stand.send(.post, "/v1/conflicts/c-1/resolve", #"{"fields":{"note":"local"}}"#).status == 422)
        let body = #"{"fields":{"finding":{"value":"fail, agreed"}},"comment":"on site","expect_remote_version":\#(version)}"#
        let decided = try await stand.send(.post, "/v1/conflicts/c-1/resolve", body)
        #expect(decided.status == 200 && decided["state"] == "resolving" && decided["mutation"]?.text != nil)
        _ = try await stand.sync()
        #expect(try stand.hub.document("audits", "a-1") == ["finding": "fail, agreed", "note": "n"])
        #expect(try await stand.send(.get, "/v1/conflicts/c-1")["state"] == "resolved")
        #expect(try await stand.send(.get, "/v1/conflicts")["items"]?.array?.isEmpty == true)
        let again = try await stand.send(.post, "/v1/conflicts/c-1/resolve", #"{"choice":"local"}"#)
        #expect(again.status == 409 && again.code == "already-resolved")
        try await stand.stop()
    }

    @Test("Who may not see the entity sees no conflict of it; who may only read decides nothing")
    func roles() async throws {
        let stand = try await Self.disputed()
        stand.outside.write(
            Self.rules.replacingOccurrences(of: "role: admin", with: "role: enqueue, entities: [orders]"))
        _ = try await stand.send(.post, "/v1/config/reload")
        #expect(try await stand.send(.get, "/v1/conflicts")["items"]?.array?.isEmpty == true)
        #expect(try await stand.send(.get, "/v1/conflicts/c-1").status == 404)
        #expect(try await stand.send(.post, "/v1/conflicts/c-1/resolve", #"{"choice":"local"}"#).status == 404)
        try await stand.stop()
    }
}
