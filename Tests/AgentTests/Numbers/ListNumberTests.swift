import NumbersKit
import SyncCore
import Testing

/// Numbers and times that break arithmetic in the lists of an existing backend, and cursors made of them.
@Suite("Numbers from outside, in a backend's lists")
struct ListNumberTests {
    private static let now = Timestamp(milliseconds: 1_795_216_800_000)
    private static let entity = EntityName(trusted: "audits")

    private static func list() throws -> RestEntity.List {
        var list = RestEntity.List(path: try #require(PathTemplate("/audits?since={cursor}")), items: try #require(JSONPath("$.items")))
        list.next = AnswerSource("$.next")
        list.cursorFrom = JSONPath("$.items[*].at:max")
        return list
    }

    private static func read(_ body: String, _ headers: HTTPHeaders = [:], after cursor: RestCursor = RestCursor()) throws -> StreamPage {
        try RestListing.read(
            HTTPResponse(status: 200, headers: headers, body: Array(body.utf8)), entity, RestEntity(), try list(), after: cursor, now: now)
    }

    @Test(
        "No time of change ends the agent, and none makes the next list begin later than now",
        arguments: HostileNumbers.numbers + HostileNumbers.times + [
            "\"2099-01-01T00:00:00Z\"", "-99999999999", "-100000000000", "99999999999", "100000000000",
        ])
    func times(_ value: String) throws {
        let text = value.contains("T") && !value.hasPrefix("\"") ? "\"\(value)\"" : value
        for headers in [[:], ["Date": "Fri, 20 Nov 2026 23:20:00 GMT"], ["Date": "Fri, 31 Dec 9999 23:59:59 GMT"]] as [HTTPHeaders] {
            // A text that is no time refuses the page; that is a good end as well.
            guard let page = try? Self.read(#"{"items":[{"id":1,"at":\#(text)}]}"#, headers) else { continue }
            let cursor = RestCursor(page.cursor)
            for overlap in [Duration.zero, .seconds(300), .seconds(Int64.max)] {
                let asked = cursor.asked(overlap: overlap, now: Self.now)
                if let time = asked.flatMap({ RFC3339.timestamp($0) }) { #expect(time <= Self.now.advanced(by: .seconds(300))) }
                _ = RestListing.request(try Self.list(), cursor, now: Self.now)
            }
        }
    }

    @Test(
        "A record stamped 2099 is told and hides nothing, with and without a clock of the backend",
        arguments: [
            nil, "Fri, 20 Nov 2026 23:20:00 GMT",
        ] as [String?])
    func future(_ date: String?) throws {
        var headers: HTTPHeaders = [:]
        headers["Date"] = date
        let page = try Self.read(#"{"items":[{"id":1,"at":"2026-11-20T20:00:00Z"},{"id":2,"at":"2099-01-01T00:00:00Z"}]}"#, headers)
        #expect(page.ahead == "2099-01-01T00:00:00Z")
        let since = try #require(RestCursor(page.cursor).since.flatMap { RFC3339.timestamp($0) })
        #expect(since <= Self.now)
        let next = try Self.read(#"{"items":[{"id":3,"at":"2026-11-20T20:30:00Z"}]}"#, headers, after: RestCursor(page.cursor))
        #expect(next.ahead == nil)
    }

    @Test("A cursor that an earlier program let run into the future is not used; one of a slow clock is")
    func poisoned() {
        var cursor = RestCursor()
        cursor.since = "2099-01-01T00:00:00Z"
        #expect(cursor.asked(overlap: .zero, now: Self.now) == nil)
        cursor.since = "2027-03-01T00:00:00Z"
        #expect(cursor.asked(overlap: .zero, now: Self.now) != nil)
        #expect(cursor.asked(overlap: .zero, now: Timestamp(milliseconds: 0)) != nil, "our own clock tells nothing")
    }

    @Test("No number in a stored cursor ends the agent")
    func stored() throws {
        let text = #"{"since":"1767348000","next":"/a","high":"1767348000123","began_ms":1767348000000,"page":3}"#
        for variant in HostileNumbers.variants(of: try JSONReader.read(text)) {
            let cursor = RestCursor(variant.json.json)
            _ = cursor.asked(overlap: .seconds(300), now: Self.now)
            _ = try? Self.read(#"{"items":[{"id":1,"at":"2026-11-20T20:00:00Z"}]}"#, after: cursor)
            var ended = cursor
            ended.end()
            #expect(RestCursor(ended.text) == ended)
        }
    }
}
