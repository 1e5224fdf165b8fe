import HubServer
import SyncCore
import Testing

/// PROTOCOL A16 against a device that asks for everything: no byte of another scope comes back, and no answer and no work of the database
/// tells what is another device's from what never was.
@Suite("Scopes: an attacker with one device's token", .eachEngine)
struct AttackerTests {
    /// A new token is the attacker's own, and another one at each request.
    private static let ofOneDevice: Set<Endpoint> = [.token]

    @Test("Every method of every route is tried")
    func complete() throws {
        let stand = try AttackerStand()
        for endpoint in Endpoint.allCases {
            let tried = Set(stand.requests(endpoint, about: stand.theirs).map(\.method))
            #expect(tried.isSuperset(of: endpoint.methods), "\(endpoint.rawValue)")
        }
    }

    // MARK: Answers

    @Test("No answer has an id, a value, a field, a key, a file or a digest of the victim", arguments: Endpoint.allCases)
    func nothing(_ endpoint: Endpoint) throws {
        let stand = try AttackerStand()
        var asked = stand.requests(endpoint, about: stand.theirs)
        if endpoint == .push { asked.append(stand.creation(stand.theirs)) }
        var written = ""
        for request in asked {
            let found = Self.canaries(in: stand.answer(request), to: request, after: written, stand)
            #expect(found.isEmpty, "\(request.what)")
            // The attacker's own records hold what it has written.
            if endpoint == .push { written += String(decoding: request.body, as: UTF8.self) }
        }
    }

    @Test("The search finds a canary wherever it is")
    func finds() throws {
        let stand = try AttackerStand()
        let request = AttackerStand.Asked(what: "a page of the victim", method: "GET", target: "/")
        let places = [
            HubResponse(status: 200, body: Array("{\"id\":\"canary-record-1\"}".utf8)),
            HubResponse(status: 200, headers: ["Sync-Receipt": "canary-gw"]),
            HubResponse(status: 200, body: Array("{\"cursor\":\"\(Base64URL.encode(Array("3/e/canary-record-1/".utf8)))\"}".utf8)),
            HubResponse(status: 200, headers: ["Repr-Digest": stand.theirs.digest]),
            HubResponse(status: 200, headers: ["Repr-Digest": BlobDigest(hex: stand.theirs.digest)?.field ?? ""]),
            HubResponse(status: 200, headers: ["Location": "/v1/files/" + stand.theirs.upload]),
        ]
        for place in places { #expect(!Self.canaries(in: place, to: request, stand).isEmpty, "\(place)") }
    }

    /// The canaries of an answer, as text or inside a text in base64url, but for names that the attacker itself has shown.
    private static func canaries(
        in response: HubResponse, to asked: AttackerStand.Asked, after written: String = "", _ stand: AttackerStand
    ) -> [String] {
        let shown = written + asked.target + asked.headers.map { " \($0.0) \($0.1)" }.joined() + String(decoding: asked.body, as: UTF8.self)
        var text = response.headers.fields.map { "\($0.name): \($0.value)\n" }.joined() + String(decoding: response.body, as: UTF8.self)
        for name in stand.theirs.names where shown.contains(name) { text = text.replacing(name, with: "") }
        let digest = stand.theirs.digest
        let field = BlobDigest(hex: digest)?.field ?? ""
        let words = [AttackerStand.canary, stand.theirs.upload] + (shown.contains(digest) ? [] : [digest, field])
        var parts = [text]
        for part in text.split(whereSeparator: { !$0.isASCII || !($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }) {
            if let bytes = Base64URL.decode(String(part)) { parts.append(String(decoding: bytes, as: UTF8.self)) }
        }
        return words.filter { word in !word.isEmpty && parts.contains { $0.contains(word) } }
    }

    @Test("No cursor brings anything of the victim, whichever of its letters is changed")
    func cursors() throws {
        let stand = try AttackerStand()
        // Every letter on SQLite; a round trip for each would only repeat that elsewhere.
        let step = Engine.current == .sqlite ? 1 : 16
        for cursor in [stand.cursor, stand.olderCursor, stand.theirs.cursor, stand.theirs.start] {
            #expect(!cursor.isEmpty)
            let letters = Array(cursor)
            for place in stride(from: 0, to: letters.count, by: step) {
                var changed = letters
                changed[place] = letters[place] == "A" ? "B" : "A"
                let body: JSON = ["streams": [["entity": "work_orders", "cursor": .string(String(changed))]], "limit": 500]
                let request = stand.post("a changed cursor", "/v1/sync/pull", body)
                let response = stand.answer(request)
                let found = Self.canaries(in: response, to: request, stand)
                #expect(found.isEmpty, "letter \(place)")
                let pages = try PullMessages.readResponse(response.body)
                #expect(pages.pages.isEmpty && pages.errors.first?.problem.status == 410, "letter \(place)")
            }
        }
    }

    // MARK: Equal answers

    @Test("An answer about what is the victim's and one about what never was are the same bytes", arguments: Endpoint.allCases)
    func alike(_ endpoint: Endpoint) throws {
        if Self.ofOneDevice.contains(endpoint) { return }
        let (one, other) = (try AttackerStand(), try AttackerStand())
        let asked = zip(one.requests(endpoint, about: one.theirs), other.requests(endpoint, about: other.nobodys))
        for (theirs, nobodys) in asked {
            #expect(theirs.what == nobodys.what || endpoint == .snapshot)
            let (seen, expected) = (one.answer(theirs), other.answer(nobodys))
            #expect(Self.faceless(seen, one.theirs.names) == Self.faceless(expected, other.nobodys.names), "\(theirs.what)")
        }
    }

    @Test(
        "The figures of all devices are at no path: the answer is that of a path that is not there, and costs as little",
        arguments: ["GET", "POST", "HEAD"])
    func figures(_ method: String) throws {
        let stand = try AttackerStand()
        let seen = stand.answer(AttackerStand.Asked(what: "figures", method: method, target: "/metrics"))
        let expected = stand.answer(AttackerStand.Asked(what: "no path", method: method, target: "/nothing"))
        #expect(seen.status == 404 && Self.faceless(seen, []) == Self.faceless(expected, []))
        #expect(stand.log.take().isEmpty)
    }

    private static func faceless(_ response: HubResponse, _ names: [String]) -> String {
        let fields = response.headers.fields.map { "\($0.name): \($0.value)" }.sorted().joined(separator: "\n")
        var text = "\(response.status)\n\(fields)\n\(String(decoding: response.body, as: UTF8.self))"
        for (place, name) in names.enumerated() { text = text.replacing(name, with: "NAME-\(name.utf8.count)-\(place)") }
        return text
    }

    @Test("The database does the same for what is the victim's and for what never was", arguments: Endpoint.allCases)
    func work(_ endpoint: Endpoint) throws {
        if Self.ofOneDevice.contains(endpoint) { return }
        let (one, other) = (try AttackerStand(), try AttackerStand())
        let asked = zip(one.requests(endpoint, about: one.theirs), other.requests(endpoint, about: other.nobodys))
        for (theirs, nobodys) in asked {
            _ = (one.answer(theirs), other.answer(nobodys))
            let (seen, expected) = (one.log.take(), other.log.take())
            #expect(Self.comparable(seen, at: endpoint) == Self.comparable(expected, at: endpoint), "\(theirs.what)")
        }
    }

    /// A change looks its record up by the id, and finds the row or none. The existence of a row is no secret, as a create with that id
    /// tells it by design (PROTOCOL A16). Only ids that cannot be guessed hide it.
    private static func comparable(_ entries: [WorkLog.Entry], at endpoint: Endpoint) -> [WorkLog.Entry] {
        entries.map { entry in
            var entry = entry
            if endpoint == .push, entry.sql.contains("FROM record WHERE entity") { entry.rows = 0 }
            return entry
        }
    }
}
