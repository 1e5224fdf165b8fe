import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// The table of links says what a look at all documents says, after every transaction, and access follows from it.
@Suite("Links of records and files", .eachEngine)
struct FileLinkTests {
    private static let devices: [DeviceID] = (0..<3).map { DeviceID(trusted: "gw-\($0)") }
    private static let contents: [[UInt8]] = (0..<4).map { Array("picture \($0)".utf8) }
    private static let ids = (0..<6).map { "a-\($0)" }

    /// Random work of devices and office.
    private struct Walk {
        var random: SeededRandom
        let stand: FileStand
        var brought: [DeviceID: Set<String>] = [:]

        mutating func number(_ below: Int) -> Int { Int(random.next() % UInt64(below)) }

        /// A value with placeholders, in lists and objects up to some depth.
        mutating func value(_ depth: Int = 0) throws -> JSON {
            switch number(depth > 2 ? 3 : 6) {
            case 0: return .int(Int64(number(10)))
            case 1, 2: return try FileStand.placeholder(FileLinkTests.contents[number(4)], isUploaded: number(2) == 0)
            case 3: return .object(["inner": try value(depth + 1), "$blob": "no digest"])
            default: return .array(try (0..<number(4)).map { _ in try value(depth + 1) })
            }
        }

        mutating func document() throws -> JSONObject {
            var data: JSONObject = ["site": .string("s-\(number(3))"), "assignee": .string("gw-\(number(4))")]
            for field in 0..<3 where number(2) == 0 { data["f\(field)"] = try value() }
            return data
        }

        mutating func step() throws {
            let device = FileLinkTests.devices[number(3)]
            let id = FileLinkTests.ids[number(6)]
            let bench = stand.fleet.bench
            switch number(12) {
            case 0: stand.fleet.grant(device, "site", "s-\(number(3))")
            case 1: stand.fleet.revoke(device, "site", "s-\(number(3))")
            case 2: try stand.fleet.publish(id, number(4) == 0 ? nil : try document())
            case 3, 4:
                let content = FileLinkTests.contents[number(4)]
                try stand.upload(content, by: device, for: number(2) == 0 ? id : nil)
                brought[device, default: []].insert(try FileStand.digest(content).hex)
            case 6: try stand.offer(FileLinkTests.contents[number(4)], by: device)
            case 5 where number(4) == 0:
                bench.now = bench.now.advanced(by: .seconds(100 * 86_400))
                try stand.hub.housekeep(at: bench.now)
            default:
                let stored = try stand.hub.record(RecordName(ScopeBench.orders, RecordID(trusted: id)))
                let action: MutationAction = stored == nil ? .create : number(5) == 0 ? .delete : .update
                let base = (stored?.version ?? 0) - (number(3) == 0 ? min(1, stored?.version ?? 0) : 0)
                try stand.fleet.push(device, action, id, action == .delete ? nil : .object(try document()), base: base)
            }
        }

        /// The mistake in the table or in what devices get; `nil`: there is none.
        func fault() throws -> String? {
            let (links, scan) = (try stand.links(), try stand.scan())
            if links.all != scan { return "the table differs in \(links.all.symmetricDifference(scan))" }
            for device in FileLinkTests.devices {
                for content in FileLinkTests.contents {
                    let digest = try FileStand.digest(content)
                    let shown = try FileLinkTests.ids.contains { id in
                        guard let data = try stand.hub.record(RecordName(ScopeBench.orders, RecordID(trusted: id)))?.data else {
                            return false
                        }
                        return stand.fleet.mayReceive(device, data)
                            && links.shown.contains(FileStand.Link(digest: digest.hex, record: "work_orders/\(id)"))
                    }
                    let isThere = brought.values.contains { $0.contains(digest.hex) }
                    let expected = brought[device]?.contains(digest.hex) == true || shown && isThere
                    let status = stand.ask(digest, by: device, "HEAD").status
                    if (status == 200) != expected { return "\(device) gets \(status) for \(digest), expected \(expected)" }
                }
            }
            return nil
        }
    }

    @Test("After every transaction the table is what the documents say, and a device gets what the shown ones among them give it")
    func walks() throws {
        for seed in 1...UInt64(Engine.current == .sqlite ? 25 : 3) {
            var rules = ScopeBench.rules
            if seed % 2 == 0 { rules.entities[ScopeBench.orders]?.onDeleted = .updateWins }
            var walk = Walk(random: SeededRandom(seed: seed), stand: try FileStand(rules: rules))
            for step in 0..<60 {
                try walk.step()
                let fault = try walk.fault()
                #expect(fault == nil, "seed \(seed), step \(step)")
                if fault != nil { return }
            }
        }
    }

    @Test("Records of one transaction get their links together, and a repaired one as well")
    func batches() throws {
        let stand = try FileStand()
        stand.fleet.grant(.one, "site", "s-1")
        let content = Self.contents[0]
        func data(_ value: JSON) -> JSON { .object(["site": "s-1", "photo": value]) }
        let shown = try FileStand.placeholder(content)
        let verdicts = try stand.fleet.bench.verdicts([
            Sent("k-1", .create, "work_orders", id: "a", data: data(shown)),
            Sent("k-2", seq: 2, .create, "work_orders", id: "b", data: data(shown)),
            Sent("k-3", seq: 3, .update, "work_orders", id: "a", data: ["photo": 1], ms: 200).with("depends_on", .list(["k-1"])),
        ])
        #expect(verdicts.count == 3)
        #expect(try stand.links().all == stand.scan() && stand.links().all.contains { $0.record == "work_orders/b" })
        try stand.hub.store.database.run("UPDATE record SET data = '{' WHERE id = 'b'")
        try stand.fleet.publish("b", ["site": "s-1"])
        #expect(try stand.links().all == stand.scan())
    }

    @Test("The question for a file goes by the key of each table")
    func plans() throws {
        guard Engine.current == .sqlite else { return }  // `PostgresPlanTests` asks the server.
        let store = try FileStand().hub.store
        for query in [HubStore.anyLinkQuery, HubStore.openLinkQuery, store.scopeLinkQuery] {
            let steps = try store.database.all("EXPLAIN QUERY PLAN \(query.sql)") { $0.text(3) }
            #expect(steps.first?.hasPrefix("SEARCH record_file USING PRIMARY KEY (digest=?") == true, "\(steps)")
            #expect(!steps.contains { $0.hasPrefix("SCAN") }, "\(steps)")
        }
        let steps = try store.database.all("EXPLAIN QUERY PLAN \(HubStore.unshownStatement)", .text(""), .text("")) { $0.text(3) }
        #expect(steps.first == "SEARCH f USING PRIMARY KEY (digest=?)", "\(steps)")
        #expect(steps.last == "SEARCH w USING PRIMARY KEY (digest=? AND entity=? AND record_id=?)", "\(steps)")
    }

    // MARK: Programs that do not know the links

    private static func older(_ rows: HubRows) throws {
        for table in ["record_file", "device_keeping", "retention_clock", "event_retention"] { try rows.run("DROP TABLE \(table)") }
        try rows.run("DROP INDEX refused_create_past")
        try rows.run("ALTER TABLE hub DROP COLUMN linked")
        switch Engine.current {
        case .sqlite: try rows.run("PRAGMA user_version = 10")
        case .postgres:
            // Such a program keeps the newest commit in the row of the hub.
            try rows.run("UPDATE hub SET head = (SELECT max(head) FROM commit_log)")
            try rows.run("DROP TABLE commit_log")
            try rows.run(KeysBefore.statements)
            try rows.run("UPDATE hub_schema SET version = 9")
        }
    }

    @Test("A database of before gets its links at the first start, and shows what is proven")
    func migration() throws {
        let rows = try HubRows()
        let files = try StorageKind.folder.make()
        let (mine, stolen) = (Self.contents[0], Self.contents[1])
        let before: Set<FileStand.Link>
        do {
            let stand = try FileStand(at: rows.place, files: files)
            stand.fleet.grant(.one, "site", "s-1")
            stand.fleet.grant(.two, "site", "s-2")
            try stand.upload(mine, by: .one)
            try stand.upload(stolen, by: .one)
            try stand.fleet.push(.one, .create, "a", .object(["site": "s-1", "photo": FileStand.placeholder(mine)]))
            try stand.fleet.push(.one, .create, "gone", .object(["site": "s-1", "photo": FileStand.placeholder(mine)]))
            try stand.fleet.push(.one, .delete, "gone", base: stand.version("gone"))
            let theirs: JSON = .object(["site": "s-2", "photo": try FileStand.placeholder(stolen, isUploaded: true)])
            try stand.fleet.push(.two, .create, "x", theirs)
            for number in 0..<520 { try stand.fleet.publish("n-\(number)", ["site": "s-1", "n": .int(Int64(number))]) }
            // A name with an escape is the same name.
            let escaped = try JSONReader.read("{\"\\u0024blob\":\"\(FileStand.digest(mine))\"}")
            try stand.fleet.publish("last", ["site": "s-1", "photos": .array([escaped])])
            before = try stand.links().all
            #expect(try before == stand.scan())
        }
        try Self.older(rows)
        let stand = try FileStand(at: rows.place, files: files)
        stand.fleet.keys = 100
        #expect(try stand.links().all == before && stand.scan() == before)
        let reader = DeviceID(trusted: "gw-3")
        stand.fleet.grant(reader, "site", "s-1", "s-2")
        #expect(try stand.mayFetch(mine, reader) && !stand.mayFetch(stolen, reader))
        // A device that may read the file takes it out and puts it back.
        stand.fleet.grant(.one, "site", "s-2")
        #expect(try stand.fleet.push(.one, .update, "x", ["photo": 0], base: stand.version("x")).word == "accepted")
        let again: JSON = .object(["photo": try FileStand.placeholder(stolen, isUploaded: true)])
        #expect(try stand.fleet.push(.one, .update, "x", again, base: stand.version("x")).word == "accepted")
        #expect(try stand.mayFetch(stolen, reader))
    }

    @Test("Records that an older program writes beside this one get their links before the next answer about a file")
    func besideOlder() throws {
        let rows = try HubRows()
        let files = try StorageKind.folder.make()
        let content = Self.contents[0]
        func forget() throws {
            try rows.run("DELETE FROM record_file")
            let newest = Engine.current == .sqlite ? "hub" : "commit_log"
            try rows.run("UPDATE \(newest) SET linked = linked - 2")
        }
        var stand: FileStand? = try FileStand(at: rows.place, files: files)
        func prepare(_ stand: FileStand) throws {
            for device in [DeviceID.one, .two] { stand.fleet.grant(device, "site", "s-1") }
        }
        if let stand {
            try prepare(stand)
            for number in 0..<3 { try stand.fleet.publish("n-\(number)", ["site": "s-1"]) }
            try stand.upload(content, by: .one)
            try stand.fleet.push(.one, .create, "a", .object(["site": "s-1", "photo": FileStand.placeholder(content)]))
        }
        // An SQLite file has one program at a time, so there a start comes first.
        if Engine.current == .sqlite { stand = nil }
        try forget()
        let after = try stand ?? FileStand(at: rows.place, files: files)
        try prepare(after)
        #expect(try after.mayFetch(content, .two) && after.links().all == after.scan())
    }
}
