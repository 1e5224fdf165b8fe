import LocalAPI
import SyncCore
import Testing

@Suite("Bodies of an enqueue") struct EnqueueBodyTests {
    @Test("A body is one mutation, or an atomic list of up to 50")
    func readsBoth() throws {
        let one = #"{"entity":"e","action":"create"}"#
        #expect(try EnqueueBody.read(Array(one.utf8)) == .one(MutationBody.read(Array(one.utf8))))
        let list = #"{"atomic":true,"mutations":[\#(Array(repeating: one, count: 50).joined(separator: ","))]}"#
        guard case .atomic(let mutations) = try EnqueueBody.read(Array(list.utf8)) else {
            Issue.record("the list was read as one mutation")
            return
        }
        #expect(mutations.count == 50)
        #expect(mutations.allSatisfy { $0.size == one.utf8.count })
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

    @Test(
        "A list that is not one is refused as a whole, with the place inside it",
        arguments: [
            Bad(#"{"atomic":true}"#, .malformed, "/mutations"),
            Bad(#"{"atomic":true,"mutations":{}}"#, .malformed, "/mutations"),
            Bad(#"{"atomic":true,"mutations":[]}"#, .validation, "/mutations"),
            Bad(#"{"atomic":false,"mutations":[{"entity":"e","action":"create"}]}"#, .validation, "/atomic"),
            Bad(#"{"mutations":[{"entity":"e","action":"create"}]}"#, .validation, "/atomic"),
            Bad(#"{"atomic":1,"mutations":[{"entity":"e","action":"create"}]}"#, .malformed, "/atomic"),
            Bad(
                #"{"atomic":true,"mutations":[{"entity":"e","action":"create"}],"entity":"e"}"#, .unknownMember,
                "/entity"),
            Bad(
                #"{"atomic":true,"mutations":[{"entity":"e","action":"create"},{"entity":"e"}]}"#, .malformed,
                "/mutations/1/action"),
            Bad(
                #"{"atomic":true,"mutations":[{"entity":"e","action":"create","x":1}]}"#, .unknownMember,
                "/mutations/0/x"),
            Bad(#"{"atomic":true,"mutations":[7]}"#, .malformed, "/mutations/0"),
            Bad(
                #"{"atomic":true,"mutations":["#
                    + Array(repeating: #"{"entity":"e","action":"create"}"#, count: 51).joined(separator: ",") + "]}",
                .validation, "/mutations"),
        ])
    func refuses(_ example: Bad) throws {
        let problem = try #require(throws: Problem.self) { try EnqueueBody.read(Array(example.body.utf8)) }
        #expect(problem.code == example.code.rawValue)
        #expect(problem.errors.contains { $0.pointer == example.pointer }, "\(problem.errors)")
    }

    @Test("A document may nest to 32 levels wherever it stands: alone, in a list, in a line")
    func nesting() throws {
        let deep = String(repeating: #"{"a":"#, count: 32) + "1" + String(repeating: "}", count: 32)
        let one = #"{"entity":"e","action":"create","data":\#(deep)}"#
        #expect(throws: Never.self) { try EnqueueBody.read(Array(one.utf8)) }
        #expect(throws: Never.self) { try EnqueueBody.read(Array(#"{"atomic":true,"mutations":[\#(one)]}"#.utf8)) }
        #expect(throws: Never.self) { try BulkLine.read(Array(one.utf8)).mutation.get() }
    }

    // MARK: Conditions

    private static let update = #"{"entity":"e","record_id":"r","action":"update","data":{}}"#

    @Test(
        "If-Match of the request and if_match of the body say the same",
        arguments: [
            (#""7.4.9f3a-12.41""#, ["7.4.9f3a-12.41"]), (#"W/"7.4.9f3a-12.41""#, ["7.4.9f3a-12.41"]),
            ("7.4.9f3a-12.41", ["7.4.9f3a-12.41"]),
            (#" "a", W/"b" ,c "#, ["a", "b", "c"]), ("*", []),
        ])
    func conditions(_ text: String, _ tags: [String]) throws {
        guard case .one(let mutation) = try EnqueueBody.read(Array(Self.update.utf8)).matching(header: text) else {
            Issue.record("it was read as a list")
            return
        }
        #expect(mutation.ifMatch?.tags == tags)
        let again = try MutationBody.read(MutationBody.bytes(mutation))
        #expect(again.ifMatch == mutation.ifMatch)
    }

    @Test(
        "A condition that cannot hold for what it comes with is refused, and never passed over",
        arguments: [
            (update, "", "etag"), (update, "a b", "etag"), (update, #""a"b""#, "etag"),
            (update, String(repeating: "a", count: 121), "etag"),
            (update, Array(repeating: "a", count: 17).joined(separator: ","), "etag"),
            (#"{"entity":"e","record_id":"r","action":"update","data":{},"if_match":"a"}"#, #""a""#, "twice"),
            (#"{"entity":"e","action":"create"}"#, "*", "create"), (#"{"atomic":true,"mutations":[\#(update)]}"#, "*", "list"),
        ])
    func badConditions(_ body: String, _ header: String, _ says: String) throws {
        let problem = try #require(throws: Problem.self) { try EnqueueBody.read(Array(body.utf8)).matching(header: header) }
        #expect(problem.code == LocalProblem.malformed.rawValue && problem.detail.contains(says), "\(problem.detail)")
    }

    @Test("The same key with another condition is another request")
    func conditionInKey() throws {
        let body = Array(Self.update.utf8)
        func digest(_ condition: String?) throws -> [UInt8]? {
            try EnqueueBody.appKey(header: "k", body: body, condition: condition)?.fingerprint
        }
        #expect(try Set([digest(nil), digest("a"), digest("b")]).count == 3)
    }

    @Test(
        "A tag holds by its first part, which the hub's confirmation leaves alone",
        arguments: [
            (#""7.4.9f3a-12.41""#, #""7.4.9f3a-12.41""#, true), (#""7.4.9f3a-12.41""#, #""7.4.9f3a-13.44""#, true),
            (#""7.4.9f3a-12.41""#, #""7.5.9f3a-12.41""#, false), (#""7.4.9f3a-12.41""#, #""7.4.9f3b-12.41""#, false),
            (#""8.4.9f3a-12.41""#, #""7.4.9f3a-12.41""#, false), ("*", #""7.4.9f3a-12.41""#, true), ("*", nil, false),
            (#""7.4.9f3a-12.41""#, nil, false), (#""1", "7.4.9f3a""#, #""7.4.9f3a-12.41""#, true),
        ])
    func holds(_ condition: String, _ present: String?, _ isGood: Bool) throws {
        #expect(try #require(EntityTags(condition)).accepts(present) == isGood)
    }

    @Test("A refused condition is 412 with the record's present tag in its header, and the body says how to go on")
    func failed() throws {
        let problem = LocalProblem.preconditionFailed.problem("changed", members: ["etag": #""7.5.9f3a-12.41""#, "version": 12])
        let answer = problem.localAnswer
        #expect(answer.status == 412 && answer.headers["ETag"] == #""7.5.9f3a-12.41""#)
        #expect(LocalProblem.hint(problem).contains("etag") && LocalProblem.preconditionFailed.exitStatus == 1)
        #expect(LocalProblem.preconditionFailed.problem("gone", members: ["etag": .null]).localAnswer.headers["ETag"] == nil)
    }

    @Test("A file that is still shown names the next command")
    func linked() {
        let problem = LocalProblem.linked.problem("shown", members: ["blob": "b-31"])
        #expect(LocalProblem.hint(problem).contains("agentctl blobs remove b-31 --force"))
        #expect(LocalProblem.hint(LocalProblem.linked.problem("shown", members: ["blob": "b-\u{1B}[2J"])).contains("\u{1B}") == false)
    }

    @Test("A key of visible ASCII comes with the digest of its body; without a header there is none")
    func keys() throws {
        let body = Array("{}".utf8)
        #expect(try EnqueueBody.appKey(header: nil, body: body) == nil)
        let first = try EnqueueBody.appKey(header: "insp-7781", body: body)
        #expect(first?.key == "insp-7781")
        // SHA-256 of "{}" is 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a.
        #expect(
            first?.fingerprint == [
                0x44, 0x13, 0x6F, 0xA3, 0x55, 0xB3, 0x67, 0x8A, 0x11, 0x46, 0xAD, 0x16, 0xF7, 0xE8, 0x64, 0x9E,
            ])
        #expect(try EnqueueBody.appKey(header: String(repeating: "k", count: 255), body: body) != nil)
    }

    @Test(
        "A key that is empty, too long or not visible ASCII is refused",
        arguments: [
            "", " ", "a b", "a\u{7F}", "é", String(repeating: "k", count: 256), String(repeating: "k", count: 10_240),
        ])
    func badKeys(_ key: String) throws {
        let problem = try #require(throws: Problem.self) { try EnqueueBody.appKey(header: key, body: []) }
        #expect(problem.code == "malformed")
        let line = BulkLine.read(
            Array(#"{"entity":"e","action":"create","idempotency_key":\#(JSON.string(key).json)}"#.utf8))
        #expect(throws: Problem.self) { try line.mutation.get() }
    }

    @Test("A line carries its sender's name for it and its key")
    func readsLine() throws {
        let bytes = Array(
            #"{"ref":"17","idempotency_key":"imp-17","entity":"e","action":"create","data":{"v":1}}"#.utf8)
        let line = BulkLine.read(bytes)
        #expect(line.ref == "17")
        #expect(line.appKey?.key == "imp-17")
        #expect(try line.mutation.get().data == ["v": 1])
        #expect(try line.mutation.get().size == bytes.count)
        #expect(BulkLine.read(Array(#"{"ref":17,"entity":"e","action":"create"}"#.utf8)).ref == 17)
    }

    @Test("The same line has the same fingerprint, another line under the same key another")
    func fingerprints() {
        let one = BulkLine.read(Array(#"{"idempotency_key":"k","entity":"e","action":"create","data":{"v":1}}"#.utf8))
        let same = BulkLine.read(Array(#"{"idempotency_key":"k","entity":"e","action":"create","data":{"v":1}}"#.utf8))
        let other = BulkLine.read(Array(#"{"idempotency_key":"k","entity":"e","action":"create","data":{"v":2}}"#.utf8))
        #expect(one.appKey == same.appKey)
        #expect(one.appKey != other.appKey)
    }

    @Test("A bad line is an answer that keeps its name where it could be read")
    func badLines() throws {
        func code(_ line: BulkLine) -> String? {
            if case .failure(let problem) = line.mutation { problem.code } else { nil }
        }
        let typo = BulkLine.read(Array(#"{"ref":"18","entity":"e","action":"create","dta":{}}"#.utf8))
        #expect(typo.ref == "18")
        #expect(code(typo) == "unknown-member")
        #expect(code(BulkLine.read(Array("{".utf8))) == "malformed")
        #expect(code(BulkLine.read(Array("7".utf8))) == "malformed")
        #expect(code(BulkLine.read(Array(#"{"ref":[],"entity":"e","action":"create"}"#.utf8))) == "malformed")
        #expect(code(BulkLine.read([UInt8](repeating: 0x20, count: (128 << 10) + 1))) == "too-large")
    }

    @Test("The agent reads a line that the client writes back unchanged")
    func lineRoundTrips() throws {
        var mutation = NewMutation(
            .upsert, EntityName(trusted: "e"), RecordID(trusted: "r"), data: ["v": exactly("1.50")])
        let bytes = BulkLine.bytes(mutation, ref: .int(3), key: "k3")
        #expect(bytes.last == UInt8(ascii: "\n"))
        let line = BulkLine.read(Array(bytes.dropLast()))
        mutation.size = bytes.count - 1
        #expect(line.ref == 3)
        #expect(line.appKey?.key == "k3")
        #expect(try line.mutation.get() == mutation)
    }
}
