import SyncCore
import SyncYAML
import Testing

struct FormatTests {
    @Test("A duration is a whole number and its unit, in range", arguments: FormatRows.durations)
    func durations(_ row: FormatRow<Duration>) {
        check(row, .duration(.milliseconds(100)...(.seconds(3_600_000))))
    }

    @Test("A size is a whole number and its unit, of 1000 or 1024, in range", arguments: FormatRows.sizes)
    func sizes(_ row: FormatRow<Int>) {
        check(row, .size(100...10_000_000_000))
    }

    @Test("A share is whole percent", arguments: FormatRows.shares)
    func shares(_ row: FormatRow<Int>) {
        check(row, .share(0...90))
    }

    @Test("A number is decimal digits without quotes", arguments: FormatRows.numbers)
    func numbers(_ row: FormatRow<Int>) {
        check(row, .integer(-5...100))
    }

    @Test("A switch is true or false, and nothing else", arguments: FormatRows.switches)
    func switches(_ row: FormatRow<Bool>) {
        check(row, .boolean)
    }

    @Test("A path is absolute and without dots", arguments: FormatRows.paths)
    func paths(_ row: FormatRow<String>) {
        check(row, .path(upTo: 107))
    }

    @Test("A word is one of the known, quoted or not", arguments: FormatRows.words)
    func words(_ row: FormatRow<Priority>) {
        check(row, .priority)
    }

    @Test("A list keeps its order, and one bad element refuses it", arguments: FormatRows.lists)
    func lists(_ row: FormatRow<[Int]>) {
        check(row, .list(.integer(0...9), upTo: 3))
    }

    /// Reads the row, and what was read must come back from what is written.
    private func check<Value>(_ row: FormatRow<Value>, _ format: Format<Value>) {
        let (value, errors) = read("k: " + row.source + "\n", format)
        #expect(value == row.value)
        #expect(errors.isEmpty == (row.value != nil))
        guard let expected = row.value else { return }
        let written = YAMLWriter.text(["k": format.write(expected)])
        #expect(read(written, format).value == expected)
    }

    private func read<Value>(_ text: String, _ format: Format<Value>) -> (value: Value?, errors: [ConfigurationError]) {
        let document = YAMLDocument(Array(text.utf8), file: "f")
        var reading = Reading(isWhole: true)
        let value = document.root?["k"].flatMap { node in reading.inside(key: "k") { format.read(node, &$0) } }
        return (value, document.errors + reading.errors)
    }

    @Test(
        "A message names key, value, what was expected and the nearest name",
        arguments: [
            (
                "limit: 60\n",
                "f:1:8: limit: 60 is not accepted, expected a duration from 1s to 7d, such as 500ms, 30s, 5m, 24h or 7d"
            ),
            (
                "limit: \"a\\nb\"\n",
                "f:1:8: limit: \"a\\nb\" is not accepted, expected a duration from 1s to 7d, such as 500ms, 30s, 5m, 24h or 7d"
            ),
            (
                "limit:\n",
                "f:1:7: limit: has no value, expected a duration from 1s to 7d, such as 500ms, 30s, 5m, 24h or 7d, or no such line"
            ),
            (
                "limit: [60s]\n",
                "f:1:8: limit: a list is not accepted, expected a duration from 1s to 7d, such as 500ms, 30s, 5m, 24h or 7d"
            ),
            (
                "count: \"5\"\n",
                "f:1:8: count: \"5\" is not accepted, expected a whole number from 1 to 9 without quotes"
            ),
            ("word: hubb\n", "f:1:7: word: hubb is not accepted, expected hub, rest or none (did you mean hub?)"),
            ("word: xxxxxxx\n", "f:1:7: word: xxxxxxx is not accepted, expected hub, rest or none"),
            (
                "secret: hunter2\n",
                "f:1:9: secret: the value is not accepted, expected an absolute path of at most 4095 bytes without . and .. in it"
            ),
            ("limitt: 5s\n", "f:1:1: limitt: unknown key (did you mean limit?)"),
            ("Count: 5\n", "f:1:1: Count: unknown key (did you mean count?)"),
            ("password: hunter2\n", "f:1:1: password: unknown key, expected one of limit, count, word, secret, inner"),
            (
                "\"a.b\\u202e\": 5\n",
                "f:1:1: \"a.b\\u{202e}\": unknown key, expected one of limit, count, word, secret, inner"
            ),
            ("must: true\n", "f:1:1: must: unknown key (did you mean inner.must?)"),
            ("inner: 5\n", "f:1:8: inner: 5 is not accepted, expected a mapping with the keys must"),
            ("inner: {}\n", "f:1:8: inner.must: is missing, expected true or false"),
            ("inner:\n", "f:1:7: inner.must: is missing, expected true or false"),
            ("inner: {must: yes}\n", "f:1:15: inner.must: yes is not accepted, expected true or false without quotes"),
            (
                "- 5\n",
                "f:1:1: a list is not accepted, expected a mapping with the keys limit, count, word, secret, inner"
            ),
            // The file of a token, where one of settings was meant.
            ("est_5eCr3t\n", "f:1:1: a text is not accepted, expected a mapping with the keys limit, count, word, secret, inner"),
        ])
    func messages(text: String, message: String) {
        #expect(readSample(text).errors.map(\.description) == [message])
    }

    @Test("All errors come in one run, in the order of the file")
    func allErrors() {
        let (value, errors) = readSample("limit: 0\ncuont: 5\ncount: 0\ninner: {mus: 1}\n")
        #expect(value == nil)
        #expect(
            errors.map { "\($0.line) \($0.key)" } == ["1 limit", "2 cuont", "3 count", "4 inner.mus", "4 inner.must"])
    }

    @Test("The known keys of a mapping are listed once")
    func keysOnce() {
        let errors = readSample("password: a\nhost: b\ninner: {must: true, host: c}\n").errors.map(\.description)
        #expect(
            errors == [
                "f:1:1: password: unknown key, expected one of limit, count, word, secret, inner", "f:2:1: host: unknown key",
                "f:3:21: inner.host: unknown key, expected one of must",
            ])
    }

    @Test("While one file of several is read for itself, nothing is missing in it")
    func partOfAWhole() {
        let root = YAMLDocument(Array("inner: {}\ncount: 5\n".utf8), file: "f").root
        var reading = Reading(isWhole: false)
        #expect(root.flatMap { sample.read($0, &reading) }?.count == 5)
        #expect(reading.errors.isEmpty)
    }

    @Test("A format tells all its keys")
    func keys() {
        let list = Format<[Sample]>.list(sample)
        #expect(list.keys.map(\.name) == ["[].limit", "[].count", "[].word", "[].secret", "[].inner.must"])
        let dictionary = Format<[EntityName: [Sample]]>.dictionary(of: list, names: .identifier(), text: \.text)
        #expect(dictionary.keys.map(\.name).first == "*[].limit")
    }

    struct Sample: Equatable, Sendable {
        struct Inner: Equatable, Sendable { var must = false }

        var limit: Duration = .seconds(5)
        var count = 1
        var word = "hub"
        var secret: String?
        var inner = Inner()
    }

    private let sample = Format<Sample>.mapping(
        Sample(),
        [
            .key("limit", \.limit, .duration(.seconds(1)...(.days(7)))),
            .key("count", \.count, .integer(1...9)),
            .key("word", \.word, .word(["hub", "rest", "none"].map { ($0, $0) })),
            .optional("secret", \.secret, .path(hidesValue: true)),
            .key("inner", \.inner, .mapping(Sample.Inner(), [.key("must", \.must, .boolean, isRequired: true)])),
        ])

    private func readSample(_ text: String) -> (value: Sample?, errors: [ConfigurationError]) {
        let document = YAMLDocument(Array(text.utf8), file: "f")
        var reading = Reading(isWhole: true)
        let value = document.root.flatMap { sample.read($0, &reading) }
        return (value, document.errors + reading.errors)
    }

    @Test(
        "Text from outside is escaped and cut",
        arguments: [
            ("plain ä", "plain ä"), ("a\nb\tc\r", "a\\nb\\tc\\r"), ("\u{1b}[31m", "\\u{1b}[31m"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("\u{2028}", "\\u{2028}"), ("\u{85}", "\\u{85}"), ("\\n", "\\\\n"), ("\u{0}", "\\u{0}"),
            (String(repeating: "x", count: 300), String(repeating: "x", count: 200) + "…"),
            (String(repeating: "ä", count: 101), String(repeating: "ä", count: 100) + "…"),
        ])
    func escaping(text: String, shown: String) {
        #expect(printable(text) == shown)
    }
}
