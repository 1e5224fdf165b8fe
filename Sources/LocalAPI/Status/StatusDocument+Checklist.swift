package import SyncCore

extension StatusDocument {
    /// Summary of the doctor's checks. The complete answer is `GET /v1/checklist`.
    package struct Checklist: Hashable, Sendable {
        package struct Worst: Hashable, Sendable {
            package var id: String
            package var severity: DoctorFinding.Severity
            package var detail: String
        }

        package var ok: Int64
        /// Number of checks that could run.
        package var total: Int64
        /// Names of the checks that are not ok, the most severe first.
        package var failed: [String]
        /// The most severe one.
        package var worst: Worst?

        init(ok: Int64, total: Int64, failed: [String] = [], worst: Worst? = nil) {
            self.ok = ok
            self.total = total
            self.failed = failed
            self.worst = worst
        }

        package init(_ summary: DoctorSummary) {
            self.init(
                ok: Int64(summary.ok), total: Int64(summary.total), failed: summary.failed.map(\.id),
                worst: summary.failed.first.map { Worst(id: $0.id, severity: $0.severity, detail: $0.detail) })
        }

        func write(to writer: inout JSONWriter) {
            writer.member("ok", ok)
            writer.member("total", total)
            writer.member("failed", JSON.list(failed))
            guard let worst else { return }
            writer.members("worst") { writer in
                writer.member("id", worst.id)
                writer.member("severity", worst.severity.rawValue)
                writer.member("detail", worst.detail)
            }
        }

        init?(_ reader: AnswerReader) {
            guard let ok = reader.int("ok"), let total = reader.int("total") else { return nil }
            self.init(ok: ok, total: total, failed: reader.texts("failed"))
            guard reader.has("worst") else { return }
            let worst = reader.inside("worst")
            let severity = worst.text("severity").flatMap { DoctorFinding.Severity(rawValue: $0) } ?? .warn
            self.worst = Worst(id: worst.text("id") ?? "", severity: severity, detail: worst.text("detail") ?? "")
        }
    }
}
