import SyncCore
import Testing

@testable import HubServer

/// PROTOCOL A16, "Agents that keep records": a hub refuses to take many records back from an agent that would keep them.
@Suite("Agents that keep records", .eachEngine)
struct OldAgentTests {
    private let one = DeviceID.one
    private let two = DeviceID.two

    private static var rules: RuleBook {
        var rules = ScopeBench.rules
        rules.entities["sites"] = EntityRules()
        return rules
    }

    /// A device with an agent of before the ability, that holds as many records of one site as asked, and one of another site.
    private func fleet(holding count: Int) throws -> ScopeBench {
        let fleet = try ScopeBench(rules: Self.rules)
        fleet.bench.abilities = []
        fleet.grant(one, "site", "s-1")
        fleet.grant(one, "site", "s-2")
        for index in 0..<count { try fleet.publish("a-\(index)", ["site": "s-1"]) }
        try fleet.publish("b", ["site": "s-2"])
        try fleet.pull(one)
        #expect(fleet.ids(one).count == count + 1)
        return fleet
    }

    private func errors(_ fleet: ScopeBench, _ device: DeviceID = .one) throws -> [String] {
        try fleet.bench.pull([(ScopeBench.orders, fleet.mirrors[device]?.cursor)], device: device).errors.map(\.problem.code)
    }

    private func verify(_ fleet: ScopeBench) throws -> HubResponse {
        let request = VerifyRequest(
            entity: ScopeBench.orders, cursor: try #require(fleet.mirrors[one]?.cursor), digest: EntityDigest())
        return fleet.bench.send("POST", "/v1/sync/verify", try JSONReader.read(VerifyMessages.request(request)))
    }

    private func figure(_ fleet: ScopeBench) -> Bool {
        String(decoding: fleet.bench.hub.figures(at: fleet.bench.now).body, as: UTF8.self)
            .contains("\nagenthub_devices_to_update 1\n")
    }

    private static let listing = "/v1/sync/snapshot?entity=work_orders"

    @Test("A large loss is refused with its reason, and nothing else is; the operator sees the device until its agent is updated")
    func largeLoss() throws {
        let fleet = try fleet(holding: 60)
        let hub = fleet.bench.hub
        var told: [HubNotice] = []
        hub.onNotice = { told.append($0) }
        fleet.revoke(one, "site", "s-1")
        #expect(try verify(fleet).problem?.code == Problem.agentTooOld)
        let answer = try fleet.bench.pull([(ScopeBench.orders, fleet.mirrors[one]?.cursor), ("sites", nil)])
        let problem = try #require(answer.errors.first?.problem)
        #expect(problem.code == "agent-too-old" && problem.status == 409 && problem.detail.contains("so update agentd on this device. "))
        #expect(answer.errors.map(\.entity) == [ScopeBench.orders] && answer.pages.map(\.entity) == ["sites"])
        #expect(fleet.bench.send("GET", Self.listing).problem?.code == Problem.agentTooOld)
        #expect(fleet.bench.send("GET", Self.listing + "&filter=seed").status == 200)
        #expect(fleet.bench.send("GET", Self.listing + "&bucket=7").status == 200)
        // Its work arrives, and other devices notice nothing.
        #expect(try fleet.push(one, .update, "b", ["note": "x"], base: 61).code == "accepted")
        #expect(fleet.bench.send("GET", Self.listing, device: two).status == 200)
        let seen = try #require(try hub.devices(one, at: fleet.bench.now).first)
        #expect(seen.keepingSince == fleet.bench.now && seen.keepingEntity == ScopeBench.orders && figure(fleet))
        #expect(try hub.devices(two, at: fleet.bench.now).allSatisfy { $0.keepingSince == nil })
        #expect(told == [.keeping(one, ScopeBench.orders)], "once, however often it asks")
        // Another program greets, and goes on where the old one has stopped.
        fleet.bench.abilities = AgentAbility.all
        #expect(fleet.bench.send("POST", "/v1/sync/hello", [:]).status == 200)
        #expect(try hub.devices(one, at: fleet.bench.now).first?.keepingSince == nil && !figure(fleet))
        try fleet.pull(one)
        #expect(fleet.ids(one) == ["b"] && fleet.mirrors[one]?.revoked.count == 60 && fleet.leaks.isEmpty)
    }

    @Test("Records that every agent removes are sent to every agent, and so are records that a device gains")
    func smallLoss() throws {
        let fleet = try fleet(holding: Feed.lettingGoMax)
        fleet.revoke(one, "site", "s-1")
        fleet.grant(one, "site", "s-3")
        try fleet.publish("c", ["site": "s-3"])
        try fleet.pull(one, limit: 4)
        #expect(fleet.ids(one) == ["b", "c"] && fleet.mirrors[one]?.revoked.count == Feed.lettingGoMax)
        #expect(try verify(fleet).status == 200)
        #expect(fleet.bench.send("GET", Self.listing).status == 200)
        #expect(try fleet.bench.hub.devices(at: fleet.bench.now).allSatisfy { $0.keepingSince == nil })
    }

    @Test("Records that an office moves away count as a loss when they are many", arguments: [Feed.lettingGoMax, Feed.lettingGoMax + 1])
    func moved(_ count: Int) throws {
        let fleet = try fleet(holding: 60)
        for index in 0..<count { try fleet.publish("a-\(index)", ["site": "s-9"]) }
        guard count > Feed.lettingGoMax else {
            try fleet.pull(one, limit: 4)
            return #expect(fleet.ids(one).count == 61 - count)
        }
        #expect(try errors(fleet) == [Problem.agentTooOld])
        #expect(try fleet.bench.pull([(ScopeBench.orders, fleet.mirrors[one]?.cursor)], limit: 2).errors.count == 1)
        fleet.bench.abilities = AgentAbility.all
        try fleet.pull(one, limit: 4)
        #expect(fleet.ids(one).count == 61 - count)
    }

    // Fault: after a long absence the device took the records of a lost site for an accident of the hub, and kept them.
    @Test(
        "A cursor that is too old tells of a lost scope; an agent that would keep many records is refused",
        arguments: [Feed.lettingGoMax, 60])
    func expired(_ count: Int) throws {
        let fleet = try fleet(holding: count)
        try fleet.publish("gone", ["site": "s-2"])
        try fleet.pull(one)
        try fleet.publish("gone", nil)
        #expect(try fleet.bench.hub.collectTombstones(before: fleet.bench.now.advanced(by: .seconds(1))) == 1)
        func codes(_ abilities: Set<AgentAbility>) throws -> [String] {
            fleet.bench.abilities = abilities
            return try errors(fleet) + [try verify(fleet).problem?.code ?? ""]
        }
        // Nothing was lost.
        for abilities in [AgentAbility.all, []] { #expect(try codes(abilities) == ["cursor-expired", "cursor-expired"]) }
        fleet.grant(one, "site", "s-3")
        for abilities in [AgentAbility.all, []] { #expect(try codes(abilities) == ["cursor-expired", "cursor-expired"]) }
        fleet.revoke(one, "site", "s-1")
        let old = count > Feed.lettingGoMax ? Problem.agentTooOld : "cursor-expired"
        #expect(try codes([]) == [old, old])
        #expect(try codes(AgentAbility.all) == [Problem.scopeChanged, Problem.scopeChanged])
        try fleet.pull(one)
        #expect(fleet.ids(one) == ["b"] && fleet.mirrors[one]?.listings == 1 && fleet.leaks.isEmpty)
    }

    @Test("A share that begins under an agent is refused, because the hub does not know what the agent would keep")
    func scopesBegin() throws {
        var rules = Self.rules
        rules.entities["work_orders"]?.declaredScope = nil
        let rows = try HubRows()
        var cursor: String?
        do {
            let bench = try HubBench(rules: rules, place: rows.place)
            bench.abilities = []
            #expect(try bench.verdict(Sent("k-1", .create, "work_orders", data: ["site": "s-1"])).word == "accepted")
            cursor = try bench.pull([(ScopeBench.orders, nil)]).pages.first?.cursor
            // A hub without scopes refuses no device.
            #expect(try bench.pull([(ScopeBench.orders, cursor)]).errors.isEmpty && bench.send("GET", Self.listing).status == 200)
        }
        let shared = try HubBench(rules: Self.rules, place: rows.place)
        shared.abilities = []
        #expect(shared.send("GET", Self.listing).status == 200, "a listing alone does not tell what the device has")
        // The connection that only reads leaves the first refusal to the one that notes it, and gives the next ones itself.
        let reader = try #require(try shared.hub.reader())
        func read() -> HubResponse? {
            var said = HubRequestHeaders(device: one, replica: "r-1")
            said.abilities = []
            var headers: HTTPHeaders = [:]
            said.write(to: &headers)
            return reader.answer(
                [HubRequest("GET", "/v1/sync/pull?entity=work_orders&cursor=\(cursor ?? "")", headers: headers)], tokens: nil,
                at: shared.now
            )?[0]
        }
        #expect(read() == nil)
        #expect(try shared.pull([(ScopeBench.orders, cursor)]).errors.map(\.problem.code) == [Problem.agentTooOld])
        #expect(read().map { String(decoding: $0.body, as: UTF8.self).contains("urn:edge-sync:agent-too-old") } == true)
        #expect(shared.send("GET", Self.listing).problem?.code == Problem.agentTooOld)
        #expect(try shared.pull([(ScopeBench.orders, nil)]).errors.isEmpty, "a device that has nothing keeps nothing")
        shared.abilities = AgentAbility.all
        #expect(try shared.pull([(ScopeBench.orders, cursor)]).errors.map(\.problem.code) == [Problem.scopeChanged])
        #expect(shared.send("GET", Self.listing).status == 200)
    }
}
