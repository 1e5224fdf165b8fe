import SyncCore

/// The output of `agentctl sync --wait`: the result of the cycle, and the traffic that had to wait.
package enum SyncScreen {
    /// Waiting traffic is grouped by reason, because one reason mostly applies to many classes.
    package static func render(_ outcome: SyncAnswer.Outcome, width: Int = 80) -> [String] {
        var lines = wrapped(result(outcome), width)
        if let detail = outcome.detail { lines += wrapped(detail, width) }
        let reasons = Dictionary(grouping: outcome.deferred.keys.sorted()) { outcome.deferred[$0] ?? "" }
        for (reason, classes) in reasons.sorted(by: { $0.key < $1.key }) {
            let sentence = Deferral.Reason(rawValue: reason)?.sentence ?? reason
            // A sentence of the detail is not repeated.
            let why = sentence == outcome.detail ? "" : ": " + sentence
            lines += wrapped("\(classes.joined(separator: ", ")) \(classes.count == 1 ? "waits" : "wait")\(why)", width)
        }
        return lines
    }

    /// One line for scripts and logs.
    package static func line(_ outcome: SyncAnswer.Outcome) -> String {
        var text = result(outcome)
        if let detail = outcome.detail { text += "; " + detail }
        for (name, reason) in outcome.deferred.sorted(by: { $0.key < $1.key }) { text += "; \(name) waits: \(reason)" }
        return PlainText.safe(text)
    }

    private static func result(_ outcome: SyncAnswer.Outcome) -> String {
        let (pushed, pulled) = (PlainText.count(outcome.pushed), PlainText.count(outcome.pulled))
        return "\(outcome.result): pushed \(pushed), pulled \(pulled), "
            + "\(SizeText.readable(outcome.bytesUp)) up, \(SizeText.readable(outcome.bytesDown)) down"
    }

    private static func wrapped(_ text: String, _ width: Int) -> [String] {
        PlainText.wrap(PlainText.safe(text), to: width, lines: 4)
    }
}
