import ExampleKit
import SyncCore

/// The result of an example with agents and a hub, before it is compared with the example. One run serves for the example and for every
/// mistake in it.
struct ExampleEnding {
    /// A change as its device sent it.
    struct Sent {
        var step: Int
        var content: MutationContent
    }

    /// The final answer to a caller.
    struct Answered {
        var step: Int
        var answer: WorkedExample.Answer
    }

    /// The record in the end, as a device shows it.
    struct View {
        var device: String
        var document: JSONObject?
        var isInConflict: Bool
    }

    /// The record in the end at the hub, other records by their ids, and what hub and devices tell as lost.
    struct Hub {
        var document: JSONObject?
        var others: [String: JSONObject?]
        var told: Set<ExampleFleet.Told>
    }

    var way: ExampleFleet.Way
    var sent: [Sent] = []
    /// Steps of the kind that goes, of which nothing went.
    var unsent: [Int] = []
    var answers: [Answered] = []
    /// `nil` for what is no record.
    var hub: Hub?
    var views: [View] = []

    /// - Returns: The differences from the example, in sentences.
    func failures(against example: WorkedExample, _ order: WorkedExample.Order) -> [String] {
        differences(from: example, order) + records(against: example.outcome(order))
    }

    private func differences(from example: WorkedExample, _ order: WorkedExample.Order) -> [String] {
        var failures: [String] = []
        func step(_ number: Int) -> WorkedExample.Step { example.steps[number - 1] }
        for sent in sent {
            let step = step(sent.step), wanted = step.wire ?? step.content
            if sent.content != wanted { failures.append("\(step.device) sends \(sent.content.words), expected \(wanted.words)") }
        }
        for step in unsent.map(step) where example.answer(to: step, order).isAccepted {
            failures.append("\(step.device) does not send what it was asked for at \(step.at)")
        }
        for answered in answers {
            let step = step(answered.step), wanted = example.answer(to: step, order), found = answered.answer
            let isMet =
                switch (wanted.verdict, found.verdict) {
                case (.accepted, .accepted): true
                case (.conflict(let fields), .conflict(let others)): fields == [HubMerge.wholeRecord] || fields.sorted() == others.sorted()
                default: wanted.isMet(by: found)
                }
            if !isMet { failures.append("step \(step.number) of \(step.device) is \(found), expected \(wanted)") }
        }
        return failures
    }

    private func records(against outcome: WorkedExample.Outcome) -> [String] {
        guard let hub else { return [] }
        var failures: [String] = []
        if hub.document != outcome.document {
            failures.append("the hub's record is \(hub.document?.json ?? "gone"), expected \(outcome.document?.json ?? "none")")
        }
        for (id, wanted) in outcome.others {
            let found = hub.others[id] ?? nil
            if found != wanted.object { failures.append("\(id) is \(found?.json ?? "gone"), expected \(wanted.json)") }
        }
        for view in views where view.document?.withoutMarks != hub.document && !view.isInConflict {
            failures.append(
                "\(view.device) shows \(view.document?.json ?? "nothing"), the hub has \(hub.document?.json ?? "nothing")")
        }
        let told = hub.told
        let lost = outcome.lost.filter { way == .pull || !$0.isKnownToAgents }
        let wanted = Set(lost.map { ExampleFleet.Told(field: $0.field, value: $0.value) })
        if told != wanted { failures.append("\(told.map(\.text).sorted()) is told as lost, expected \(wanted.map(\.text).sorted())") }
        return failures
    }
}

extension MutationContent {
    fileprivate var words: String {
        let operations = operations.map { "\($0.field) \($0.kind.rawValue) \($0.value.json)" }
        return "\(action) \(JSON.object(data).json) unset \(unset) ops \(operations) base \(JSON.object(base).json)"
    }
}
