/// A command as a person can paste it into a shell.
package enum ShellWords {
    /// - Returns: The words with a blank between them, each in single quotes where a shell would read it otherwise, and safe for a
    ///   terminal.
    package static func line(_ words: [String]) -> String {
        words.map(quoted).joined(separator: " ")
    }

    private static func quoted(_ word: String) -> String {
        let isPlain =
            !word.isEmpty
            && word.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."), UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "/"),
                    UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "@"), UInt8(ascii: "%"):
                    true
                default: false
                }
            }
        return isPlain ? word : "'" + PlainText.safe(word).replacing("'", with: "'\\''") + "'"
    }
}
