import Foundation
import LocalAPI
import ProcessStand
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// The work of an operator with a hub, by the built programs.
    @Suite("Operating a hub")
    struct HubOperationTests {
        private static let orders = EntityName(trusted: "work_orders")

        private func hub(_ arguments: [String], _ stand: Stand) async throws -> Output {
            try await Child.run([Programs.agenthub] + arguments, in: stand.folder)
        }

        private func create(_ ids: [String], with client: AgentClient) async throws {
            for id in ids {
                let order = NewMutation(.create, Self.orders, RecordID(trusted: id), data: ["by": .string(id)])
                #expect(try await client.enqueue(order, key: id).status == 201)
            }
        }

        @Test("Two devices sync, the hub is backed up beside its work and restored later: nothing is lost, nothing is there twice")
        func backupAndRestore() async throws {
            try await Stand.with { stand in
                let data = "\(stand.folder)/hub", copy = "\(stand.folder)/backup"
                let other = try await Neighbour("other", on: stand)
                do {
                    try await create((1...5).map { "one-\($0)" }, with: stand.client)
                    try await create((1...5).map { "two-\($0)" }, with: other.client)
                    let file = try await stand.client.addBlob(at: stand, bytes: Array(repeating: 7, count: 300_000))
                    _ = try await stand.settle()
                    try await other.sync()
                    // The hub serves meanwhile.
                    let backup = try await hub(["backup", copy, "--data", data], stand)
                    #expect(backup.status == 0 && backup.text.contains("head "), "\(backup.talk)")
                    let manifest = try JSONReader.read(Array(try #require(FileManager.default.contents(atPath: copy + "/backup.json"))))
                        .object
                    let kept = Int64(FileManager.default.subpaths(atPath: copy + "/blobs")?.count { $0.count == 67 } ?? 0)
                    #expect(manifest?["blobs"]?.int == kept && kept == file)
                    let rowsAlone = try await hub(["backup", copy + "-rows", "--without-files", "--data", data], stand)
                    #expect(rowsAlone.status == 0 && rowsAlone.text.contains("no files"))
                    #expect(!FileManager.default.fileExists(atPath: copy + "-rows/blobs"))
                    #expect(try await hub(["restore", copy + "-rows", "--data", stand.folder + "/elsewhere"], stand).status == 0)
                    let again = try await hub(["backup", copy, "--data", data], stand)
                    #expect(again.status == 73 && again.talk.contains("exists already"))

                    try await create((6...9).map { "one-\($0)" }, with: stand.client)
                    try await create((6...9).map { "two-\($0)" }, with: other.client)
                    _ = try await stand.settle()
                    try await other.sync()
                    #expect(try await stand.hubApplied() == 18)

                    let running = try await hub(["restore", copy, "--replace", "--data", data], stand)
                    #expect(running.status == 75, "a hub serves it: \(running.talk)")
                    await stand.stopHub()
                    let refused = try await hub(["restore", copy, "--data", data], stand)
                    #expect(refused.status == 73 && refused.talk.contains("--replace"))
                    let restored = try await hub(["restore", copy, "--replace", "--data", data], stand)
                    #expect(restored.status == 0 && restored.text.contains("replaced-"), "\(restored.talk)")
                    #expect(!FileManager.default.fileExists(atPath: data + "/restore.ready"))
                    // Asked before the hub runs, because the devices offer what it lacks at once.
                    #expect(try await stand.hubApplied() == 10)
                    try await stand.startHub()

                    for _ in 0..<3 {
                        _ = try await stand.settle()
                        try await other.sync()
                    }
                    let records = try await stand.hubRecords("work_orders").map(\.id)
                    let all = Set((1...9).flatMap { ["one-\($0)", "two-\($0)"] })
                    #expect(Set(records) == all && records.count == all.count)
                    #expect(try await stand.hubApplied() == 18, "each took effect once")
                    for client in [stand.client, other.client] {
                        for id in all {
                            #expect(try await client.record(RecordName(Self.orders, RecordID(trusted: id))).value.status == "synced")
                        }
                    }
                } catch {
                    await other.stop()
                    throw error
                }
                await other.stop()
            }
        }

        /// The moment of a power cut while a restore moved its files.
        enum Cut: String, CaseIterable { case beforeItCounts, nothingMoved, logAside, databaseAside, databaseInPlace }

        @Test("A restore that a power cut interrupted is the old hub or the new one, whatever it had come to", arguments: Cut.allCases)
        func interrupted(_ cut: Cut) async throws {
            try await Stand.with(agent: false) { stand in
                let data = "\(stand.folder)/hub", copy = "\(stand.folder)/backup", whole = "\(stand.folder)/whole"
                let peer = try await PlainPeer("peer", on: stand)
                try await peer.create("work_orders", "wo-1", "{}", at: await stand.hubURL)
                #expect(try await hub(["backup", copy, "--data", data], stand).status == 0)
                try await peer.create("work_orders", "wo-2", "{}", at: await stand.hubURL)
                await stand.killHub()
                // The prepared files of a restore are those of a restore into another folder.
                #expect(try await hub(["restore", copy, "--data", whole], stand).status == 0)
                let files = FileManager.default
                let ready = data + (cut == .beforeItCounts ? "/restore.partial" : "/restore.ready"), aside = data + "/replaced-1"
                try files.createDirectory(atPath: ready, withIntermediateDirectories: false)
                for name in ["hub.db", "mark"] { try files.copyItem(atPath: "\(whole)/\(name)", toPath: "\(ready)/\(name)") }
                try Stand.write("replaced-1", to: ready + "/aside")
                func moveAside(_ names: [String]) throws {
                    try? files.createDirectory(atPath: aside, withIntermediateDirectories: false)
                    for name in names where files.fileExists(atPath: "\(data)/\(name)") {
                        try files.moveItem(atPath: "\(data)/\(name)", toPath: "\(aside)/\(name)")
                    }
                }
                switch cut {
                case .beforeItCounts, .nothingMoved: break
                case .logAside: try moveAside(["hub.db-wal", "hub.db-shm"])
                case .databaseAside: try moveAside(["hub.db-wal", "hub.db-shm", "hub.db"])
                case .databaseInPlace:
                    try moveAside(["hub.db-wal", "hub.db-shm", "hub.db"])
                    try files.moveItem(atPath: ready + "/hub.db", toPath: data + "/hub.db")
                }
                try await stand.startHub()
                let expected = cut == .beforeItCounts ? ["wo-1", "wo-2"] : ["wo-1"]
                #expect(try await stand.hubRecords("work_orders").map(\.id) == expected)
                if cut != .beforeItCounts {
                    #expect(!files.fileExists(atPath: data + "/restore.ready"))
                    #expect(files.fileExists(atPath: aside + "/hub.db"), "what was there is kept")
                }
            }
        }

        @Test("A damaged backup is refused, and the hub that is there stays as it is")
        func damagedBackup() async throws {
            try await Stand.with(agent: false) { stand in
                let data = "\(stand.folder)/hub", copy = "\(stand.folder)/backup"
                let peer = try await PlainPeer("peer", on: stand)
                try await peer.create("work_orders", "wo-1", "{}", at: await stand.hubURL)
                #expect(try await hub(["backup", copy, "--data", data], stand).status == 0)
                await stand.stopHub()
                var bytes = try #require(FileManager.default.contents(atPath: copy + "/hub.db"))
                bytes[bytes.count / 2] ^= 1
                try bytes.write(to: URL(fileURLWithPath: copy + "/hub.db"))
                let before = FileManager.default.contents(atPath: data + "/hub.db")
                let refused = try await hub(["restore", copy, "--replace", "--data", data], stand)
                #expect(refused.status == 65 && refused.talk.contains("damaged"), "\(refused.talk)")
                #expect(FileManager.default.contents(atPath: data + "/hub.db") == before)
                try FileManager.default.removeItem(atPath: copy + "/backup.json")
                #expect(try await hub(["restore", copy, "--replace", "--data", data], stand).status == 66)
                // One bit of the hub's own database: no backup is made of it.
                var own = try #require(before)
                own[own.count - 2_000] ^= 1
                try own.write(to: URL(fileURLWithPath: data + "/hub.db"))
                let none = try await hub(["backup", copy + "1", "--data", data], stand)
                #expect(none.status == 73 && none.talk.contains("a page is not as it was written"), "\(none.talk)")
                #expect(!FileManager.default.fileExists(atPath: copy + "1"))
                let elsewhere = try await hub(["backup", copy + "2", "--database", "postgres://nowhere/x"], stand)
                #expect(elsewhere.status == 64 && elsewhere.talk.contains("pg_dump"))
            }
        }

        // Fault: such a restore handed the records of every customer to all devices, and said nothing.
        @Test("A backup of before the scopes is refused; --drop-scopes restores it and tells the settings, which can be applied again")
        func backupWithoutScopes() async throws {
            try await Stand.with(agent: false) { stand in
                let data = "\(stand.folder)/hub", copy = "\(stand.folder)/backup", file = "\(stand.folder)/scoped.yaml"
                #expect(try await hub(["backup", copy, "--data", data], stand).status == 0)
                try Stand.write("entities:\n  work_orders: { scope: [site] }\n", to: file)
                let applied = try await hub(["entities", "apply", file, "--data", data], stand)
                #expect(applied.text.contains("generation 2 is in force"), "\(applied.talk)")
                await stand.stopHub()
                let before = FileManager.default.contents(atPath: data + "/hub.db")
                let restore = ["restore", copy, "--replace", "--data", data]
                let refused = try await hub(restore, stand)
                #expect(refused.status == 78 && refused.talk.contains("the backup has no scope for work_orders"), "\(refused.talk)")
                #expect(refused.talk.contains("agenthub entities history 2 --data \(data) > kept.yaml"), "\(refused.talk)")
                #expect(FileManager.default.contents(atPath: data + "/hub.db") == before)
                #expect(!FileManager.default.fileExists(atPath: data + "/restore.partial"))
                let kept = try await hub(["entities", "history", "2", "--data", data], stand)
                #expect(kept.text == "entities:\n  work_orders: { scope: [site] }\n")
                let restored = try await hub(restore + ["--drop-scopes"], stand)
                #expect(restored.status == 0, "\(restored.talk)")
                #expect(restored.text.contains("the settings of entities are those of the backup: generation 1 of "), "\(restored.text)")
                #expect(restored.text.contains("agenthub entities history 2 --data \(data)/replaced-"), "\(restored.text)")
                // The backup has the settings of the hub that it replaces now, so there is nothing to tell.
                let again = try await hub(restore, stand)
                #expect(again.status == 0 && !again.text.contains("settings"), "\(again.talk)")
                let reapplied = try await hub(["entities", "apply", file, "--data", data], stand)
                #expect(reapplied.text.contains("generation 2 is in force"), "\(reapplied.talk)")
                let present = try #require(FileManager.default.contents(atPath: data + "/hub.db"))
                // A database that cannot be read says nothing of its scopes, and must not keep the hub from coming back.
                try Data(repeating: 0x5A, count: present.count).write(to: URL(fileURLWithPath: data + "/hub.db"))
                let damaged = try await hub(restore, stand)
                #expect(damaged.status == 0 && damaged.text.contains("not compared with those of the replaced hub"), "\(damaged.talk)")
            }
        }

        @Test(
            "A database that is gone, empty or damaged is told with its path and the way back; an empty hub is served only when asked for")
        func databaseGone() async throws {
            try await Stand.with(agent: false) { stand in
                let data = "\(stand.folder)/hub"
                let peer = try await PlainPeer("peer", on: stand)
                try await peer.create("work_orders", "wo-1", "{}", at: await stand.hubURL)
                await stand.stopHub()
                let serve = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--open"]
                for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: data + "/hub.db" + ending) }
                var flipped = try #require(FileManager.default.contents(atPath: data + "/hub.db"))
                flipped[2_000] ^= 1
                for bytes in [flipped, Data(repeating: 0x5A, count: 8_192)] {
                    try bytes.write(to: URL(fileURLWithPath: data + "/hub.db"))
                    let damaged = try await hub(serve, stand)
                    #expect(damaged.status == 73, "\(damaged.talk)")
                    #expect(damaged.talk.contains(data + "/hub.db") && damaged.talk.contains("agenthub restore"), "\(damaged.talk)")
                }
                try Data().write(to: URL(fileURLWithPath: data + "/hub.db"))
                let empty = try await hub(serve, stand)
                #expect(empty.status == 66, "\(empty.talk)")
                #expect(empty.talk.contains(data + "/hub.db") && empty.talk.contains("agenthub restore"), "\(empty.talk)")
                try FileManager.default.removeItem(atPath: data + "/hub.db")
                #expect(try await hub(serve, stand).status == 66)
                try FileManager.default.createDirectory(atPath: stand.folder + "/lone", withIntermediateDirectories: true)
                try FileManager.default.moveItem(atPath: data, toPath: stand.folder + "/lone/hub")
                let lone = try await LoneHub.start(in: stand.folder + "/lone", options: ["--new-epoch"])
                #expect(await lone.child.stop() == 0)
            }
        }

        @Test("--metrics gives the figures an address of their own; what is no address, or that of the devices, is refused")
        func metrics() async throws {
            try await Stand.with(hub: false, agent: false) { stand in
                let serve = ["serve", "--data", "\(stand.folder)/hub", "--listen", "127.0.0.1:7433", "--metrics"]
                for (place, said) in [
                    ("nowhere", "--metrics: expected HOST:PORT, port 0 to 65535"),
                    ("127.0.0.1:70000", "--metrics: expected HOST:PORT, port 0 to 65535"),
                    ("127.0.0.1:7433", "--metrics and --listen: expected two addresses"),
                ] {
                    let refused = try await hub(serve + [place], stand)
                    #expect(refused.status == 64 && refused.talk.contains(said), "\(refused.talk)")
                }
                await stand.setHubArguments(["--metrics", "127.0.0.1:0"])
                try await stand.startHub()
                var address: Substring?
                while address == nil {
                    // The log has the line soon after the hub listens.
                    let log = try String(contentsOfFile: "\(stand.folder)/hub.log", encoding: .utf8)
                    address = log.firstMatch(of: /[ ]metrics=(127\.0\.0\.1:[0-9]+)\s/)?.1
                    await Pause.short()
                }
                let place = try #require(address)
                let page = try await stand.transport.send(HTTPRequest(.get, "http://\(place)/metrics"))
                #expect(page.status == 200 && String(decoding: page.body, as: UTF8.self).contains("\nagenthub_database_up 1\n"))
                #expect(try await stand.hub(.get, "/metrics").status == 404)
                #expect(await stand.stopHub() == 0)
            }
        }

        @Test("The devices fit a terminal, with what waits there, and say what an operator should do")
        func devices() async throws {
            try await Stand.with { stand in
                let data = "\(stand.folder)/hub"
                try await create(["wo-1", "wo-2"], with: stand.client)
                _ = try await stand.settle()
                _ = try await hub(["token", "add", "a-device-with-a-long-name-that-was-never-here-0001", "--data", data], stand)
                _ = try await hub(["token", "add", "shut-out", "--data", data], stand)
                _ = try await hub(["token", "revoke", "shut-out", "--data", data], stand)
                let table = try await hub(["devices", "--data", data], stand)
                #expect(table.status == 0, "\(table.talk)")
                let lines = table.text.split(separator: "\n")
                // A script gets whole lines, and what is to be said about them beside.
                #expect(lines.count == 3, "\(table.text)")
                #expect(lines[1].contains("revoked") && lines[0].contains("never") && lines[2].hasPrefix("stand"), "\(table.text)")
                #expect(table.talk.contains("3 devices, 2 of them silent for a day; 0 changes wait there"), "\(table.talk)")
                _ = try await hub(["token", "enrol", "gw-new", "--data", data], stand)
                let silent = try await hub(["devices", "--silent", "1d", "--sort", "seen", "--data", data], stand)
                #expect(silent.text.split(separator: "\n").count == 2 && !silent.text.contains("stand "), "\(silent.text)")
                #expect(silent.talk.contains("enrolment tokens that no device has used yet: gw-new"), "\(silent.talk)")
                #expect(try await hub(["devices", "--agent", "9.9", "--data", data], stand).talk.contains("no device matches"))
                #expect(try await hub(["devices", "--silent", "soon", "--data", data], stand).status == 64)
                func shown() async throws -> JSONObject? {
                    try JSONReader.read(try await hub(["devices", "stand", "--json", "--data", data], stand).text).object
                }
                var json = try await shown()
                // The agent takes the settings over after its first cycle, and reports them with a later one.
                for _ in 0..<50 where json?["config_current"] != .bool(true) {
                    #expect(try await stand.sync() == "ok")
                    json = try await shown()
                }
                #expect(json?["seq_seen"]?.int == 2 && json?["token"]?.text == "valid" && json?["agent"]?.text != nil)
                #expect(json?["waiting"]?.int == 0, "all of it is at the hub")
                #expect(json?["config_current"] == .bool(true), "it works by the settings of the hub")
                let one = try await hub(["devices", "stand", "--data", data], stand).text
                #expect(one.contains("acknowledged") && one.contains("the hub's, in force"), "\(one)")
                #expect(try await hub(["devices", "nobody", "--data", data], stand).status == 66)
                // Nothing was in the way of the hub that serves.
                #expect(try await stand.sync() == "ok")
            }
        }

        @Test("Lost values of two devices that wrote the same are listed with their writer, as lines and as JSON, of a record or of all")
        func lost() async throws {
            try await Stand.with(agent: false) { stand in
                let data = "\(stand.folder)/hub"
                #expect(try await hub(["lost", "--data", data], stand).text.isEmpty)
                let url = await stand.hubURL
                for id in ["wo-1", "wo-2"] {
                    // The first of two equal stamps stays.
                    try await PlainPeer("first-\(id)", on: stand).create("work_orders", id, #"{"title":"theirs"}"#, at: url)
                    try await PlainPeer("second-\(id)", on: stand).create("work_orders", id, #"{"title":"\#(id) 1.10"}"#, at: url)
                }
                let all = try await hub(["lost", "--data", data], stand)
                let lines = all.text.split(separator: "\n").map { $0.components(separatedBy: "  ") }
                #expect(all.status == 0 && lines.map { $0[1] } == ["work_orders/wo-1", "work_orders/wo-2"], "\(all.text) \(all.talk)")
                #expect(lines.last.map { Array($0[2...]) } == ["title", "\"wo-2 1.10\"", "second-wo-2", "0199c3f2a1b4-0000-9f2c11ab"])
                let json =
                    try JSONReader.read(try await hub(["lost", "work_orders", "wo-1", "--json", "--data", data], stand).text).array ?? []
                #expect(json.count == 1 && json.first?.object?["value"] == "wo-1 1.10" && json.first?.object?["device"] == "second-wo-1")
                #expect(json.first?.object?["kind"] == "lost")
                #expect(try await hub(["lost", "--limit", "1", "--data", data], stand).text.contains("wo-2"))
                #expect(try await hub(["lost", "readings", "--data", data], stand).text.isEmpty)
                #expect(try await hub(["lost", "--limit", "0", "--data", data], stand).status == 64)
                #expect(try await hub(["lost", "--data", data + "-none"], stand).status == 66)
            }
        }

        @Test("A file of entities is checked before a hub works by it, to the line and column")
        func entities() async throws {
            try await Stand.with(hub: false, agent: false) { stand in
                let good = try await hub(["entities", "check", "\(stand.folder)/entities.yaml"], stand)
                #expect(good.status == 0 && good.text.contains("readings, work_orders"))
                let path = "\(stand.folder)/bad.yaml"
                try Stand.write("entities:\n  audits: { kind: recrd }\n  visits:\n    feilds: {}\n", to: path)
                let bad = try await hub(["entities", "check", path], stand)
                #expect(bad.status == 78)
                #expect(bad.talk.contains("bad.yaml:2:19") && bad.talk.contains("bad.yaml:4:5"), "\(bad.talk)")
                let json = try await hub(["entities", "check", path, "--json"], stand)
                #expect(try JSONReader.read(json.text).object?["errors"]?.array?.count == 2)
                #expect(try await hub(["entities", "check", "\(stand.folder)/none.yaml"], stand).status == 78)
            }
        }

        // Fault: a device with the name of a site received the records of the site.
        @Test("A new device is not named like a scope that others were granted, or like the hub; a known one gets its token, and a warning")
        func namedLikeAScope() async throws {
            try await Stand.with(hub: false, agent: false) { stand in
                let data = "\(stand.folder)/named", path = "\(stand.folder)/named.yaml"
                #expect(try await hub(["grant", "tablet-9", "site=s-3", "--data", data], stand).status == 0)
                for command in ["add", "enrol"] {
                    let refused = try await hub(["token", command, "s-3", "--data", data], stand)
                    #expect(refused.status == 64 && refused.text.isEmpty, "\(refused.text)")
                    #expect(refused.talk.contains("s-3 is a value that was granted to tablet-9."), "\(refused.talk)")
                    #expect(try await hub(["token", command, "s-6", "--data", data], stand).status == 0)
                    let hubs = try await hub(["token", command, "hub", "--data", data], stand)
                    #expect(hubs.status == 64 && hubs.talk.contains("hub is the name of the hub as a writer"), "\(hubs.talk)")
                }
                try Stand.write("entities: { work_orders: { scope: [site] } }\ngroups:\n  north: { site: [s-5, s-6] }\n", to: path)
                let applied = try await hub(["entities", "apply", path, "--data", data], stand)
                #expect(applied.status == 0, "\(applied.talk)")
                let refused = try await hub(["token", "add", "s-5", "--data", data], stand)
                #expect(refused.status == 64 && refused.talk.contains("granted to groups.north."), "\(refused.talk)")
                let known = try await hub(["token", "add", "s-6", "--data", data], stand)
                #expect(known.status == 0 && known.text.hasPrefix("est_"), "\(known.talk)")
                #expect(known.talk.contains("warning: s-6 is a value that was granted to groups.north."), "\(known.talk)")
                // The file is refused before it would let devices grant themselves scopes.
                try Stand.write(
                    "entities: { moves: { scope: [device], fields: { device: { write: own }, site: { write: own } } } }\n"
                        + "grants_from: [{ entity: moves, scope: site }]\n", to: path)
                for command in [["entities", "check", path], ["entities", "apply", path, "--data", data]] {
                    let refused = try await hub(command, stand)
                    #expect(refused.status == 78 && refused.talk.contains("could grant themselves every scope"), "\(refused.talk)")
                }
            }
        }

        @Test("The hub that is shipped conforms, and a server that is none does not: by the command, on a terminal and as JSON")
        func conformance() async throws {
            try await Stand.with(agent: false) { stand in
                let file = "\(stand.folder)/tester"
                try Stand.write(try await stand.token(for: "tester") + "\n", to: file)
                let url = await stand.hubURL
                let good = try await hub(["conformance", url, "--token-file", file, "--entity", "work_orders"], stand)
                #expect(good.status == 0, "\(good.text) \(good.talk)")
                #expect(good.text.split(separator: "\n").allSatisfy { $0.count <= 80 })
                let json = try JSONReader.read(
                    try await hub(["conformance", url + "/", "--token-file", file, "--entity", "work_orders", "--json"], stand).text
                ).object
                #expect(json?["conformant"]?.bool == true && (json?["passed"]?.int ?? 0) >= 60 && json?["failed"]?.int == 0)
                #expect(try await stand.hubRecords("work_orders").isEmpty)
                // Events are in no feed: the wrong entity for it, which shows.
                #expect(try await hub(["conformance", url, "--token-file", file, "--entity", "readings"], stand).status == 1)
                await stand.stopHub()
                let nobody = try await hub(["conformance", url, "--token-file", file], stand)
                #expect(nobody.status == 1 && nobody.text.contains("FAILED"), "\(nobody.text)")
                #expect(try await hub(["conformance", "ftp://x"], stand).status == 64)
                let alone = try await hub(["conformance", url, "--token-file", file, "--scoped", "work_orders"], stand)
                #expect(alone.status == 64 && alone.talk.contains("--office-token-file"), "\(alone.talk)")
            }
        }

        @Test("The programs have one version")
        func version() async throws {
            let said = try await Child.run([Programs.agenthub, "--version"], in: "/tmp").text
            #expect(said.trimmingCharacters(in: .whitespacesAndNewlines) == "agenthub " + ProductVersion.text)
        }
    }
}

extension AgentClient {
    /// Adds a file beside the records.
    ///
    /// - Returns: The number of files that the hub will have.
    fileprivate func addBlob(at stand: Stand, bytes: [UInt8]) async throws -> Int64 {
        let path = "\(stand.folder)/photo"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        let added = try await stand.agentctl("blobs", "add", path, "--type", "image/jpeg", "--json")
        guard added.status == 0, let id = try JSONReader.read(added.text).object?["id"]?.text else {
            throw StandError("blobs add: \(added.talk)")
        }
        // Ends when the file is at the hub.
        let watched = try await stand.agentctl("blobs", "show", id, "--watch")
        guard watched.status == 0 else { throw StandError("blobs show: \(watched.talk)") }
        return 1
    }
}
