import LocalAPI
import Logging
import SyncCore
import SyncStore

// The audit trail of decisions: an entry is written when the decision is carried out, and shown to callers with the role operate.
extension Agent {
    func showAudit(_ call: LocalCall, _ query: AuditQuery) {
        read(call) { reads, _ throws(StoreError) in
            try reads.audit(after: query.after ?? 0, limit: query.limit)
        } answer: { page in
            AuditAnswer(
                items: page.items.map {
                    .init(number: $0.number, at: $0.at, uid: $0.uid, verb: $0.verb, target: $0.target, detail: $0.json)
                }, next: page.next
            ).answer
        }
    }

    /// Records a person's decision about the agent as a whole.
    func audit(_ verb: String, _ target: String = "", uid: UInt32, _ json: JSONObject = [:]) {
        fromStore { store, now throws(StoreError) in
            try store.audit(verb, target, uid: uid, json, at: now)
        } then: { agent, result in
            guard case .failure(let error) = result else { return }
            agent.log.warning(
                "the audit trail lacks a decision, because it could not be stored", metadata: ["verb": "\(verb)", "error": "\(error)"])
        }
    }
}
