import SyncCore
import Testing

@Suite("Paths into answers and targets of requests")
struct RestPathTests {
    struct Found: Sendable, CustomTestStringConvertible {
        let path: String
        let value: JSON?
        var testDescription: String { path }

        init(_ path: String, _ value: JSON?) { (self.path, self.value) = (path, value) }
    }

    static let document: JSON = [
        "id": 17, "a": ["b": ["c": "deep"], "x y": 1],
        "items": [["t": "2026-01-02T00:00:00Z", "n": 2], ["t": "2026-01-10T00:00:00Z", "n": 10], ["n": 3], ["t": nil]], "none": nil,
    ]

    @Test(
        "A path leads to what is there, and to nothing where nothing is",
        arguments: [
            Found("$", RestPathTests.document), Found("$.id", 17), Found("$.a.b.c", "deep"), Found("$['a']['x y']", 1),
            Found("$.a.z.c", nil),
            Found("$.items[1].n", 10), Found("$.items[9].n", nil), Found("$.none", nil), Found("$.id.b", nil),
            Found("$.items[*].t:max", "2026-01-10T00:00:00Z"), Found("$.items[*].t:min", "2026-01-02T00:00:00Z"),
            Found("$.items[*].n:max", 10), Found("$.items[*].n:first", 2), Found("$.items[*].n:last", 3), Found("$.id[*]:max", nil),
        ])
    func values(_ example: Found) throws {
        #expect(try #require(JSONPath(example.path)).value(in: Self.document) == example.value)
    }

    @Test(
        "A text that is no path is refused",
        arguments: [
            "", "id", "$id", "$.", "$..a", "$.a[", "$.a[x]", "$.a[-1]", "$.a[01]", "$.items[*].t", "$.items[*].t:sum", "$.a b", "$['']",
            "$.a]",
            "$" + String(repeating: ".a", count: 17),
        ])
    func refused(_ text: String) {
        #expect(JSONPath(text) == nil)
    }

    @Test(
        "A source is a header or a path",
        arguments: [("header:ETag", true), ("$.id", true), ("header:", false), ("header:a b", false), ("ETag", false)])
    func sources(_ text: String, _ isGood: Bool) {
        #expect((AnswerSource(text) != nil) == isGood)
        #expect(AnswerSource(text)?.text == (isGood ? text : nil))
    }

    struct Filled: Sendable, CustomTestStringConvertible {
        let template: String
        let target: String?
        var testDescription: String { template }

        init(_ template: String, _ target: String?) { (self.template, self.target) = (template, target) }
    }

    @Test(
        "Filled-in values cannot change the shape of a target; a parameter without a value is left out",
        arguments: [
            Filled("/audits", "/audits"), Filled("/audits/{id}", "/audits/a-1"),
            Filled("/audits/{odd}/x", "/audits/a%2F..%3Fb%3D1%26c%25%20%C3%A4/x"),
            Filled("/audits/{dots}", nil), Filled("/audits/{none}", nil), Filled("/audits/{empty}", nil),
            Filled("/audits?since={none}&limit={n}", "/audits?limit=5"), Filled("/audits?since={none}", "/audits"),
            Filled("/audits?a={odd}", "/audits?a=a%2F..%3Fb%3D1%26c%25%20%C3%A4"), Filled("/audits?a=b&e={empty}", "/audits?a=b&e="),
            Filled("/{id}-{n}/", "/a-1-5/"),
        ])
    func templates(_ example: Filled) throws {
        let values = ["id": "a-1", "odd": "a/..?b=1&c% ä", "dots": "..", "n": "5", "empty": ""]
        #expect(try #require(PathTemplate(example.template)).filled { values[$0] } == example.target)
    }

    @Test(
        "A text that is no template is refused",
        arguments: ["", "audits", "//host/x", "/a{", "/a}", "/{}", "/{a{b}}", "/a b", "/a#b", "/ä", "/a\\b"])
    func badTemplates(_ text: String) {
        #expect(PathTemplate(text) == nil)
    }
}

@Suite("Cursors of a backend's list")
struct RestCursorTests {
    struct Run: Sendable {
        let since: String?
        let high: String?
        let began: Timestamp?
        let then: String?
        let asked: String?

        init(since: String? = nil, high: String? = nil, began: String? = nil, then: String?, asked: String?) {
            (self.since, self.high, self.then, self.asked) = (since, high, then, asked)
            self.began = began.flatMap { RFC3339.timestamp($0) }
        }
    }

    @Test(
        "A run ends at the highest time that it saw, never after its own beginning, and the next begins a while before",
        arguments: [
            Run(high: "2026-01-02T10:00:00.500Z", then: "2026-01-02T10:00:00.500Z", asked: "2026-01-02T09:55:00.500Z"),
            Run(since: "2026-01-02T10:00:00Z", then: "2026-01-02T10:00:00Z", asked: "2026-01-02T09:55:00.000Z"),
            Run(
                since: "2026-01-02T10:00:00Z", high: "2026-01-02T09:59:00Z", then: "2026-01-02T10:00:00Z", asked: "2026-01-02T09:55:00.000Z"
            ),
            Run(
                since: "2026-01-02T10:00:00Z", high: "2026-01-02T12:00:00+01:00", then: "2026-01-02T12:00:00+01:00",
                asked: "2026-01-02T10:55:00.000Z"),
            Run(
                high: "2026-01-02T10:00:00Z", began: "2026-01-02T09:00:00Z", then: "2026-01-02T09:00:00.000Z",
                asked: "2026-01-02T08:55:00.000Z"),
            Run(high: "1767348000", then: "1767348000", asked: "1767347700"),
            Run(high: "1767348000123", then: "1767348000123", asked: "1767347700123"),
            Run(then: nil, asked: nil), Run(high: "yesterday", then: nil, asked: nil),
        ])
    func runs(_ run: Run) {
        var cursor = RestCursor()
        (cursor.since, cursor.began, cursor.next, cursor.page) = (run.since, run.began, "/next", 3)
        cursor.high = RestCursor.later(nil, run.high)
        cursor.end()
        #expect(cursor.since == run.then)
        #expect(cursor.asked(overlap: .seconds(300)) == run.asked)
        #expect(cursor.next == nil && cursor.page == 0)
        #expect(RestCursor(cursor.text) == cursor)
    }

    @Test("A cursor of another server lists everything", arguments: ["eyJ2IjoxfQ", "", "[1]", "{"])
    func foreign(_ text: String) {
        #expect(RestCursor(text) == RestCursor())
    }
}

@Suite("A backend's list")
struct RestListingTests {
    private static func list(_ path: String, next: String? = "$.next", cursor: String? = "$.items[*].at:max") throws -> RestEntity.List {
        var list = RestEntity.List(path: try #require(PathTemplate(path)), items: try #require(JSONPath("$.items")))
        list.next = next.flatMap { AnswerSource($0) }
        list.cursorFrom = cursor.flatMap { JSONPath($0) }
        list.deleted = JSONPath("$.gone")
        list.version = JSONPath("$.rev")
        return list
    }

    private static func answer(_ body: String, _ headers: HTTPHeaders = [:]) -> HTTPResponse {
        HTTPResponse(status: 200, headers: headers, body: Array(body.utf8))
    }

    private static let now = Timestamp(milliseconds: 1_767_348_000_000)

    @Test(
        "Pages follow each other wherever the next one is named, and only on the configured server",
        arguments: [
            ("https://api.example.org/audits?page=2", "/audits?page=2"),
            ("http://internal:8080/audits?page=2&x=%20", "/audits?page=2&x=%20"),
            ("/other?p=3", "/other?p=3"), ("?page=2", "/audits?page=2"), ("//evil.example/x", nil), ("page2", nil),
            ("https://evil.example", nil),
            ("/a b", nil),
        ])
    func next(_ next: String, _ target: String?) throws {
        var cursor = RestCursor()
        cursor.next = next
        let list = try Self.list("/audits?updated_since={cursor}&limit={limit}")
        #expect(RestListing.request(list, cursor)?.target == target)
    }

    @Test("The first request lists everything, the next ones from the mark on, and a mark for the page goes into its place")
    func requests() throws {
        var list = try Self.list("/audits?updated_since={cursor}&limit={limit}&page={next}")
        list.limit = 7
        #expect(RestListing.request(list, RestCursor())?.target == "/audits?limit=7")
        var cursor = RestCursor()
        cursor.since = "2026-01-02T10:00:00Z"
        #expect(RestListing.request(list, cursor)?.target == "/audits?updated_since=2026-01-02T09%3A55%3A00.000Z&limit=7")
        cursor.next = "b c"
        #expect(RestListing.request(list, cursor)?.target == "/audits?updated_since=2026-01-02T09%3A55%3A00.000Z&limit=7&page=b%20c")
    }

    @Test("A page shows records, deletions, and where it goes on")
    func page() throws {
        var entity = RestEntity()
        entity.fields = ["headline": "title"]
        entity.clientID = "ref"
        let list = try Self.list("/audits?since={cursor}", next: "header:Link")
        let body =
            #"{"items":[{"id":1,"title":"a","at":"2026-01-02T10:00:00Z","rev":"r1","ref":"o-1"},{"id":"x/y","at":"2026-01-03T10:00:00Z","gone":true},{"id":3,"gone":false}]}"#
        let page = try RestListing.read(
            Self.answer(body, ["Link": #"</audits?p=1>; rel="prev", </audits?p=2>; rel="next""#, "Date": "Fri, 02 Jan 2026 10:00:00 GMT"]),
            EntityName(trusted: "audits"), entity, list, after: RestCursor(), now: Self.now)
        #expect(
            page.records.map(\.record.data) == [
                ["id": 1, "headline": "a", "at": "2026-01-02T10:00:00Z", "rev": "r1", "ref": "o-1"], ["id": 3, "gone": false],
            ])
        #expect(page.records.first?.mark == RestMark(serverID: 1, etag: "r1", ours: RecordID(trusted: "o-1")))
        #expect(page.marks == [RestMark(serverID: "x/y")] && page.deletions.count == 1)
        #expect(page.deletions.first?.id.text.hasPrefix("rest:") == true, "an id that is none of ours is named by its digest")
        let cursor = RestCursor(page.cursor)
        #expect(page.hasMore && cursor.next == "/audits?p=2" && cursor.high == "2026-01-03T10:00:00Z" && cursor.page == 1)
    }

    @Test(
        "An answer that is not as mapped is refused as a whole: records that are not found must not look deleted",
        arguments: [
            "", "[]", #"{"items":{}}"#, #"{"results":[]}"#, #"{"items":[{"title":"no id"}]}"#, #"{"items":[{"id":null}]}"#,
            #"{"items":[{"id":1.5}]}"#,
            #"{"items":["text"]}"#, #"{"items":[{"id":1}]}"#, #"{"items":[{"id":1,"at":"soon"}]}"#, #"{"items":[],"next":"/same"}"#,
        ])
    func refused(_ body: String) throws {
        var cursor = RestCursor()
        cursor.next = "/same"
        let list = try Self.list("/audits?since={cursor}")
        #expect(throws: ReplyError.self) {
            try RestListing.read(Self.answer(body), EntityName(trusted: "audits"), RestEntity(), list, after: cursor, now: Self.now)
        }
    }
}
