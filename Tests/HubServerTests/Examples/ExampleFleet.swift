import ExampleKit
import HubServer
import StoreKit
import SyncCore
import SyncStore

/// Runs worked examples with the stores of real agents and a hub. The changes go into each store while it is offline. Then the
/// devices meet the hub, one after the other.
struct ExampleFleet {
    /// The way in which a device learns of earlier changes.
    enum Way: String, CaseIterable {
        /// It pulls first, so its store brings its changes onto what is there.
        case pull
        /// It sends first, so the hub merges.
        case push
    }

    var way: Way
    var coalesces: Bool
    var ablations = Ablations.none

    static let all = Way.allCases.flatMap { way in [true, false].map { ExampleFleet(way: way, coalesces: $0) } }

    static let entity: EntityName = "e"
    static let id = WorkedExample.record

    /// - Returns: The differences from the example, in sentences.
    func failures(of example: WorkedExample, _ order: WorkedExample.Order) throws -> [String] {
        try run(example, order).failures(against: example, order)
    }

    /// Performs the steps of an example. The results that the example expects have no part in this.
    func run(_ example: WorkedExample, _ order: WorkedExample.Order) throws -> ExampleEnding {
        let bench = try HubBench(rules: RuleBook([Self.entity: example.rules]), ablations: ablations)
        bench.now = ExampleHub.evening
        if let start = example.start {
            let morning = (RFC3339.timestamp("2026-11-20T08:00:00Z") ?? Timestamp(milliseconds: 0)).milliseconds
            let made = Sent(
                "k-start", .create, Self.entity.text, id: Self.id.text, data: .object(start), ms: UInt64(morning), node: "0000000c")
            _ = try bench.verdicts([made], device: "start")
        }
        var ending = ExampleEnding(way: way)
        var devices: [String: Device] = [:]
        for (number, name) in example.devices(.written).enumerated() {
            let device = try Device(name, example.rules, number, self)
            devices[name] = device
            let steps = example.steps.filter { $0.device == name }
            if steps[0].seen != .nothing { try device.pull(bench) }
            try device.ask(steps.filter { $0.seen != .all })
            if let meeting = example.meeting { try device.rest(until: meeting) }
        }
        let isCompared = way == .push && !coalesces
        for step in example.steps(order) {
            guard let device = devices[step.device] else { continue }
            if step.seen == .all {
                try device.pull(bench)
                try device.settle(into: &ending)
                if let request = step.request { try device.ask(request, step) } else { try device.ask([step]) }
            } else if device.hasSent {
                continue
            } else if way == .pull, step.device != example.devices(order).first {
                try device.pull(bench)
            }
            let sent = try device.push(bench)
            if isCompared { try device.note(sent, in: &ending) }
        }
        if isCompared { for device in devices.values { ending.unsent += device.unsent } }
        for _ in 0..<2 {
            for device in devices.values {
                try device.pull(bench)
                _ = try device.push(bench)
            }
        }
        for device in devices.values { try device.end(in: &ending) }
        guard example.rules.kind == .record else { return ending }
        let others = example.outcome(order).others.keys
        ending.hub = ExampleEnding.Hub(
            document: try bench.data(Self.entity, Self.id)?.withoutMarks,
            others: Dictionary(uniqueKeysWithValues: try others.map { ($0, try bench.data(Self.entity, RecordID(trusted: $0))) }),
            told: Set(try bench.hub.lostValues(Self.entity, Self.id).map { Told(field: $0.value.field, value: $0.value.value) }))
        for device in devices.values {
            ending.views.append(.init(device: device.name, document: try device.view, isInConflict: try device.hasOpenConflict))
            ending.hub?.told.formUnion(try device.told)
        }
        return ending
    }

    struct Told: Hashable {
        var field: String
        var value: JSON?
        var text: String { "\(field) \(value?.json ?? "removed")" }
    }
}

/// One device: a store in memory, and what was asked of it.
private final class Device {
    let name: String
    private(set) var hasSent = false
    private let store: Store
    private let coalesces: Bool
    private let isPulled: Bool
    private var now: Moment
    private var cursor: String?
    private var asked: [Asked] = []
    private let app = Requester(app: "app", uid: 1_000)

    init(_ name: String, _ rules: EntityRules, _ number: Int, _ fleet: ExampleFleet) throws {
        self.name = name
        coalesces = fleet.coalesces
        isPulled = rules.kind == .record
        let dawn = RFC3339.timestamp("2026-11-20T06:00:00Z") ?? Timestamp(milliseconds: 0)
        now = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: dawn)
        var options = StoreOptions(
            device: DeviceID(trusted: name), bootID: "boot", rules: RuleBook([ExampleFleet.entity: rules]), seed: UInt64(number + 1))
        options.ablations = fleet.ablations
        store = try Store(try EmptyDatabase.copy(), options, at: now)
    }

    /// A request to the device, and its outcome.
    private struct Asked {
        enum Answer {
            case taken(MutationKey)
            case refused(Problem)
            /// A decision that left nothing to send.
            case decided(String)
        }

        var step: WorkedExample.Step
        var answer: Answer
        /// As it went to the hub, the first time.
        var sent: MutationContent?
        /// It was noted when a person asked for something, which ends it.
        var isSettled = false

        var key: MutationKey? { if case .taken(let key) = answer { key } else { nil } }
    }

    /// Time without a network. Mutations whose time runs out by then expire, as in a running agent.
    func rest(until wall: Timestamp) throws {
        wait(until: wall)
        _ = try store.housekeep(at: now)
    }

    private func wait(until wall: Timestamp) {
        let rest = max(now.wall.duration(to: wall), .seconds(1))
        now = Moment(instant: now.instant.advanced(by: rest), wall: now.wall.advanced(by: rest))
    }

    /// Hands changes to the store, neighbours of one list together.
    func ask(_ steps: [WorkedExample.Step]) throws {
        var rest = steps[...]
        while let first = rest.first {
            let group = rest.prefix { $0.list == first.list && $0.device == first.device }.prefix(first.list == nil ? 1 : rest.count)
            rest = rest.dropFirst(group.count)
            wait(until: first.at)
            store.clockTrust = first.isUnsynced ? .unsynced : .synced
            let mutations = group.map { step in
                var mutation = step.mutation(of: ExampleFleet.entity)
                mutation.coalesces = coalesces
                return mutation
            }
            do throws(StoreError) {
                let answers = try store.enqueue(mutations, isAtomic: first.list != nil, by: app, at: now)
                for (step, answer) in zip(group, answers) { asked.append(Asked(step: step, answer: .taken(answer.key))) }
            } catch {
                guard let problem = error.problem else { throw error }
                for step in group { asked.append(Asked(step: step, answer: .refused(problem))) }
            }
        }
    }

    /// A person retries a change, or decides the only open conflict.
    func ask(_ request: WorkedExample.Request, _ step: WorkedExample.Step) throws {
        wait(until: step.at)
        do {
            try take(request, step)
        } catch let error as StoreError {
            guard let problem = error.problem else { throw error }
            asked.append(Asked(step: step, answer: .refused(problem)))
        }
    }

    private func take(_ request: WorkedExample.Request, _ step: WorkedExample.Step) throws {
        switch request {
        case .retry(let number):
            guard let key = asked.first(where: { $0.step.number == number })?.key else { return }
            asked.append(Asked(step: step, answer: .taken(try store.retry(key, cascades: true, by: app, at: now).key)))
        case .decide(let choices):
            var fields: [String: ConflictDecision.Choice] = [:]
            for member in choices.members {
                fields[member.name.text] =
                    switch member.value.text {
                    case "local": .local
                    case "remote": .remote
                    default: .value(member.value)
                    }
            }
            try decide(ConflictDecision(.fields(fields)), step)
        case .letGo: try decide(ConflictDecision(.all(.remote), letsGoOfList: true), step)
        }
    }

    private func decide(_ decision: ConflictDecision, _ step: WorkedExample.Step) throws {
        guard let conflict = try openConflicts.first else { return }
        let ending = try store.resolve(conflict.number, decision, by: app, at: now)
        asked.append(Asked(step: step, answer: ending.mutation.map { .taken($0) } ?? .decided(ending.state)))
    }

    func pull(_ bench: HubBench) throws {
        guard isPulled else { return }
        wait(until: now.wall)
        while true {
            let response = try bench.pull([(ExampleFleet.entity, cursor)], device: DeviceID(trusted: name))
            guard let page = response.pages.first else { return }
            _ = try store.applyPull(response, at: now)
            cursor = page.cursor
            if !page.hasMore { return }
        }
    }

    /// - Returns: The sent mutations, in their order.
    func push(_ bench: HubBench) throws -> [OutgoingMutation] {
        hasSent = true
        var sent: [OutgoingMutation] = []
        wait(until: now.wall)
        while let batch = try store.claim(BatchLimits(mutations: 50, bytes: 1 << 20), at: now) {
            let body = try JSONReader.read(PushMessages.request(batch, config: nil), limits: .stored)
            let response = bench.send("POST", "/v1/sync/push", body, device: DeviceID(trusted: name))
            guard response.status == 200 else { throw HubBench.Unexpected(response) }
            sent += batch.mutations
            _ = try store.applyResults(try PushMessages.readResponse(response.body).results, next: nil, at: now)
            wait(until: now.wall)
        }
        return sent
    }

    // MARK: Looking

    /// Records the first sending of each requested change.
    func note(_ sent: [OutgoingMutation], in ending: inout ExampleEnding) throws {
        for mutation in sent {
            guard let index = asked.firstIndex(where: { $0.key == mutation.key }) else {
                // A retry makes new mutations of the other members of its list. No caller asked for one of them alone.
                continue
            }
            guard asked[index].sent == nil else { continue }
            let content = try MutationContent(mutation)
            asked[index].sent = content
            ending.sent.append(.init(step: asked[index].step.number, content: content))
        }
    }

    /// The steps that never went although they are of the kind that goes.
    var unsent: [Int] { asked.filter { $0.sent == nil && $0.step.isSent && !$0.isSettled }.map(\.step.number) }

    /// Notes what is in conflict, refused or expired, before a person asks for something that ends it.
    func settle(into ending: inout ExampleEnding) throws {
        for index in asked.indices where !asked[index].isSettled {
            let found = try outcome(of: asked[index].answer)
            switch found.verdict {
            case .accepted, .ended(MutationState.pending.name): continue
            case .conflict, .rejected, .ended: break
            }
            ending.answers.append(.init(step: asked[index].step.number, answer: found))
            asked[index].isSettled = true
        }
    }

    /// Notes what has become of all that is not noted yet.
    func end(in ending: inout ExampleEnding) throws {
        for index in asked.indices where !asked[index].isSettled {
            ending.answers.append(.init(step: asked[index].step.number, answer: try outcome(of: asked[index].answer)))
        }
    }

    private func outcome(of answer: Asked.Answer) throws -> WorkedExample.Answer {
        let key: MutationKey
        switch answer {
        case .taken(let taken): key = taken
        case .refused(let problem): return .init(.rejected(code: problem.code, detail: problem.detail))
        case .decided(let state): return .init(state == "resolved" ? .accepted(merged: [], kept: [:]) : .ended(state))
        }
        let mutation = try store.reads.mutation(key, at: now)
        switch mutation?.presentState {
        case .done, .superseded, .cancelled: return .init(.accepted(merged: [], kept: [:]))
        case .conflicted: return .init(.conflict(fields: try openConflicts.flatMap { $0.sides.map(\.field) }))
        case .rejected: return .init(.rejected(code: mutation?.problem?.code ?? "", detail: mutation?.problem?.detail ?? ""))
        case let state: return .init(.ended(state?.name ?? "gone"))
        }
    }

    private var openConflicts: [ConflictSnapshot] { get throws { try store.reads.conflicts(ConflictQuery()).items } }

    var hasOpenConflict: Bool { get throws { try !openConflicts.isEmpty } }

    var view: JSONObject? {
        get throws {
            let record = try store.reads.record(RecordName(ExampleFleet.entity, ExampleFleet.id))
            return try record?.view.flatMap { try JSONReader.read($0).object }
        }
    }

    /// The lost values in this device's audit trail.
    var told: Set<ExampleFleet.Told> {
        get throws {
            let entries = try store.reads.audit(after: 0, limit: 1_000).items.filter { $0.verb == "lost" }
            return Set(
                try entries.compactMap { entry in
                    let told = try entry.json.flatMap { try JSONReader.read($0).object }
                    return told.map { ExampleFleet.Told(field: $0["field"]?.text ?? "", value: $0["value"]) }
                })
        }
    }
}

extension MutationContent {
    fileprivate init(_ sent: OutgoingMutation) throws {
        func read(_ text: String?) throws -> JSON? { try text.map { try JSONReader.read($0) } }
        self.init(sent.action, data: try read(sent.data)?.object ?? [:])
        unset = try read(sent.unset)?.array?.compactMap(\.text) ?? []
        operations =
            try read(sent.operations)?.array?.compactMap { value in
                guard let object = value.object, let field = object["field"]?.text, let operand = object["value"],
                    let kind = object["op"]?.text.flatMap({ FieldOperation.Kind(rawValue: $0) })
                else { return nil }
                return FieldOperation(field, kind, operand)
            } ?? []
        base = try read(sent.base)?.object ?? [:]
    }
}
