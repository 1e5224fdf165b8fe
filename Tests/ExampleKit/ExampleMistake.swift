import SyncCore

/// An example with one wrong word in it, to show that a runner would notice.
package struct ExampleMistake: Sendable {
    package var what: String
    package var order: WorkedExample.Order
    package var example: WorkedExample
    /// The sides that must notice it.
    package var sides: Set<WorkedExample.Side>
    /// `true` when the mistake changes the steps, too. Otherwise the result is that of the example without a mistake.
    package var isOfCourse: Bool
}

extension WorkedExample {
    /// One mistake for each thing that the example says.
    package var mistakes: [ExampleMistake] { orders.flatMap { mistakes($0) } }

    private func mistakes(_ order: Order) -> [ExampleMistake] {
        var mistakes: [ExampleMistake] = []
        func plant(_ what: String, _ sides: Set<Side>, isOfCourse: Bool = false, _ change: (inout WorkedExample) -> Void) {
            var example = self
            change(&example)
            let sides = sides.filter { isRun(by: $0) }
            mistakes.append(ExampleMistake(what: what, order: order, example: example, sides: sides, isOfCourse: isOfCourse))
        }
        let last = devices(order).last ?? ""
        let isWeaker = weaker?.documents[last] != nil
        if rules.kind == .record {
            plant("another result", isWeaker ? [.hub, .agent] : Set(Side.allCases)) {
                var outcome = $0.outcome(order)
                outcome.document = outcome.document.map { $0.planted } ?? [:]
                $0.set(outcome, order)
            }
            for other in outcome(order).others.keys.sorted() {
                plant("another record \(other)", [.agent]) {
                    var outcome = $0.outcome(order)
                    outcome.others[other] = .object(outcome.others[other]?.object?.planted ?? ["planted": 1])
                    $0.set(outcome, order)
                }
            }
            plant("another loss", [.hub, .agent]) {
                var outcome = $0.outcome(order)
                outcome.lost.append(Lost(device: "a", field: "planted", value: 1))
                $0.set(outcome, order)
            }
            if isWeaker {
                plant("another weakness", [.rest]) {
                    $0.weaker?.documents[last] = .object(weaker?.documents[last]?.object?.planted ?? [:])
                }
            }
        }
        for (index, step) in steps.enumerated() {
            let answer = answer(to: step, order)
            plant("another verdict on step \(index + 1)", step.device == last && !isWeaker ? Set(Side.allCases) : [.hub, .agent]) {
                let other = Answer(answer.isAccepted ? .rejected(code: "planted", detail: "") : .accepted(merged: [], kept: [:]))
                ($0.steps[index].answerIfFirst, $0.steps[index].answerIfLast) = (other, other)
            }
            plant("another answer to step \(index + 1)", [.hub]) {
                ($0.steps[index].answerIfFirst, $0.steps[index].answerIfLast) = (answer.planted, answer.planted)
            }
            if step.isUnsynced {
                plant("a trusted clock in step \(index + 1)", [.hub, .agent], isOfCourse: true) { $0.steps[index].isUnsynced = false }
            }
            if step.deadline != nil, case .ended = answer.verdict {
                plant("no deadline in step \(index + 1)", [.agent], isOfCourse: true) { $0.steps[index].deadline = nil }
            }
            // A mutation that was refused at once was never sent.
            if answer.isAccepted, step.isSent, step.content.action != .delete {
                plant("another form on the wire of step \(index + 1)", [.agent]) {
                    var wire = step.wire ?? step.content
                    wire.data = wire.data.planted
                    $0.steps[index].wire = wire
                }
            }
        }
        return mistakes
    }

    private mutating func set(_ outcome: Outcome, _ order: Order) {
        if order == .reversed { reversed = outcome } else { self.outcome = outcome }
    }
}

extension WorkedExample.Answer {
    fileprivate var planted: WorkedExample.Answer {
        switch verdict {
        case .accepted(let merged, let kept): .init(.accepted(merged: merged + ["planted"], kept: kept))
        case .conflict(let fields): .init(.conflict(fields: fields + ["planted"]))
        case .rejected(let code, _): .init(.rejected(code: code, detail: "planted"))
        case .ended(let state): .init(.ended(state + "-planted"))
        }
    }
}

extension JSONObject {
    fileprivate var planted: JSONObject {
        var planted = self
        planted["planted"] = 1
        return planted
    }
}
