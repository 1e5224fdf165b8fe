import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// Entity settings of several hubs over one database.
@Suite("Entity settings of replicas", .needsPostgres)
struct SharedSettingsTests {
    private typealias T = EntityTexts

    @Test(
        "Settings that one replica has applied are in force at the others, their readers, and the commands beside them, without a restart")
    func shared() throws {
        let rows = try HubRows(.postgres)
        let (a, b) = (try HubBench(file: nil, place: rows.place), try HubBench(file: nil, place: rows.place, seed: 2))
        let reader = try #require(try b.hub.reader())
        func told() -> String? {
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
            return reader.answer([HubRequest("GET", "/v1/config", headers: headers)], tokens: nil, at: b.now)?[0].headers[HubHeader.config]
        }
        #expect(told() == nil)
        for (index, text) in [T.audits("a"), T.audits("b", scope: "site"), T.audits("c", scope: "region")].enumerated() {
            #expect(try a.hub.apply(T.text(text)) == .applied(generation: Int64(index + 1)))
            #expect(try b.toldConfig == T.config(text) && told() == T.config(text))
            #expect(b.hub.settings.rules == a.hub.settings.rules && b.hub.scopeIndexes == a.hub.scopeIndexes)
        }
        let command = try HubBench(file: nil, scopes: .adopted, place: rows.place, seed: 3)
        #expect(try command.hub.apply(T.text(T.audits("d", scope: "region"))) == .applied(generation: 4))
        #expect(try a.toldConfig == T.config(T.audits("d", scope: "region")) && b.toldConfig == a.toldConfig)
    }

    @Test("A replica that starts with scopes in its file makes the shares anew, also where the database had others")
    func scopes() throws {
        let rows = try HubRows(.postgres)
        let a = try HubBench(file: T.audits("a", scope: "site"), place: rows.place)
        let b = try HubBench(file: T.audits("a", scope: "region"), place: rows.place, seed: 2)
        #expect(b.hub.scopeIndexes["audits"]?.fields == ["region"])
        _ = a.push([])
        #expect(a.hub.scopeIndexes["audits"]?.fields == ["region"] && a.hub.settings.rules["audits"]?.scope == ["region"])
    }

    @Test("A copy of the database that has another text under the same number is noticed")
    func older() throws {
        let rows = try HubRows(.postgres)
        let (a, b) = (try HubBench(file: nil, place: rows.place), try HubBench(file: nil, place: rows.place, seed: 2))
        _ = try a.hub.apply(T.text(T.audits("a")))
        _ = b.push([])
        try rows.run("DELETE FROM entity_settings")
        _ = try a.hub.apply(T.text(T.audits("b")))
        #expect(try b.toldConfig == T.config(T.audits("b")))
    }
}
