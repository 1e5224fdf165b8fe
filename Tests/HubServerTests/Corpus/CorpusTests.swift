import HubServer
import SyncCore
import Testing

/// `deploy/api`: what a hub must answer, as examples and as a description, held against this hub and this agent.
@Suite("Corpus", .eachEngine)
struct CorpusTests {
    @Test("There are cases")
    func present() {
        #expect(CorpusCase.names.count >= 90)
    }

    @Test("The hub answers as the corpus says, and the agent reads in it what the corpus says", arguments: CorpusCase.names)
    func replay(_ name: String) throws {
        let example = try CorpusCase(named: name)
        var replay = try CorpusReplay(example.hub)
        let (answer, differences) = try replay.run(example)
        #expect(differences == [])
        guard let agent = example.agent else {
            // Nothing is left out by accident: what devices ask for is read, and nothing else.
            #expect(!example.request.path.hasPrefix("/v1/sync/"))
            return
        }
        let now = Timestamp(milliseconds: 1_795_208_400_000)
        #expect(try CorpusReading.lines(example.request.path, answer, now: now) == agent)
        if answer.status == 200 {
            let body = try JSONReader.read(answer.body, limits: .message)
            #expect(try CorpusReading.rewritten(example.request.path, answer.body) == body)
        }
    }

    @Test("A request that is served is what an agent's writer makes of it, or says no more than that", arguments: CorpusCase.names)
    func requests(_ name: String) throws {
        let example = try CorpusCase(named: name)
        guard example.request.path.hasPrefix("/v1/sync/"), example.response.status == 200,
            // A mutation that the hub cannot read is none that an agent makes.
            example.agent?.contains(where: { $0.hasSuffix("rejected, validation") || $0.hasSuffix("rejected, too-large") }) != true,
            let asked = try CorpusReading.asked(example.request)
        else { return }
        let body = try #require(example.request.body.map { Blanks().filled($0) })
        #expect(Self.missing(in: asked, from: body, "") == [])
    }

    /// What one JSON says and the other does not; members that only the second has are its own business.
    private static func missing(in whole: JSON, from part: JSON, _ place: String) -> [String] {
        switch (whole, part) {
        case (.object(let whole), .object(let part)):
            return part.members.flatMap { member in
                let name = member.name.text
                // Of what no agent sends, an example may show that it does no harm.
                guard name != "colour" else { return [String]() }
                guard let other = whole[name] else { return ["\(place)/\(name)"] }
                return missing(in: other, from: member.value, "\(place)/\(name)")
            }
        case (.array(let whole), .array(let part)) where whole.count == part.count:
            return whole.indices.flatMap { missing(in: whole[$0], from: part[$0], "\(place)/\($0)") }
        default: return whole == part ? [] : [place]
        }
    }

    // MARK: The description

    @Test("The reference describes what each case shows: path, method, status, header fields and content type", arguments: CorpusCase.names)
    func referenceDescribesEachCase(_ name: String) throws {
        let example = try CorpusCase(named: name)
        let document = try OpenAPIDocument.shared.get()
        let (path, method, status) = (example.request.path, example.request.method, example.response.status)
        guard let operation = document.operation(method, path) else {
            // Only what does not exist may be missing.
            #expect(status == 404 || status == 405)
            #expect(status != 404 || !document.paths.contains(path))
            return
        }
        let response = try #require(operation.responses[status], "\(method) \(path) \(status)")
        let type = example.response.headers["Content-Type"]?.text
        #expect(type.map { [$0] } ?? [] == response.contentTypes.filter { $0 == type })
        #expect((type == nil) == response.contentTypes.isEmpty)
        let fields = Set(example.response.headers.names).subtracting(["Content-Type"])
        #expect(fields.subtracting(response.headers) == [])
    }

    @Test("The hub serves each described path with the described methods and no other, and a case shows each operation and status")
    func hubServesWhatIsDescribedAndNoMore() throws {
        let document = try OpenAPIDocument.shared.get()
        let cases = try CorpusCase.names.map { try CorpusCase(named: $0) }
        let bench = try HubBench()
        #expect(document.paths.count == 14)
        for path in document.paths {
            let described = document.methods(path)
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
                let answer = bench.send(method, path)
                #expect((answer.status == 405) == !described.contains(method), "\(method) \(path)")
                #expect(answer.status != 404)
                if answer.status == 405 {
                    #expect(answer.headers["Allow"] == ["GET", "POST"].filter(described.contains).joined(separator: ", "))
                }
            }
            for method in described {
                #expect(
                    cases.contains { $0.request.path == path && $0.request.method == method && $0.response.status < 300 },
                    "\(method) \(path)")
                let responses = try #require(document.operation(method, path)).responses
                // 429 counts callers by address, before the hub is asked: the tests of strangers beside a device show it.
                for status in responses.keys where status != 429 {
                    #expect(cases.contains { $0.response.status == status }, "\(status)")
                }
            }
        }
    }
}
