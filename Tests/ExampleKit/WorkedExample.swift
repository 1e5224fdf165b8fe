package import SyncCore

/// One worked example of `deploy/api/PROTOCOL.md`: what some devices ask of one record, in the order in which that arrives, what each
/// is answered, and what the record is in the end. The document says how an example is written.
package struct WorkedExample: Sendable, CustomStringConvertible {
    package enum Side: String, CaseIterable, Sendable { case hub, agent, rest }

    /// The order in which the devices' changes arrive.
    package enum Order: String, Sendable { case written, reversed }

    package var name: String
    package var rules: EntityRules
    /// `nil`: there is no record.
    package var start: JSONObject?
    package var steps: [Step]
    /// The devices may also arrive in the other order.
    package var hasBothOrders: Bool
    /// The devices do not meet the hub before.
    package var meeting: Timestamp?
    package var outcome: Outcome
    /// The outcome of the other order, where that is not ``outcome``.
    package var reversed: Outcome?
    /// Sides that cannot run it, and why.
    package var skipped: [Side: String]
    /// The result of another backend, where that is less than the rule.
    package var weaker: Weaker?

    package struct Outcome: Hashable, Sendable {
        /// `nil`: there is no record.
        package var document: JSONObject?
        package var lost: [Lost]
        /// Other records of the entity, by their ids.
        package var others: [String: JSON] = [:]
    }

    package struct Lost: Hashable, Sendable, CustomStringConvertible {
        package var device: String
        package var field: String
        /// `nil`: a removal.
        package var value: JSON?
        /// Only an agent that brings the changes together knows of it.
        package var isKnownToAgents: Bool

        package init(device: String, field: String, value: JSON?, isKnownToAgents: Bool = false) {
            (self.device, self.field, self.value, self.isKnownToAgents) = (device, field, value, isKnownToAgents)
        }

        package var description: String { "\(device): \(field) \(value?.json ?? "removed")" }
    }

    package struct Weaker: Sendable {
        package var why: String
        /// By the device that came last, the record in the end.
        package var documents: [String: JSON]
    }

    /// A request of a person about an earlier change of the same device.
    package enum Request: Sendable {
        /// By the number of the step, from 1.
        case retry(Int)
        /// The choice of each field in dispute: `local`, `remote` or a value.
        case decide(JSONObject)
        /// With the change in dispute all of its atomic list is let go.
        case letGo
    }

    package struct Step: Sendable {
        package enum Seen: String, Sendable {
            /// The record as it was at the start.
            case start
            case nothing
            /// Everything that came before.
            case all
        }

        /// Number of the step, from 1.
        package var number: Int
        package var device: String
        package var at: Timestamp
        package var seen: Seen
        /// `true` when its clock is not synchronized.
        package var isUnsynced = false
        package var record = WorkedExample.record
        /// The change is of no use later.
        package var deadline: Timestamp?
        /// Neighbours with the same word are one atomic list.
        package var list: String?
        package var request: Request?
        /// The change as an app asks for it.
        package var content: MutationContent
        /// The change as the agent sends it, if that is another form.
        package var wire: MutationContent?
        /// Answer when the device of the change arrives first.
        package var answerIfFirst: Answer
        /// Answer when it arrives last.
        package var answerIfLast: Answer
    }

    package struct Answer: Hashable, Sendable, CustomStringConvertible {
        package enum Verdict: Hashable, Sendable {
            case accepted(merged: [String], kept: JSONObject)
            case conflict(fields: [String])
            /// `detail`: a part of the sentence.
            case rejected(code: String, detail: String)
            /// The end of a change that was never sent, or that a person has let go.
            case ended(String)
        }

        package var verdict: Verdict

        package init(_ verdict: Verdict) { self.verdict = verdict }

        package var isAccepted: Bool { if case .accepted = verdict { true } else { false } }

        package var description: String {
            switch verdict {
            case .accepted(let merged, let kept): "accepted, merged \(merged), kept \(JSON.object(kept).json)"
            case .conflict(let fields): "conflict \(fields)"
            case .rejected(let code, let detail): "rejected \(code) \"\(detail)\""
            case .ended(let state): "ended as \(state)"
            }
        }
    }

    package var description: String { name }

    /// The record that an example is about.
    package static let record = RecordID(trusted: "r")

    // MARK: Questions

    package func isRun(by side: Side) -> Bool { skipped[side] == nil }

    package var orders: [Order] { hasBothOrders ? [.written, .reversed] : [.written] }

    /// The devices, the first one to arrive first.
    package func devices(_ order: Order) -> [String] {
        var devices: [String] = []
        for step in steps where !devices.contains(step.device) { devices.append(step.device) }
        return order == .written ? devices : devices.reversed()
    }

    package func steps(_ order: Order) -> [Step] {
        if order == .written { return steps }
        return devices(order).flatMap { device in steps.filter { $0.device == device } }
    }

    package func answer(to step: Step, _ order: Order) -> Answer {
        step.device == devices(order).first ? step.answerIfFirst : step.answerIfLast
    }

    package func outcome(_ order: Order) -> Outcome { order == .reversed ? reversed ?? outcome : outcome }
}

extension JSON {
    /// The same, with the digits of the marks in divider lines hidden: they come from keys, which are never the same.
    package var withoutMarks: JSON {
        switch self {
        case .string(let string):
            let text = string.text
            var parts = text.components("[#")
            for index in parts.indices.dropFirst() where parts[index].utf8.dropFirst(8).first == UInt8(ascii: "]") {
                parts[index] = "........" + String(parts[index].dropFirst(8))
            }
            return .string(JSONString(parts.joined(separator: "[#")))
        case .array(let elements): return .array(elements.map(\.withoutMarks))
        case .object(let object): return .object(object.withoutMarks)
        case .null, .bool, .number: return self
        }
    }
}

extension JSONObject {
    package var withoutMarks: JSONObject {
        members.reduce(into: [:]) { $0[$1.name.text] = $1.value.withoutMarks }
    }
}

extension String {
    /// The parts between a separator.
    fileprivate func components(_ separator: String) -> [String] {
        var parts: [String] = []
        var part = Substring(self)
        while let range = part.firstRange(of: separator) {
            parts.append(String(part[..<range.lowerBound]))
            part = part[range.upperBound...]
        }
        return parts + [String(part)]
    }
}

extension WorkedExample.Step {
    /// `true` when a change is sent for it. A decision may leave nothing to send.
    package var isSent: Bool {
        switch request {
        case .decide, .letGo: wire != nil
        case .retry, nil: true
        }
    }

    /// The change as an app asks its agent for it.
    package func mutation(of entity: EntityName) -> NewMutation {
        let action: NewMutation.Action =
            switch content.action {
            case .create: .create
            case .update: .update
            case .delete: .delete
            }
        var mutation = NewMutation(
            action, entity, record, data: content.data, unset: content.unset, operations: content.operations)
        mutation.ttl = deadline.map { at.duration(to: $0) }
        return mutation
    }
}
