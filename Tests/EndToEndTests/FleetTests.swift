import Foundation
import SyncCore
import Testing

extension EndToEnd {
    /// `agentbench fleet`: what it refuses, and that its figures are there. The figures themselves say nothing in a test.
    @Suite("Fleet")
    struct FleetTests {
        @Test(
            "Options that mean nothing are refused with what they take",
            arguments: [
                (["--snapshot", "2"], "--snapshot takes 5 to 3600 seconds."), (["--seeding", "0"], "--seeding takes 1 to 100."),
                (["--stop", "--stops", "0"], "--stops takes 1 to 100."), (["--seed", "3"], "--seed is the seed of the moments of --stop"),
                (["--round-trip", "0.001"], "--round-trip takes 0.01 to 1000."),
                (["--round-trip", "1", "--only", "sqlite"], "--round-trip is of the way to PostgreSQL"),
                (["--round-trip", "1", "--news"], "--round-trip does not go with --news and --scopes."),
                (["--stop", "--only", "postgres-1"], "--only takes postgres-2 with --stop."),
                (["--news", "--stop"], "--news and --stop are measured one at a time"),
            ])
        func refused(_ options: [String], _ words: String) async throws {
            let folder = NSTemporaryDirectory()
            let output = try await Child.run([Programs.agentbench, "fleet"] + options, in: folder)
            #expect(output.status != 0 && output.talk.contains(words), "\(output.talk)")
        }

        @Test("A small load stands beside its floor, and each mutation is applied once")
        func small() async throws {
            let folder = "/var/tmp/edge-sync-\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            // A folder that stays behind does no harm.
            defer { try? FileManager.default.removeItem(atPath: folder) }
            // The way to the server is a relay, which must carry hubs, floor and commands.
            let output = try await Child.run(
                [
                    Programs.agentbench, "fleet", "--only", "postgres-1", "--devices", "8", "--pushes", "2", "--outage", "100",
                    "--round-trip", "1", "--json", "--dir", folder,
                ], in: folder)
            guard !output.talk.contains("skipped,") else { return print("fleet test: \(output.talk)") }
            #expect(output.status == 0, "\(output.talk) \(output.text)")
            let result = try #require(try JSONReader.read(output.text).object)
            let hub = try #require(result["cases"]?.array?.first?.object)
            let floor = try #require(hub["floor"]?.object)
            #expect((hub["mutations_per_s"]?.double ?? 0) > 0 && (hub["of_floor"]?.double ?? 0) > 0, "\(output.text)")
            #expect((floor["mutations_per_s"]?.double ?? 0) > 0 && (floor["database_cpu_us_per_mutation"]?.double ?? 0) > 0)
            // No faster than the relay lets it be.
            #expect((floor["round_trip_us"]?.double ?? 0) >= 1_000, "\(output.text)")
        }
    }
}
