import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    @Suite("Commands")
    struct CommandTests {
        @Test(
            "A series in CSV or NDJSON arrives whole and exact, and a second import of it adds nothing",
            arguments: [
                "csv", "ndjson",
            ])
        func imported(format: String) async throws {
            let series = try Series.load("machine_temperature_system_failure.csv")
            try await Stand.with { stand in
                var file = series.path
                if format == "ndjson" {
                    file = "\(stand.folder)/series.ndjson"
                    try series.lines.write(toFile: file, atomically: false, encoding: .utf8)
                }
                let first = try await stand.agentctl("import", "readings", file, "--key-prefix", "s:")
                #expect(first.status == 0, "\(first.talk)")
                #expect(first.text.contains("400 accepted"))
                let second = try await stand.agentctl("import", "readings", file, "--key-prefix", "s:")
                #expect(second.text.contains("400 were there already"))

                let settled = try await stand.settle()
                #expect(settled.outbox.enqueued == 400)
                #expect(settled.outbox.count(.done) == 400)
                let arrived = try await stand.hubRecords("readings").map { record in
                    "\(record.data["timestamp"]?.text ?? ""),\(record.data["value"]?.json ?? "")"
                }
                #expect(arrived.sorted() == series.rows.sorted())
            }
        }

        @Test("A change can be made, waited for and read with agentctl alone")
        func daily() async throws {
            try await Stand.with { stand in
                let enqueued = try await stand.agentctl(
                    "enqueue", "work_orders", "wo-1", "--data", #"{"status":"open"}"#, "--wait")
                #expect(enqueued.status == 0, "\(enqueued.talk)")
                #expect(enqueued.text.contains("done"))
                let read = try await stand.agentctl("get", "work_orders", "wo-1", "--json")
                let record = try JSONReader.read(read.text).object
                #expect(record?["sync_status"]?.text == "synced")
                #expect(record?["data"]?.object?["status"]?.text == "open")
                let status = try await stand.agentctl("status")
                #expect(status.status == 0, "\(status.text)")
            }
        }

        @Test("Without an agent agentctl says so and exits with 2")
        func absent() async throws {
            let socket = "/tmp/edge-sync-\(UUID().uuidString).sock"
            let plain = try await Child.run([Programs.agentctl, "status", "--socket", socket], in: "/tmp")
            #expect(plain.status == 2)
            #expect(plain.text.isEmpty)
            #expect(plain.talk.contains(socket))
            let json = try await Child.run([Programs.agentctl, "status", "--json", "--socket", socket], in: "/tmp")
            #expect(json.status == 2)
            #expect((try? JSONReader.read(json.text)) != nil, "\(json.text)")
        }

        @Test(
            "A slip on the command line is a usage error",
            arguments: [
                ["--no-such-flag"], ["enqueue"], ["status", "--watch=maybe"], ["import", "readings", "series.txt"],
            ])
        func usage(arguments: [String]) async throws {
            let output = try await Child.run([Programs.agentctl] + arguments, in: "/tmp")
            #expect(output.status == 64, "\(output.talk)")
        }

        @Test("A second agent on the same state does not take the first one's place")
        func second() async throws {
            try await Stand.with { stand in
                let second = try await Child.run(
                    [Programs.agentd, "--config", "\(stand.folder)/agentd.yaml"], in: stand.folder)
                #expect(second.status == 2)
                #expect(second.talk.contains("lock"))
                let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["n": 1])
                #expect(try await stand.client.enqueue(reading).status == 201)
            }
        }
    }
}
