/// What a check found.
package enum DoctorVerdict: Hashable, Sendable {
    case ok(String)
    /// Worth knowing; nothing to be done now.
    case note(String, fix: String)
    /// It works, and it will not for long or not as well as it should.
    case warn(String, fix: String)
    /// It does not work, or data is in danger.
    case bad(String, fix: String)
    /// The facts for it are missing; why.
    case unknown(String)
}

/// One finding, as it is shown.
package struct DoctorFinding: Hashable, Sendable {
    package enum Severity: String, Hashable, Sendable, CaseIterable {
        case ok, note, warn, bad, unknown
    }

    package var id: String
    package var severity: Severity
    /// What was found, in one sentence.
    package var detail: String
    /// Why it matters, in one sentence.
    package var why: String
    /// The command or the edit that mends it; `nil` when there is nothing to mend.
    package var fix: String?

    package init(id: String, severity: Severity, detail: String, why: String, fix: String? = nil) {
        self.id = id
        self.severity = severity
        self.detail = detail
        self.why = why
        self.fix = fix
    }

    package init(id: String, why: String, _ verdict: DoctorVerdict) {
        switch verdict {
        case .ok(let detail): self.init(id: id, severity: .ok, detail: detail, why: why)
        case .note(let detail, let fix): self.init(id: id, severity: .note, detail: detail, why: why, fix: fix)
        case .warn(let detail, let fix): self.init(id: id, severity: .warn, detail: detail, why: why, fix: fix)
        case .bad(let detail, let fix): self.init(id: id, severity: .bad, detail: detail, why: why, fix: fix)
        case .unknown(let detail): self.init(id: id, severity: .unknown, detail: detail, why: why)
        }
    }
}

/// One named check: a plain function of the facts.
package struct DoctorCheck: Sendable {
    /// Stable: scripts and the status name it.
    package let id: String
    package let why: String
    package let judge: @Sendable (DoctorFacts) -> DoctorVerdict

    init(_ id: String, why: String, _ judge: @escaping @Sendable (DoctorFacts) -> DoctorVerdict) {
        self.id = id
        self.why = why
        self.judge = judge
    }
}

/// `agentctl doctor`: every check, in the order in which one would look.
package enum Doctor {
    package static let checks: [DoctorCheck] = agentChecks + configurationChecks + backendChecks + systemChecks + storeChecks + networkChecks + workChecks

    package static func examine(_ facts: DoctorFacts) -> [DoctorFinding] {
        checks.map { DoctorFinding(id: $0.id, why: $0.why, $0.judge(facts)) }
    }

    static let noAgent = "not known while no agent runs"
}

/// The short form of all findings, for the status.
package struct DoctorSummary: Hashable, Sendable {
    package var ok: Int
    /// Without those whose facts are missing.
    package var total: Int
    /// Of those that are not ok, the gravest first.
    package var failed: [DoctorFinding]

    package init(ok: Int, total: Int, failed: [DoctorFinding]) {
        self.ok = ok
        self.total = total
        self.failed = failed
    }

    package init(_ findings: [DoctorFinding]) {
        let known = findings.filter { $0.severity != .unknown }
        ok = known.filter { $0.severity == .ok }.count
        total = known.count
        failed = [.bad, .warn, .note].flatMap { severity in known.filter { $0.severity == severity } }
    }
}

/// Numbers as they stand in the findings' sentences.
enum DoctorWords {
    /// `230 B`, `18 KB`, `4 MB`, `72 GB`: whole numbers, powers of 1000, rounded down.
    static func bytes(_ value: Int64) -> String {
        var value = max(0, value)
        for unit in ["B", "KB", "MB", "GB"] {
            if value < 1_000 { return "\(value) \(unit)" }
            value /= 1_000
        }
        return "\(value) TB"
    }

    /// `38 s`, `41 min`, `26 h`, `9 d`.
    static func span(_ duration: Duration) -> String {
        let seconds = max(0, duration.components.seconds)
        switch seconds {
        case ..<120: return "\(seconds) s"
        case ..<7_200: return "\(seconds / 60) min"
        case ..<172_800: return "\(seconds / 3_600) h"
        default: return "\(seconds / 86_400) d"
        }
    }

    static func percent(_ part: Int64, of whole: Int64) -> Int64 {
        whole > 0 ? max(0, part).saturatingMultiply(100) / whole : 0
    }
}
