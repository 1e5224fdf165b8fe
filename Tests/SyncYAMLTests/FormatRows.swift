import SyncCore

/// The text after a key, and the value that it gives; `nil` when it is refused.
struct FormatRow<Value: Sendable & Equatable>: Sendable {
    var source: String
    var value: Value?
}

enum FormatRows {
    static let durations: [FormatRow<Duration>] = rows(
        [
            ("500ms", .milliseconds(500)), ("100ms", .milliseconds(100)), ("30s", .seconds(30)),
            ("\"30s\"", .seconds(30)),
            ("5m", .seconds(300)), ("24h", .seconds(86_400)), ("7d", .seconds(604_800)),
        ],
        refused: [
            "1001h", "99ms", "0s", "30", "-5s", "+5s", "1.5h", "1h30m", "30 s", "30S", "30sec", "s", "03s", "1_000s",
            "٣s",
            "9223372036854775807d", "99999999999999999999s", "", "~", "[30s]",
        ])

    static let sizes: [FormatRow<Int>] = rows(
        [
            ("64KB", 64_000), ("5MB", 5_000_000), ("2GB", 2_000_000_000), ("10KiB", 10_240), ("1MiB", 1_048_576),
            ("1GiB", 1_073_741_824), ("200B", 200), ("'5MB'", 5_000_000), ("10GB", 10_000_000_000),
        ],
        refused: [
            "10000000001B", "99B", "99999999999GB", "9223372036854775807B", "9223372036854775808B", "8589934592GiB",
            "5", "5M",
            "5mb", "5kB", "5 MB", "0.5GB", "-5MB", "0x5MB", "005MB", "1TB", "MB", "{5MB: 1}",
        ])

    static let shares: [FormatRow<Int>] = rows(
        [("15%", 15), ("0%", 0), ("90%", 90), ("\"15%\"", 15)],
        refused: ["91%", "-1%", "15", "0.15", "1.5%", "\"%\"", "015%", "15 %", "99999999999999999999%"])

    static let numbers: [FormatRow<Int>] = rows(
        [("5", 5), ("0", 0), ("-5", -5), ("100", 100)],
        refused: [
            "101", "-6", "\"5\"", "'5'", "05", "0o5", "0x5", "5.0", "5e0", "1_0", "1:30", "+5", "--5", "five", "true",
            "",
            "99999999999999999999", "٣", "[5]",
        ])

    static let switches: [FormatRow<Bool>] = rows(
        [("true", true), ("false", false)],
        refused: ["yes", "no", "on", "off", "True", "FALSE", "y", "1", "0", "\"true\"", "", "[true]"])

    static let paths: [FormatRow<String>] = rows(
        [
            ("/a/b", "/a/b"), ("/a/b/", "/a/b"), ("/", "/"), ("\"/a b\"", "/a b"), ("/..a/b.", "/..a/b."),
            ("/" + String(repeating: "x", count: 106), "/" + String(repeating: "x", count: 106)),
        ],
        refused: [
            "a/b", "./a", "/a/../b", "/a/.", "/a//b", "//", "\"/a\\nb\"", "\"/a\\0\"", "~/a", "\"\"", "",
            "/" + String(repeating: "x", count: 107), "/" + String(repeating: "ä", count: 54),
        ])

    static let words: [FormatRow<Priority>] = rows(
        [("critical", .critical), ("'bulk'", .bulk)], refused: ["Normal", "urgent", "", "[bulk]"])

    static let lists: [FormatRow<[Int]>] = rows(
        [("[1, 2]", [1, 2]), ("[]", []), ("", []), ("[1, ]", [1])],
        refused: ["[1, x]", "[1, 2, 3, 4]", "1", "{1: 2}", "[~]"])

    private static func rows<Value>(_ accepted: [(String, Value)], refused: [String]) -> [FormatRow<Value>] {
        accepted.map { FormatRow(source: $0.0, value: $0.1) } + refused.map { FormatRow(source: $0, value: nil) }
    }
}
