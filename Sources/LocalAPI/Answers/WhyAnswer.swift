package import SyncCore

/// Answer to `GET /v1/why/{id}`: one sentence, and the same facts as data.
package struct WhyAnswer: Hashable, Sendable {
    package enum Verdict: String, Sendable, CaseIterable {
        /// The next cycle sends it.
        case allow
        /// The policy, or the order of the outbox, holds it back.
        case `defer`
        /// It was sent; the hub's answer is not known yet.
        case sent
        /// It has its final state and will not change any more.
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
    /// State of the mutation.
    package var state: String
    /// Name of the ``Verdict``; a name of a newer agent is shown unchanged.
    package var verdict: String
    /// One of the fixed reason codes of the policy, or the code of the problem that parked it.
    package var reason: String?
    package var until: Timestamp?
    /// Time at which it expires if it was not sent before. A time in the past means that the agent has not removed it yet.
    package var expiresAt: Timestamp?
    package var sentence: String
    /// Code of the row of the policy table that decided; `nil` when there is none.
    package var rule: String?
    /// Changes that would let it go, each sufficient by itself: they complete "it goes …".
    package var wouldChange: [String]
    /// Further objections: they complete "it waits as well because …".
    package var also: [String] = []
    /// Code of the present cause, as ``PresentCause/code``. `nil` where only its own state holds it back.
    package var cause: String?
    /// The next action, as a command with real values.
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

    /// Makes the answer for a waiting item from the policy's explanation of its class.
    package init(
        id: String, record: RecordName?, state: String = MutationState.pending.name, _ explanation: Explanation, at place: HubPlace,
        situation: SituationNote? = nil
    ) {
        let deferral = explanation.deferral
        let present = PresentCause(explanation, at: place)
        self.init(
            id: id, record: record, state: state, verdict: deferral == nil ? .allow : .defer,
            reason: deferral?.reason.rawValue, until: explanation.end,
            sentence: deferral == nil ? "nothing holds it back: it is sent with the next cycle" : explanation.sentence,
            rule: explanation.rule.rawValue, wouldChange: explanation.reliefs.map(\.sentence), command: present?.command,
            situation: situation)
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
