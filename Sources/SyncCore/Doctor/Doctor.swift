/// The result of a check.
package enum DoctorVerdict: Hashable, Sendable {
    case ok(String)
    /// Useful to know; no action is needed now.
    case note(String, fix: String)
    /// It works, but not for long or not as well as it should.
    case warn(String, fix: String)
    /// It does not work, or data is in danger.
    case bad(String, fix: String)
    /// The facts for the check are missing, for this reason.
    case unknown(String)
}

/// One finding in the form that is shown.
package struct DoctorFinding: Hashable, Sendable {
    package enum Severity: String, Hashable, Sendable, CaseIterable {
        case ok, note, warn, bad, unknown
    }

    package var id: String
    package var severity: Severity
    /// The finding, in one sentence.
    package var detail: String
    /// The impact, in one sentence.
    package var why: String
    /// The command or the edit that fixes it; `nil` when no fix is needed.
    package var fix: String?

    package init(id: String, severity: Severity, detail: String, why: String, fix: String? = nil) {
        self.id = id
        self.severity = severity
        self.detail = detail
        self.why = why
        self.fix = fix
    }

    init(id: String, why: String, _ verdict: DoctorVerdict) {
        switch verdict {
        case .ok(let detail): self.init(id: id, severity: .ok, detail: detail, why: why)
        case .note(let detail, let fix): self.init(id: id, severity: .note, detail: detail, why: why, fix: fix)
        case .warn(let detail, let fix): self.init(id: id, severity: .warn, detail: detail, why: why, fix: fix)
        case .bad(let detail, let fix): self.init(id: id, severity: .bad, detail: detail, why: why, fix: fix)
        case .unknown(let detail): self.init(id: id, severity: .unknown, detail: detail, why: why)
        }
    }
}

/// One named check: a pure function of the facts.
package struct DoctorCheck: Sendable {
    /// Stable name, used by scripts and the status.
    package let id: String
    package let why: String
    package let judge: @Sendable (DoctorFacts) -> DoctorVerdict

    init(_ id: String, why: String, _ judge: @escaping @Sendable (DoctorFacts) -> DoctorVerdict) {
        self.id = id
        self.why = why
        self.judge = judge
    }
}

/// The checks of `agentctl doctor`, in the order of a manual search.
package enum Doctor {
    package static let checks: [DoctorCheck] =
        agentChecks + configurationChecks + backendChecks + systemChecks + storeChecks + networkChecks + workChecks

    package static func examine(_ facts: DoctorFacts) -> [DoctorFinding] {
        checks.map { DoctorFinding(id: $0.id, why: $0.why, $0.judge(facts)) }
    }

    static let noAgent = "not known while no agent runs"
}

/// Summary of all findings, for the status.
package struct DoctorSummary: Hashable, Sendable {
    package var ok: Int
    /// Number of checks with sufficient facts.
    package var total: Int
    /// Findings that are not ok, the most severe first.
    package var failed: [DoctorFinding]

    init(ok: Int, total: Int, failed: [DoctorFinding]) {
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

/// Numbers in the form of the findings' sentences.
enum DoctorWords {
    static func percent(_ part: Int64, of whole: Int64) -> Int64 {
        whole > 0 ? max(0, part).saturatingMultiply(100) / whole : 0
    }
}
