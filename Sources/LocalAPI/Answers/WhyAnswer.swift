package import SyncCore

/// Answer to `GET /v1/why/{id}`: one sentence, and the same as data.
package struct WhyAnswer: Hashable, Sendable {
    package enum Verdict: String, Sendable, CaseIterable {
        /// It goes with the next cycle.
        case allow
        /// The policy, or the order of the outbox, holds it back.
        case `defer`
        /// It is on its way; the hub's answer is not known yet.
        case sent
        /// It has its final state; nothing will happen to it any more.
        case settled
        /// Set aside until a person decides: failed, held or refused.
        case parked
        /// Its record has a conflict that a person must resolve.
        case conflict

        /// - Returns: `nil` for a state in which the policy is asked.
        package init?(_ state: MutationState) {
            switch state {
            case .pending: return nil
            case .inFlight: self = .sent
            case .conflicted: self = .conflict
            case .rejected, .failed, .held: self = .parked
            case .done, .resolved, .discarded, .coalesced, .cancelled, .superseded, .expired: self = .settled
            }
        }
    }

    package var id: String
    package var record: RecordName?
    /// Of the mutation.
    package var state: String
    /// ``Verdict``; a word of a newer agent is shown as it is.
    package var verdict: String
    /// One of the fixed reason codes of the policy, or the code of the problem that parked it.
    package var reason: String?
    package var until: Timestamp?
    /// When it expires if it was not sent before; in the past: it is over, and only the agent has not come to it yet.
    package var expiresAt: Timestamp?
    package var sentence: String
    /// Code of the row of the policy table that decided; `nil` when none did.
    package var rule: String?
    /// What would let it go, each by itself: completes "it goes …".
    package var wouldChange: [String]
    /// What else holds it back: completes "it waits as well because …".
    package var also: [String] = []
    /// The present cause: as ``PresentCause/code``. `nil` where nothing holds it back but its own state.
    package var cause: String?
    /// What to do next, with real values.
    package var command: String?
    package var situation: SituationNote?

    package init(
        id: String, record: RecordName? = nil, state: String, verdict: Verdict, reason: String? = nil,
        until: Timestamp? = nil, expiresAt: Timestamp? = nil, sentence: String, rule: String? = nil, wouldChange: [String] = [],
        command: String? = nil, situation: SituationNote? = nil
    ) {
        self.id = id
        self.record = record
        self.state = state
        self.verdict = verdict.rawValue
        self.reason = reason
        self.until = until
        self.expiresAt = expiresAt
        self.sentence = sentence
        self.rule = rule
        self.wouldChange = wouldChange
        self.command = command
        self.situation = situation
    }

    /// For what waits: what the policy says of its class.
    package init(
        id: String, record: RecordName?, state: String = MutationState.pending.name, _ explanation: Explanation, at place: HubPlace,
        situation: SituationNote? = nil
    ) {
        let deferral = explanation.deferral
        let present = PresentCause(explanation, at: place)
        self.init(
            id: id, record: record, state: state, verdict: deferral == nil ? .allow : .defer,
            reason: deferral?.reason.rawValue, until: explanation.end,
            sentence: deferral == nil ? "nothing keeps it back: it goes with the next cycle" : explanation.sentence,
            rule: explanation.rule.rawValue, wouldChange: explanation.reliefs.map(\.sentence), command: present?.command, situation: situation)
        (also, cause) = (explanation.also, present?.code)
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("id", id)
                if let record {
                    writer.members("record") { writer in
                        writer.member("entity", record.entity.text)
                        writer.member("id", record.id.text)
                    }
                }
                writer.member("state", state)
                writer.member("verdict", verdict)
                writer.member("reason", reason)
                writer.time("until", until)
                if let expiresAt { writer.time("expires_at", expiresAt) }
                writer.member("sentence", sentence)
                writer.member("rule", rule)
                writer.member("would_change", JSON.list(wouldChange))
                if !also.isEmpty { writer.member("also", JSON.list(also)) }
                if let cause { writer.member("cause", cause) }
                if let command { writer.member("command", command) }
                if let situation {
                    writer.name("situation")
                    situation.write(to: &writer)
                }
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let id = reader.text("id"), let sentence = reader.text("sentence") else { return nil }
        self.id = id
        let record = reader.inside("record")
        if let entity = record.text("entity").flatMap({ EntityName($0) }),
            let recordID = record.text("id").flatMap({ RecordID($0) })
        {
            self.record = RecordName(entity, recordID)
        }
        state = reader.text("state") ?? "unknown"
        verdict = reader.text("verdict") ?? "unknown"
        reason = reader.text("reason")
        until = reader.time("until")
        expiresAt = reader.time("expires_at")
        self.sentence = sentence
        rule = reader.text("rule")
        wouldChange = reader.texts("would_change")
        also = reader.texts("also")
        cause = reader.text("cause")
        command = reader.text("command")
        if reader.has("situation") { situation = SituationNote(reader.inside("situation")) }
    }
}
