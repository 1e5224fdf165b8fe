import SyncCore
import Testing

/// PROTOCOL A2: what a hello says of scopes and roles.
@Suite("Scopes and roles of a device")
struct DeviceShareTests {
    private func read(_ members: String) throws -> HelloResponse {
        try HelloMessages.readResponse(Array(#"{"device_id":"d","epoch":"e","head":0\#(members)}"#.utf8))
    }

    @Test("They arrive as they were sent, in their order")
    func arrive() throws {
        var sent = HelloResponse(
            device: DeviceID(trusted: "gw-17"), epoch: "7f3a", head: 1, time: nil, deviceSeq: nil, capabilities: [], spread: .seconds(30))
        sent.share = DeviceShare(
            scopes: [.init("site", ["s-4", "s-3"]), .init("assignee", ["ines"]), .init("region", [])], roles: ["inspector", "office"])
        sent.entities = [EntityName(trusted: "works"), EntityName(trusted: "sites")]
        #expect(try HelloMessages.readResponse(HelloMessages.response(sent)) == sent)
        #expect(sent.share?.words == "site s-4, s-3; assignee ines; roles inspector, office")
        #expect(sent.share.flatMap { DeviceShare($0.json) } == sent.share)
    }

    @Test("A hub without scopes, and one that gives this device none, are told apart")
    func none() throws {
        #expect(try read("").share == nil)
        let none = try #require(try read(#","scopes":{"site":[]},"roles":[]"#).share)
        #expect(none.isEmpty && none.words == "none")
    }

    // Fault: a word about scopes stops the sync of a device.
    @Test(
        "A scope of another form is skipped, and the hello counts",
        arguments: [
            (#","scopes":null"#, nil), (#","scopes":"all""#, nil), (#","scopes":["site"]"#, nil), (#","roles":["x"]"#, nil),
            (#","scopes":{"site":"s-3"}"#, "none"), (#","scopes":{"site":[1,"s-3",null,"","s-3"]},"roles":{"x":1}"#, "site s-3"),
            (#","scopes":{"":["a"],"site":["s-3"]},"roles":"inspector","entities":"works""#, "site s-3"),
            (#","scopes":{"site":["s-3"]},"roles":[7,"inspector"],"entities":[1,"no name",null]"#, "site s-3; role inspector"),
        ] as [(String, String?)])
    func otherForms(_ members: String, _ words: String?) throws {
        let hello = try read(members)
        #expect(hello.share?.words == words)
        #expect(hello.entities?.isEmpty ?? true)
    }

    // Fault: a hub makes the memory of a device, and the row that keeps it, as large as it likes.
    @Test("A hello that names very much is cut, and the same is read again")
    func bounded() throws {
        let values = (0..<2_000).map { #""s-\#($0)""# }.joined(separator: ",")
        let scopes = (0..<500).map { #""scope-\#($0)":[\#($0 == 0 ? values : #""v""#)]"# }.joined(separator: ",")
        let names = (0..<5_000).map { #""e-\#($0)""# }.joined(separator: ",")
        let long = String(repeating: "x", count: Limits.shareTextBytes + 1)
        let hello = try read(#","scopes":{"\#(long)":["a"],"long":["\#(long)"],\#(scopes)},"roles":[\#(values)],"entities":[\#(names)]"#)
        let share = try #require(hello.share)
        #expect(share.scopes.count <= Limits.shareScopes && hello.entities?.count == EntityList.most)
        #expect(share.scopes.reduce(share.roles.count) { $0 + $1.values.count } == Limits.shareTexts)
        #expect(share.scopes.first { $0.name == "long" }?.values == [])
        #expect(try HelloMessages.readResponse(HelloMessages.response(hello)) == hello)
    }

    @Test("The mark of the scopes is a short visible text, or none")
    func mark() {
        func read(_ text: String?) -> String? {
            var headers: HTTPHeaders = [:]
            headers[HubHeader.scopes] = text
            return HubHeaders(reading: headers, now: Timestamp(milliseconds: 0)).shareMark
        }
        let longest = String(repeating: "m", count: 64)
        #expect(read("aZ9+/=") == "aZ9+/=" && read(longest) == longest)
        #expect(read(nil) == nil && read("") == nil && read(longest + "m") == nil && read("a b") == nil && read("ä") == nil)
    }
}
