import LocalAPI
import SyncCore
import Testing

@Suite("CSV") struct CSVReaderTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var text: String
        /// Rows as `line|field|field`, quoted fields in quotes; faults as `line!`.
        var rows: [String]
        var testDescription: String { text.debugDescription }

        init(_ text: String, _ rows: [String]) { (self.text, self.rows) = (text, rows) }
    }

    static let cases: [Case] = [
        Case("", []),
        Case("a,b\n1,2\n", ["1|a|b", "2|1|2"]),
        Case("a,b\r\n1,2", ["1|a|b", "2|1|2"]),
        Case("a\n\n\r\nb\n", ["1|a", "4|b"]),
        Case("\u{FEFF}a,b\n", ["1|a|b"]),
        Case("\u{FEFF}", []),
        Case(",\n", ["1||"]),
        Case("a,\n,b\n", ["1|a|", "2||b"]),
        Case("\"a\",b\n", ["1|\"a\"|b"]),
        Case("\"\"\n", ["1|\"\""]),
        Case("\"a\"\"b\"\n", ["1|\"a\"b\""]),
        Case("\"a,b\",c\n", ["1|\"a,b\"|c"]),
        Case("\"a\nb\r\nc\",d\ne\n", ["1|\"a\nb\r\nc\"|d", "4|e"]),
        Case(" a , b \n", ["1| a | b "]),
        Case("a\rb,c\n", ["1|a\rb|c"]),
        Case("a\r", ["1|a\r"]),
        Case("é,日本\n", ["1|é|日本"]),
        Case("a\"b\nc\n", ["1!", "2|c"]),
        Case("\"a\"b\nc\n", ["1!", "2|c"]),
        Case("\"a\" ,b\nc\n", ["1!", "2|c"]),
        Case("x\n\"a", ["1|x", "2!"]),
        Case("\"a\"", ["1|\"a\""]),
        Case("1234567890123456789012345,x\ny\n", ["1!", "2|y"]),
    ]

    @Test("Rows come out as RFC 4180 has them, with the line they start in", arguments: cases)
    func reads(_ example: Case) {
        #expect(rows(example.text, cutting: { $0.count }) == example.rows)
    }

    @Test("It does not matter how the bytes are cut", arguments: cases)
    func anyCut(_ example: Case) {
        var random = SeededRandom(seed: 3)
        #expect(rows(example.text, cutting: { _ in 1 }) == example.rows)
        for _ in 0..<20 {
            #expect(rows(example.text, cutting: { Int.random(in: 1...$0.count, using: &random) }) == example.rows)
        }
    }

    private func rows(_ text: String, cutting: (ArraySlice<UInt8>) -> Int) -> [String] {
        var reader = CSVReader(rowBytesMax: 24)
        var rest = Array(text.utf8)[...]
        var rows: [CSVReader.Row] = []
        while !rest.isEmpty {
            let count = cutting(rest)
            rows += reader.read(rest.prefix(count))
            rest = rest.dropFirst(count)
        }
        rows += reader.finish()
        return rows.map { row in
            switch row {
            case .fault(let line, _): return "\(line)!"
            case .fields(let line, let fields):
                let texts = fields.map { field in
                    let text = String(decoding: field.bytes, as: UTF8.self)
                    return field.isQuoted ? "\"\(text)\"" : text
                }
                return "\(line)|" + texts.joined(separator: "|")
            }
        }
    }
}
