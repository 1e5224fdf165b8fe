import LocalAPI
import SyncCore
import Testing

@Suite("Queries") struct QueryTests {
    struct Text: Sendable, CustomTestStringConvertible {
        var text: String
        var filter: RecordFilter
        var testDescription: String { text }

        init(_ text: String, _ filter: RecordFilter) { (self.text, self.filter) = (text, filter) }
    }

    static let texts: [Text] = [
        Text("status:eq:open", .test(path("status"), .eq("open"))),
        Text("status:ne:", .test(path("status"), .ne(""))),
        Text("n:gt:3", .test(path("n"), .gt(3))),
        Text(#"n:eq:"3""#, .test(path("n"), .eq("3"))),
        Text("n:eq:007", .test(path("n"), .eq("007"))),
        Text("n:le:1.10", .test(path("n"), .le(exactly("1.1")))),
        Text("b:eq:true", .test(path("b"), .eq(true))),
        Text("b:eq:null", .test(path("b"), .eq(nil))),
        Text("at:ge:2026-11-20T21:04:05Z", .test(path("at"), .ge("2026-11-20T21:04:05Z"))),
        Text("x:eq:[1]", .test(path("x"), .eq("[1]"))),
        Text("site.name:prefix:Nord", .test(path("site", "name"), .prefix("Nord"))),
        Text("code:prefix:12", .test(path("code"), .prefix("12"))),
        Text(#"code:prefix:"a b""#, .test(path("code"), .prefix("a b"))),
        Text("s:in:open,closed,3", .test(path("s"), .isIn(["open", "closed", 3]))),
        Text(#"s:in:"a,b","c\"d",e"#, .test(path("s"), .isIn(["a,b", "c\"d", "e"]))),
        Text("s:in:a,,b", .test(path("s"), .isIn(["a", "", "b"]))),
        Text("p:exists:false", .test(path("p"), .exists(false))),
        Text("data.status:eq:x", .test(path("status"), .eq("x"))),
        Text("data.data.x:eq:y", .test(path("data", "x"), .eq("y"))),
        Text("data:eq:y", .test(path("data"), .eq("y"))),
    ]

    @Test("A condition as text means what it looks like", arguments: texts)
    func readsText(_ example: Text) {
        #expect(RecordFilter(text: example.text) == example.filter)
    }

    @Test("Nested conditions, order, fields and limits come out of a body as they went in")
    func bodyRoundTrips() throws {
        var query = RecordListQuery(
            EntityName(trusted: "audits"),
            filter: .all([
                .any([.test(path("a"), .eq(1)), .test(path("data", "b"), .isIn(["x", nil]))]),
                .test(path("c"), .exists(true)), .test(path("d"), .prefix("p")),
            ]))
        query.sort = [
            .init(.updatedAt, isDescending: true), .init(.field(path("updated_at"))), .init(.field(path("data"))),
        ]
        query.fields = [path("id"), path("site", "name")]
        query.limit = 7
        query.cursor = "c"
        query.includesDeleted = true
        query.statuses = [.pending]
        #expect(try QueryBody.read(QueryBody.bytes(query)) == query)
        let plain = RecordListQuery(EntityName(trusted: "audits"))
        #expect(try QueryBody.read(QueryBody.bytes(plain)) == plain)
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        var body: String
        var code: LocalProblem
        var pointer: String
        var testDescription: String { String(body.prefix(80)) }

        init(_ body: String, _ code: LocalProblem, _ pointer: String) {
            (self.body, self.code, self.pointer) = (body, code, pointer)
        }
    }

    static func nested(_ levels: Int) -> String {
        #"{"entity":"e","where":"# + String(repeating: #"{"and":["#, count: levels)
            + #"{"field":"a","op":"eq","value":1}"#
            + String(repeating: "]}", count: levels) + "}"
    }

    @Test(
        "A bad query is refused with the place",
        arguments: [
            Bad("{}", .malformed, "/entity"),
            Bad(#"{"entity":"a b"}"#, .validation, "/entity"),
            Bad(#"{"entity":"e","wher":{}}"#, .unknownMember, "/wher"),
            Bad(#"{"entity":"e","where":[]}"#, .malformed, "/where"),
            Bad(#"{"entity":"e","where":{}}"#, .malformed, "/where/field"),
            Bad(#"{"entity":"e","where":{"and":[]}}"#, .malformed, "/where/and"),
            Bad(#"{"entity":"e","where":{"and":[{"or":7}]}}"#, .malformed, "/where/and/0/or"),
            Bad(
                #"{"entity":"e","where":{"and":[{"field":"a","op":"eq","value":1}],"or":[]}}"#, .unknownMember,
                "/where/or"),
            Bad(#"{"entity":"e","where":{"field":"a","op":"eq"}}"#, .malformed, "/where/value"),
            Bad(#"{"entity":"e","where":{"field":"a","op":"like","value":1}}"#, .validation, "/where/op"),
            Bad(#"{"entity":"e","where":{"field":"a..b","op":"eq","value":1}}"#, .validation, "/where/field"),
            Bad(
                #"{"entity":"e","where":{"field":"a.b.c.d.e.f.g.h.i","op":"eq","value":1}}"#, .validation,
                "/where/field"),
            Bad(#"{"entity":"e","where":{"field":"a","op":"in","value":1}}"#, .validation, "/where/value"),
            Bad(#"{"entity":"e","where":{"field":"a","op":"in","value":[[1]]}}"#, .validation, "/where/value"),
            Bad(#"{"entity":"e","where":{"field":"a","op":"lt","value":null}}"#, .validation, "/where/value"),
            Bad(#"{"entity":"e","where":{"field":"a","op":"eq","value":{}}}"#, .validation, "/where/value"),
            Bad(#"{"entity":"e","where":{"field":"a","op":"exists","value":"true"}}"#, .validation, "/where/value"),
            Bad(#"{"entity":"e","where":{"field":"a","op":"eq","value":1,"not":true}}"#, .unknownMember, "/where/not"),
            Bad(
                #"{"entity":"e","where":{"and":["#
                    + Array(repeating: #"{"field":"a","op":"eq","value":1}"#, count: 128).joined(separator: ",")
                    + "]}}", .validation, "/where"),
            Bad(nested(9), .validation, "/where" + String(repeating: "/and/0", count: 8)),
            Bad(#"{"entity":"e","sort":"a"}"#, .malformed, "/sort"),
            Bad(#"{"entity":"e","sort":["a","b","c","d","e"]}"#, .validation, "/sort"),
            Bad(#"{"entity":"e","sort":[1]}"#, .malformed, "/sort/0"),
            Bad(#"{"entity":"e","fields":[""]}"#, .validation, "/fields/0"),
            Bad(#"{"entity":"e","limit":0}"#, .validation, "/limit"),
            Bad(#"{"entity":"e","limit":1.5}"#, .malformed, "/limit"),
            Bad(#"{"entity":"e","limit":1e99}"#, .malformed, "/limit"),
            Bad(#"{"entity":"e","sync_status":["done"]}"#, .validation, "/sync_status/0"),
        ])
    func refuses(_ example: Bad) throws {
        let problem = try #require(throws: Problem.self) { try QueryBody.read(Array(example.body.utf8)) }
        #expect(problem.code == example.code.rawValue)
        #expect(problem.errors.contains { $0.pointer == example.pointer }, "\(problem.errors)")
    }

    @Test("Eight levels of conditions are taken")
    func eightLevels() throws {
        #expect(throws: Never.self) { try QueryBody.read(Array(Self.nested(8).utf8)) }
    }
}
