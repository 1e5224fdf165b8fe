import LocalAPI
import SyncCore
import Testing

@Suite("An import") struct ImportEncoderTests {
    private func plan(
        _ format: ImportPlan.Format = .csv, idColumn: String? = nil, idPrefix: String? = nil, keyPrefix: String? = nil,
        action: NewMutation.Action = .create
    ) -> ImportPlan {
        ImportPlan(
            EntityName(trusted: "readings"), format, action: action, idColumn: idColumn, idPrefix: idPrefix,
            keyPrefix: keyPrefix, priority: .bulk, ttl: .seconds(60))
    }

    private func encode(_ plan: ImportPlan, _ text: String) -> (lines: [JSON], failures: [String], fault: String?) {
        var encoder = ImportEncoder(plan)
        var (bytes, failures) = encoder.read(Array(text.utf8))
        let (last, more) = encoder.finish()
        bytes += last
        failures += more
        let lines = bytes.split(separator: UInt8(ascii: "\n")).compactMap { try? JSONReader.read(Array($0)) }
        return (lines, failures.map { "\($0.line): \($0.problem.detail)" }, encoder.headerFault?.detail)
    }

    @Test("A row becomes a mutation with the columns as members, numbers digit for digit")
    func csv() throws {
        let result = encode(plan(idPrefix: "t-", keyPrefix: "imp-"), "timestamp,value\n2026-01-01 00:00:00,1.10\n")
        #expect(
            result.lines.map(\.json) == [
                #"{"ref":2,"idempotency_key":"imp-2","entity":"readings","record_id":"t-1","action":"create","#
                    + #""data":{"timestamp":"2026-01-01 00:00:00","value":1.10},"priority":"bulk","ttl":60}"#
            ])
        #expect(result.failures.isEmpty && result.fault == nil)
    }

    @Test("The agent reads an imported line as it was meant")
    func isReadable() throws {
        let result = encode(plan(idColumn: "id", action: .upsert), "id,v\nx-1,7\n")
        let line = BulkLine.read(try #require(result.lines.first).bytes)
        let mutation = try line.mutation.get()
        #expect(mutation.recordID?.text == "x-1")
        #expect(mutation.action == .upsert)
        #expect(mutation.data == ["id": "x-1", "v": 7])
        #expect(line.appKey == nil)
    }

    struct Field: Sendable {
        var text: String
        var json: String

        init(_ text: String, _ json: String) { (self.text, self.json) = (text, json) }
    }

    @Test(
        "A field is a number exactly when JSON says so, else text; quotes make it text",
        arguments: [
            Field("0", "0"), Field("-0", "-0"), Field("1.10", "1.10"), Field("9007199254740993", "9007199254740993"),
            Field("1e999", "1e999"), Field("-1.5E-3", "-1.5E-3"), Field("007", "\"007\""), Field("+1", "\"+1\""),
            Field(".5", "\".5\""), Field("1.", "\"1.\""), Field("1_000", "\"1_000\""), Field("0x10", "\"0x10\""),
            Field("NaN", "\"NaN\""), Field("true", "\"true\""), Field("null", "\"null\""), Field(" 1", "\" 1\""),
            Field("1 ", "\"1 \""), Field("", "\"\""), Field("\"7\"", "\"7\""), Field("2026-01-01", "\"2026-01-01\""),
            Field("1\t", "\"1\\t\""),
        ])
    func fields(_ example: Field) {
        let result = encode(plan(), "a,b\n\(example.text),x\n")
        #expect(result.lines.first?.object?["data"]?.object?["a"]?.json == example.json)
    }

    @Test("A bad row fails alone and with its line; the numbers of the others stay")
    func badRows() {
        let result = encode(plan(idPrefix: "r"), "a,b\n1,2\n3\n4,5,6\n7,\"x\"y\n8,9\n")
        #expect(result.lines.map { $0.object?["record_id"]?.text } == ["r1", "r5"])
        #expect(result.lines.map { $0.object?["ref"] } == [2, 6])
        #expect(result.failures.map { String($0.prefix(2)) } == ["3:", "4:", "5:"])
        #expect(result.failures.first == "3: the row has 1 field, the header 2")
    }

    @Test(
        "A bad header stops the import with its reason",
        arguments: [
            ("", "no header"), ("\n", "no header"), ("a,a\n", "two columns are named a"), ("a,,b\n", "no name"),
            ("\"a\n", "cannot be read"),
            ("timestmp,value\n1,2\n", "did you mean timestmp?"),
        ])
    func badHeaders(_ text: String, _ says: String) {
        let result = encode(plan(idColumn: "timestamp"), text)
        #expect(result.lines.isEmpty)
        #expect(result.fault?.contains(says) == true, "\(result.fault ?? "no fault")")
    }

    @Test("Bytes that are not UTF-8, and NUL, fail their row")
    func badText() {
        var encoder = ImportEncoder(plan())
        let (lines, failures) = encoder.read(Array("a\n".utf8) + [0xFF, 0x0A, 0x61, 0x00, 0x0A, 0x62, 0x0A])
        #expect(failures.map(\.line) == [2, 3])
        #expect(lines.split(separator: UInt8(ascii: "\n")).count == 1)
    }

    @Test("NDJSON passes its documents on as they are; the id comes from a member")
    func ndjson() {
        let text =
            #"{"id":"a","n":1.10}"# + "\n\n" + #"{"id":5,"s":"\u00e9"}"# + "\r\n" + #"{"n":1}"# + "\n[1]\n{\n"
            + #"{"id":"z"}"#
        let result = encode(plan(.ndjson, idColumn: "id", idPrefix: "p-", keyPrefix: "k"), text)
        #expect(result.lines.map { $0.object?["record_id"]?.text } == ["p-a", "p-5", "p-z"])
        #expect(
            result.lines.map { $0.object?["data"]?.json } == [
                #"{"id":"a","n":1.10}"#, #"{"id":5,"s":"\u00e9"}"#, #"{"id":"z"}"#,
            ])
        #expect(result.lines.map { $0.object?["idempotency_key"]?.text } == ["k1", "k3", "k7"])
        #expect(result.failures.map { String($0.prefix(2)) } == ["4:", "5:", "6:"])
    }

    @Test("A line longer than the limit fails alone")
    func longLine() {
        let long = #"{"x":""# + String(repeating: "y", count: 128 << 10) + #""}"#
        let result = encode(plan(.ndjson), "{\"a\":1}\n" + long + "\n{\"b\":2}\n")
        #expect(result.lines.count == 2)
        #expect(result.failures.count == 1)
        #expect(result.failures.first?.hasPrefix("2:") == true)
    }

    @Test("A line that is no JSON is told as a line, with the place in it")
    func noJSON() {
        #expect(encode(plan(.ndjson), "{\"a\":1}\nnope\n").failures == ["2: the line is not valid JSON at byte 0: expected null"])
    }

    @Test("An id that cannot be one fails its row")
    func badIDs() {
        let result = encode(plan(idColumn: "id"), "id,v\na b,1\n,2\nok,3\n")
        #expect(result.lines.count == 1)
        #expect(result.failures.count == 2)
    }

    @Test("The same file gives the same lines however it is cut: that is what makes an import repeatable")
    func cuts() {
        let text = "id,v\n" + (0..<200).map { "\"r\($0)\",\($0).50\r\n" }.joined()
        let whole = encode(plan(idColumn: "id", keyPrefix: "k"), text).lines
        var random = SeededRandom(seed: 5)
        for _ in 0..<20 {
            var encoder = ImportEncoder(plan(idColumn: "id", keyPrefix: "k"))
            var bytes: [UInt8] = []
            var rest = Array(text.utf8)[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...min(500, rest.count), using: &random)
                bytes += encoder.read(Array(rest.prefix(count))).lines
                rest = rest.dropFirst(count)
            }
            bytes += encoder.finish().lines
            #expect(bytes.split(separator: UInt8(ascii: "\n")).compactMap { try? JSONReader.read(Array($0)) } == whole)
        }
        #expect(whole.count == 200)
    }
}
