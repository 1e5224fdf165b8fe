import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    @Suite("Replicas behind a balancer", .enabled(if: ReplicaYard.obstacle == nil, "PostgreSQL or HAProxy is not installed here"))
    struct ReplicaTests {
        @Test("Each of two replicas is killed while an app writes: nothing is lost, nothing takes effect twice")
        func killed() async throws {
            try await Stand.with(agent: false) { stand in
                try await ReplicaYard.with(stand) { yard in
                    let count = 400
                    for number in 1...count {
                        let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["n": .int(Int64(number))])
                        #expect(try await stand.client.enqueue(reading).status == 201)
                        switch number {
                        case count / 5: await yard.kill(0)
                        case 2 * count / 5: try await yard.start(0)
                        case 3 * count / 5: await yard.kill(1)
                        case 4 * count / 5: try await yard.start(1)
                        default: break
                        }
                    }
                    let settled = try await stand.settle()
                    #expect(settled.outbox.count(.done) == Int64(count))
                    let numbers = try await yard.command(["export", "readings"]).split(separator: "\n").map { line in
                        try JSONReader.read(String(line)).object?["data"]?.object?["n"]?.int ?? -1
                    }
                    #expect(numbers.sorted() == (1...Int64(count)).map { $0 })
                    let mutations = try JSONReader.read(try await yard.command(["stats", "--json"])).object?["mutations"]?.object
                    #expect(mutations?["applied"]?.int == Int64(count))
                    #expect(mutations?["rejected"]?.int == 0 && mutations?["conflicts"]?.int == 0)
                }
            }
        }
    }
}
