import Foundation
import Glibc
import LocalAPI
import ProcessStand
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
                #expect(second.text.contains("400 already accepted before"))

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

        @Test("Without an agent each command names the socket and the reason, also the one that sends a descriptor")
        func absentAgent() async throws {
            let folder = try NewFolder.make("/tmp/edge-sync")
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let file = "\(folder)/photo"
            try "photo".write(toFile: file, atomically: false, encoding: .utf8)
            for words in [["status"], ["blobs", "add", file]] {
                let refused = try await Child.run(
                    [Programs.agentctl] + words, environment: ["AGENTD_SOCKET": "\(folder)/agent.sock"], in: folder)
                #expect(refused.status == 2)
                #expect(
                    refused.talk == """
                        agentctl: no agent answers at \(folder)/agent.sock: No such file or directory
                          is agentd running? If its socket has another path: --socket PATH, or AGENTD_SOCKET

                        """)
            }
        }

        @Test("A form is tried, published and filled in: completed with holes is refused, and progress says what is missing")
        func form() async throws {
            let entities = """
                  forms: { kind: reference }
                  audits: { form: { entity: forms, ref: form_id, version: form_version }, complete: { when: { status: [completed] } } }
                """
            let form = """
                { "title": "Doors", "sections": [ { "id": "doors", "fields": [
                  { "id": "q1", "type": "choice", "choices": ["pass", "fail"], "required": true },
                  { "id": "q2", "type": "text", "required": true, "visible_when": { "q1": "fail" } } ] } ] }
                """
            try await Stand.with(entities: entities, hub: false, agent: false) { stand in
                let (file, answers) = ("\(stand.folder)/doors.json", "\(stand.folder)/answers.json")
                try Stand.write(form, to: file)
                try Stand.write(#"{"q1":"fail"}"#, to: answers)
                #expect(try await stand.agentctl("form", "check", file).text == "the form is right: 2 questions\n")
                let tried = try await stand.agentctl("form", "check", file, "--answers", answers)
                #expect(tried.status == 1 && tried.text.contains("missing: /q2 is required"), "\(tried.text) \(tried.talk)")
                try Stand.write(form.replacingOccurrences(of: "visible_when", with: "visible_wen"), to: file)
                let wrong = try await stand.agentctl("form", "check", file)
                #expect(wrong.status == 1 && wrong.talk.contains("did you mean visible_when?"), "\(wrong.talk)")

                try Stand.write("title: Doors", to: file)
                let text = try await stand.agentctl("form", "check", file)
                #expect(text.status == 1 && text.talk.contains("doors.json is not valid JSON at byte 0"), "\(text.talk)")

                try await stand.startHub()
                try await stand.startAgent()
                let draft = #"{"form_id":"doors","form_version":1,"q1":"fail"}"#
                let absent = try await stand.agentctl("enqueue", "audits", "a-1", "--data", draft, "--json")
                #expect(absent.status == 0 && absent.text.contains(#""form":"absent""#), "\(absent.text) \(absent.talk)")
                let progress = try await stand.agentctl("form", "progress", "audits", "a-1")
                #expect(progress.status == 1 && progress.text.contains("is not on this device"), "\(progress.text) \(progress.talk)")
            }
        }

        @Test("A file of steps gives the changes of a device that was away the shape that the hub's new schema wants")
        func retryByFile() async throws {
            let schema = """
                  work_orders:
                    kind: record
                    schema:
                      required: [site_id]
                      additionalProperties: false
                      properties: { site_id: { type: string }, severity: { enum: [low, high] }, n: { type: integer } }
                """
            try await Stand.with(entities: "  work_orders: { kind: record }", hubEntities: schema, agent: false) { stand in
                // Otherwise the agent has the schema before the changes are made, and judges them itself.
                await stand.killHub()
                try await stand.startAgent()
                for number in 1...3 {
                    let data = #"{"site":"north","severity":"minor","n":\#(number)}"#
                    #expect(try await stand.agentctl("enqueue", "work_orders", "wo-\(number)", "--data", data).status == 0)
                }
                let both = try await stand.agentctl("enqueue", "work_orders", "wo-4", "--data", #"{"site":"a","site_id":"b"}"#)
                #expect(both.status == 0, "\(both.talk)")
                try await stand.startHub()
                try await stand.settle(rejected: 4)

                let steps = "\(stand.folder)/steps.json"
                try Stand.write(#"[{"rename":{"site":"site_id"}},{"values":{"severity":{"minor":"low"}}}]"#, to: steps)
                let choice = ["mutations", "retry", "--where", "reason=schema", "--entity", "work_orders", "--map", steps]
                let other = try await stand.agentctl("mutations", "retry", "--where", "reason=forbidden", "--dry-run")
                #expect(other.talk.contains("no rejected change matches"), "\(other.talk)")
                let unnamed = try await stand.agentctl("mutations", "retry", "--all", "--map", "severity")
                #expect(unnamed.status == 1 && unnamed.talk.contains("cannot open severity: No such file"), "\(unnamed.talk)")
                #expect(unnamed.talk.contains("--map severity=JSON"), "\(unnamed.talk)")
                let contradiction = try await stand.agentctl(choice + ["--code", "forbidden", "--dry-run"])
                #expect(contradiction.status == 64 && contradiction.talk.contains("A change has one reason"), "\(contradiction.talk)")
                let trial = try await stand.agentctl(choice + ["--dry-run"])
                #expect(trial.status == 1 && trial.talk.contains("3 of 4 would be retried"), "\(trial.talk)")
                #expect(trial.talk.contains("would not be retried: it changes both site and site_id"), "\(trial.talk)")
                #expect(trial.text.contains(#"  with {"severity":"low","site_id":"north"}  without site"#), "\(trial.text)")
                #expect(try await stand.client.status().value.outbox.count(.rejected) == 4)

                let retried = try await stand.agentctl(choice)
                #expect(retried.status == 1 && retried.talk.contains("3 of 4 retried"), "\(retried.talk)")
                try await stand.settle(rejected: 1)
                let records = try await stand.hubRecords("work_orders")
                #expect(records.map(\.id).sorted() == ["wo-1", "wo-2", "wo-3"])
                #expect(records.allSatisfy { $0.data["site_id"] == "north" && $0.data["severity"] == "low" && $0.data["site"] == nil })
            }
        }

        @Test("agentctl enqueue says what the schema does not like, and waits for what it is told to depend on")
        func enqueueing() async throws {
            let entities = """
                  work_orders:
                    kind: record
                    validate: warn
                    schema: { properties: { status: { enum: [open, closed] } } }
                """
            try await Stand.with(entities: entities) { stand in
                let pause = try await stand.agentctl("pause")
                #expect(pause.status == 0, "\(pause.talk)")
                let first = try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", #"{"status":"ajar"}"#)
                #expect(first.status == 0 && first.talk.contains("warning: /data/status must be one of"), "\(first.talk)")
                let id = String(first.text.prefix { $0 != " " })
                let second = try await stand.agentctl(
                    "enqueue", "work_orders", "wo-2", "--data", #"{"status":"open"}"#, "--depends-on", id, "--depends-on", id)
                #expect(second.status == 0 && second.talk.isEmpty, "\(second.talk)")
                let other = String(second.text.prefix { $0 != " " })
                let why = try await stand.agentctl("why", other)
                #expect(why.text.contains("depends on \(id)") || why.text.contains("paused"), "\(why.text)")
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-3", "--data", "{}", "--depends-on", "nothing").status == 1)
                // Each may be given more than once.
                let resolve = try await stand.agentctl(
                    "conflicts", "resolve", "c-1", "--field", "a=local", "--field", "b=remote", "--value", "c=1", "--value", "d=2")
                #expect(resolve.status == 1 && resolve.talk.contains("c-1"), "\(resolve.talk)")
                // Taken back twice: the second time there is nothing to correct.
                #expect(try await stand.agentctl("mutations", "cancel", other).status == 0)
                let late = try await stand.agentctl("rejected", "acknowledge", other)
                #expect(late.status == 1 && late.talk.contains("nothing is left to do"), "\(late.talk)")
            }
        }

        @Test("A deleted, unknown or missing thing is named, with the command that lists the existing ones")
        func absentThings() async throws {
            try await Stand.with { stand in
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", "{}", "--wait").status == 0)
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-1", "--action", "delete", "--wait").status == 0)
                let gone = try await stand.agentctl("get", "work_orders", "wo-1")
                #expect(gone.status == 1 && gone.text.isEmpty && gone.talk.contains("work_orders/wo-1 was deleted"), "\(gone.talk)")
                let key = "0199c3f2-0000-7000-8000-000000000000"
                for (words, list) in [
                    (["why", key], "agentctl mutations list"), (["mutations", "show", key], "agentctl mutations list"),
                    (["conflicts", "show", "c-99"], "agentctl conflicts list"), (["blobs", "show", "b-99"], "agentctl blobs list"),
                ] {
                    let answer = try await stand.agentctl(words)
                    #expect(answer.status == 1 && answer.talk.contains("`\(list)` lists what is there"), "\(words): \(answer.talk)")
                    #expect(try await stand.agentctl(list.split(separator: " ").dropFirst().map(String.init)).status == 0)
                }
                // A file that is no YAML has no key to point at.
                let broken = "\(stand.folder)/broken.yaml"
                try Stand.write("hub: [", to: broken)
                let checked = try await stand.agentctl("config", "check", broken)
                #expect(checked.status == 1 && checked.talk.contains("\n  \(broken):"), "\(checked.talk)")
                for words in [["plan", "--link", "wwan9"], ["links", "hint", "wwan9", "--metered"]] {
                    let answer = try await stand.agentctl(words)
                    #expect(answer.status == 0 && answer.talk.contains("there is no link wwan9 now"), "\(words): \(answer.talk)")
                }
                let empty = try await stand.agentctl("enqueue", "work_orders", "wo-2")
                #expect(empty.status == 64 && empty.talk.contains("--data"), "\(empty.talk)")
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

        @Test("A command that is given before the agent has its socket waits for it a moment")
        func early() async throws {
            try await Stand.with { stand in
                // The moment is two seconds, in which an agent on a busy machine may not be ready: its socket only gets another name.
                let socket = "\(stand.folder)/late.sock"
                let command = try Child(
                    [Programs.agentctl, "status", "--brief"], environment: ["AGENTD_SOCKET": socket], log: "\(stand.folder)/early.log")
                // It has looked for the socket, and pauses before it looks again. Some kernels do not say so.
                func hasLooked() -> Bool {
                    let wait = try? String(contentsOfFile: "/proc/\(command.pid)/wchan", encoding: .utf8)
                    return wait?.contains("nanosleep") ?? true
                }
                while command.isRunning, !hasLooked() { await Pause.short() }
                try FileManager.default.createSymbolicLink(atPath: socket, withDestinationPath: stand.socketPath)
                let status = await command.end()
                let talk = try String(contentsOfFile: "\(stand.folder)/early.log", encoding: .utf8)
                #expect(status != 2, "\(talk)")
            }
        }

        @Test(
            "A user without access to the socket is told which users have it, and how to become one of them", .enabled(if: geteuid() == 0))
        func forbidden() async throws {
            try await Stand.with { stand in
                chmod(stand.folder, 0o755)
                let nobody = [
                    "/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", Programs.agentctl, "status", "--socket",
                    stand.socketPath,
                ]
                let owners = try await Child.run(nobody, in: "/tmp")
                #expect(owners.status == 77 && owners.talk.contains("Only root and its owner may"), "\(owners.talk)")
                chmod(stand.socketPath, 0o660)
                let groups = try await Child.run(nobody, in: "/tmp")
                // A member of the group root may read far more than the socket, so no message tells a person to become one.
                #expect(groups.status == 77 && groups.talk.contains("Only root and its owner may. To let others in"), "\(groups.talk)")
                #expect(!groups.talk.contains("usermod"), "\(groups.talk)")
                #expect(chown(stand.socketPath, 0, 1) == 0)
                let members = try await Child.run(nobody, in: "/tmp")
                #expect(members.status == 77 && members.talk.contains("the members of the group daemon"), "\(members.talk)")
                #expect(members.talk.contains("sudo usermod -aG daemon nobody, then log in again"), "\(members.talk)")
                // The folder is open and the tokens are not, then the folder is as a hub makes it.
                for (mode, commands) in [(0o755, [["token", "list"], ["grants"]]), (0o700, [["token", "list"], ["grants"], ["stats"]])] {
                    chmod("\(stand.folder)/hub", mode_t(mode))
                    for words in commands {
                        let refused = try await Child.run(
                            Array(nobody.prefix(6)) + [Programs.agenthub] + words + ["--data", "\(stand.folder)/hub"], in: "/tmp")
                        #expect(refused.status == 77, "\(words) at \(String(mode, radix: 8)): \(refused.talk)")
                        let command = "Run the command as the hub's user: sudo runuser -u agenthub -- agenthub …"
                        #expect(refused.talk.contains(command), "\(words): \(refused.talk)")
                    }
                }
            }
        }

        @Test(
            "A slip on the command line is a usage error",
            arguments: [
                ["--no-such-flag"], ["enqueue"], ["status", "--watch=maybe"], ["import", "readings", "series.txt"],
                ["sync", "--scope", "push", "--full"], ["pause", "--for", "0s"],
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
