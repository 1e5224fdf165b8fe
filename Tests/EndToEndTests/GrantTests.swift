import Foundation
import Glibc
import SyncCore
import Testing

extension EndToEnd {
    /// An operator gives grants, takes them back, and lists who could see what, with the built program beside a running hub.
    @Suite("Grants by commands")
    struct GrantTests {
        private static let entities = """
              work_orders: { scope: [assignee, site] }
              assignments: { kind: reference }
            groups:
              north: { site: [s-1, s-2] }
            devices:
              pump-17: { groups: [north], roles: [inspector] }
            grants_from:
              - { entity: assignments, device: device, scope: site }
            """

        /// The user of this process, whom the program names.
        private static let user = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } ?? "uid \(geteuid())"

        private func hub(_ arguments: [String], _ stand: Stand) async throws -> Output {
            try await Child.run([Programs.agenthub] + arguments + ["--data", "\(stand.folder)/hub"], in: stand.folder)
        }

        /// The list, with `T` for each time.
        private func grants(_ arguments: [String], _ stand: Stand) async throws -> Output {
            var output = try await hub(["grants"] + arguments, stand)
            output.text = output.text.replacing(/\d{4}-\d\d-\d\dT[\d:.]+Z/, with: "T")
            return output
        }

        private func assign(_ data: String, _ stand: Stand) async throws {
            let path = "\(stand.folder)/assignment.ndjson"
            try Stand.write(#"{"id":"a-1","data":\#(data)}"# + "\n", to: path)
            let output = try await hub(["publish", "assignments", path], stand)
            #expect(output.status == 0, "\(output.talk)")
        }

        /// A row of `grants --json` about the device `tablet-9`.
        private func row(_ grant: String, _ source: String, _ more: JSONObject) -> JSON {
            var row: JSONObject = [
                "device": "tablet-9", "grant": .string(grant), "source": .string(source), "granted_at": .null, "granted_by": .null,
                "revoked_at": .null, "revoked_by": .null, "generation": .null, "entity": .null, "id": .null, "includes": .null,
            ]
            for member in more.members { row[member.name.text] = member.value }
            return .object(row)
        }

        @Test("Grants are given, refused, taken back and listed with their users, and with those of the settings and of records")
        func grants() async throws {
            try await Stand.with(hubEntities: Self.entities, agent: false) { stand in
                let user = Self.user
                #expect(
                    try await grants(["tablet-9"], stand).talk.hasPrefix(
                        "agenthub: tablet-9 has no grants. To list all devices with grants: agenthub grants\n"))
                let given = try await hub(["grant", "tablet-9", "site=s-1", "role=inspector", "group=north", "group=south"], stand)
                #expect(given.status == 0, "\(given.talk)")
                #expect(given.text == "granted site=s-1, role=inspector, group=north, group=south to tablet-9\n")
                let again = try await hub(["grant", "tablet-9", "site=s-1"], stand)
                #expect(again.status == 0 && again.text.isEmpty && again.talk == "agenthub: tablet-9 had site=s-1 before\n")
                #expect(try await hub(["grant", "tablet-9"], stand).status == 64)
                // The id of a device is no site, whether the settings name it or it has a token. Then none of the grants is given.
                #expect(try await hub(["token", "add", "pump-18"], stand).status == 0)
                for device in ["pump-17", "pump-18"] {
                    let refused = try await hub(["grant", "tablet-9", "site=s-9", "site=\(device)"], stand)
                    #expect(refused.status == 64 && refused.text.isEmpty)
                    #expect(refused.talk == "agenthub: site=\(device) belongs to the device \(device), because the value is its id\n")
                }
                try await assign(#"{"device":"tablet-9","site":"s-3"}"#, stand)

                let record = "tablet-9  site=s-3  by the record assignments/a-1\n"
                let rest = """
                    tablet-9  role=inspector  granted T by \(user)
                    tablet-9  group=north (site=s-1, site=s-2)  granted T by \(user)
                    tablet-9  group=south (no group of the settings)  granted T by \(user)

                    """
                let list = try await grants(["tablet-9"], stand)
                #expect(list.status == 0 && list.text == record + "tablet-9  site=s-1  granted T by \(user)\n" + rest, "\(list.talk)")
                #expect(list.talk.isEmpty)

                let ofRecord = try await hub(["revoke", "tablet-9", "site=s-3"], stand)
                #expect(ofRecord.status == 66 && ofRecord.text.isEmpty)
                #expect(ofRecord.talk.hasPrefix("agenthub: tablet-9 has no grant site=s-3 by a command. "), "\(ofRecord.talk)")
                let taken = try await hub(["revoke", "tablet-9", "site=s-1", "site=s-9"], stand)
                #expect(taken.status == 66 && taken.text == "took site=s-1 back from tablet-9\n")
                #expect(taken.talk.hasPrefix("agenthub: tablet-9 has no grant site=s-9 by a command. "), "\(taken.talk)")

                let past = "tablet-9  site=s-1  granted T by \(user)  taken back T by \(user)\n"
                #expect(try await grants(["tablet-9"], stand).text == record + past + rest)
                let json = try JSONReader.read(try await grants(["tablet-9", "--json"], stand).text)
                let by: JSONObject = ["granted_at": "T", "granted_by": .string(user)]
                let ended: JSONObject = [
                    "granted_at": "T", "granted_by": .string(user), "revoked_at": "T", "revoked_by": .string(user),
                ]
                let north: JSONObject = ["granted_at": "T", "granted_by": .string(user), "includes": ["site=s-1", "site=s-2"]]
                #expect(
                    json == [
                        row("site=s-3", "record", ["entity": "assignments", "id": "a-1"]), row("site=s-1", "command", ended),
                        row("role=inspector", "command", by), row("group=north", "command", north), row("group=south", "command", by),
                    ], "\(json.json)")

                // The settings have no times of grants, so the list says where those are.
                let ofFile = """
                    pump-17  role=inspector  in generation 1 of the settings
                    pump-17  group=north (site=s-1, site=s-2)  in generation 1 of the settings

                    """
                let pump = try await grants(["pump-17"], stand)
                #expect(pump.text == ofFile && pump.talk.contains("who applied which settings when: agenthub entities history"))
                let first = try JSONReader.read(try await grants(["pump-17", "--json"], stand).text).array?.first?.object
                #expect(first?["source"] == "file" && first?["generation"] == 1 && first?["granted_at"] == .null)
                let other = "\(stand.folder)/other.yaml"
                try Stand.write("devices:\n  tablet-9: { site: [s-7] }\n", to: other)
                let named = try await grants(["tablet-9", "--entities", other], stand)
                #expect(named.status == 0 && named.text.hasPrefix("tablet-9  site=s-7  in \(other)\n" + record + past), "\(named.text)")

                // A grant ends with its record, and an operator needs no hub for the list.
                try await assign("null", stand)
                await stand.stopHub()
                let all = try await grants([], stand)
                #expect(all.status == 0 && all.text == ofFile + past + rest, "\(all.text) \(all.talk)")
            }
        }

        // Fault: no command told why a device lacks a record, so an operator compared scopes and grants by hand.
        @Test("agenthub why names the reason for which a device lacks a record, and the grant after which the device has it")
        func why() async throws {
            try await Stand.with(entities: "  work_orders: { kind: record }", hubEntities: Self.entities) { stand in
                let orders = "\(stand.folder)/orders.ndjson"
                try Stand.write(#"{"id":"w-1","data":{"site":"s-3"}}"# + "\n" + #"{"id":"w-2","data":{"n":1}}"# + "\n", to: orders)
                #expect(try await hub(["publish", "work_orders", orders], stand).status == 0)
                let device = Stand.device
                #expect(try await stand.agentctl("sync", "--wait").status == 0)
                let lacking = try await hub(["why", device, "work_orders/w-1"], stand)
                #expect(lacking.status == 0 && lacking.talk.isEmpty, "\(lacking.talk)")
                let rows = lacking.text.replacing(/\d{4}-\d\d-\d\dT[\d:.]+Z/, with: "T")
                #expect(
                    rows == """
                        record   work_orders/w-1, version 1, changed T by hub
                        scopes   site=s-3
                        device   \(device), last contact T
                        has      assignee=\(device), site=\(device)  by its id
                        verdict  \(device) does not receive it, because none of the record's scopes is one of the device's
                        next     agenthub grant \(device) site=s-3  # \(device) then receives all records with site=s-3

                        """)
                // The proposed command does what it says.
                let json = try JSONReader.read(try await hub(["why", device, "work_orders/w-1", "--json"], stand).text).object
                #expect(json?["verdict"] == "scopes-differ" && json?["receives"] == false)
                let command = try #require(json?["next"]?.array?.first?.object?["command"]?.text)
                #expect(try await hub(command.split(separator: " ").dropFirst().map(String.init), stand).status == 0)
                #expect(try await stand.agentctl("sync", "--wait").status == 0)
                #expect(try await stand.agentctl("get", "work_orders", "w-1").status == 0)
                let having = try await hub(["why", device, "work_orders/w-1"], stand)
                #expect(having.text.contains("has      site=s-3  granted "), "\(having.text)")
                #expect(having.text.contains("verdict  \(device) receives it, because the record and the device have site=s-3\n"))

                let nowhere = try await hub(["why", device, "work_orders/w-2"], stand)
                #expect(nowhere.text.contains("no device receives it, because the record has no value in assignee or site"))
                // A mistyped name is a failure, and a word that is no record is wrong usage.
                for (words, near) in [([device, "work_order/w-1"], "work_orders"), (["stant", "work_orders/w-1"], device)] {
                    let mistyped = try await hub(["why"] + words, stand)
                    #expect(mistyped.status == 66 && mistyped.text.contains("(did you mean \(near)?)"), "\(mistyped.text)")
                }
                #expect(try await hub(["why", device, "work_orders"], stand).status == 64)
                // The answer needs no hub that runs.
                await stand.stopHub()
                let later = try await hub(["why", device, "work_orders/w-1"], stand)
                #expect(later.status == 0 && later.text.contains("verdict  \(device) receives it"), "\(later.text) \(later.talk)")
            }
        }

        // Fault: a mistyped name was granted without a word, and the device got no records.
        @Test("A grant without an effect is told with the name that was probably meant, and so is a device without a token")
        func hints() async throws {
            try await Stand.with(hubEntities: Self.entities, agent: false) { stand in
                let unknown = "agenthub: tablet-8 has no token yet. To make one: agenthub token enrol tablet-8\n"
                let first = try await hub(["grant", "tablet-8", "site=s-1"], stand)
                #expect(first.status == 0 && first.text == "granted site=s-1 to tablet-8\n" && first.talk == unknown)
                let none = ", so such a grant has no effect\n"
                for (grant, talk) in [
                    ("sites=s-1", "no entity has the scope field sites (did you mean site?)" + none),
                    ("roles=office", "no entity has the scope field roles (did you mean role?)" + none),
                    ("group=nort", "the settings have no group nort (did you mean north?)" + none),
                    ("site=s-1,s-2", "s-1,s-2 is one value. Several values are given as several arguments, such as site=s-3 site=s-4\n"),
                ] {
                    let given = try await hub(["grant", "tablet-8", grant], stand)
                    #expect(given.status == 0 && given.text == "granted \(grant) to tablet-8\n" && given.talk == "agenthub: " + talk)
                }
                let list = try await grants(["tablet-8"], stand)
                #expect(list.text.contains("tablet-8  sites=s-1 (no entity has this scope field)  granted T by "), "\(list.text)")
                // A grant that is named twice is one.
                let twice = try await hub(["grant", "tablet-8", "site=s-2", "site=s-2"], stand)
                #expect(twice.status == 0 && twice.text == "granted site=s-2 to tablet-8\n" && twice.talk.isEmpty, "\(twice.talk)")
                let back = try await hub(["revoke", "tablet-8", "site=s-2", "site=s-2"], stand)
                #expect(back.status == 0 && back.text == "took site=s-2 back from tablet-8\n" && back.talk.isEmpty, "\(back.talk)")
                let path = "\(stand.folder)/mistyped.yaml"
                try Stand.write("entities: { audits: { scope: [site] } }\ndevices: { pump-17: { group: [north] } }\n", to: path)
                let warning = "devices.pump-17.group: no entity has the scope field group (did you mean groups?)" + none
                let check = try await Child.run([Programs.agenthub, "entities", "check", path], in: stand.folder)
                #expect(check.status == 0 && check.text == "good: audits\n" && check.talk == "agenthub: warning: \(path): " + warning)
                let dry = try await hub(["entities", "apply", path, "--dry-run"], stand)
                #expect(dry.talk.hasPrefix("agenthub: warning: " + warning), "\(dry.talk)")
                // A mistyped folder is no hub without grants, and no command that takes something away makes it.
                let nowhere = "\(stand.folder)/nowhere"
                for command in [
                    ["grants"], ["revoke", "tablet-8", "site=s-1"], ["token", "list"], ["token", "revoke", "tablet-8"],
                    ["token", "readmit", "tablet-8"],
                ] {
                    let elsewhere = try await Child.run([Programs.agenthub] + command + ["--data", nowhere], in: stand.folder)
                    #expect(elsewhere.status == 66 && elsewhere.talk == "agenthub: there is no hub in \(nowhere)\n", "\(command)")
                    #expect(!FileManager.default.fileExists(atPath: nowhere), "\(command)")
                }
            }
        }

        /// Devices that make a record of `moves` would grant themselves every site.
        private static let refusedFile = """
            entities: { moves: { scope: [device], fields: { device: { write: own }, site: { write: own } } } }
            devices: { tablet-9: { site: [s-7] } }
            grants_from: [{ entity: moves, scope: site }]

            """

        // Fault: the list of a file ended with the error of a database of another version, and with what only new files may not have.
        @Test("The grants of a file are listed also where it is no new file for a hub, and where the database cannot be read")
        func grantsOfFile() async throws {
            try await Stand.with(hub: false, agent: false) { stand in
                let path = "\(stand.folder)/own.yaml", database = "\(stand.folder)/hub/hub.db"
                try Stand.write(Self.refusedFile, to: path)
                #expect(try await hub(["grant", "tablet-9", "site=s-1"], stand).status == 0)
                for command in [["apply", path], ["apply", path, "--dry-run"]] {
                    let refused = try await hub(["entities"] + command, stand)
                    #expect(refused.status == 78 && refused.talk.contains("could grant themselves every scope"), "\(refused.talk)")
                }
                #expect(!FileManager.default.fileExists(atPath: database), "no hub is made for a file that it refuses")
                let mark = "(no entity has this scope field)"
                let rows = "tablet-9  site=s-7 \(mark)  in \(path)\ntablet-9  site=s-1 \(mark)  granted T by \(Self.user)\n"
                let list = try await grants(["--entities", path], stand)
                #expect(list.status == 0 && list.text == rows && list.talk.isEmpty, "\(list.text) \(list.talk)")
                try Data(repeating: 0x5A, count: 8_192).write(to: URL(fileURLWithPath: database))
                let beside = try await grants(["--entities", path], stand)
                #expect(beside.status == 0 && beside.text == rows, "\(beside.text)")
                let words = "agenthub: the grants that records give are not listed, because the database cannot be read: "
                #expect(beside.talk.hasPrefix(words) && !beside.talk.contains("Failure("), "\(beside.talk)")
                #expect(try await grants([], stand).status == 73)
                // A device gets its token, and the operator reads the reason in words.
                let token = try await hub(["token", "add", "tablet-9"], stand)
                #expect(token.status == 0 && token.text.hasPrefix("est_"), "\(token.talk)")
                #expect(token.talk.hasPrefix("agenthub: the id was not compared with the grants of the entity settings: "))
                #expect(!token.talk.contains("Failure("), "\(token.talk)")
                let given = try await hub(["grant", "tablet-9", "site=s-2"], stand)
                #expect(given.status == 0 && given.text == "granted site=s-2 to tablet-9\n", "\(given.talk)")
                #expect(given.talk.hasPrefix("agenthub: the values were not compared with the devices of the entity settings: "))
                #expect(!given.talk.contains("Failure("), "\(given.talk)")
                let role = try await hub(["grant", "tablet-9", "role=inspector"], stand)
                #expect(role.status == 0 && role.talk.isEmpty, "\(role.talk)")
            }
        }

        // Fault: only the commands told it, and a hub that starts with a file of its own said nothing.
        @Test("The log of a hub tells at the start which grants of its settings have no effect")
        func hintsInLog() async throws {
            try await Stand.with(hubEntities: "  audits: { scope: [site] }\ndevices: { gw-7: { sites: [s-1] } }", agent: false) { stand in
                let log = try String(contentsOfFile: "\(stand.folder)/hub.log", encoding: .utf8)
                #expect(log.contains("devices.gw-7.sites: no entity has the scope field sites (did you mean site?)"), "\(log)")
            }
        }

        // Fault: a file of an old backup kept the hub from starting, though there were settings to work by.
        @Test("A hub starts over its settings with a file that it refuses, and the log says why; a trial of such a file fails")
        func startWithRefusedFile() async throws {
            try await Stand.with(hubEntities: Self.entities, agent: false) { stand in
                await stand.stopHub()
                let path = "\(stand.folder)/entities.yaml"
                try Stand.write(Self.refusedFile, to: path)
                try await stand.startHub()
                let log = try String(contentsOfFile: "\(stand.folder)/hub.log", encoding: .utf8)
                #expect(log.contains("the entities file is invalid; the present settings stay in force"), "\(log)")
                #expect(log.contains("could grant themselves every scope"), "\(log)")
                let trial = try await hub(["entities", "apply", path, "--dry-run"], stand)
                #expect(trial.status == 78 && trial.text.contains("moves"), "\(trial.text)")
                #expect(trial.talk.contains("agenthub: a hub refuses these settings: "), "\(trial.talk)")
                #expect(trial.talk.contains("could grant themselves every scope"), "\(trial.talk)")
                let history = try JSONReader.read(try await hub(["entities", "history", "--json"], stand).text)
                #expect(history.array?.compactMap { $0.object?["generation"]?.int } == [1])
            }
        }
    }
}
