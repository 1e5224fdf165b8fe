import HubServer
import SyncCore

extension PushResult.Verdict {
    /// `accepted`, `duplicate`, `conflict`, or the code behind `rejected` and `retry`.
    var word: String {
        switch self {
        case .accepted: "accepted"
        case .duplicate: "duplicate"
        case .conflict: "conflict"
        case .rejected(let problem, _): "rejected \(problem.code)"
        case .retry(let problem, _): "retry \(problem?.code ?? "")"
        }
    }

    var problem: Problem? {
        switch self {
        case .rejected(let problem, _): problem
        case .retry(let problem, _): problem
        default: nil
        }
    }

    /// The document that came along with an acceptance.
    var record: HubRecord? {
        if case .accepted(_, _, let record, _) = self { record } else { nil }
    }
}

extension HubResponse {
    var problem: Problem? { (try? JSONReader.read(body)).map { Problem($0) } }
}

extension Sent {
    static func hlc(_ ms: UInt64, _ node: String = "0000000a") -> String {
        HybridTime(milliseconds: ms, counter: 0, node: node).description
    }
}
