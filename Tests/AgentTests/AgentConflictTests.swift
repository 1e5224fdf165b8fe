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

    @Test("Mutations behind a conflict name it as their reason")
    func why() async throws {
        let stand = try await Self.disputed()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"update","data":{"note":"m"}}"#)
        let why = try await stand.send(.get, "/v1/why/\(id)")
        #expect(why["reason"] == "conflict")
        try await stand.stop()
    }

    /// An agent with an atomic list over `audits/a-1` and `audits/a-2`, both in dispute, and `orders/o-1`.
    private static func disputedList() async throws -> AgentStand {
        let stand = try await AgentStand.start(rules)
        for id in ["a-1", "a-2"] { try stand.hub.publish("audits", id, ["finding": "open"]) }
        _ = try await stand.sync()
        let changes = ["a-1", "a-2"].map { #"{"entity":"audits","record_id":"\#($0)","action":"update","data":{"finding":"fail"}}"# }
        let order = #"{"entity":"orders","record_id":"o-1","action":"create","data":{"n":1}}"#
        let list = try await stand.send(
            .post, "/v1/mutations", #"{"atomic":true,"mutations":[\#((changes + [order]).joined(separator: ","))]}"#)
        #expect(list.status == 201)
        for id in ["a-1", "a-2"] { try stand.hub.publish("audits", id, ["finding": "pass"]) }
        _ = try await stand.sync()
        return stand
    }

    @Test("An atomic list waits until all of its conflicts are decided, then takes effect as one; the answers say so")
    func list() async throws {
        let stand = try await Self.disputedList()
        let first = try await stand.send(.post, "/v1/conflicts/c-1/resolve", #"{"choice":"local"}"#)
        #expect(first.status == 200)
        #expect(first["list"] == ["go_on": 0, "wait": 3, "let_go": 0, "waits_for": ["c-2"]])
        _ = try await stand.sync()
        #expect(try stand.hub.document("audits", "a-1") == ["finding": "pass"] && stand.hub.document("orders", "o-1") == nil)
        let second = try await stand.send(.post, "/v1/conflicts/c-2/resolve", #"{"choice":"remote"}"#)
        #expect(second["list"] == ["go_on": 2, "wait": 0, "let_go": 1, "waits_for": []])
        _ = try await stand.sync()
        #expect(try stand.hub.document("audits", "a-1") == ["finding": "fail"])
        #expect(try stand.hub.document("audits", "a-2") == ["finding": "pass"])
        #expect(try stand.hub.document("orders", "o-1") == ["n": 1])
        try await stand.stop()
    }

    @Test("A whole atomic list is let go with one decision")
    func wholeList() async throws {
        let stand = try await Self.disputedList()
        let refused = try await stand.send(.post, "/v1/conflicts/c-1/resolve", #"{"choice":"local","whole":true}"#)
        #expect(refused.status == 422 && refused["errors"]?.array?.first?.object?["pointer"] == "/whole")
        let decided = try await stand.send(.post, "/v1/conflicts/c-2/resolve", #"{"choice":"remote","whole":true}"#)
        #expect(decided.status == 200 && decided["state"] == "resolved")
        #expect(decided["list"] == ["go_on": 0, "wait": 0, "let_go": 3, "waits_for": []])
        _ = try await stand.sync()
        #expect(try stand.hub.document("audits", "a-1") == ["finding": "pass"] && stand.hub.document("orders", "o-1") == nil)
        #expect(try await stand.send(.get, "/v1/conflicts")["items"]?.array?.isEmpty == true)
        try await stand.stop()
    }

    @Test("Taking a creation back names the changes that went with it")
    func cancelled() async throws {
        let stand = try await AgentStand.start(Self.rules)
        _ = try await stand.send(.post, "/v1/pause", "{}")
        let made = try await stand.enqueue(#"{"entity":"orders","record_id":"o-1","action":"create","data":{"n":1},"coalesce":false}"#)
        let edit = try await stand.enqueue(#"{"entity":"orders","record_id":"o-1","action":"update","data":{"n":2},"coalesce":false}"#)
        let answer = try await stand.send(.delete, "/v1/mutations/\(made)")
        #expect(answer.status == 200 && answer["state"] == "cancelled")
        #expect(answer["cancelled"]?.array == [.string(made), .string(edit)])
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

    @Test("A caller without access to the entity sees no conflict of it, and a reader decides nothing")
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
