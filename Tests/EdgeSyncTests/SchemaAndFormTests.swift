import EdgeSync
import Testing

/// The versions in which an app writes and reads, and the answers of the agent about forms.
@Suite("Versions of schemas, and forms", .timeLimit(.minutes(10)))
struct SchemaAndFormTests {
    private func client(_ agent: FakeAgent, schemas: [String: Int] = [:]) throws(EdgeSyncError) -> AgentClient {
        try AgentClient(
            socket: agent.path, schemas: schemas, deadline: .seconds(30), policy: RetryPolicy(), environment: TestTime().environment)
    }

    private static let judged =
        #"{"entity":"audits","id":"a-1","says_complete":false,"form":{"id":"doors","version":"1","state":"judged"},"questions":3,"#
        + #""answered":1,"required":3,"missing":2,"percent":33,"title":"Fire doors","complete":false,"sections":[{"id":"doors","title":"#
        + #""Doors","applies":true,"questions":3,"answered":1,"required":3,"missing":2,"percent":33},{"id":"roof","applies":false,"#
        + #""questions":0,"answered":0,"required":0,"missing":0,"percent":100}],"holes":[{"pointer":"/reason","detail":"is required"},"#
        + #"{"pointer":"/photos","detail":"is required"}],"faults":[{"pointer":"/closes","detail":"is no choice"}],"newer":1}"#

    // MARK: Versions

    @Test("Every request names the versions of the app, sorted by the entity, besides its own fields")
    func header() async throws {
        let line = #"{"line":1,"id":"m-3","state":"pending"}"# + "\n" + #"{"summary":{"accepted":1,"failed":0}}"# + "\n"
        let file = "HTTP/1.1 200 OK\r\nRepr-Digest: sha-256=:LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE=:\r\nContent-Length: 1\r\n\r\nx"
        let agent = try FakeAgent([
            .receipt("m-1"), .problem(503, "busy"), .json(200, Self.judged), .json(200, #"{"items":[],"next":null}"#),
            .answer("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: \(line.utf8.count)\r\n\r\n\(line)"),
            .feed(FakeAgent.Step.record(8, "a")), .answer(file),
        ])
        let client = try client(agent, schemas: ["sites": 12, "audits": 1, "Z": 1_000_000])
        _ = try await client.enqueue(.update("audits", "a-1", ["n": 1]))
        _ = try await client.progress("audits", "a-1")
        _ = try await client.records(Query("audits")).all()
        _ = try await client.enqueue(contentsOf: [.update("audits", "a-1", ["n": 1])])
        for try await _ in client.follow(after: FeedEvent.Position(rawValue: 7)) { break }
        #expect(try await client.bytes(of: "b-1") == [UInt8(ascii: "x")])
        #expect(agent.requests.count == 7)
        #expect(Set(agent.requests.map { $0.fields["schema"] }) == ["Z=1000000, audits=1, sites=12"])
        #expect(agent.requests[0].fields["idempotency-key"] == "key-1" && agent.requests[5].fields["last-event-id"] == "7")
    }

    @Test("An app that names no version sends no field")
    func without() async throws {
        let agent = try FakeAgent([.receipt("m-1")])
        _ = try await client(agent).enqueue(.update("e", "r", ["n": 1]))
        #expect(agent.requests[0].fields["schema"] == nil)
    }

    @Test(
        "A name or a version that the agent could not read is refused before there is a client",
        arguments: [
            ["audits": 0], ["audits": -1], ["audits": 1_000_001], ["": 1], ["a=b": 1], ["a,b": 1], ["a b": 1], ["audits\r\nX: y": 1],
            ["é": 1], [String(repeating: "a", count: 65): 1], Dictionary(uniqueKeysWithValues: (0...100).map { ("e-\($0)", 1) }),
        ])
    func odd(_ schemas: [String: Int]) {
        #expect {
            _ = try AgentClient(socket: "/tmp/none.sock", schemas: schemas)
        } throws: { ($0 as? EdgeSyncError)?.kind == .invalidArgument }
    }

    @Test("The longest names and the largest versions fit into one head")
    func longest() async throws {
        let agent = try FakeAgent([.receipt("m-1")])
        let schemas = (0..<100).map { (String(repeating: "a", count: 61) + String($0 + 100), 1_000_000) }
        _ = try await client(agent, schemas: Dictionary(uniqueKeysWithValues: schemas)).enqueue(.delete("e", "r"))
        #expect(agent.requests[0].fields["schema"].map { (7_000...8_192).contains($0.utf8.count) } == true)
    }

    @Test("A mutation may name its own version, also in a list and in lines")
    func ownVersion() async throws {
        let list = #"{"results":[{"id":"m-2","seq":2,"state":"pending","form":"absent","record":{"entity":"e","id":"r"}}]}"#
        let line = #"{"line":1,"id":"m-3","state":"pending"}"# + "\n" + #"{"summary":{"accepted":1,"failed":0}}"# + "\n"
        let agent = try FakeAgent([
            .receipt("m-1"), .json(201, list),
            .answer("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: \(line.utf8.count)\r\n\r\n\(line)"),
        ])
        let client = try client(agent)
        var mutation = Mutation.update("e", "r", ["n": 1])
        mutation.schema = 3
        #expect(try await client.enqueue(mutation).form == nil)
        #expect(try await client.enqueueAtomic([mutation]).map(\.form) == [.absent])
        _ = try await client.enqueue(contentsOf: [mutation])
        let body = #""entity":"e","record_id":"r","action":"update","data":{"n":1},"schema":3}"#
        #expect(agent.requests[0].body == "{" + body && agent.requests.allSatisfy { $0.body.contains(body) })
    }

    @Test("A version that the agent does not accept is a refusal with the pointer to it")
    func refused() async throws {
        let agent = try FakeAgent([
            .problem(422, "validation", members: #","errors":[{"pointer":"/schema","detail":"version 9 is newer than 2"}]"#)
        ])
        let client = try client(agent, schemas: ["audits": 9])
        do {
            _ = try await client.record("audits", "a-1")
            Issue.record("the refusal is no error")
        } catch {
            #expect(error.kind == .refused && error.code == .validation && error.status == 422)
            #expect(error.fields.map(\.pointer) == ["/schema"] && error.fields.map(\.detail) == ["version 9 is newer than 2"])
        }
    }

    // MARK: Forms

    @Test("A receipt says why no form has judged the change, also in the words of a newer agent")
    func receipt() async throws {
        let words = ["absent", "unusable", "newer"]
        let agent = try FakeAgent(
            words.map { .json(201, #"{"id":"m-1","seq":1,"state":"pending","form":"\#($0)","record":{"entity":"e","id":"r"}}"#) })
        let client = try client(agent)
        var forms: [FormState?] = []
        for _ in words { forms.append(try await client.enqueue(.update("e", "r", ["n": 1])).form) }
        #expect(forms == [.absent, .unusable, FormState(rawValue: "newer")])
    }

    @Test("The progress of a record has the numbers in all and by section, and the places where something is missing or wrong")
    func progress() async throws {
        let agent = try FakeAgent([.json(200, Self.judged)])
        let progress = try await client(agent).progress("audits", "a-1")
        #expect(agent.requests[0].line == "GET /v1/records/audits/a-1/progress HTTP/1.1")
        #expect(progress.entity == "audits" && progress.id == "a-1" && progress.title == "Fire doors")
        #expect(progress.form.state == .judged && progress.form.id == "doors" && progress.form.version == "1")
        #expect(progress.form.reason == nil && !progress.saysComplete && progress.isComplete == false && progress.percent == 33)
        let counts = try #require(progress.counts)
        #expect(counts.questions == 3 && counts.answered == 1 && counts.required == 3 && counts.missing == 2)
        #expect(progress.sections.map(\.id) == ["doors", "roof"] && progress.sections.map(\.title) == ["Doors", nil])
        #expect(progress.sections.map(\.applies) == [true, false] && progress.sections.map(\.counts.percent) == [33, 100])
        #expect(progress.holes.map(\.pointer) == ["/reason", "/photos"] && progress.faults.map(\.detail) == ["is no choice"])
        #expect(progress.raw["newer"] == 1)
    }

    @Test("A record that no form has judged has no numbers")
    func unjudged() async throws {
        let agent = try FakeAgent([
            .json(200, #"{"entity":"audits","id":"a-1","says_complete":true,"form":{"state":"none"}}"#),
            .json(
                200,
                #"{"entity":"audits","id":"a-1","says_complete":true,"form":{"id":"doors","state":"absent","reason":"it is not here"}}"#),
        ])
        let client = try client(agent)
        let none = try await client.progress("audits", "a-1")
        #expect(none.form.state == .unnamed && none.form.id == nil && none.form.reason == nil && none.saysComplete)
        #expect(none.counts == nil && none.percent == nil && none.isComplete == nil && none.sections.isEmpty && none.holes.isEmpty)
        let absent = try await client.progress("audits", "a-1")
        #expect(absent.form.state == .absent && absent.form.id == "doors" && absent.form.version == nil)
        #expect(absent.form.reason == "it is not here")
    }

    @Test("An answer that lacks something is told with its place")
    func lacking() async throws {
        let bodies = [
            "{}", #"{"entity":"e","id":"r","says_complete":true}"#, #"{"entity":"e","id":"r","says_complete":true,"form":{}}"#,
            #"{"entity":"e","id":"r","form":{"state":"none"}}"#,
            #"{"entity":"e","id":"r","says_complete":true,"form":{"state":"judged"},"questions":1}"#,
            #"{"entity":"e","id":"r","says_complete":true,"form":{"state":"judged"},"questions":"1"}"#,
        ]
        let agent = try FakeAgent(bodies.map { .json(200, $0) })
        let client = try client(agent)
        for body in bodies {
            do {
                _ = try await client.progress("e", "r")
                Issue.record("\(body) was read")
            } catch {
                #expect(error.kind == .badAnswer && error.detail.hasPrefix("the answer/"), "\(error)")
            }
        }
    }
}
