import SyncCore

/// The output of `agentctl doctor` for people: first the findings that need a fix, each with impact and fix, then notes, then one line for
/// each check that is fine.
package enum DoctorScreen {
    private static let nameWidth = 21

    /// - Parameter showsAll: Also show each check that is fine on its line; otherwise only their number.
    package static func render(_ answer: DoctorAnswer, width: Int = 80, color: Bool = false, showsAll: Bool = false) -> [String] {
        var lines: [String] = []
        let findings = answer.findings
        for severity in [DoctorFinding.Severity.bad, .warn, .note] {
            for finding in findings where finding.severity == severity {
                lines += entry(finding, width, color)
                lines += wrapped("why", finding.why, width)
                if let fix = finding.fix { lines += wrapped("fix", fix, width) }
            }
        }
        if showsAll {
            for finding in findings where finding.severity == .ok || finding.severity == .unknown {
                lines += entry(finding, width, color).prefix(1)
            }
        }
        let summary = answer.summary
        let unknown = findings.count - summary.total
        var sum = "\(summary.ok) of \(summary.total) checks are OK"
        let failed = findings.filter { $0.severity == .bad }.count, warnings = findings.filter { $0.severity == .warn }.count
        let notes = findings.filter { $0.severity == .note }.count
        if failed > 0 { sum += ", \(failed) failed" }
        if warnings > 0 { sum += ", " + PlainText.count(warnings, "warning") }
        if notes > 0 { sum += ", " + PlainText.count(notes, "note") }
        if unknown > 0 { sum += "; \(unknown) could not run" }
        return lines + PlainText.wrap(sum, to: width, lines: 3)
    }

    private static func entry(_ finding: DoctorFinding, _ width: Int, _ color: Bool) -> [String] {
        let head = mark(finding.severity) + " " + TextTable.padded(PlainText.safe(finding.id), to: nameWidth)
        let room = max(1, width - PlainText.columns(head) - 1)
        let texts = PlainText.wrap(PlainText.safe(finding.detail), to: room, lines: 4)
        return texts.enumerated().map { index, text in
            index == 0
                ? paint(head, finding.severity, color) + " " + text
                : String(repeating: " ", count: PlainText.columns(head) + 1) + text
        }
    }

    private static func wrapped(_ label: String, _ text: String, _ width: Int) -> [String] {
        let margin = "     " + label + "  "
        return PlainText.wrap(PlainText.safe(text), to: max(1, width - margin.utf8.count), lines: 4).enumerated().map { index, line in
            (index == 0 ? margin : String(repeating: " ", count: margin.utf8.count)) + line
        }
    }

    private static func mark(_ severity: DoctorFinding.Severity) -> String {
        switch severity {
        case .ok: "ok  "
        case .note: "note"
        case .warn: "warn"
        case .bad: "BAD "
        case .unknown: "?   "
        }
    }

    private static func paint(_ text: String, _ severity: DoctorFinding.Severity, _ color: Bool) -> String {
        guard color else { return text }
        let code =
            switch severity {
            case .ok: "32"
            case .note: "1"
            case .warn: "1;33"
            case .bad: "1;31"
            case .unknown: "2"
            }
        return "\u{1B}[" + code + "m" + text + "\u{1B}[0m"
    }
}
