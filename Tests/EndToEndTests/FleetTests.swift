import Foundation
import SyncCore
import Testing

extension EndToEnd {
    /// `agentbench fleet`: what it refuses, and that each subject counts exactly what happened. The times themselves say nothing in a test.
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
                (["--all", "--news"], "--all measures every subject: leave --news out."),
                (["--scopes", "--devices", "20001"], "--devices takes 1 to 20000."),
            ])
        func refused(_ options: [String], _ words: String) async throws {
            let folder = NSTemporaryDirectory()
            let output = try await Child.run([Programs.agentbench, "fleet"] + options, in: folder)
            #expect(output.status != 0 && output.talk.contains(words), "\(output.talk)")
        }

        @Test("A small load stands beside its floor, and each mutation is applied once")
        func small() async throws {
            // The way to the server is a relay, which must carry hubs, floor and commands.
            let output = try await run([
                "--only", "postgres-1", "--devices", "8", "--pushes", "2", "--outage", "100", "--round-trip", "1",
            ])
            guard !output.talk.contains("skipped,") else { return print("fleet test: \(output.talk)") }
            #expect(output.status == 0, "\(output.talk) \(output.text)")
            let result = try #require(try JSONReader.read(output.text).object)
            let hub = try #require(result["cases"]?.array?.first?.object)
            let floor = try #require(hub["floor"]?.object)
            #expect((hub["mutations_per_s"]?.double ?? 0) > 0 && (hub["of_floor"]?.double ?? 0) > 0, "\(output.text)")
            #expect((floor["mutations_per_s"]?.double ?? 0) > 0 && (floor["database_cpu_us_per_mutation"]?.double ?? 0) > 0)
            // No faster than the relay lets it be.
            #expect((floor["round_trip_us"]?.double ?? 0) >= 1_000, "\(output.text)")
            // 8 devices push 20 mutations twice, in each of two runs.
            #expect(hub["applied"]?.int == 320, "\(output.text)")
            #expect((hub["applied_at_return"]?.int ?? 0) + (hub["repeated"]?.int ?? 0) == 320, "\(output.text)")
            let goals = (result["goals"]?.array ?? []).compactMap(\.object)
            #expect(goals.map { $0["limit_value"]?.int } == [10_000] && goals[0]["limit"]?.text == "at_least", "\(output.text)")
        }

        @Test("All subjects on SQLite are one run with one report, and --check exits by its goals")
        func all() async throws {
            let output = try await run(["--all", "--quick", "--check", "--only", "sqlite"])
            let report = try #require(try JSONReader.read(output.text).object, "\(output.talk)")
            #expect(report["schema"]?.text == "fleet-all/1" && report["failures"]?.array?.isEmpty == true, "\(output.talk)")
            let subjects = try #require(report["subjects"]?.object)
            var goals = 0, missed = 0
            for (name, wanted) in [("load", 0), ("seeding", 1), ("idle-pulls", 1), ("news", 2), ("scopes", 1)] {
                let subject = try #require(subjects[name]?.object, "\(name): \(output.talk)")
                let verdicts = (subject["goals"]?.array ?? []).map { $0.object?["met"] }
                #expect(verdicts.count == wanted, "\(name)")
                goals += verdicts.count
                missed += verdicts.count { $0 != .bool(true) }
                expectCounts(of: name, try #require(subject["cases"]?.array?.first?.object))
            }
            #expect(subjects["stop"] == nil && subjects["snapshot"] == nil && goals == 5)
            #expect(output.status == (missed > 0 ? 1 : 0), "\(output.text)")
        }

        @Test(
            "Each subject on PostgreSQL counts exactly what happened",
            arguments: [
                ("stop", ["--stop"]), ("snapshot", ["--snapshot"]), ("seeding", ["--seeding", "--only", "postgres-1"]),
                ("idle-pulls", ["--idle-pulls", "--only", "postgres-1"]), ("news", ["--news", "--only", "postgres-1"]),
                ("scopes", ["--scopes", "--only", "postgres-1"]),
            ])
        func onPostgres(_ name: String, _ options: [String]) async throws {
            let output = try await run(options + ["--quick"])
            guard !output.talk.contains("skipped,") else { return print("fleet test: \(output.talk)") }
            // A goal that is missed is an error with --check only.
            #expect(output.status == 0, "\(output.talk) \(output.text)")
            let result = try #require(try JSONReader.read(output.text).object, "\(output.talk)")
            #expect(result["schema"]?.text == "fleet-\(name)/1")
            let counted = try #require(result["cases"]?.array?.first?.object)
            expectCounts(of: name, counted)
            switch name {
            case "stop", "seeding", "snapshot": #expect((counted["floor"]?.object?["mutations_per_s"]?.double ?? 0) > 0, "\(output.text)")
            case "news": #expect((counted["database_transactions_per_s"]?.double ?? 0) > 0, "\(output.text)")
            default: break
            }
        }

        /// Holds the counts of a case to those of `--quick`. That each mutation was applied once, and that each device received its share,
        /// the program demands itself.
        private func expectCounts(of subject: String, _ counted: JSONObject, _ place: SourceLocation = #_sourceLocation) {
            func expect(_ name: String, _ wanted: Int64) {
                #expect(counted[name]?.int == wanted, "\(subject): \(name) in \(JSON.object(counted).json)", sourceLocation: place)
            }
            switch subject {
            case "load":
                // 8 devices push 5 mutations twice, in each of two runs.
                expect("applied", 80)
                #expect((counted["applied_at_return"]?.int ?? 0) + (counted["repeated"]?.int ?? 0) == 80, sourceLocation: place)
            case "stop":
                #expect(counted["silence_us"]?.array?.count == 1 && (counted["pushes"]?.int ?? 0) > 0, sourceLocation: place)
            case "snapshot":
                for part in ["before", "held", "after"] {
                    #expect((counted[part]?.object?["mutations_per_s"]?.double ?? 0) > 0, "\(part)", sourceLocation: place)
                }
            case "seeding":
                // 600 records for each of two devices.
                expect("pages", 4)
            case "idle-pulls":
                expect("listing_records", 100)
            case "news":
                // 40 devices and 5 changes. A wait lasts 4 s, so that many of a device ended within the time, which is longer than 5 s on a
                // busy machine.
                let ends = 1 + Int64((counted["idle_s"]?.double ?? 0) / 4)
                expect("waiters", 40)
                expect("news_count", 200)
                #expect((1...40 * ends).contains(counted["asks"]?.int ?? 0), "asks", sourceLocation: place)
                // The changes beside the new device go on until it has listed 600 records and compared them.
                let beside = counted["beside_count"]?.int ?? 0
                #expect(beside >= 200 && beside.isMultiple(of: 40), sourceLocation: place)
                #expect((counted["beside_pages"]?.int ?? 0) >= 2 && (counted["beside_comparisons"]?.int ?? 0) >= 1, sourceLocation: place)
            case "scopes":
                // Each of 600 records goes to two devices, and 100 more go to one.
                expect("received", 1_200)
                expect("scope_rows", 700)
                expect("handful_pages", 1)
                #expect((counted["bytes_per_row"]?.double ?? 1) > 0, sourceLocation: place)
            default:
                Issue.record("\(subject) is not a subject", sourceLocation: place)
            }
        }

        private func run(_ options: [String]) async throws -> Output {
            let folder = "/var/tmp/edge-sync-\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            // A folder that stays behind does no harm.
            defer { try? FileManager.default.removeItem(atPath: folder) }
            return try await Child.run([Programs.agentbench, "fleet"] + options + ["--json", "--dir", folder], in: folder)
        }
    }
}
