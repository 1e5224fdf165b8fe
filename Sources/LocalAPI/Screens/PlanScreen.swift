package import SyncCore

/// The output of `agentctl plan` for people: the traffic that would be sent, in order, and the traffic that would wait, with the reasons.
package enum PlanScreen {
    /// Number of items shown in each group; `--json` has more.
    private static let itemsShown = 3

    package static func render(
        _ answer: PlanAnswer, width: Int = 80, now: Timestamp, offset: Duration = .zero
    ) -> [String] {
        var lines = wrapped("if " + WhyScreen.words(answer.situation), width)
        if answer.sends.isEmpty {
            lines.append(PlainText.clip("nothing would be sent", to: width))
        } else {
            lines += wrapped("would be sent, in this order, \(SizeText.readable(answer.bytes)) in all", width)
            var table = TextTable([
                .init("  CLASS"), .init("COUNT", .right), .init("SIZE", .right), .init("WHAT", widthMin: 12),
            ])
            for send in answer.sends {
                let shown = send.items.prefix(itemsShown).map(\.id).joined(separator: " ")
                let more = send.count > Int64(min(send.items.count, itemsShown)) && !shown.isEmpty ? " …" : ""
                table.add([
                    "  " + send.traffic, PlainText.count(send.count), SizeText.readable(send.bytes), shown + more,
                ])
            }
            lines += table.lines(width: width)
        }
        if answer.waits.isEmpty {
            lines.append(PlainText.clip("nothing would wait", to: width))
        } else {
            lines.append(PlainText.clip("would wait", to: width))
            var table = TextTable([
                .init("  CLASS"), .init("COUNT", .right), .init("SIZE", .right), .init("REASON", widthMin: 8),
                .init("UNTIL"),
            ])
            for wait in answer.waits {
                table.add([
                    "  " + wait.traffic, PlainText.count(wait.count), SizeText.readable(wait.bytes), wait.reason,
                    wait.until.map { PlainText.clock($0, now: now, offset: offset) } ?? "",
                ])
            }
            lines += table.lines(width: width)
            var said: [String] = []
            for wait in answer.waits where !said.contains(wait.sentence) && !wait.sentence.isEmpty {
                said.append(wait.sentence)
                for (index, line) in wrapped(wait.sentence, max(1, width - 4)).enumerated() {
                    lines.append((index == 0 ? "  - " : "    ") + line)
                }
                if let command = wait.command { lines += wrapped("-> " + command, max(1, width - 4)).map { "    " + $0 } }
            }
        }
        return lines
    }

    private static func wrapped(_ text: String, _ width: Int) -> [String] {
        PlainText.wrap(PlainText.safe(text), to: width, lines: 8)
    }
}
