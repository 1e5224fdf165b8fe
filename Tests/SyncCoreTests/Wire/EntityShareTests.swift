import SyncCore
import Testing

/// PROTOCOL A8: what the end of a listing says of the device's scopes.
@Suite("Scopes that the end of a listing tells")
struct EntityShareTests {
    private static let device = DeviceID(trusted: "gw-1")

    private static func rules(_ fields: String...) -> EntityRules {
        var rules = EntityRules()
        rules.declaredScope = fields
        return rules
    }

    private static func access(_ sites: [String]) -> DeviceAccess {
        var grants = Grants()
        grants.scopes = ["site": sites]
        return AccessBook().share(of: device, adding: [grants])
    }

    private static func page(_ share: EntityShare?) -> SnapshotPage {
        var page = SnapshotPage(
            entity: EntityName(trusted: "audits"), startCursor: "c", startVersion: 9, records: [], after: nil, hasMore: false)
        page.share = share
        return page
    }

    @Test("They arrive as they were sent: each scope field in its order, with the id of the device in each")
    func arrive() throws {
        let share = try #require(EntityShare(of: Self.access(["s-4", "s-3"]), under: Self.rules("site", "assignee")))
        #expect(share.json.json == #"{"site":["gw-1","s-3","s-4"],"assignee":["gw-1"]}"#)
        let page = Self.page(share)
        #expect(try SnapshotMessages.readResponse(SnapshotMessages.response(page)) == page)
        #expect(EntityShare(of: Self.access(["s-3"]), under: Self.rules()) == nil, "an entity of everybody")
    }

    @Test("A document is of the device if one of its scopes is, and of others if none is")
    func includes() throws {
        let share = try #require(EntityShare(of: Self.access(["s-3", "7"]), under: Self.rules("site", "assignee")))
        for document: JSONObject in [
            ["site": "s-3"], ["site": ["s-9", "s-3"]], ["site": 7], ["site": "s-9", "assignee": "gw-1"], ["site": "gw-1"],
        ] { #expect(share.includes(document), "\(document.json)") }
        for document: JSONObject in [["site": "s-9"], ["assignee": "s-3"], ["place": "s-3"], ["site": .null], [:]] {
            #expect(!share.includes(document), "\(document.json)")
        }
    }

    // Fault: a share that is read in part makes records of the device look like those of others, and they go.
    @Test(
        "Any other form tells nothing, and the page counts",
        arguments: [
            "null", "{}", "[]", #""site""#, #"{"site":"s-3"}"#, #"{"site":["s-3",7]}"#, #"{"site":["s-3",""]}"#, #"{"site":["s-3"],"x":1}"#,
        ])
    func otherForms(_ scopes: String) throws {
        let body = #"{"entity":"audits","start":{"cursor":"c","version":9},"records":[],"has_more":false,"scopes":\#(scopes)}"#
        #expect(try SnapshotMessages.readResponse(Array(body.utf8)) == Self.page(nil))
    }

    @Test("A share with more values than count is neither told nor read, and neither is a long value read")
    func bounded() throws {
        // The id of the device is one of the values.
        let most = (1..<EntityShare.valuesMax).map { "s-\($0)" }
        let share = try #require(EntityShare(of: Self.access(most), under: Self.rules("site")))
        #expect(EntityShare(share.json) == share)
        #expect(EntityShare(of: Self.access(most + ["s-0"]), under: Self.rules("site")) == nil)
        #expect(EntityShare(["site": JSON.list(most + ["s-0", "s-x"])]) == nil)
        #expect(EntityShare(["site": JSON.list(most), "assignee": ["gw-1", "gw-2"]]) == nil)
        let long = String(repeating: "x", count: Scope.valueBytesMax)
        #expect(EntityShare(["site": [.string(long)]]) != nil && EntityShare(["site": [.string(long + "x")]]) == nil)
    }

    // Fault: a device of an older version compares its documents with the names of another one.
    @Test("A view tells if fields are the same in both versions")
    func versions() throws {
        var rules = Self.rules("site")
        rules.versions = try SchemaVersions(
            present: 3,
            versions: [1: .init(), 2: .init(up: [.rename("place", to: "site")]), 3: .init(up: [.values("state", ["1": "one"])])],
            accepts: nil)
        let entity = EntityName(trusted: "audits")
        #expect(try !SchemaView(1, rules, of: entity).keeps(["site"]))
        #expect(try SchemaView(2, rules, of: entity).keeps(["site"]))
        #expect(try !SchemaView(2, rules, of: entity).keeps(["site", "state"]))
        #expect(try SchemaView(3, rules, of: entity).keeps(["site", "state"]))
    }
}
