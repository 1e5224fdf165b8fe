import SyncCore
import Testing

@testable import HubServer

/// Records of a back office, published in sets.
@Suite("Publishing", .eachEngine)
struct PublishTests {
    private static let forms: EntityName = "forms"

    private static func lines(_ lines: [String], from first: Int = 1) -> PublishedLines {
        PublishedLines(Array(lines.joined(separator: "\n").utf8), firstLine: first)
    }

    private static func form(_ number: Int, _ title: String = "A") -> String { #"{"id":"f-\#(number)","data":{"title":"\#(title)"}}"# }

    private static func fault(_ body: () throws -> Void) -> PublishedLines.Fault? {
        do {
            try body()
            return nil
        } catch Hub.PublishFailure.line(let fault) {
            return fault
        } catch {
            Issue.record(error)
            return nil
        }
    }

    @Test("A set of many records is one transaction, and each record has a commit number of its own")
    func set() throws {
        let bench = try HubBench()
        var commits = 0
        bench.hub.beforeCommit = {
            commits += 1
            return true
        }
        let count = 2 * PublishedLines.recordsAtOnce + 7
        let published = try bench.hub.publish(Self.lines((1...count).map { Self.form($0) }), to: Self.forms, at: bench.now)
        #expect(published == Hub.Published(count: count, head: Int64(count)))
        #expect(commits == 1 && bench.hub.head == Int64(count))
        let pages = try bench.follow(Self.forms).pages
        #expect(pages.flatMap(\.records).count == count && Set(pages.flatMap(\.records).map(\.record.version)).count == count)
    }

    // Fault: the office took them for delivered, and no device got them.
    @Test("Records without a value in the scope fields are counted, because no device receives them")
    func unshared() throws {
        var rules = EntityRules()
        rules.declaredScope = ["site"]
        let bench = try HubBench(rules: RuleBook([Self.forms: rules]))
        let lines = [
            #"{"id":"f-1","data":{"site":"s-1"}}"#, #"{"id":"f-2","data":{"title":"A"}}"#, #"{"id":"f-3","data":{"site":null}}"#,
            #"{"id":"f-4"}"#,
        ]
        let published = try bench.hub.publish(Self.lines(lines), to: Self.forms, at: bench.now)
        #expect(published == Hub.Published(count: 4, unshared: 2, head: 4))
    }

    @Test("The later of two lines about one record counts; a line without data deletes; empty lines are skipped")
    func order() throws {
        let bench = try HubBench()
        let text = [Self.form(1), "", Self.form(1, "B") + "\r", "  ", Self.form(2), #"{"id":"f-2"}"#, #"{"id":"f-3","data":null}"#, ""]
        #expect(try bench.hub.publish(Self.lines(text), to: Self.forms, at: bench.now).count == 5)
        #expect(try bench.data(Self.forms, "f-1") == ["title": "B"])
        #expect(try bench.hub.record(RecordName(Self.forms, "f-2"))?.isDeleted == true)
        #expect(try bench.hub.record(RecordName(Self.forms, "f-3"))?.isDeleted == true)
        // Unchanged fields keep their stamps over the slices of a set, too.
        #expect(try bench.hub.publish(Self.lines([#"{"id":"f-1","data":{"title":"B","n":1}}"#]), to: Self.forms, at: bench.now).count == 1)
        #expect(try bench.data(Self.forms, "f-1") == ["title": "B", "n": 1])
        let record = try #require(try bench.hub.record(RecordName(Self.forms, "f-1")))
        #expect(record.stamps[JSONString("title")]?.version == 2 && record.stamps[JSONString("n")]?.version == 6)
    }

    @Test("A fault in one line leaves nothing behind, and is named with the line of the file")
    func whole() throws {
        let bench = try HubBench()
        var reported: [HubError] = []
        bench.hub.report = { reported.append($0) }
        var text = (1...PublishedLines.recordsAtOnce + 50).map { Self.form($0) }
        let place = PublishedLines.recordsAtOnce + 20
        let large = String(repeating: "x", count: Limits.documentBytes)
        for (bad, expected) in [
            ("{", "byte 1"), (#"{"id":"a b","data":{}}"#, "with an id"), (#"{"id":"a","data":[]}"#, "data must be"),
            (#"{"id":"big","data":{"text":"\#(large)"}}"#, "forms/big: the document has"),
        ] {
            text[place] = bad
            let fault = Self.fault { _ = try bench.hub.publish(Self.lines(text, from: 101), to: Self.forms, at: bench.now) }
            #expect(fault?.line == 101 + place, "\(bad.prefix(40))")
            #expect(fault?.detail.contains(expected) == true, "\(fault?.detail ?? "")")
        }
        #expect(bench.hub.head == 0 && reported.isEmpty)
        #expect(try bench.follow(Self.forms).pages.flatMap(\.records).isEmpty)
        // The hub goes on.
        #expect(try bench.verdict(Sent("k-1", .create)).word == "accepted")
    }

    @Test("A set whose commit fails is not there")
    func failing() throws {
        let bench = try HubBench()
        bench.hub.beforeCommit = { false }
        #expect(throws: Hub.PublishFailure.self) {
            try bench.hub.publish(Self.lines([Self.form(1)]), to: Self.forms, at: bench.now)
        }
        bench.hub.beforeCommit = nil
        #expect(bench.hub.head == 0)
        #expect(try bench.hub.publish(Self.lines([Self.form(1)]), to: Self.forms, at: bench.now).head == 1)
    }

    @Test("Shared entities: a published record goes to the devices of its scopes, and leaves those that it had")
    func scopes() throws {
        var rules = EntityRules()
        rules.declaredScope = ["site"]
        let bench = try HubBench(rules: RuleBook([Self.forms: rules]))
        bench.hub.settings.access.devices[.one] = Grants(Scope("site", "s-1"))
        let lines = (1...10).map { #"{"id":"f-\#($0)","data":{"site":"s-\#($0 % 2)"}}"# }
        _ = try bench.hub.publish(Self.lines(lines), to: Self.forms, at: bench.now)
        let (pages, cursor) = try bench.follow(Self.forms)
        #expect(pages.flatMap(\.records).map(\.id.text) == ["f-1", "f-3", "f-5", "f-7", "f-9"])
        _ = try bench.hub.publish(Self.lines([#"{"id":"f-1","data":{"site":"s-2"}}"#]), to: Self.forms, at: bench.now)
        let later = try bench.follow(Self.forms, from: cursor).pages
        #expect(later.flatMap(\.deletions).map(\.id.text) == ["f-1"])
    }
}

@Suite("Lines to publish")
struct PublishedLinesTests {
    @Test("Slices end at their limits, and no line is lost between them")
    func slices() throws {
        let wide = String(repeating: "x", count: 300_000)
        let lines = (1...40).map { #"{"id":"f-\#($0)","data":{"text":"\#(wide)"}}"# }
        let published = PublishedLines(Array(lines.joined(separator: "\n").utf8))
        var place = published.start
        var numbers: [Int] = []
        while true {
            let slice = try published.next(from: &place)
            if slice.isEmpty { break }
            #expect(slice.count <= 14, "4 MiB at once")
            numbers += slice.map(\.number)
        }
        #expect(numbers == Array(1...40))
        try published.check()
    }

    @Test("The first fault is found wherever it stands")
    func check() {
        let text = String(repeating: #"{"id":"a","data":{}}"# + "\n", count: 2_345) + "nonsense"
        let fault = #expect(throws: PublishedLines.Fault.self) { try PublishedLines(Array(text.utf8), firstLine: 10).check() }
        #expect(fault?.line == 2_355)
    }
}
