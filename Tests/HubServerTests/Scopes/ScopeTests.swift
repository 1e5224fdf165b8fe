import HubServer
import SyncCore
import Testing

/// PROTOCOL A16: who receives a record, and who may change it.
@Suite("Scopes", .eachEngine)
struct ScopeTests {
    private let one = DeviceID.one
    private let two = DeviceID.two

    /// Settings under which the records of an entity with these rules grant sites.
    private static func granting(by source: EntityRules) -> (rules: RuleBook, access: AccessBook) {
        var rules = ScopeBench.rules
        rules.entities["assignments"] = source
        var access = AccessBook()
        access.sources = [GrantSource(entity: "assignments", device: "device", scope: "site")]
        return (rules, access)
    }

    @Test("A device receives its own records and those of its sites, and nothing else")
    func share() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-2")
        try fleet.publish("a", ["assignee": "gw-1", "site": "s-9"])
        try fleet.publish("b", ["assignee": "gw-7", "site": "s-1"])
        try fleet.publish("c", ["assignee": "gw-7", "site": ["s-2", "s-1"]])
        try fleet.publish("d", ["note": "in no scope"])
        try fleet.publish("e", ["site": ["s-1"], "x": 1])
        try fleet.publish("e", nil)
        try fleet.pull(one)
        try fleet.pull(two)
        #expect(fleet.ids(one) == ["a", "b", "c"] && fleet.ids(two) == ["c"])
        #expect(fleet.leaks.isEmpty)
    }

    @Test("A device creates, changes and deletes in its scopes; elsewhere it is refused, and not told what is there")
    func rights() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-2")
        #expect(try fleet.push(one, .create, "a", ["site": "s-1"]).code == "accepted")
        #expect(try fleet.push(one, .update, "a", ["note": "x"], base: 1).code == "accepted")
        // A record that exists and belongs to others, and one that does not exist.
        for id in ["a", "nothing"] {
            let refused = try fleet.push(two, .update, id, ["note": "stolen"], base: 1)
            #expect(refused == .rejected(unknown, current: nil), "\(id)")
            #expect(try fleet.push(two, .delete, id, base: 1) == .rejected(unknown, current: nil))
        }
        // Into a scope of others, into none, and over a record of others.
        #expect(try fleet.push(two, .create, "b", ["site": "s-1"]).code == "forbidden")
        #expect(try fleet.push(two, .create, "b", ["note": "in no scope"]).code == "forbidden")
        #expect(try fleet.push(two, .create, "a", ["site": "s-2"]).code == "forbidden")
        #expect(try fleet.push(one, .update, "a", ["site": "s-2"], base: 2).code == "forbidden")
        #expect(try fleet.push(one, .update, "a", ["site": "s-1", "assignee": "gw-1"], base: 2).code == "accepted")
        #expect(try fleet.bench.hub.record("work_orders/a")?.data == ["site": "s-1", "note": "x", "assignee": "gw-1"])
        #expect(try fleet.push(one, .delete, "a", base: 3).code == "accepted")
        #expect(fleet.leaks.isEmpty)
    }

    private let unknown = Problem(
        "forbidden", status: 403, detail: "there is no such record among those that this device may change")

    @Test("A field with a right is changed only by devices with the role")
    func fieldRight() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-1")
        fleet.bench.hub.settings.access.devices[two]?.roles = ["office"]
        #expect(try fleet.push(one, .create, "a", ["site": "s-1", "price": 3]).code == "forbidden")
        #expect(try fleet.push(one, .create, "a", ["site": "s-1"]).code == "accepted")
        #expect(try fleet.push(one, .update, "a", ["price": 3], base: 1).code == "forbidden")
        #expect(try fleet.push(two, .update, "a", ["price": 4], base: 1).code == "accepted")
        // An app that writes whole documents repeats what is there.
        #expect(try fleet.push(one, .update, "a", ["price": 4, "note": "x"], base: 2).code == "accepted")
    }

    // Fault: a dotted name was taken for that of a field alone, so every device could change the member.
    @Test("A right on a dotted name is one on the member of an object, and on a field of this name")
    func memberRight() throws {
        var rules = ScopeBench.rules
        rules.entities[ScopeBench.orders]?.fields = ["address": .merge]
        rules.entities[ScopeBench.orders]?.fieldRights = ["address.zip": .role("office")]
        let fleet = try ScopeBench(rules: rules)
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-1")
        fleet.bench.hub.settings.access.devices[two]?.roles = ["office"]
        try fleet.publish("a", ["site": "s-1", "address": ["zip": 1, "street": "x"]])
        func update(_ device: DeviceID, _ data: JSON) throws -> String {
            try fleet.push(device, .update, "a", data, base: fleet.bench.hub.head).code
        }
        #expect(try update(one, ["address": ["zip": 2, "street": "x"]]) == "forbidden")
        #expect(try update(one, ["address": ["street": "x"]]) == "forbidden")
        #expect(try update(one, ["address": "none"]) == "forbidden")
        #expect(try update(one, ["address.zip": 2]) == "forbidden")
        #expect(try update(one, ["address": ["zip": 1, "street": "y"]]) == "accepted")
        #expect(try update(two, ["address": ["zip": 2, "street": "y"]]) == "accepted")
        #expect(try fleet.push(one, .create, "b", ["site": "s-1", "address": ["zip": 1]]).code == "forbidden")
        #expect(try fleet.push(one, .create, "c", ["site": "s-1", "address": ["street": "x"]]).code == "accepted")
        #expect(try fleet.bench.hub.record("work_orders/a")?.data == ["site": "s-1", "address": ["zip": 2, "street": "y"]])
    }

    @Test("A record that grants scopes is deleted only by devices that may change its fields")
    func grantsTakenBack() throws {
        var source = EntityRules()
        source.fieldRights = ["device": .role("office"), "site": .role("office")]
        let (rules, access) = Self.granting(by: source)
        let fleet = try ScopeBench(rules: rules, access: access)
        fleet.bench.hub.settings.access.devices[two, default: Grants()].roles = ["office"]
        try fleet.publish("a", ["site": "s-1"])
        let grant: JSON = ["device": "gw-1", "site": "s-1"]
        #expect(try fleet.push(two, .create, "g", grant, entity: "assignments").code == "accepted")
        #expect(try fleet.push(one, .delete, "g", base: 2, entity: "assignments").code == "forbidden")
        try fleet.pull(one)
        #expect(fleet.ids(one) == ["a"])
        #expect(try fleet.push(two, .delete, "g", base: 2, entity: "assignments").code == "accepted")
        try fleet.pull(one)
        #expect(fleet.ids(one).isEmpty)
    }

    // Fault: a create was judged by the scopes that it makes, so with `own` a device granted itself every site.
    @Test(
        "A device grants itself nothing by a record, whatever right it has on the fields by itself",
        arguments: [nil, FieldRight.own, .scope, .everybody])
    func grantsItself(_ right: FieldRight?) throws {
        var source = EntityRules()
        source.declaredScope = ["device"]
        if let right { source.fieldRights = ["device": right, "site": right] }
        let (rules, access) = Self.granting(by: source)
        let fleet = try ScopeBench(rules: rules, access: access)
        try fleet.publish("a", ["site": "s-9"])
        try fleet.bench.hub.publish("assignments/of-hub", ["device": "gw-1", "site": "s-1"], at: fleet.bench.now)
        func code(_ action: MutationAction, _ id: String, _ data: JSON? = nil) throws -> String {
            try fleet.push(one, action, id, data, base: action == .create ? 0 : 2, entity: "assignments").code
        }
        #expect(try code(.create, "of-device", ["device": "gw-1", "site": "s-9"]) == "forbidden")
        #expect(try code(.create, "of-device", ["device": ["gw-1"], "site": ["s-9"]]) == "forbidden")
        #expect(try code(.update, "of-hub", ["site": "s-9"]) == "forbidden")
        #expect(try code(.update, "of-hub", ["site": ["s-1", "s-9"]]) == "forbidden")
        #expect(try code(.delete, "of-hub") == "forbidden")
        // A field that grants nothing is as free as before.
        #expect(try code(.update, "of-hub", ["note": "seen"]) == "accepted")
        try fleet.pull(one)
        #expect(fleet.ids(one).isEmpty)
    }

    // Fault: the first thousand rows were those of one site, and hid the next site.
    @Test("A thousand records that grant one site hide no other site, and no device has more sites than count")
    func manyGrants() throws {
        var source = EntityRules()
        source.declaredWrite = .nobody
        let (rules, access) = Self.granting(by: source)
        let rows = try HubRows()
        do { _ = try ScopeBench(rules: rules, access: access, place: rows.place) }
        func grant(_ sites: [String], as name: String) throws {
            let values = sites.enumerated().map { "('assignments', '\(name)-\($0)', 'gw-1', 'site', '\($1)')" }
            try rows.run("INSERT INTO record_grant(entity, id, device, field, value) VALUES " + values.joined(separator: ", "))
        }
        try grant(Array(repeating: "s-1", count: 1_001) + ["s-2"], as: "same")
        do {
            let fleet = try ScopeBench(rules: rules, access: access, place: rows.place)
            var told: [HubNotice] = []
            fleet.bench.hub.onNotice = { told.append($0) }
            try fleet.publish("a", ["site": "s-2"])
            try fleet.pull(one)
            #expect(fleet.ids(one) == ["a"] && !told.contains(.overGranted(one)))
        }
        // With these, the sites v-0000 to v-0999 are two more than count.
        try grant((0..<1_000).map { "v-" + "000\($0)".suffix(4) }, as: "other")
        let fleet = try ScopeBench(rules: rules, access: access, place: rows.place)
        var told: [HubNotice] = []
        fleet.bench.hub.onNotice = { told.append($0) }
        try fleet.publish("b", ["site": "v-0997"])
        try fleet.publish("c", ["site": "v-0998"])
        try fleet.pull(one)
        try fleet.pull(one)
        #expect(fleet.ids(one) == ["a", "b"])
        #expect(told.count { $0 == .overGranted(one) } == 1, "once, however often it asks")
    }

    // Fault: the grants of the last source replaced those of the others, and devices lost their sites.
    @Test("An entity that is the source of several grants gives all of them after its grants are made anew")
    func sourcesOfOneEntity() throws {
        let rows = try HubRows()
        var source = EntityRules()
        source.declaredWrite = .nobody
        let (rules, first) = Self.granting(by: source)
        do {
            let fleet = try ScopeBench(rules: rules, access: first, place: rows.place)
            try fleet.bench.hub.publish("assignments/g", ["device": "gw-1", "site": "s-1", "assignee": "gw-7"], at: fleet.bench.now)
            try fleet.publish("a", ["site": "s-1"])
            try fleet.publish("b", ["assignee": "gw-7"])
        }
        var both = first
        both.sources.append(GrantSource(entity: "assignments", device: "device", scope: "assignee"))
        func ids() throws -> [String] {
            let fleet = try ScopeBench(rules: rules, access: both, place: rows.place)
            try fleet.pull(one)
            return fleet.ids(one)
        }
        #expect(try ids() == ["a", "b"])
        // The rows of an earlier hub.
        let sources = #"[["assignments","device","site"],["assignments","device","assignee"]]"#
        try rows.run("UPDATE scope_index SET fields = '\(sources)' WHERE entity = ''")
        try rows.run("DELETE FROM record_grant WHERE field = 'site'")
        #expect(try ids() == ["a", "b"])
        // One source of the entity is made anew only when it changes.
        try rows.run("UPDATE scope_index SET fields = '[[\"assignments\",\"device\",\"assignee\"]]' WHERE entity = ''")
        both.sources.removeFirst()
        try rows.run("DELETE FROM record_grant")
        #expect(try ids().isEmpty)
    }

    // Fault: a record that is made and deleted in one push is deleted in no scope, so its id is of use to no device any more.
    @Test("A deleted record keeps its last scopes, those of the same push included")
    func deletedAtOnce() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-1")
        let made = Sent("k-a", seq: 1, .create, "work_orders", id: "a", data: ["site": "s-1"])
        let deleted = Sent("k-b", seq: 2, .delete, "work_orders", id: "a")
        #expect(try fleet.bench.verdicts([made, deleted], device: one).map(\.verdict.code) == ["accepted", "accepted"])
        try fleet.pull(two)
        #expect(try fleet.push(two, .create, "a", ["site": "s-1"], base: 2).code == "accepted")
        try fleet.pull(one)
        #expect(fleet.ids(one) == ["a"] && fleet.leaks.isEmpty)
        // Moved, and deleted where it went to.
        fleet.grant(one, "site", "s-2")
        let version = try #require(fleet.mirrors[one]?.records["a"]?.version)
        let moved = Sent("k-c", seq: 3, .update, "work_orders", id: "a", data: ["site": "s-2"], base: version)
        let gone = Sent("k-d", seq: 4, .delete, "work_orders", id: "a", base: version)
        #expect(try fleet.bench.verdicts([moved, gone], device: one).map(\.verdict.code) == ["accepted", "accepted"])
        #expect(try fleet.push(two, .create, "a", ["site": "s-1"]).code == "forbidden", "it is of s-2 now")
        #expect(try fleet.push(one, .create, "a", ["site": "s-1"]).code == "accepted")
    }

    // Fault: rows that were made anew for other scope fields lost the scopes of deleted records, and later only those whose fields went. A
    // device that had not heard of the deletion was told that the record was never its own. Its deletion of the record was refused, with
    // the atomic list that it was in.
    @Test("A deleted record has those of its last scopes whose fields are scope fields, also when a field is one again")
    func deletedBeforeOtherFields() throws {
        let rows = try HubRows()
        var keys = 0
        /// The verdicts on changes of the device, under other scope fields.
        func codes(_ fields: [String], _ changes: [(action: MutationAction, id: String)]) throws -> [String] {
            var rules = ScopeBench.rules
            rules.entities[ScopeBench.orders]?.declaredScope = fields
            let fleet = try ScopeBench(rules: rules, place: rows.place)
            fleet.keys = keys
            keys += changes.count
            fleet.grant(one, "site", "s-1")
            return try changes.map { change in
                try fleet.push(one, change.action, change.id, change.action == .update ? ["title": "late"] : nil, base: 1).code
            }
        }
        do {
            var rules = ScopeBench.rules
            rules.entities[ScopeBench.orders]?.declaredScope = ["site"]
            let fleet = try ScopeBench(rules: rules, place: rows.place)
            for (id, site) in [("a", "s-1"), ("b", "s-1"), ("c", "s-2")] as [(String, JSON)] {
                try fleet.publish(id, ["site": site, "assignee": "gw-1"])
            }
            for id in ["a", "b", "c"] { try fleet.publish(id, nil) }
        }
        #expect(
            try codes(["assignee", "site"], [(.update, "a"), (.delete, "b"), (.update, "c")]) == ["deleted", "accepted", "forbidden"],
            "c was of others")
        // The assignee of a deleted record is not known, and its site counts for nothing meanwhile.
        #expect(try codes(["assignee"], [(.update, "a"), (.delete, "b")]) == ["forbidden", "forbidden"])
        #expect(try codes(["site"], [(.update, "a"), (.delete, "b"), (.update, "c")]) == ["deleted", "accepted", "forbidden"])
    }

    // Fault: settings without scopes ended those of deleted records for good. When the scope was there again, a device that held such a
    // record was told that it was never its own.
    @Test("A deleted record has its last scopes again when its entity has none for a while, and no others")
    func deletedBeforeNoScope() throws {
        let rows = try HubRows()
        var rules = ScopeBench.rules
        rules.entities[ScopeBench.orders]?.declaredScope = ["site"]
        do {
            let fleet = try ScopeBench(rules: rules, place: rows.place)
            for (id, site) in [("a", "s-1"), ("b", "s-1"), ("c", "s-2"), ("d", "s-1")] as [(String, JSON)] {
                try fleet.publish(id, ["site": site])
            }
            for id in ["a", "b", "c", "d"] { try fleet.publish(id, nil) }
        }
        do {
            var open = rules
            open.entities[ScopeBench.orders]?.declaredScope = nil
            let fleet = try ScopeBench(rules: open, place: rows.place, scopes: .dropped)
            #expect(try fleet.push(one, .update, "c", ["title": "late"], base: 1).code == "deleted", "it is of all devices")
            // It belongs to another site when it is deleted again, and there is no document that tells so.
            try fleet.publish("d", ["site": "s-2"])
            try fleet.publish("d", nil)
        }
        let fleet = try ScopeBench(rules: rules, place: rows.place)
        fleet.keys = 1
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-2")
        func codes(_ device: DeviceID) throws -> [String] {
            try ["a", "b", "c", "d"].map { id in
                try fleet.push(device, id == "b" ? .delete : .update, id, id == "b" ? nil : ["title": "late"], base: 1).code
            }
        }
        #expect(try codes(one) == ["deleted", "accepted", "forbidden", "forbidden"])
        #expect(try codes(two) == ["forbidden", "forbidden", "deleted", "forbidden"])
        try fleet.pull(one)
        #expect(fleet.ids(one).isEmpty && fleet.leaks.isEmpty)
    }

    // Fault: the index of scopes stayed that of events, which has no rows, so no device received what was there.
    @Test("Events that become records reach the devices that they name, also where an earlier hub has made the index")
    func changedKind() throws {
        let rows = try HubRows()
        func fleet(_ kind: EntityRules.Kind) throws -> ScopeBench {
            var rules = ScopeBench.rules
            rules.entities[ScopeBench.orders]?.kind = kind
            let fleet = try ScopeBench(rules: rules, place: rows.place)
            fleet.keys = Int(fleet.bench.hub.head)
            return fleet
        }
        func make(_ id: String, _ kind: EntityRules.Kind) throws {
            let fleet = try fleet(kind)
            #expect(try fleet.push(one, .create, id, ["assignee": "gw-1"]).code == "accepted")
        }
        func received() throws -> [String] {
            let fleet = try fleet(.record)
            try fleet.pull(one)
            return fleet.ids(one)
        }
        try make("a", .event)
        #expect(try received() == ["a"])
        try make("b", .event)
        #expect(try received() == ["a", "b"])
        try make("c", .event)
        try rows.run("UPDATE scope_index SET fields = '[\"assignee\",\"site\"]' WHERE entity = 'work_orders'")
        do { _ = try fleet(.event) }
        #expect(try received() == ["a", "b", "c"])
        // Rows of records that an earlier hub has left under events are not taken for those of today.
        try rows.run("UPDATE scope_index SET fields = '[\"assignee\",\"site\"]' WHERE entity = 'work_orders'")
        try make("d", .event)
        #expect(try received() == ["a", "b", "c", "d"])
    }

    @Test("Events are taken only from the device that they name")
    func events() throws {
        let fleet = try ScopeBench()
        #expect(try fleet.push(one, .create, "e-1", ["device": "gw-1", "t": 1], entity: "readings").code == "accepted")
        #expect(try fleet.push(one, .create, "e-2", ["device": "gw-2", "t": 1], entity: "readings").code == "forbidden")
        #expect(try fleet.push(two, .create, "e-1", ["device": "gw-2", "t": 1], entity: "readings").code == "forbidden")
    }

    @Test(
        "The setting write lets the owner, the devices of the scope, all devices or none change a record",
        arguments: EntityRules.WriteRight.allCases)
    func writeRights(_ right: EntityRules.WriteRight) throws {
        var rules = ScopeBench.rules
        rules.entities["work_orders"]?.declaredWrite = right
        let fleet = try ScopeBench(rules: rules)
        fleet.grant(one, "site", "s-1")
        try fleet.publish("mine", ["assignee": "gw-1", "site": "s-1"])
        try fleet.publish("seen", ["assignee": "gw-2", "site": "s-1"])
        try fleet.publish("others", ["assignee": "gw-2", "site": "s-2"])
        func verdict(_ id: String) throws -> Bool { try fleet.push(one, .update, id, ["note": "x"], base: 3).code == "accepted" }
        #expect(try verdict("mine") == (right != .nobody))
        #expect(try verdict("seen") == (right == .scope || right == .everybody))
        #expect(try !verdict("others"))
        let gift = try fleet.push(one, .create, "gift", ["site": "s-2"])
        #expect(gift.code == (right == .everybody ? "accepted" : "forbidden"))
        #expect(fleet.leaks.isEmpty)
    }

    @Test("A gained scope brings its past and nothing that is there; a lost one is taken back; no listing is needed")
    func changes() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        for index in 0..<20 {
            try fleet.publish("a-\(index)", ["site": .string("s-\(index % 3)"), "n": .int(Int64(index))])
        }
        try fleet.publish("both", ["site": ["s-1", "s-2"]])
        try fleet.publish("gone", ["site": "s-2"])
        try fleet.publish("gone", nil)
        try fleet.pull(one)
        let before = try #require(fleet.mirrors[one]?.received)
        #expect(fleet.ids(one).count == 8)
        fleet.grant(one, "site", "s-2")
        try fleet.pull(one, limit: 2)
        #expect(try #require(fleet.mirrors[one]?.received) - before == 6, "the six of s-2 that it did not have")
        fleet.revoke(one, "site", "s-1")
        try fleet.pull(one, limit: 2)
        #expect(fleet.mirrors[one]?.revoked.count == 7, "not the one that is in s-2 as well")
        #expect(try fleet.held(one) == fleet.expected(one, (0..<20).map { "a-\($0)" } + ["both"]))
        #expect(fleet.mirrors[one]?.listings == 0 && fleet.leaks.isEmpty)
    }

    @Test("A record that came into a lost scope after it was lost is not shown, not even by its id")
    func nothingAfterTheLoss() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        try fleet.publish("old", ["site": "s-1"])
        try fleet.pull(one)
        fleet.revoke(one, "site", "s-1")
        try fleet.publish("new", ["site": "s-1"])
        try fleet.publish("old", ["site": "s-1", "changed": true])
        let response = try fleet.bench.pull([(ScopeBench.orders, fleet.mirrors[one]?.cursor)], device: one)
        #expect(response.pages.first?.deletions.map(\.id) == ["old"] && response.pages.first?.records.isEmpty == true)
    }

    // Fault: the device has the record by its own change, and not by a pull, so it keeps the record for good.
    @Test("A record that the device has made since its last pull is taken back with the scope; those of others are not told")
    func ownSinceThePull() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-1")
        try fleet.publish("old", ["site": "s-1"])
        try fleet.pull(one)
        for id in ["made", "made-and-changed"] { #expect(try fleet.push(one, .create, id, ["site": "s-1"]).code == "accepted") }
        for index in 0..<5 { try fleet.publish("other-\(index)", ["site": "s-1"]) }
        #expect(try fleet.push(two, .update, "made-and-changed", ["note": "x"], base: 3).code == "accepted")
        fleet.revoke(one, "site", "s-1")
        var (cursor, told) = (fleet.mirrors[one]?.cursor, [String]())
        for _ in 0..<20 {
            let response = try fleet.bench.pull([(ScopeBench.orders, cursor)], limit: 1, device: one)
            guard let page = response.pages.first else { break }
            #expect(page.records.isEmpty)
            told += page.deletions.map(\.id.text)
            cursor = page.cursor
        }
        #expect(told.sorted() == ["made", "made-and-changed", "old"])
    }

    // Fault: of the two rows of the commit that moved the record, only that of its new scope was looked at, which it entered by another one.
    @Test("A record that the device has made, and that moved between two scopes which the device lost, is taken back")
    func movedBetweenLostScopes() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1", "s-2")
        try fleet.pull(one)
        #expect(try fleet.push(one, .create, "made", ["site": "s-2"]).code == "accepted")
        fleet.revoke(one, "site", "s-1")
        fleet.revoke(one, "site", "s-2")
        try fleet.publish("made", ["site": "s-1"])
        try fleet.publish("other", ["site": "s-1"])
        let page = try #require(try fleet.bench.pull([(ScopeBench.orders, fleet.mirrors[one]?.cursor)], device: one).pages.first)
        #expect(page.records.isEmpty && page.deletions.map(\.id.text) == ["made"])
    }

    // Fault: the hub marks a file as uploaded in the transaction in which the device makes the record. The row of the scope then began with
    // the hub's commit, which is none of the device's, so the record stayed on the device for good.
    @Test("A record that the hub changes in the transaction in which the device makes it is taken back with the scope")
    func changedAtOnce() throws {
        let stand = try FileStand()
        let fleet = stand.fleet
        fleet.grant(one, "site", "s-1")
        try fleet.pull(one)
        let content = Array("a picture".utf8)
        try stand.upload(content, by: one)
        let photo = try FileStand.placeholder(content, isUploaded: false)
        #expect(try fleet.push(one, .create, "made", .object(["site": "s-1", "photo": photo])).code == "accepted")
        #expect(try stand.version("made") == 2, "the second commit is the hub's")
        fleet.revoke(one, "site", "s-1")
        let page = try #require(try fleet.bench.pull([(ScopeBench.orders, fleet.mirrors[one]?.cursor)], device: one).pages.first)
        #expect(page.records.isEmpty && page.deletions.map(\.id.text) == ["made"] && page.deletions.map(\.reason) == ["revoked"])
    }

    // Fault: the device let go of the records of a scope that its cursor names. When the scope came back before its next pull, nothing had
    // changed for the hub, and the records never came.
    @Test("A device whose scopes have changed since its cursor is not compared: it lists its share")
    func comparedUnderOtherScopes() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        try fleet.publish("a", ["site": "s-1"])
        try fleet.pull(one)
        let cursor = try #require(fleet.mirrors[one]?.cursor)
        var digest = EntityDigest()
        digest.add("a", version: 1)
        func compare() throws -> HubResponse {
            let body = VerifyMessages.request(VerifyRequest(entity: ScopeBench.orders, cursor: cursor, digest: digest))
            return fleet.bench.send("POST", "/v1/sync/verify", try JSONReader.read(body), device: one)
        }
        #expect(try VerifyMessages.readResponse(try compare().body).differs.isEmpty)
        fleet.revoke(one, "site", "s-1")
        #expect(try compare().problem?.code == Problem.scopeChanged)
        fleet.grant(one, "site", "s-2")
        #expect(try compare().problem?.code == Problem.scopeChanged)
        fleet.grant(one, "site", "s-1")
        fleet.revoke(one, "site", "s-2")
        #expect(try VerifyMessages.readResponse(try compare().body).differs.isEmpty)
    }

    /// The scopes that each page of a listing tells the first device.
    private func told(
        _ fleet: ScopeBench, _ entity: EntityName = ScopeBench.orders, _ query: String = "", schema: String? = nil
    ) throws -> [String?] {
        var told: [String?] = []
        var after = ""
        while true {
            let answer = fleet.bench.send(
                "GET", "/v1/sync/snapshot?entity=\(entity)&limit=2\(query)\(after)", headers: schema.map { [("Schema", $0)] } ?? [])
            let page = try SnapshotMessages.readResponse(answer.body)
            told.append(page.share?.json.json)
            guard page.hasMore, let last = page.after else { return told }
            after = "&after=\(last)"
        }
    }

    // Fault: an agent cannot tell records of a lost scope from those that the hub has lost, and keeps them until a person decides.
    @Test("The end of a listing tells the device its own scopes in the entity; seeds and entities of everybody tell none")
    func toldScopes() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-2", "s-1")
        fleet.grant(two, "site", "s-3")
        for id in ["a", "b", "c"] { try fleet.publish(id, ["site": "s-1"]) }
        let both = #"{"assignee":["gw-1"],"site":["gw-1","s-1","s-2"]}"#
        #expect(try told(fleet) == [nil, both])
        #expect(try told(fleet, ScopeBench.orders, "&bucket=0") == [both])
        #expect(try told(fleet, ScopeBench.orders, "&filter=seed") == [nil, nil] && told(fleet, "sites") == [nil])
        fleet.revoke(one, "site", "s-1")
        #expect(try told(fleet) == [#"{"assignee":["gw-1"],"site":["gw-1","s-2"]}"#])
    }

    // Fault: a database that was emptied has no grants either, and every device forgets its mirror.
    @Test("A hub whose records grant scopes tells none as long as no record grants any")
    func lostGrants() throws {
        var source = EntityRules()
        source.declaredWrite = .nobody
        let (rules, access) = Self.granting(by: source)
        let fleet = try ScopeBench(rules: rules, access: access)
        try fleet.publish("a", ["site": "s-1"])
        #expect(try told(fleet) == [nil])
        try fleet.bench.hub.publish("assignments/g", ["device": "gw-2", "site": "s-1"], at: fleet.bench.now)
        #expect(try told(fleet) == [#"{"assignee":["gw-1"],"site":["gw-1"]}"#])
        try fleet.bench.hub.publish("assignments/g", nil, at: fleet.bench.now)
        #expect(try told(fleet) == [nil])
    }

    // Fault: a page that lost a row to the comparison of the texts passed for the last one.
    @Test("A listing goes on behind a record whose scope only has the code of one of the device's")
    func equalCodes() throws {
        var rules = ScopeBench.rules
        // Both names and values make one text, and so one code.
        rules.entities[ScopeBench.orders]?.declaredScope = ["site", "site/a"]
        let fleet = try ScopeBench(rules: rules)
        fleet.grant(one, "site", "a/b")
        try fleet.publish("a", ["site/a": "b"])
        for id in ["b", "c", "d", "e"] { try fleet.publish(id, ["site": "a/b"]) }
        let pages = try fleet.bench.list(SnapshotRequest(entity: ScopeBench.orders, after: nil, limit: 2), device: one)
        #expect(pages.map { $0.records.map(\.id) } == [["b", "c"], ["d", "e"]])
    }

    @Test("A device that knows a scope field by another name is told none")
    func toldInOtherVersions() throws {
        var rules = ScopeBench.rules
        rules.entities[ScopeBench.orders]?.versions = try SchemaVersions(
            present: 3, versions: [1: .init(), 2: .init(up: [.rename("place", to: "site")]), 3: .init(up: [.drop("note")])], accepts: nil)
        let fleet = try ScopeBench(rules: rules)
        let own = #"{"assignee":["gw-1"],"site":["gw-1"]}"#
        #expect(try told(fleet, schema: "work_orders=1") == [nil])
        #expect(try told(fleet, schema: "work_orders=2") == [own] && told(fleet, schema: "work_orders=3") == [own])
    }

    @Test("A record that moves to another site leaves one device and reaches the other")
    func moves() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-2")
        try fleet.publish("a", ["site": "s-1"])
        try fleet.pull(one)
        try fleet.pull(two)
        try fleet.publish("a", ["site": "s-2"])
        try fleet.pull(one)
        try fleet.pull(two)
        #expect(fleet.ids(one).isEmpty && fleet.ids(two) == ["a"] && fleet.mirrors[one]?.revoked == ["a"])
        // Its later changes and its deletion are nothing to the first device.
        try fleet.publish("a", ["site": "s-2", "n": 2])
        try fleet.publish("a", nil)
        let response = try fleet.bench.pull([(ScopeBench.orders, fleet.mirrors[one]?.cursor)], device: one)
        #expect(response.pages.isEmpty)
        try fleet.pull(two)
        #expect(fleet.ids(two).isEmpty)
    }

    @Test("A device hands a record back and is told so; a later change of it is refused")
    func handsBack() throws {
        let fleet = try ScopeBench()
        fleet.grant(two, "site", "s-1")
        try fleet.publish("a", ["assignee": "gw-1", "site": "s-1"])
        try fleet.pull(one)
        #expect(try fleet.push(one, .update, "a", ["assignee": .null], base: 1).code == "accepted")
        try fleet.pull(one)
        #expect(fleet.ids(one).isEmpty && fleet.mirrors[one]?.revoked == ["a"])
        #expect(try fleet.push(one, .update, "a", ["note": "late"], base: 2).code == "forbidden")
    }

    // Fault: the device keeps what it has written as the whole record, and believes it after a new grant, because the version is the same.
    @Test("A device that makes a record which is there and hands it away learns that it has left; what it knows whole it needs not learn")
    func makesAndHandsAway() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-1", "s-2")
        for (seq, id) in [(Int64(1), "a"), (2, "b")] {
            let theirs = Sent("o-\(seq)", seq: seq, .create, "work_orders", id: id, data: ["site": ["s-1", "s-2"], "note": "theirs"])
            _ = try fleet.bench.verdict(theirs, device: two)
        }
        let results = try fleet.bench.verdicts([
            Sent("k-1", seq: 1, .create, "work_orders", id: "a", data: ["site": "s-2"], ms: 5_000),
            Sent("k-2", seq: 2, .update, "work_orders", id: "b", data: ["site": "s-2"], base: 2, ms: 5_000),
            Sent("k-3", seq: 3, .create, "work_orders", id: "c", data: ["site": "s-1"], ms: 5_000),
        ])
        #expect(results.map(\.verdict) == [3, 4, 5].map { .accepted(version: $0, serverID: nil, record: nil, merged: []) })
        #expect(results.map(\.notes.hasLeft) == [true, false, false])
        #expect(try fleet.bench.hub.record("work_orders/a")?.data == ["site": "s-2", "note": "theirs"])
    }

    @Test("An atomic list with one forbidden member is refused as a whole")
    func groups() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        try fleet.publish("mine", ["site": "s-1"])
        try fleet.publish("others", ["site": "s-2"])
        let results = try fleet.bench.verdicts([
            Sent("g-1", seq: 1, .update, "work_orders", id: "mine", data: ["n": 1], base: 2, group: "g"),
            Sent("g-2", seq: 2, .update, "work_orders", id: "others", data: ["n": 1], base: 2, group: "g"),
        ])
        #expect(results.map(\.verdict.code) == ["group-rejected", "forbidden"])
        #expect(try fleet.bench.hub.record("work_orders/mine")?.data == ["site": "s-1"])
    }

    @Test("Digests are those of the device's share, and tell nothing of others")
    func verify() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        for index in 0..<10 { try fleet.publish("a-\(index)", ["site": .string("s-\(index % 2)")]) }
        try fleet.pull(one)
        let cursor = try #require(fleet.mirrors[one]?.cursor)
        func differs(_ digest: EntityDigest) throws -> [UInt8] {
            let request = VerifyRequest(entity: ScopeBench.orders, cursor: cursor, digest: digest)
            let response = fleet.bench.send("POST", "/v1/sync/verify", try JSONReader.read(VerifyMessages.request(request)), device: one)
            return try VerifyMessages.readResponse(response.body).differs
        }
        var digest = EntityDigest()
        for (id, record) in fleet.mirrors[one]?.records ?? [:] { digest.add(id, version: record.version) }
        #expect(try differs(digest).isEmpty)
        try fleet.publish("b", ["site": "s-0"])
        #expect(try differs(digest).isEmpty, "a record of another scope")
        digest.add("more", version: 1)
        #expect(try differs(digest).count == 1)
    }

    @Test("A cursor of before the scopes, of another device, or with a changed byte widens nothing")
    func cursors() throws {
        let fleet = try ScopeBench()
        fleet.grant(one, "site", "s-1")
        fleet.grant(two, "site", "s-2")
        try fleet.publish("a", ["site": "s-1"])
        try fleet.publish("b", ["site": "s-2"])
        try fleet.pull(one)
        try fleet.pull(two)
        let foreign = try #require(fleet.mirrors[two]?.cursor)
        let plain = Cursor(epoch: fleet.bench.hub.epoch, entity: ScopeBench.orders, seq: 0, opening: "").text(secret: [1, 2, 3], for: one)
        for cursor in [foreign, plain] + foreign.indices.map({ foreign.replacingCharacters(at: $0) }) {
            let response = try fleet.bench.pull([(ScopeBench.orders, cursor)], device: one)
            for page in response.pages {
                #expect(page.records.allSatisfy { $0.id == "a" })
                #expect(page.deletions.isEmpty, "a deletion would name a record of the other device")
            }
        }
    }

    // Fault: they were one scope or two, by what was in the hub's memory, so a device lost its records with a restart.
    @Test("Values that only look alike name two scopes; rows in which an earlier hub took them for one are made anew")
    func lookAlikes() throws {
        let (composed, decomposed) = ("Z\u{FC}rich", "Zu\u{308}rich")
        let rows = try HubRows()
        var cursor: String?
        do {
            let fleet = try ScopeBench(place: rows.place)
            fleet.grant(one, "site", composed)
            fleet.grant(two, "site", decomposed)
            try fleet.publish("a", ["site": .string(composed)])
            try fleet.publish("b", ["site": .string(decomposed)])
            try fleet.pull(one)
            try fleet.pull(two)
            #expect(fleet.ids(one) == ["a"] && fleet.ids(two) == ["b"])
            #expect(try fleet.push(one, .create, "c", ["site": .string(decomposed)]).code == "forbidden")
            // The move is told to both.
            try fleet.publish("a", ["site": .string(decomposed)])
            try fleet.pull(one)
            try fleet.pull(two)
            #expect(fleet.ids(one).isEmpty && fleet.mirrors[one]?.revoked == ["a"] && fleet.ids(two) == ["a", "b"])
            #expect(fleet.leaks.isEmpty)
            cursor = fleet.mirrors[two]?.cursor
        }
        /// The records of the listing that the second device has to make; `nil`: its cursor still counts.
        func listed() throws -> [String]? {
            let fleet = try ScopeBench(place: rows.place)
            fleet.grant(two, "site", decomposed)
            let response = try fleet.bench.pull([(ScopeBench.orders, cursor)], device: two)
            if response.errors.isEmpty { return nil }
            return try fleet.bench.list(SnapshotRequest(entity: ScopeBench.orders, after: nil, limit: 7), device: two)
                .flatMap(\.records).map(\.id.text)
        }
        let unmarked = "UPDATE scope_index SET fields = '[\"assignee\",\"site\"]' WHERE entity = 'work_orders'"
        try rows.run(unmarked)
        #expect(try listed() == nil, "the rows are right")
        try rows.run(unmarked)
        try rows.run("UPDATE record_scope SET scope = scope + 1 WHERE id = 'b'")
        #expect(try listed() == ["a", "b"])
    }

    @Test("A document without a grant, with a number, or with an endless value names what it says, or nothing")
    func oddValues() throws {
        var rules = EntityRules()
        rules.declaredScope = ["site"]
        #expect(rules.scopes(of: ["site": 7]) == [Scope("site", "7")])
        #expect(rules.scopes(of: ["site": ["b", "a", "b", 7, .null, true, ["x"], ""]]) == ["7", "a", "b"].map { Scope("site", $0) })
        #expect(rules.scopes(of: ["site": .string(String(repeating: "x", count: 257))]).isEmpty)
        #expect(rules.scopes(of: ["site": ["a": "b"]]).isEmpty)
        let many = (0..<1_000).map { JSON.string("s-\($0)") }
        #expect(rules.scopes(of: ["site": .array(many)]).count == Scope.ofRecordMax)
    }
}

extension String {
    /// The text with one character replaced by another of the same alphabet.
    fileprivate func replacingCharacters(at index: Index) -> String {
        var copy = self
        copy.replaceSubrange(index...index, with: self[index] == "A" ? "B" : "A")
        return copy
    }
}

extension RecordName: ExpressibleByStringLiteral {
    package init(stringLiteral value: String) {
        let parts = value.split(separator: "/")
        self.init(EntityName(trusted: String(parts[0])), RecordID(trusted: String(parts[1])))
    }
}
