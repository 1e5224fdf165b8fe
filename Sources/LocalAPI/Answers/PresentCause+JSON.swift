import SyncCore

// `cause` in status, links and readyz: `{"code","sentence","until","command"}`.
extension PresentCause {
    func write(to writer: inout JSONWriter) {
        writer.member("code", code)
        writer.member("sentence", sentence)
        writer.time("until", until)
        writer.member("command", command)
    }

    /// - Returns: `nil` when there is none, and for an older agent.
    init?(_ reader: AnswerReader) {
        guard let code = reader.text("code"), let sentence = reader.text("sentence") else { return nil }
        self.init(code: code, sentence: sentence, until: reader.time("until"), command: reader.text("command") ?? "")
    }

    /// Lines for a screen: the sentence with its end, and below it the next action.
    func lines(_ clock: (Timestamp) -> String) -> [String] {
        [sentence + (until.map { "; until " + clock($0) } ?? "")] + (command.isEmpty ? [] : ["-> " + command])
    }
}
