import ExampleKit
import HubServer
import SyncCore

/// Runs worked examples at one hub, each on an entity with its rules and on a record of its own.
final class ExampleHub {
    private let bench: HubBench
    private let entities: [String: EntityName]
    private var sent: Int64 = 0

    init(_ examples: [WorkedExample]) throws {
        var rules: [EntityName: EntityRules] = [:]
        var entities: [String: EntityName] = [:]
        for (number, example) in examples.enumerated() {
            let entity = EntityName(trusted: "e-\(number)")
            rules[entity] = example.rules
            entities[example.name] = entity
        }
        self.entities = entities
        bench = try HubBench(rules: RuleBook(rules))
        // Later than all that the examples do.
        bench.now = Self.evening
    }

    static let evening = RFC3339.timestamp("2026-11-20T23:00:00Z") ?? Timestamp(milliseconds: 0)
    private static let morning = RFC3339.timestamp("2026-11-20T08:00:00Z") ?? Timestamp(milliseconds: 0)

    /// The result of an example at the hub, before it is compared with the example.
    struct Ending {
        var isRecord: Bool
        var answers: [WorkedExample.Answer] = []
        var document: JSONObject?
        var lost: [WorkedExample.Lost] = []

        /// - Returns: The differences from the example, in sentences.
        func failures(against example: WorkedExample, _ order: WorkedExample.Order) -> [String] {
            var failures: [String] = []
            for (number, (step, found)) in zip(example.steps(order), answers).enumerated() {
                let wanted = example.answer(to: step, order)
                if wanted.isMet(by: found) { continue }
                failures.append("step \(number + 1) of \(step.device) is answered \(found), expected \(wanted)")
            }
            guard isRecord else { return failures }
            let outcome = example.outcome(order)
            if document != outcome.document {
                failures.append("the record is \(document?.json ?? "gone"), expected \(outcome.document?.json ?? "none")")
            }
            let wanted = outcome.lost.filter { !$0.isKnownToAgents }
            if lost.map(\.description).sorted() != wanted.map(\.description).sorted() {
                failures.append("\(lost) is lost, expected \(wanted)")
            }
            return failures
        }
    }

    /// - Returns: The differences from the example, in sentences.
    func failures(of example: WorkedExample, _ order: WorkedExample.Order) throws -> [String] {
        guard let entity = entities[example.name] else { return ["no such example at this hub"] }
        return try run(example, order, entity).failures(against: example, order)
    }

    func run(_ example: WorkedExample, _ order: WorkedExample.Order) throws -> Ending? {
        try entities[example.name].map { try run(example, order, $0) }
    }

    private func run(_ example: WorkedExample, _ order: WorkedExample.Order, _ entity: EntityName) throws -> Ending {
        let id = RecordID(trusted: "r-\(sent)")
        var ending = Ending(isRecord: example.rules.kind == .record)
        var version: Int64 = 0
        if let start = example.start {
            let verdict = try push(MutationContent(.create, data: start), "start", Self.morning, base: 0, entity, id).verdict
            guard case .accepted(let made, _, _, _) = verdict else { throw ExampleError("the start is answered \(verdict)") }
            version = made
        }
        let startVersion = version
        for step in example.steps(order) {
            let base =
                switch step.seen {
                case .start: startVersion
                case .nothing: Int64(0)
                case .all: version
                }
            let result = try push(
                step.wire ?? step.content, step.device, step.at, base: base, isUnsynced: step.isUnsynced, entity, id)
            if case .accepted(let new, _, _, _) = result.verdict { version = new }
            ending.answers.append(WorkedExample.Answer(result))
        }
        guard ending.isRecord else { return ending }
        ending.document = try bench.data(entity, id)?.withoutMarks
        ending.lost = try bench.hub.lostValues(entity, id).map {
            WorkedExample.Lost(device: $0.value.stamp.writer.text, field: $0.value.field, value: $0.value.value)
        }
        return ending
    }

    private func push(
        _ content: MutationContent, _ device: String, _ at: Timestamp, base: Int64, isUnsynced: Bool = false, _ entity: EntityName,
        _ id: RecordID
    ) throws -> PushResult {
        sent += 1
        let operations: [JSON] = content.operations.map {
            ["field": .string($0.field), "op": .string($0.kind.rawValue), "value": $0.value]
        }
        var change = Sent(
            "k-\(sent)", seq: sent, content.action, entity.text, id: id.text, data: content.action == .delete ? nil : .object(content.data),
            unset: content.unset, ops: operations, base: base, ms: UInt64(at.milliseconds),
            node: "0000000\(device == "start" ? "c" : device)")
        if !content.base.isEmpty { change = change.with("base", .object(content.base)) }
        if isUnsynced { change = change.with("clock", "unsynced") }
        change = change.with("client_updated_at", .string(at.description))
        return try bench.verdicts([change], device: DeviceID(trusted: device))[0]
    }
}

extension WorkedExample.Answer {
    init(_ result: PushResult) {
        switch result.verdict {
        case .accepted(_, _, _, let merged): self.init(.accepted(merged: merged, kept: result.notes.kept))
        case .conflict(let fields, _): self.init(.conflict(fields: fields))
        case .rejected(let problem, _): self.init(.rejected(code: problem.code, detail: problem.detail))
        case .duplicate: self.init(.rejected(code: "duplicate", detail: ""))
        case .retry(let problem, _): self.init(.rejected(code: "retry", detail: problem?.detail ?? ""))
        }
    }

    /// A part of a sentence is enough.
    func isMet(by found: WorkedExample.Answer) -> Bool {
        switch (verdict, found.verdict) {
        case (.rejected(let code, let part), .rejected(let other, let detail)): code == other && (part.isEmpty || detail.contains(part))
        case (.conflict(let fields), .conflict(let others)): fields.sorted() == others.sorted()
        case (.accepted(let merged, let kept), .accepted(let others, let otherKept)):
            merged.sorted() == others.sorted() && kept == otherKept
        case (.ended(let state), .ended(let other)): state == other
        case (.accepted, _), (.conflict, _), (.rejected, _), (.ended, _): false
        }
    }
}
