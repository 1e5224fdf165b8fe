import SyncCore
import Testing

/// Lists of an existing backend that never end, each in its own way.
@Suite("A backend's list that has no end")
struct RestCircleTests {
    private static let audits = EntityName(trusted: "audits")
    private static let now = Timestamp(milliseconds: 1_767_348_000_000)

    struct Endless: Sendable, CustomTestStringConvertible {
        var what: String
        var path = "/audits?since={cursor}"
        /// The most pages that are read before it is noticed.
        var pagesMax: Int
        /// The answer to the request of that number with that target.
        var answer: @Sendable (Int, String) -> (items: [Int], next: String)
        var testDescription: String { what }
    }

    static let lists: [Endless] = [
        Endless(what: "the same place", pagesMax: 3) { _, _ in ([1, 2], "/audits?p=1") },
        Endless(what: "A-B-A", pagesMax: 6) { _, target in ([1, 2], target.hasSuffix("=a") ? "/audits?p=b" : "/audits?p=a") },
        Endless(what: "A-B-A with empty pages", pagesMax: 6) { _, target in ([], target.hasSuffix("=a") ? "/audits?p=b" : "/audits?p=a") },
        Endless(what: "a circle of seven that is entered late", pagesMax: 40) { number, _ in
            ([number], "/audits?p=\(number < 9 ? number : 9 + number % 7)")
        },
        Endless(what: "a mark that is 0", path: "/audits?since={cursor}&page={next}", pagesMax: 3) { _, _ in ([1, 2], "0") },
        Endless(what: "another host each time", pagesMax: 6) { number, _ in ([1, 2], "https://h\(number).example/audits?p=1") },
        Endless(what: "other addresses, the same records", pagesMax: 6) { number, _ in ([1, 2, 3], "/audits?offset=\(number * 3)") },
        Endless(what: "other addresses, two pages in turn", pagesMax: 8) { number, _ in
            (number % 2 == 0 ? [1, 2] : [3, 4], "/audits?offset=\(number)")
        },
        Endless(what: "other addresses, empty pages", pagesMax: 120) { number, _ in ([], "/audits?offset=\(number)") },
    ]

    private static func mapping(_ path: String) throws -> RestEntity {
        var list = RestEntity.List(path: try #require(PathTemplate(path)), items: try #require(JSONPath("$.items")))
        list.next = AnswerSource("$.next")
        var entity = RestEntity()
        entity.list = list
        return entity
    }

    private static func read(
        _ entity: RestEntity, _ list: RestEntity.List, _ items: [Int], next: String?, after cursor: RestCursor
    ) throws(ReplyError) -> StreamPage {
        var body: JSONObject = ["items": .array(items.map { .object(["id": .int(Int64($0))]) })]
        body["next"] = next.map { .string($0) }
        let response = HTTPResponse(status: 200, body: body.bytes)
        return try RestListing.read(response, audits, entity, list, after: cursor, now: now)
    }

    @Test("A list that leads in a circle, or on without a record, is noticed within few pages, also across restarts", arguments: lists)
    func endless(_ endless: Endless) throws {
        let entity = try Self.mapping(endless.path)
        let list = try #require(entity.list)
        var cursor = RestCursor()
        var said: String?
        for number in 1...(endless.pagesMax + 1) {
            let target = try #require(RestListing.request(list, cursor)).target
            let (items, next) = endless.answer(number, target)
            do throws(ReplyError) {
                let page = try Self.read(entity, list, items, next: next, after: cursor)
                #expect(page.hasMore)
                // The state of the run is in the cursor alone.
                cursor = RestCursor(page.cursor)
            } catch {
                said = "\(error)"
                break
            }
        }
        #expect(said != nil, "\(endless.pagesMax) pages were read")
        #expect(said?.isEmpty == false)
    }

    @Test("A list that ends is read to its end, however long, and its next run knows nothing of the last", arguments: [1, 2, 3, 50, 2_000])
    func ends(_ pages: Int) throws {
        let entity = try Self.mapping("/audits?since={cursor}")
        let list = try #require(entity.list)
        for _ in 0..<2 {
            var cursor = RestCursor()
            for number in 1...pages {
                // A page may be empty now and then: filters do that.
                let items = number % 3 == 0 ? [] : [number * 2, number * 2 + 1]
                let page = try Self.read(entity, list, items, next: number < pages ? "/audits?p=\(number)" : nil, after: cursor)
                #expect(page.hasMore == (number < pages))
                cursor = RestCursor(page.cursor)
            }
            #expect(cursor == RestCursor())
        }
    }
}

/// An answer about another record than the one that was asked about is held, and nothing is sent to that other record.
@Suite("A backend that answers about another record")
struct OtherRecordTests {
    private static let change = MutationContent(.update, data: ["title": "new"])

    private static func isHeld(_ rig: ExchangeRig, _ names: String...) -> Bool {
        guard case .held(let problem)? = rig.verdict else { return false }
        return problem.code == Problem.otherRecord && names.allSatisfy { problem.detail.contains($0) }
    }

    @Test("After a 412 the read shows another id: held, with both ids")
    func afterMoved() {
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping { $0.update?.ifMatch = true })
        rig.answer(412)
        #expect(rig.sent.last?.hasPrefix("GET /audits/17") == true)
        rig.answer(200, #"{"id":99,"n":7,"title":"theirs"}"#, etag: "\"e9\"")
        #expect(Self.isHeld(rig, "17", "99"))
        #expect(rig.sent.count == 2, "nothing goes to the other record")
    }

    @Test("A read before the change shows another id: held, and nothing is sent")
    func beforeChange() {
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping { $0.update?.ifMatch = true }) { $0.etag = nil }
        #expect(rig.sent == ["GET /audits/17 "])
        rig.answer(200, #"{"id":"18","n":7,"title":"old"}"#, etag: "\"e9\"")
        #expect(Self.isHeld(rig, "17", "18") && rig.sent.count == 1)
    }

    @Test("The answer to the change itself shows another id: held")
    func answerToChange() {
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping())
        rig.answer(200, #"{"id":18,"n":7,"title":"new"}"#)
        #expect(Self.isHeld(rig, "17", "18"))
    }

    @Test("A read that finds out what became of a change shows another id: held")
    func verifying() {
        var attempt = RestAttempt(.patch, "/audits/17")
        attempt.sent = ["title": "new"]
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping()) { $0.attempt = attempt }
        #expect(rig.sent == ["GET /audits/17 "])
        rig.answer(200, #"{"id":18,"title":"new"}"#)
        #expect(Self.isHeld(rig, "17", "18"))
    }

    @Test("The answer to a creation shows the record of another client: held")
    func creation() {
        var rig = ExchangeRig(
            MutationContent(.create, data: ["title": "new"]),
            ExchangeRig.mapping {
                $0.clientID = "ref"
                $0.create?.document = .whole
            })
        rig.answer(201, #"{"id":18,"ref":"somebody-elses","title":"new"}"#)
        #expect(Self.isHeld(rig, "a-1", "somebody-elses"))
    }

    @Test("The same id as text or number, or an answer without an id, is about our record", arguments: [#""id":17,"#, #""id":"17","#, ""])
    func same(_ id: String) {
        var rig = ExchangeRig(Self.change, ExchangeRig.mapping())
        rig.answer(200, "{\(id)\"title\":\"new\"}")
        guard case .accepted? = rig.verdict else {
            Issue.record("\(String(describing: rig.verdict))")
            return
        }
    }
}
