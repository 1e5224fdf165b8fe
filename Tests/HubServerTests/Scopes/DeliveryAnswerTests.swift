import SyncCore
import Testing

@testable import HubServer

/// The answer to an operator's question why a device has a record, or lacks it.
@Suite("Why a device has a record or lacks it")
struct DeliveryAnswerTests {
    private static let start = Timestamp(milliseconds: 1_795_208_400_000)  // 2026-11-20T21:00:00Z
    private static func later(_ seconds: Int64) -> Timestamp { start.advanced(by: .seconds(seconds)) }
    private let name: RecordName = "work_orders/w-1"

    /// A work order of the site s-3 that a device with the site s-1 asks for. It has connected a minute after the last change.
    private func facts(_ scopes: Scope..., change: (inout DeliveryFacts) -> Void = { _ in }) -> DeliveryFacts {
        var facts = DeliveryFacts("pump-17", name)
        facts.entity.scope = ["assignee", "site"]
        facts.stored = .present(.init(version: 41, at: Self.start, writer: "hub"))
        facts.scopes = scopes
        facts.share.grant(Scope("site", "s-1"))
        facts.grants = [.init(.scope(Scope("site", "s-1")), .settings(generation: 3), group: "north")]
        facts.lastSeen = Self.later(60)
        change(&facts)
        return facts
    }

    private func verdict(_ facts: DeliveryFacts) -> (codes: [String], next: [String]) {
        let answer = DeliveryAnswer(facts)
        #expect(answer.json.object?["verdict"]?.text == answer.reasons.first?.code)
        #expect(answer.json.object?["receives"]?.bool == answer.isReceived)
        return (answer.reasons.map(\.code), answer.next.map { ShellWords.line($0.words) })
    }

    @Test("A record of another site: the answer names the scopes of both, their places, and the grant that helps")
    func otherSite() {
        let answer = DeliveryAnswer(facts(Scope("site", "s-3")) { $0.grants.append(.init(.role("inspector"), .settings(generation: 3))) })
        #expect(!answer.isReceived && !answer.namesAreUnknown)
        #expect(
            answer.lines == [
                "record   work_orders/w-1, version 41, changed 2026-11-20T21:00:00.000Z by hub",
                "scopes   site=s-3",
                "device   pump-17, last contact 2026-11-20T21:01:00.000Z",
                "has      site=s-1  by group=north in generation 3 of the settings",
                "         role=inspector  in generation 3 of the settings",
                "         assignee=pump-17, site=pump-17  by its id",
                "verdict  pump-17 does not receive it, because none of the record's scopes is one of the device's",
                "next     agenthub grant pump-17 site=s-3  # pump-17 then receives all records with site=s-3",
            ], "\(answer.lines)")
    }

    @Test("A grant that was taken back is named with its users")
    func takenBack() {
        var grant = TokenBook.Grant(.scope(Scope("site", "s-3")), at: Self.start, by: "ada")
        (grant.revokedAt, grant.revokedBy) = (Self.later(5), "bob")
        let lacking = DeliveryAnswer(facts(Scope("site", "s-3")) { $0.takenBack = [grant] })
        let row = "had      site=s-3  granted 2026-11-20T21:00:00.000Z by ada  taken back 2026-11-20T21:00:05.000Z by bob"
        #expect(lacking.lines.contains(row), "\(lacking.lines)")
        // It has the record by another scope.
        let other = DeliveryAnswer(facts(Scope("site", "s-1"), Scope("site", "s-3")) { $0.takenBack = [grant] })
        #expect(other.isReceived && !other.lines.contains(row))
    }

    @Test("The grant that helps is one that agenthub grant takes, quoted for a shell")
    func grantable() {
        let owned = facts(Scope("assignee", "tablet-9"), Scope("site", "north 3")) { $0.namesOfDevices = ["tablet-9"] }
        #expect(verdict(owned).next == ["agenthub grant pump-17 'site=north 3'"])
        let all = DeliveryAnswer(facts(Scope("assignee", "tablet-9")) { $0.namesOfDevices = ["tablet-9"] })
        #expect(all.next.map(\.words) == [["agenthub", "publish", "work_orders", "FILE"]])
        #expect(all.lines.contains { $0.hasSuffix("; they belong to tablet-9, because their values are ids of devices") }, "\(all.lines)")
        // `role=office` would grant a role.
        #expect(verdict(facts(Scope("role", "office"))).next == ["agenthub publish work_orders FILE"])
        // Text of a record does not reach the terminal as it is.
        let wild = DeliveryAnswer(facts(Scope("site", "\u{1B}[2J")))
        #expect(wild.lines.allSatisfy { !$0.contains("\u{1B}") })
    }

    @Test("A device that receives the record: whether it has connected since the change or the grant, and how to look there")
    func received() {
        let site = Scope("site", "s-1")
        let answer = DeliveryAnswer(facts(site))
        #expect(answer.isReceived && answer.hasConnectedSince == true)
        #expect(
            answer.lines.suffix(3) == [
                "asked    probably: the last contact was after the last change. The hub notes greetings and pushes, and no pulls",
                "verdict  pump-17 receives it, because the record and the device have site=s-1",
                "next     agentctl get work_orders w-1  # on pump-17",
            ], "\(answer.lines)")
        let before = DeliveryAnswer(facts(site) { $0.lastSeen = Self.later(-1) })
        #expect(before.hasConnectedSince == false && before.next.map(\.words) == [["agentctl", "status"]])
        #expect(before.lines.contains { $0.hasPrefix("asked    unknown: the last contact was before the last change") })
        let never = DeliveryAnswer(facts(site) { $0.lastSeen = nil })
        #expect(never.lines.contains("asked    no: the device has never connected"), "\(never.lines)")

        // A grant by a command counts from its time, the first of several. One of another place may have been there before.
        func granted(_ grants: DeliveryFacts.Grant...) -> DeliveryAnswer { DeliveryAnswer(facts(site) { $0.grants = grants }) }
        let late = DeliveryFacts.Grant(.scope(site), .command(.init(.scope(site), at: Self.later(90), by: "ada")))
        let early = DeliveryFacts.Grant(.scope(site), .command(.init(.scope(site), at: Self.later(30))))
        #expect(granted(late).since == Self.later(90) && granted(late).hasConnectedSince == false)
        #expect(granted(late).lines.contains { $0.hasPrefix("asked    unknown: the last contact was before the grant") })
        #expect(granted(late, early).since == Self.later(30))
        #expect(granted(late, .init(.scope(site), .record("assignments/as-1"))).since == Self.start)
        // The device's own id needs no grant.
        let own = DeliveryAnswer(facts(Scope("assignee", "pump-17")))
        #expect(own.isReceived && own.since == Self.start)
    }

    @Test("A document that the device may have dropped is asked for with --fetch")
    func dropped() {
        let answer = DeliveryAnswer(
            facts(Scope("site", "s-1")) {
                $0.entity.keep = KeepRule(days: 90)
                $0.mayBeDropped = true
            })
        #expect(
            answer.lines.contains("keep     the device may have dropped the document, because the record is older than 90 days"),
            "\(answer.lines)")
        #expect(answer.next.map(\.words) == [["agentctl", "get", "--fetch", "work_orders", "w-1"]])
    }

    /// Reasons of the record. Each one holds for every device, whatever the device has.
    private static let ofRecords: [(code: String, next: String, change: @Sendable (inout DeliveryFacts) -> Void)] = [
        ("unknown-entity", "agenthub why pump-17 work_orders2/w-1", { ($0.entity.isKnown, $0.entity.near) = (false, "work_orders2") }),
        ("unknown-entity", "agenthub stats", { $0.entity.isKnown = false }),
        ("event", "agenthub export work_orders", { $0.entity.kind = .event }),
        ("no-record", "agenthub devices --waiting", { $0.stored = .absent(forgetsDeletions: false) }),
        ("deleted", "agenthub publish work_orders FILE", { $0.stored = .deleted(.init(version: 42, at: start, writer: "gw-9")) }),
        ("damaged", "agenthub publish work_orders FILE", { $0.stored = .damaged(version: 3, detail: "data is no object") }),
        ("no-scope-value", "agenthub publish work_orders FILE", { $0.scopes = [] }),
    ]

    @Test("A record that no device receives", arguments: ofRecords.indices)
    func ofRecord(_ index: Int) {
        let (code, next, change) = Self.ofRecords[index]
        let found = verdict(facts(Scope("site", "s-1"), change: change))
        #expect(found == ([code], [next]))
        // A device that is shut out has two reasons.
        let shut = verdict(
            facts(Scope("site", "s-1")) {
                change(&$0)
                $0.standing = .revoked
            })
        #expect(shut == ([code, "token-revoked"], [next, "agenthub token enrol pump-17"]))
    }

    @Test("The sentences about records that no device receives")
    func sentences() {
        func sentence(_ change: (inout DeliveryFacts) -> Void) -> String? {
            DeliveryAnswer(facts(Scope("site", "s-1"), change: change)).lines.first { $0.hasPrefix("verdict  ") }.map {
                String($0.dropFirst(9))
            }
        }
        #expect(
            sentence { ($0.entity.isKnown, $0.entity.near) = (false, "work_order") }
                == "the hub knows no entity work_orders (did you mean work_order?)")
        #expect(
            sentence { $0.stored = .absent(forgetsDeletions: false) }
                == "the hub has no record work_orders/w-1, and has deleted none of this name")
        #expect(
            sentence { $0.stored = .absent(forgetsDeletions: true) }
                == "the hub has no record work_orders/w-1; it may have been deleted, because older deletions of work_orders are forgotten")
        #expect(
            sentence { $0.stored = .damaged(version: 3, detail: "data is no object") }
                == "no device receives it, because the hub cannot read the record: data is no object")
        #expect(sentence { $0.scopes = [] } == "no device receives it, because the record has no value in assignee or site")
    }

    @Test("An entity without scope fields goes to every device")
    func noScopeFields() {
        let answer = DeliveryAnswer(facts { $0.entity.scope = nil })
        #expect(answer.isReceived && answer.reasons == [.noScopeFields])
        #expect(answer.lines.contains("scopes   none, because work_orders has no scope fields"), "\(answer.lines)")
        #expect(answer.lines.contains("verdict  pump-17 receives it, because every device receives all records of work_orders"))
    }

    /// Reasons of the device, with a record that it would receive.
    private static let ofDevices: [(code: String, next: String, change: @Sendable (inout DeliveryFacts) -> Void)] = [
        ("no-token", "agenthub token enrol pump-17", { ($0.standing, $0.lastSeen) = (.noToken(enrolment: nil), nil) }),
        ("no-token", "agenthub token enrol pump-17", { ($0.standing, $0.lastSeen) = (.noToken(enrolment: later(9)), nil) }),
        ("token-revoked", "agenthub token enrol pump-17", { $0.standing = .revoked }),
        ("token-expired", "agenthub token readmit pump-17", { $0.standing = .expired(later(-9)) }),
        ("agent-too-old", "agenthub devices pump-17", { $0.keepingEntity = "work_orders" }),
    ]

    @Test("A device that receives nothing, whatever scopes it has", arguments: ofDevices.indices)
    func ofDevice(_ index: Int) {
        let (code, next, change) = Self.ofDevices[index]
        #expect(verdict(facts(Scope("site", "s-1"), change: change)) == ([code, "scope-matches"], [next]))
        #expect(
            verdict(facts(Scope("site", "s-3"), change: change)) == (["scopes-differ", code], ["agenthub grant pump-17 site=s-3", next]))
    }

    @Test("An agent that would keep records of one entity gets those of others, and those that are not shared out")
    func otherEntity() {
        #expect(verdict(facts(Scope("site", "s-1")) { $0.keepingEntity = "audits" }).codes == ["scope-matches"])
        #expect(verdict(facts { ($0.keepingEntity, $0.entity.scope) = ("work_orders", nil) }).codes == ["no-scope-fields"])
    }

    @Test("A mistyped device is told with the name that was probably meant, and without advice to grant it anything")
    func unknownDevice() {
        for (near, next) in [("pump-71", "agenthub why pump-71 work_orders/w-1"), (nil, "agenthub devices")] as [(DeviceID?, String)] {
            let unknown = facts(Scope("site", "s-3")) { ($0.standing, $0.lastSeen, $0.grants) = (.unknown(near: near), nil, []) }
            #expect(verdict(unknown) == (["unknown-device"], [next]))
            #expect(DeliveryAnswer(unknown).namesAreUnknown)
            #expect(DeliveryAnswer(unknown).lines.contains("has      no grants"))
        }
    }

    @Test("Many grants are cut to a few lines, with those that give the record first; programs get all of them")
    func many() {
        let site = Scope("site", "s-1")
        let answer = DeliveryAnswer(
            facts(site) {
                $0.grants = (1...20).map { number in
                    .init(.scope(Scope("site", "r-1")), .record(RecordName("assignments", RecordID(trusted: "a\(number)"))))
                }
                $0.grants += (1...20).map { .init(.scope(Scope("site", "s-\($0)")), .settings(generation: 3)) }
            })
        #expect(answer.lines.count < 20)
        let first = "has      site=s-1, site=s-2, site=s-3, site=s-4, site=s-5, site=s-6, site=s-7, site=s-8 and 12 more  in generation 3"
        #expect(answer.lines.contains { $0.hasPrefix(first) }, "\(answer.lines)")
        #expect(answer.lines.contains("         and more; to list all: agenthub grants pump-17"))
        #expect(answer.json.object?["grants"]?.array?.count == 40)
    }
}

/// The facts of that answer, read as an operator's command reads them beside a hub, and compared with what devices receive.
@Suite("Why a device has a record, by the database", .eachEngine)
struct DeliveryFactsTests {
    private static let settings = """
        entities:
          work_orders: { scope: [assignee, site], keep: { days: 90 } }
          readings: { kind: event, scope: [device] }
          audits: { kind: record }
          assignments: { kind: reference }
        groups:
          north: { site: [s-1] }
        devices:
          gw-1: { groups: [north], roles: [inspector] }
        grants_from:
          - { entity: assignments, device: device, scope: site }
        """

    /// A hub with a record in each kind of scope, and a device with each kind of grant.
    private struct Fleet {
        let rows: HubRows
        let bench: HubBench
        var tokens: [DeviceID: String] = [:]
        private let book: TokenBook

        static let orders: [String: JSONObject] = [
            "w-1": ["site": "s-1"], "w-2": ["site": "s-2"], "w-3": ["site": "s-3"], "w-4": ["assignee": "gw-2"], "w-5": ["n": 1],
            "w-6": ["site": ["s-9", "s-1"]],
        ]

        init() throws {
            let start = Timestamp(milliseconds: 1_795_208_400_000)
            var (book, random) = (TokenBook(), SeededRandom(seed: 7))
            for device in ["gw-1", "gw-2", "gw-3", "gw-4"] as [DeviceID] { tokens[device] = book.add(device, at: start, using: &random) }
            _ = book.add("gw-6", .enrolment, life: .seconds(60), at: start, using: &random)
            let given = [
                book.grant(.scope(Scope("site", "s-2")), to: "gw-2", by: "ada", at: start),
                book.grant(.group("north"), to: "gw-2", by: "ada", at: start),
                book.grant(.group("north"), to: "gw-4", by: "ada", at: start),
                book.grant(.group("nowhere"), to: "gw-4", by: "ada", at: start),
            ]
            let isTaken = book.takeBack(.group("north"), from: "gw-2", by: "bob", at: start.advanced(by: .seconds(1)))
            #expect(given.allSatisfy { $0 == .given } && isTaken)
            #expect(book.revoke("gw-4", at: start) == 1)
            self.book = book
            rows = try HubRows()
            bench = try HubBench(tokens: book, place: rows.place) { settings in
                settings.readEntities = EntityTexts.reader
                settings.entityFile = EntityTexts.text(DeliveryFactsTests.settings, by: "file")
            }
            for (id, data) in Self.orders.sorted(by: { $0.key < $1.key }) {
                try bench.hub.publish(RecordName("work_orders", RecordID(trusted: id)), data, at: bench.now)
            }
            try bench.hub.publish("assignments/as-1", ["device": "gw-3", "site": "s-3"], at: bench.now)
            try bench.hub.publish("audits/a-1", ["n": 1], at: bench.now)
        }

        func answer(_ device: DeviceID, _ record: RecordName, at now: Timestamp? = nil) throws -> DeliveryAnswer {
            // A file has the tokens of an SQLite hub.
            let tokens = Engine.current == .sqlite ? book : nil
            return DeliveryAnswer(
                try rows.inspector().deliveryFacts(
                    of: record, to: device, tokens: tokens, reader: EntityTexts.reader, at: now ?? bench.now))
        }

        func send(_ device: DeviceID, _ path: String, _ body: JSON) -> HubResponse {
            bench.send("POST", path, body, device: device, headers: [("Authorization", "Bearer \(tokens[device] ?? "")")])
        }

        /// The ids of an entity that the device gets by a pull; none when it is refused.
        func received(_ device: DeviceID, _ entity: EntityName) throws -> Set<RecordID> {
            let request = PullRequest(
                streams: [StreamPosition(entity: entity, cursor: nil)], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0)
            let response = send(device, "/v1/sync/pull", try JSONReader.read(PullMessages.request(request)))
            guard response.status == 200 else { return [] }
            return Set(try PullMessages.readResponse(response.body).pages.flatMap(\.records).map(\.id))
        }
    }

    @Test("The answer about each record and device is what the device receives")
    func agrees() throws {
        let fleet = try Fleet()
        var received = 0
        for device in ["gw-1", "gw-2", "gw-3", "gw-4", "gw-5"] as [DeviceID] {
            let (orders, audits) = (try fleet.received(device, "work_orders"), try fleet.received(device, "audits"))
            for id in Fleet.orders.keys.map({ RecordID(trusted: $0) }) {
                #expect(try fleet.answer(device, RecordName("work_orders", id)).isReceived == orders.contains(id), "\(device) \(id)")
            }
            #expect(try fleet.answer(device, "audits/a-1").isReceived == audits.contains("a-1"), "\(device)")
            received += orders.count + audits.count
        }
        // gw-1: w-1 and w-6; gw-2: w-2 and w-4; gw-3: w-3; and the audit of each.
        #expect(received == 8)
    }

    @Test("Each scope and role comes with its place: the settings, a group, a command, a record")
    func places() throws {
        let fleet = try Fleet()
        func grants(_ device: DeviceID) throws -> [DeliveryFacts.Grant] { try fleet.answer(device, "work_orders/w-1").facts.grants }
        func site(_ value: String) -> DeliveryFacts.Grant.Right { .scope(Scope("site", value)) }
        let start = fleet.bench.now
        #expect(
            try grants("gw-1") == [
                .init(.role("inspector"), .settings(generation: 1)), .init(site("s-1"), .settings(generation: 1), group: "north"),
            ])
        #expect(try grants("gw-2") == [.init(site("s-2"), .command(.init(.scope(Scope("site", "s-2")), at: start, by: "ada")))])
        #expect(try grants("gw-3") == [.init(site("s-3"), .record("assignments/as-1"))])
        #expect(try grants("gw-4") == [.init(site("s-1"), .command(.init(.group("north"), at: start, by: "ada")), group: "north")])
        let lacking = try fleet.answer("gw-2", "work_orders/w-1")
        #expect(lacking.facts.takenBack.map(\.revokedBy) == ["bob"] && lacking.reasons == [.scopesDiffer])
        #expect(try fleet.answer("gw-2", "work_orders/w-3").facts.takenBack.isEmpty)
        // gw-2 is a device, so its id is no site that could be granted.
        #expect(try fleet.answer("gw-1", "work_orders/w-4").facts.namesOfDevices == ["gw-2"])
    }

    @Test("A device is told by its credential and its contact, and a record by its last change")
    func standing() throws {
        let fleet = try Fleet()
        func facts(_ device: DeviceID, _ record: RecordName = "work_orders/w-1") throws -> DeliveryFacts {
            try fleet.answer(device, record).facts
        }
        #expect(try facts("gw-1").standing == .admitted && facts("gw-4").standing == .revoked)
        #expect(try facts("gw-5").standing == .unknown(near: "gw-1"))
        #expect(try facts("gw-6").standing == .noToken(enrolment: fleet.bench.now.advanced(by: .seconds(60))))
        #expect(try facts("gw-1").lastSeen == nil && fleet.answer("gw-1", "work_orders/w-1").hasConnectedSince == false)
        let changed = fleet.bench.now
        fleet.bench.now = fleet.bench.now.advanced(by: .seconds(5))
        #expect(fleet.send("gw-1", "/v1/sync/hello", [:]).status == 200)
        #expect(try facts("gw-1").lastSeen == fleet.bench.now && fleet.answer("gw-1", "work_orders/w-1").hasConnectedSince == true)
        #expect(try facts("gw-1").stored == .present(.init(version: 1, at: changed, writer: "hub")))
        try fleet.bench.hub.publish("work_orders/w-1", nil, at: fleet.bench.now)
        #expect(try facts("gw-1").stored == .deleted(.init(version: 9, at: fleet.bench.now, writer: "hub")))
        #expect(try facts("gw-1").scopes == [Scope("site", "s-1")])
    }

    @Test("Entities and records that the hub does not have, and events")
    func absent() throws {
        let fleet = try Fleet()
        let mistyped = try fleet.answer("gw-1", "work_order/w-1")
        #expect(mistyped.reasons == [.unknownEntity] && mistyped.facts.entity.near == "work_orders" && mistyped.namesAreUnknown)
        let missing = try fleet.answer("gw-1", "work_orders/w-9")
        #expect(missing.reasons == [.noRecord] && missing.facts.stored == .absent(forgetsDeletions: false))
        #expect(try fleet.answer("gw-1", "readings/r-1").reasons == [.event])
        // Without a name in the settings an entity is known by its records.
        try fleet.bench.hub.publish("notes/n-1", ["n": 1], at: fleet.bench.now)
        #expect(try fleet.answer("gw-1", "notes/n-1").reasons == [.noScopeFields])
        #expect(try fleet.answer("gw-1", "notes/n-2").reasons == [.noRecord])
        // Deletions are forgotten after 90 days.
        try fleet.bench.hub.publish("work_orders/w-1", nil, at: fleet.bench.now)
        fleet.bench.now = fleet.bench.now.advanced(by: .seconds(91 * 86_400))
        while try fleet.bench.hub.record("work_orders/w-1") != nil { try fleet.bench.hub.housekeep(at: fleet.bench.now) }
        #expect(try fleet.answer("gw-1", "work_orders/w-1").facts.stored == .absent(forgetsDeletions: true))
    }

    @Test("An old record may have lost its document on the device; a damaged one reaches no device")
    func oldAndDamaged() throws {
        let fleet = try Fleet()
        let later = fleet.bench.now.advanced(by: .seconds(91 * 86_400))
        #expect(try !fleet.answer("gw-1", "work_orders/w-1").facts.mayBeDropped)
        #expect(try fleet.answer("gw-1", "work_orders/w-1", at: later).facts.mayBeDropped)
        #expect(try !fleet.answer("gw-1", "audits/a-1", at: later).facts.mayBeDropped)
        try fleet.rows.run("UPDATE record SET data = 'x' WHERE entity = 'work_orders' AND id = 'w-1'")
        let damaged = try fleet.answer("gw-1", "work_orders/w-1")
        #expect(damaged.reasons == [.damaged] && damaged.lines[0] == "record   work_orders/w-1, version 1, damaged", "\(damaged.lines)")
    }

    @Test("Settings that this program cannot read are an error, and no answer under other rules")
    func unreadable() throws {
        let fleet = try Fleet()
        let error = try #require(throws: HubError.self) {
            try fleet.rows.inspector().deliveryFacts(
                of: "work_orders/w-1", to: "gw-1", tokens: TokenBook(), reader: { _, _ in .failure(EntityFault("a new key")) },
                at: fleet.bench.now)
        }
        #expect(error.code == .badEntities && error.detail == "a new key")
    }
}
