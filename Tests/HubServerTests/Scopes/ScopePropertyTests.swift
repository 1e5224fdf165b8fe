import HubServer
import SyncCore
import Testing

/// Random work, grants and pulls from one seed: each device holds its share and nothing else, at every moment.
@Suite("Scopes: properties", .eachEngine)
struct ScopePropertyTests {
    private static let devices: [DeviceID] = (0..<3).map { DeviceID(trusted: "gw-\($0)") }
    private static let sites = ["s-0", "s-1", "s-2", "s-3"]
    private static let ids = (0..<12).map { "a-\($0)" }

    /// The first thing that is wrong; `nil`: nothing.
    private static func fault(seed: UInt64, ablations: Ablations = .none) throws -> String? {
        var random = SeededRandom(seed: seed)
        func number(_ below: Int) -> Int { Int(random.next() % UInt64(below)) }
        let fleet = try ScopeBench(ablations: ablations)
        for step in 0..<120 {
            let device = devices[number(devices.count)]
            let (id, site) = (ids[number(ids.count)], sites[number(sites.count)])
            let scopes: JSONObject = [
                "site": number(4) == 0 ? ["s-0", .string(site)] : .string(site), "assignee": .string("gw-\(number(5))"),
                "n": .int(Int64(step)),
            ]
            switch number(10) {
            case 0: fleet.grant(device, "site", site)
            case 1: fleet.revoke(device, "site", site)
            case 2, 3: try fleet.publish(id, number(5) == 0 ? nil : scopes)
            case 4, 5, 6:
                let base = fleet.mirrors[device]?.records[RecordID(trusted: id)]?.version ?? 0
                let before = try fleet.bench.hub.record(RecordName(ScopeBench.orders, RecordID(trusted: id)))
                let action: MutationAction = number(6) == 0 ? .delete : base == 0 ? .create : .update
                let data: JSONObject = number(2) == 0 ? scopes : ["n": .int(Int64(step))]
                let verdict = try fleet.push(device, action, id, action == .delete ? nil : .object(data), base: base)
                let after = try fleet.bench.hub.record(RecordName(ScopeBench.orders, RecordID(trusted: id)))
                if let data = before?.data, !fleet.mayReceive(device, data), after != before {
                    return "step \(step): \(device) changed \(id), which it does not receive (\(verdict.code))"
                }
            default: try fleet.pull(device, limit: 1 + number(6))
            }
            if let leak = fleet.leaks.first { return "step \(step): \(leak)" }
        }
        for device in devices {
            try fleet.pull(device, limit: 1 + number(6))
            let (held, expected) = (fleet.held(device), try fleet.expected(device, ids))
            if held != expected {
                let wrong = Set(held.keys).union(expected.keys).filter { held[$0] != expected[$0] }.sorted()
                return "\(device): "
                    + wrong.map { id in
                        "\(id) is \(held[id]?.json ?? "absent"), expected \(expected[id]?.json ?? "absent")"
                    }.joined(separator: "; ")
            }
            if fleet.mirrors[device]?.listings ?? 0 > 0 { return "\(device) had to list everything" }
        }
        return fleet.leaks.first
    }

    @Test("Each device holds its share and nothing else")
    func shares() throws {
        for seed in 1...UInt64(Engine.current == .sqlite ? 400 : 20) {
            let fault = try Self.fault(seed: seed)
            #expect(fault == nil, "seed \(seed)")
            if fault != nil { break }
        }
    }

    #if ABLATIONS
        @Test(
            "Each rule is noticed when it is missing",
            arguments: [Ablation.scopesIgnored, .rightsIgnored, .scopeChangesIgnored])
        func ablations(_ rule: Ablation) throws {
            guard Engine.current == .sqlite else { return }
            let seeds = try (1...UInt64(50)).filter { try Self.fault(seed: $0, ablations: Ablations([rule])) != nil }
            #expect(!seeds.isEmpty)
        }
    #endif
}
