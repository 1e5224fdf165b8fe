import LocalAPI
import SyncCore
import Testing

@Suite("Events") struct EventTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var stream: String
        /// `id|type|data`.
        var events: [String]
        var lastID: String?
        var testDescription: String { stream.debugDescription }

        init(_ stream: String, _ events: [String], lastID: String? = nil) {
            (self.stream, self.events, self.lastID) = (stream, events, lastID)
        }
    }

    static let cases: [Case] = [
        Case("id: 1\nevent: mutation\ndata: {}\n\n", ["1|mutation|{}"], lastID: "1"),
        Case("data:{}\n\n", ["-|message|{}"]),
        Case("data: a\ndata:  b\ndata\n\n", ["-|message|a\n b\n"]),
        Case(":\n\n: comment\n\ndata: x\n\n", ["-|message|x"]),
        Case("id: 1\ndata: a\n\ndata: b\n\n", ["1|message|a", "1|message|b"], lastID: "1"),
        Case("id: 1\n\n", [], lastID: "1"),
        Case("id: 1\ndata: a\n\nid: 2\n", ["1|message|a"], lastID: "1"),
        Case("id: 1\ndata: a\n\nid\ndata: b\n\n", ["1|message|a", "|message|b"], lastID: ""),
        Case("id: a\u{0}b\ndata: x\n\n", ["-|message|x"]),
        Case("event: x\n\ndata: y\n\n", ["-|message|y"]),
        Case("data: a\n", []),
        Case("data: a\r\ndata: b\r\r\n\n", ["-|message|a\nb"]),
        Case("\u{FEFF}data: a\n\n", ["-|message|a"]),
        Case("dat: a\nfoo\ndata: é日\n\n", ["-|message|é日"]),
        Case("event: overflow\ndata: {}\n\n", ["-|overflow|{}"]),
    ]

    @Test("A stream is read as the WHATWG algorithm reads it", arguments: cases)
    func reads(_ example: Case) {
        var parser = EventParser()
        #expect(parser.read(Array(example.stream.utf8)).map(shown) == example.events)
        #expect(parser.lastID == example.lastID)
    }

    @Test("It does not matter how the bytes are cut", arguments: cases)
    func anyCut(_ example: Case) {
        var random = SeededRandom(seed: 9)
        for _ in 0..<50 {
            var parser = EventParser()
            var events: [LocalEvent] = []
            var rest = Array(example.stream.utf8)[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...min(4, rest.count), using: &random)
                events += parser.read(rest.prefix(count))
                rest = rest.dropFirst(count)
            }
            #expect(events.map(shown) == example.events)
            #expect(parser.lastID == example.lastID)
        }
    }

    @Test("The client reads events back unchanged, in any pieces, for any payload")
    func clientReadsEventsInAnyPieces() {
        var random = SeededRandom(seed: 21)
        let alphabet = Array("{}\"\n\r: aé日\u{FEFF}\\data".unicodeScalars)
        for _ in 0..<300 {
            var stream = EventStream.start(at: 5)
            var expected: [LocalEvent] = []
            for id in 6..<12 {
                if Bool.random(using: &random) { stream += EventStream.keepAlive }
                var text = ""
                for _ in 0..<Int.random(in: 0..<20, using: &random) {
                    text.unicodeScalars.append(alphabet.randomElement(using: &random) ?? "x")
                }
                // JSON never holds a bare CR or LF; as a member of an object any text is fit to be sent.
                let data = JSON.object(["t": .string(text)]).bytes
                stream += EventStream.event(id: Int64(id), type: "record", data: data)
                expected.append(LocalEvent(id: String(id), type: "record", data: data))
            }
            var parser = EventParser()
            var events: [LocalEvent] = []
            var rest = stream[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...min(30, rest.count), using: &random)
                events += parser.read(rest.prefix(count))
                rest = rest.dropFirst(count)
            }
            #expect(events == expected)
            #expect(parser.lastID == "11")
        }
    }

    @Test("A payload over several lines stays one event")
    func lineFeeds() {
        var parser = EventParser()
        let events = parser.read(EventStream.event(id: 1, type: "x", data: "{\n\n}".utf8))
        #expect(events.map(shown) == ["1|x|{\n\n}"])
    }

    @Test("An event without end stops the parser before memory runs out")
    func bounded() {
        var parser = EventParser()
        let piece = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 20)
        for _ in 0..<4 { _ = parser.read(piece) }
        #expect(!parser.isBroken)
        _ = parser.read(piece)
        #expect(parser.isBroken)
        #expect(parser.read("\n\ndata: a\n\n".utf8).isEmpty)
    }

    @Test("The blocks look as documented")
    func frames() {
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        #expect(
            text(EventStream.event(id: 88_123, type: "mutation", data: "{\"id\":\"k\"}".utf8))
                == "id: 88123\nevent: mutation\ndata: {\"id\":\"k\"}\n\n")
        #expect(text(EventStream.keepAlive) == ":\n\n")
        #expect(text(EventStream.reset(id: 7)) == "id: 7\nevent: reset\ndata: {}\n\n")
        #expect(text(EventStream.overflow) == "event: overflow\ndata: {}\n\n")
        #expect(text(EventStream.start(at: 7)) == "id: 7\n\n")
    }

    @Test("A stream is resumed after a whole number, and after nothing else")
    func positions() throws {
        #expect(try EventStream.position(lastEventID: nil) == nil)
        #expect(try EventStream.position(lastEventID: "") == nil)
        #expect(try EventStream.position(lastEventID: "88123") == 88_123)
        for bad in ["-1", "+1", "1 ", "x", "9223372036854775808", "1.0"] {
            #expect(throws: Problem.self) { try EventStream.position(lastEventID: bad) }
        }
    }

    @Test("The payload of each event looks as documented")
    func payloads() {
        let name = RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a"))
        let problem = Problem("validation", status: 422, detail: "no")
        let table: [([UInt8], String)] = [
            (
                EventPayload.mutation(
                    MutationKey(trusted: "k"), seq: 402, state: .rejected, record: name, problem: problem, into: nil),
                #"{"id":"k","seq":402,"state":"rejected","entity":"audits","record_id":"a","problem":{"code":"validation","detail":"no"}}"#
            ),
            (
                EventPayload.record(name, isDeletion: false, isRemote: true, version: 9, status: .synced),
                #"{"entity":"audits","id":"a","change":"upsert","source":"remote","version":9,"sync_status":"synced"}"#
            ),
            (
                EventPayload.record(name, isDeletion: true, isRevoked: true, isRemote: true, version: 0, status: .synced),
                #"{"entity":"audits","id":"a","change":"delete","reason":"revoked","source":"remote","version":0,"sync_status":"synced"}"#
            ),
            (
                EventPayload.sync(
                    cycle: "c", phase: "ended", result: "ok", pulled: 1, pushed: 2, bytesUp: 3, bytesDown: 4),
                #"{"cycle":"c","phase":"ended","result":"ok","pulled":1,"pushed":2,"bytes":{"up":3,"down":4}}"#
            ),
            (
                EventPayload.connectivity(from: .offline, to: .online, cause: "probe_ok"),
                #"{"from":"offline","to":"online","cause":"probe_ok"}"#
            ),
            (
                EventPayload.connectivity(
                    from: .online, to: .captive, cause: "portal", portalURL: "https://login.example.net/"),
                #"{"from":"online","to":"captive","cause":"portal","portal_url":"https://login.example.net/"}"#
            ),
            (
                EventPayload.link(name: "wwan0", state: "down", cause: "carrier_lost"),
                #"{"name":"wwan0","state":"down","cause":"carrier_lost"}"#
            ),
            (
                EventPayload.power(PowerState(source: "battery", percent: 14, isDischarging: true, level: "low")),
                #"{"level":"low","percent":14,"source":"battery"}"#
            ),
            (
                EventPayload.power(PowerState(source: "mains")),
                #"{"level":"ample","percent":null,"source":"mains"}"#
            ),
            (EventPayload.policy(.bulk, .allow), #"{"class":"bulk","verdict":"allow"}"#),
            (
                EventPayload.policy(.normal, .defer(Deferral(.metered, until: time("2026-11-21T20:59:00Z")))),
                #"{"class":"normal","verdict":"defer","reason":"metered","until":"2026-11-21T20:59:00.000Z"}"#
            ),
            (
                EventPayload.config(version: 2, changed: ["sync.debounce"]),
                #"{"version":2,"changed":["sync.debounce"]}"#
            ),
            (
                EventPayload.attention(code: "disk_full", detail: "no space"),
                #"{"code":"disk_full","detail":"no space"}"#
            ),
        ]
        for (bytes, text) in table { #expect(String(decoding: bytes, as: UTF8.self) == text) }
    }

    private func shown(_ event: LocalEvent) -> String {
        "\(event.id ?? "-")|\(event.type)|\(String(decoding: event.data, as: UTF8.self))"
    }
}
