import Foundation
import Testing

/// `try?` turns an error into nothing, and so may make damage look like absence. Each one needs a comment with its reason. The reason
/// stands on the line or right above it, also for several such lines in a row.
private struct SilencedErrors {
    /// Lines with a `try?` that has no reason, from 1.
    var lines: [Int] = []
    /// Number of lines with a `try?` that has a reason.
    var judged = 0

    init(in text: String) {
        var isReason = false
        for (index, line) in text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            if line.drop(while: { $0 == UInt8(ascii: " ") }).starts(with: "//".utf8) {
                isReason = true
                continue
            }
            let words = Substring(line)
            guard words.has("try?") else {
                isReason = false
                continue
            }
            let parts = words.components(separatedBy: "// ")
            if parts[0].contains(/\btry\?/) {
                isReason = isReason || parts.count > 1
                if isReason { judged += 1 } else { lines.append(index + 1) }
            } else {
                // The comment was about this line.
                isReason = false
            }
        }
    }
}

@Test("Every `try?` of the programs says why the error does not matter")
func silencedErrorsHaveReasons() {
    var judged = 0
    for file in Checkout.sources where file.path.hasSuffix(".swift") && file.text.has("try?") {
        let found = SilencedErrors(in: file.text)
        judged += found.judged
        for line in found.lines { Issue.record("\(file.path):\(line): a try? without its reason") }
    }
    #expect(judged > 50, "no try? was found at all: the test looks in the wrong place")
}

@Test(
    "The check sees a `try?` without a reason wherever it stands, and no other",
    arguments: [
        ("let a = try? b()", [1]), ("// Why.\nlet a = try? b()", []), ("let a = try? b()  // Why.", []),
        ("// About the first line.\nlet a = 1\nlet b = try? c()", [3]), ("// Why.\ntry? a()\ntry? b()", []), ("// Why.\n\ntry? a()", [3]),
        ("let entry: Entry? = nil", []), ("/// `try?` in a comment.\nlet a = 1", []), ("let a = (try? b())?.c", [1]),
    ])
func silencedErrorsAreSeen(_ text: String, _ lines: [Int]) {
    #expect(SilencedErrors(in: text).lines == lines)
}
