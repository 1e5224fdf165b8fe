import SyncCore
import Testing

@testable import HubServer

/// The answer to the question who could see a site at which time: the grants of commands with their users, and those of records.
@Suite("History of grants")
struct GrantHistoryTests {
    private let one = DeviceID.one
    private let two = DeviceID.two
    private let start = Timestamp(milliseconds: 1_795_208_400_000)  // 2026-11-20T21:00:00Z
    private var end: Timestamp { start.advanced(by: .seconds(60)) }
    private static let site = TokenBook.Grant.Kind.scope(Scope("site", "s-1"))

    private func book() -> TokenBook {
        var book = TokenBook()
        #expect(book.grant(Self.site, to: one, by: "ada", at: start) == .given)
        #expect(book.grant(.group("north"), to: one, by: "bob", at: start) == .given)
        #expect(book.takeBack(Self.site, from: one, by: "cleo", at: end) == true)
        return book
    }

    private var expected: [TokenBook.Grant] {
        [
            TokenBook.Grant(Self.site, at: start, by: "ada", revokedAt: end, revokedBy: "cleo"),
            TokenBook.Grant(.group("north"), at: start, by: "bob"),
        ]
    }

    // Fault: the book had no users, so nobody could say who had granted a site.
    @Test("A grant is kept with the user who gave it and the user who took it back")
    func users() throws {
        let book = book()
        #expect(book.grantHistory(of: one) == expected && book.grantedDevices == [one])
        #expect(
            book.text.contains(
                #""grants":[{"grant":"site=s-1","at":"2026-11-20T21:00:00.000Z","by":"ada","revoked_at":"2026-11-20T21:01:00.000Z","revoked_by":"cleo"},"#
            ), "\(book.text)")
        let read = try TokenBook(reading: book.text)
        #expect(read == book && read.text == book.text)
        #expect(read.grants(of: one)?.groups == ["north"] && read.grants(of: one)?.scopes == [:])
    }

    @Test("The rows of a server keep the users as the file does", .needsPostgres)
    func rows() throws {
        let bench = try ReplicaBench()
        let (a, b) = (try bench.hub(tokens: TokenBook()), try bench.hub(seed: 2, tokens: TokenBook()))
        try a.hub.changeTokens { $0 = self.book() }
        #expect(try b.hub.tokens().grantHistory(of: one) == expected)
        try b.hub.changeTokens { _ = $0.takeBack(.group("north"), from: self.one, by: "dan", at: self.end) }
        #expect(
            try a.hub.tokens().grantHistory(of: one).last
                == TokenBook.Grant(.group("north"), at: start, by: "bob", revokedAt: end, revokedBy: "dan"))
    }

    @Test("Grants of before have no users, and stay so when the book is written")
    func before() throws {
        let line =
            #"{"device":"gw-1","sha256":"\#(String(repeating: "00", count: 32))","created_at":"2026-11-20T21:00:00.000Z","use":"grants","#
            + #""grants":[{"grant":"site=s-1","at":"2026-11-20T21:00:00.000Z","revoked_at":"2026-11-20T21:01:00.000Z"}]}"# + "\n"
        let book = try TokenBook(reading: line)
        #expect(book.entries.map(\.grants) == [[TokenBook.Grant(Self.site, at: start, revokedAt: end)]])
        #expect(book.text == line)
    }

    @Test("A program leaves members out that it does not know, as one of before does with the users, and keeps the grants")
    func unknownMembers() throws {
        let book = book()
        let later = book.text
            .replacing(#""by":"ada""#, with: #""by":"ada","reason":{"text":"a call"}"#)
            .replacing(#""use":"grants""#, with: #""use":"grants","more":[1]"#)
        #expect(later != book.text)
        #expect(try TokenBook(reading: later) == book)
        // An earlier program writes this: it knows neither users nor the mark of dropped grants.
        let withoutUsers = book.text.replacing(/,"(revoked_)?by":"[a-z]+"/, with: "")
        let read = try TokenBook(reading: withoutUsers).grantHistory(of: one)
        #expect(read == [TokenBook.Grant(Self.site, at: start, revokedAt: end), TokenBook.Grant(.group("north"), at: start)])
    }

    // Fault: the oldest ones vanished, and nothing said so.
    @Test("The book says that grants which were taken back are no longer in it")
    func dropped() throws {
        var book = TokenBook()
        #expect(book.pastGrants(of: one) == .complete)
        #expect(book.grant(.role("inspector"), to: one, by: "ada", at: start) == .given)
        func pass(_ number: Int) {
            let kind = TokenBook.Grant.Kind.scope(Scope("site", "s-\(number)"))
            #expect(book.grant(kind, to: one, by: "ada", at: start) == .given)
            #expect(book.takeBack(kind, from: one, by: "ada", at: end) == true)
        }
        for number in 1..<TokenBook.pastGrantsMax { pass(number) }
        #expect(book.pastGrants(of: one) == .complete)
        pass(TokenBook.pastGrantsMax)
        #expect(book.pastGrants(of: one) == .full && book.grantHistory(of: one).count == TokenBook.pastGrantsMax + 1)
        pass(TokenBook.pastGrantsMax + 1)
        #expect(book.pastGrants(of: one) == .cut && book.pastGrants(of: two) == .complete)
        let kept = book.grantHistory(of: one)
        #expect(kept.count == TokenBook.pastGrantsMax + 1 && kept.first?.kind == .role("inspector"))
        #expect(kept.dropFirst().first?.kind == .scope(Scope("site", "s-2")), "the first one that was taken back is gone")
        let read = try TokenBook(reading: book.text)
        #expect(read == book && read.pastGrants(of: one) == .cut)
        // A program of before writes no mark: as many as are kept may be all, or not.
        let unmarked = try TokenBook(reading: book.text.replacing(#","grants_dropped":true"#, with: ""))
        #expect(unmarked.pastGrants(of: one) == .full)
    }

    // Fault: the one that was given first was dropped, also where it had been in force until just now.
    @Test("Beyond as many as are kept, the grant that was taken back first is dropped, and never the one of just now")
    func droppedFirst() throws {
        var book = TokenBook()
        func kind(_ number: Int) -> TokenBook.Grant.Kind { .scope(Scope("site", "s-\(number)")) }
        func takeBack(_ number: Int, after seconds: Int) {
            #expect(book.takeBack(kind(number), from: one, by: "ada", at: end.advanced(by: .seconds(seconds))) == true)
        }
        /// The numbers of those that were taken back, in the order in which they were given.
        func past() -> [Int] {
            let kinds = book.grantHistory(of: one).filter { $0.revokedAt != nil }.map(\.kind)
            return (0...TokenBook.pastGrantsMax + 1).filter { kinds.contains(kind($0)) }
        }
        for number in 0...TokenBook.pastGrantsMax + 1 {
            #expect(book.grant(kind(number), to: one, by: "ada", at: start.advanced(by: .seconds(number))) == .given)
        }
        // The last one given is taken back first. The first one given stays in force.
        for number in 1...TokenBook.pastGrantsMax { takeBack(number, after: 1_000 - number) }
        #expect(past() == Array(1...TokenBook.pastGrantsMax) && book.pastGrants(of: one) == .full)
        takeBack(0, after: 2_000)
        #expect(past() == Array(0..<TokenBook.pastGrantsMax) && book.pastGrants(of: one) == .cut)
        // By a clock that went back.
        takeBack(TokenBook.pastGrantsMax + 1, after: 0)
        #expect(past() == Array(0..<TokenBook.pastGrantsMax - 1) + [TokenBook.pastGrantsMax + 1])
    }

    // Fault: on PostgreSQL the words of the database's language decided which of too many values count.
    @Test("Of more values than count, those that come first by their bytes count", .eachEngine)
    func orderOfGrants() throws {
        let rows = try HubRows()
        let bench = try HubBench(rules: ScopeBench.rules, place: rows.place)
        let sites = (0..<1_000).map { "v-" + "000\($0)".suffix(4) } + ["Z", "é", "a"]
        let values = sites.enumerated().map { "('assignments', 'r-\($0)', 'gw-1', 'site', '\($1)')" }
        try rows.run("INSERT INTO record_grant(entity, id, device, field, value) VALUES " + values.joined(separator: ", "))
        let read = try bench.hub.transact(.reading) { () throws(DatabaseError) in try bench.hub.store.recordGrants(of: one) }
        #expect(read.map(\.value) == ["Z", "a"] + sites.prefix(999) && read.allSatisfy { $0.field == "site" })
    }

    // Fault: they were read for the share of a device only, and an operator could list them nowhere.
    @Test("The scopes that records grant are listed with the record, by device, as long as the record is there", .eachEngine)
    func records() throws {
        let rows = try HubRows()
        var rules = ScopeBench.rules
        rules.entities["assignments"] = EntityRules()
        var access = AccessBook()
        access.sources = [GrantSource(entity: "assignments", device: "device", scope: "site")]
        let bench = try HubBench(rules: rules, place: rows.place, access: access)
        func publish(_ name: RecordName, _ data: JSONObject?) throws { try bench.hub.publish(name, data, at: bench.now) }
        func listed(_ device: DeviceID? = nil) throws -> [String] {
            try rows.inspector().recordGrants(of: device).map { "\($0.device) \($0.scope) \($0.record)" }
        }
        #expect(try listed().isEmpty)
        try publish("assignments/b", ["device": "gw-2", "site": "s-1"])
        try publish("assignments/a", ["device": ["gw-2", "gw-1"], "site": ["s-2", "s-1"]])
        try publish("work_orders/w", ["device": "gw-1", "site": "s-9"])
        let ofTwo = ["gw-2 site=s-1 assignments/a", "gw-2 site=s-1 assignments/b", "gw-2 site=s-2 assignments/a"]
        #expect(try listed() == ["gw-1 site=s-1 assignments/a", "gw-1 site=s-2 assignments/a"] + ofTwo)
        #expect(try listed(two) == ofTwo)
        try publish("assignments/a", nil)
        #expect(try listed() == ["gw-2 site=s-1 assignments/b"] && listed(one).isEmpty)
    }
}
