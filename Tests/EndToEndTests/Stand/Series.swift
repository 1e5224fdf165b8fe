import Foundation

/// The small real series that the project ships, as the tests of importing use it.
struct Series: Sendable {
    let path: String
    /// `timestamp,value` lines without the header.
    let rows: [String]

    static func load(_ name: String) throws -> Series {
        // Tests/EndToEndTests/Stand/Series.swift: the checkout is four steps up.
        let root = (0..<4).reduce(URL(fileURLWithPath: #filePath)) { path, _ in path.deletingLastPathComponent() }
        let file = root.appendingPathComponent("deploy/data/nab/\(name)").path
        let text = try String(contentsOfFile: file, encoding: .utf8)
        return Series(path: file, rows: text.split(separator: "\n").dropFirst().map(String.init))
    }

    /// The same rows as NDJSON, values as numbers.
    var lines: String {
        rows.map { row in
            let fields = row.split(separator: ",")
            return #"{"timestamp":"\#(fields[0])","value":\#(fields[1])}"# + "\n"
        }.joined()
    }
}
