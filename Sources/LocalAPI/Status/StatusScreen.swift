package import SyncCore

/// The output of `agentctl status` for people: at most 24 lines that answer, from the top: is the work safe, does it flow, if not why and
/// until when, and what will it cost.
///
/// It is a pure function of the document and the time, so that the tests can have a picture of each situation.
package enum StatusScreen {
    package static let linesMax = 24
    private static let labelWidth = 10

    /// - Parameters:
    ///   - width: Width of the terminal, columns; no line is longer.
    ///   - most: Largest number of lines.
    ///   - offset: Offset of local time from UTC; zero shows UTC, marked `Z`.
    package static func render(
        _ document: StatusDocument, width: Int = 80, now: Timestamp, color: Bool, offset: Duration = .zero,
        lines most: Int = linesMax
    ) -> [String] {
        let room = max(1, width - labelWidth)
        let rows = fitted(StatusRows(document: document, now: now, offset: offset).all, lines: most - 1, room: room)
        var lines = [PlainText.clip(header(document), to: width)]
        for row in rows {
            for (index, text) in row.lines(room).enumerated() {
                let name = index == 0 ? row.label : ""
                let label = name + String(repeating: " ", count: max(0, labelWidth - name.count))
                lines.append(paint(PlainText.clip(label, to: width), row.tone, color && index == 0) + text)
            }
        }
        return Array(lines.prefix(most))
    }

    /// Removes the least important parts until the rows fit: first additional information, then second lines, then details from the mildest
    /// row up. The first line of a row that is not plain always stays.
    private static func fitted(_ rows: [StatusRow], lines most: Int, room: Int) -> [StatusRow] {
        var rows = rows
        func isOver() -> Bool { rows.reduce(0) { $0 + $1.lines(room).count } > most }
        for label in ["CHECKS", "SCOPES", "MIRROR", "STORE"] where isOver() {
            rows.removeAll { $0.label == label && $0.tone == .plain }
        }
        for tone in StatusRow.Tone.allCases {
            for index in rows.indices.reversed() where rows[index].tone == tone && isOver() {
                rows[index].wrapsTo = 1
            }
        }
        for tone in StatusRow.Tone.allCases {
            for index in rows.indices.reversed() where rows[index].tone == tone {
                while rows[index].texts.count > 1, isOver() { rows[index].texts.removeLast() }
            }
        }
        return rows
    }

    /// One line, for prompts and logs.
    package static func brief(_ document: StatusDocument, now: Timestamp, offset: Duration = .zero) -> String {
        let overall = document.overall
        var parts = [
            overall.level.rawValue + (overall.reasons.isEmpty ? "" : ": " + overall.reasons.joined(separator: ", "))
        ]
        parts.append(document.connectivity.state)
        let open = document.outbox.open
        let oldest = document.outbox.oldest.map { ", oldest " + DurationText.readable($0) } ?? ""
        parts.append(open == 0 ? "nothing waiting" : PlainText.count(open) + " waiting" + oldest)
        if let next = document.sync.nextAt, document.sync.attempt > 0 {
            parts.append("next try in " + DurationText.readable(now.duration(to: next)))
        }
        return PlainText.safe(parts.joined(separator: "; "))
    }

    private static func header(_ document: StatusDocument) -> String {
        let agent = document.agent
        var text = "agentd \(agent.version)  device \(agent.device)  up \(DurationText.readable(agent.uptime))"
        text += "  hub \(agent.hub)"
        if let version = document.sync.server?.syncVersion { text += " (sync v\(version))" }
        return PlainText.safe(text)
    }

    private static func paint(_ text: String, _ tone: StatusRow.Tone, _ color: Bool) -> String {
        guard color else { return text }
        switch tone {
        case .plain: return "\u{1B}[1m" + text + "\u{1B}[0m"
        case .good: return "\u{1B}[1;32m" + text + "\u{1B}[0m"
        case .warning: return "\u{1B}[1;33m" + text + "\u{1B}[0m"
        case .bad: return "\u{1B}[1;31m" + text + "\u{1B}[0m"
        }
    }
}

struct StatusRow {
    /// Tones, the mildest first.
    enum Tone: CaseIterable { case plain, good, warning, bad }

    var label: String
    var texts: [String]
    var tone: Tone
    /// Number of screen lines that one text may take.
    var wrapsTo: Int

    init(_ label: String, _ texts: [String], _ tone: Tone = .plain, wrapsTo: Int = 1) {
        self.label = label
        self.texts = texts.map(PlainText.safe)
        self.tone = tone
        self.wrapsTo = wrapsTo
    }

    /// The texts in the form of a screen with `room` columns beside the label.
    func lines(_ room: Int) -> [String] {
        texts.flatMap { PlainText.wrap($0, to: room, lines: wrapsTo) }
    }
}
