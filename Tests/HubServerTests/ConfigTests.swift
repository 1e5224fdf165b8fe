import HubServer
import SyncCore
import Testing

/// PROTOCOL A12 at the hub.
@Suite("Server-driven configuration", .eachEngine)
struct HubConfigTests {
    private static let rules: JSONObject = ["entities": ["audits": ["kind": "record", "priority": "bulk"]]]

    @Test("It is named with every answer to a device, given when asked for, and not given twice")
    func given() throws {
        let bench = try HubBench()
        #expect(try JSONReader.read(bench.send("GET", "/v1/config").body) == ["version": 0])
        #expect(bench.send("POST", "/v1/sync/hello", [:]).headers[HubHeader.config] == nil)
        let config = HubConfiguration(Self.rules)
        bench.hub.settings.config = config
        let answer = bench.send("GET", "/v1/config")
        #expect(answer.status == 200)
        let body = try #require(JSONReader.read(answer.body).object)
        #expect(body["version"]?.int == config.version && body["entities"] == Self.rules["entities"])
        for response in [answer, bench.send("POST", "/v1/sync/hello", [:]), bench.push([])] {
            #expect(response.headers[HubHeader.config] == String(config.version))
        }
        let tag = try #require(answer.headers["ETag"])
        let again = bench.send("GET", "/v1/config", headers: [("If-None-Match", tag)])
        #expect(again.status == 304 && again.body.isEmpty && again.headers["ETag"] == tag)
        #expect(bench.send("GET", "/v1/config", headers: [("If-None-Match", "\"1\", \(tag)")]).status == 304)
        #expect(bench.send("GET", "/v1/config", headers: [("If-None-Match", "\"1\"")]).status == 200)
    }

    @Test("Its version is that of its content")
    func version() {
        var other = Self.rules
        other["strict_entities"] = true
        #expect(HubConfiguration(Self.rules).version == HubConfiguration(Self.rules).version)
        #expect(HubConfiguration(Self.rules).version != HubConfiguration(other).version)
        #expect(HubConfiguration(other).version < 1 << 53)
    }

    @Test("Strangers are told nothing")
    func strangers() throws {
        var tokens = TokenBook()
        var random = SeededRandom(seed: 4)
        _ = tokens.add(.one, at: Timestamp(milliseconds: 0), using: &random)
        let bench = try HubBench(tokens: tokens)
        bench.hub.settings.config = HubConfiguration(Self.rules)
        let answer = bench.send("GET", "/v1/config")
        #expect(answer.status == 401 && answer.headers[HubHeader.config] == nil)
    }

    @Test(
        "A document that is not as the schema says is refused with its places, and nothing else of the batch",
        arguments: [
            EntityRules.Validation.reject, .warn, .off,
        ])
    func validates(_ validation: EntityRules.Validation) throws {
        var rules = EntityRules()
        rules.schema = try DocumentSchema(["required": ["value"], "properties": ["value": ["enum": ["pass", "fail"]]]])
        rules.validation = validation
        let bench = try HubBench(rules: RuleBook([EntityName(trusted: "audits"): rules]))
        func create(_ seq: Int, _ data: JSON) -> JSON {
            [
                "seq": .int(seq), "idempotency_key": .string("k-\(seq)"), "entity": "audits", "record_id": .string("a-\(seq)"),
                "action": "create",
                "data": data, "base_version": 0, "hlc": "0199c3f2a1b4-0007-9f2c11ab",
            ]
        }
        let body: JSON = ["acked_seq": 0, "mutations": [create(1, ["value": "other"]), create(2, ["value": "pass"]), create(3, [:])]]
        let answer = bench.send("POST", "/v1/sync/push", body)
        let results = try PushMessages.readResponse(answer.body).results
        for (index, pointers) in [(0, ["/data/value"]), (1, []), (2, ["/data/value"])] as [(Int, [String])] {
            switch results[index].verdict {
            case .rejected(let problem, _):
                #expect(validation != .off && problem.code == "validation" && problem.errors.map(\.pointer) == pointers)
            case .accepted: #expect(validation == .off || pointers.isEmpty)
            default: Issue.record("\(results[index].verdict)")
            }
        }
    }
}
