package import SyncCore

/// Answer to `GET /v1/checklist`: every check with its finding, and the totals.
package struct DoctorAnswer: Hashable, Sendable {
    package var findings: [DoctorFinding]

    package init(findings: [DoctorFinding]) {
        self.findings = findings
    }

    package var summary: DoctorSummary { DoctorSummary(findings) }

    /// Exit status: 1 when a finding needs a fix, otherwise 0. Notes do not count.
    package var exitStatus: Int32 {
        findings.contains { $0.severity == .warn || $0.severity == .bad } ? 1 : 0
    }

    package var answer: LocalAnswer { LocalAnswer(200) { write(to: &$0) } }

    package func write(to writer: inout JSONWriter) {
        let summary = summary
        writer.object { writer in
            writer.member("ok", Int64(summary.ok))
            writer.member("total", Int64(summary.total))
            writer.elements("items", findings) { writer, finding in
                writer.object { writer in
                    writer.member("id", finding.id)
                    // A check without its facts is neither good nor bad.
                    if finding.severity != .unknown { writer.member("ok", finding.severity == .ok) }
                    writer.member("severity", finding.severity.rawValue)
                    writer.member("detail", finding.detail)
                    writer.member("why", finding.why)
                    writer.member("fix", finding.fix)
                }
            }
            writer.member("schema", DoctorAnswer.schema)
        }
    }

    package static let schema = "checklist/1"

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["items"]?.array != nil else { return nil }
        findings = reader.list("items").compactMap { element in
            let item = AnswerReader(element)
            guard let id = item.text("id") else { return nil }
            // A severity of a newer agent is unknown, so its `ok` member decides.
            let word = item.text("severity").flatMap { DoctorFinding.Severity(rawValue: $0) }
            let severity = word ?? (item.bool("ok") == true ? .ok : .warn)
            return DoctorFinding(
                id: id, severity: severity, detail: item.text("detail") ?? "", why: item.text("why") ?? "", fix: item.text("fix"))
        }
    }
}
