import ExampleKit
import HubServer
import SyncCore
import SyncStore

/// Runs worked examples with the stores of real agents and a hub. The changes go into each store while it is offline. Then the
/// devices meet the hub, one after the other.
struct ExampleFleet {
    /// How a device finds out about what came before it.
    enum Way: String, CaseIterable {
        /// It pulls first, so its store brings its changes onto what is there.
        case pull
        /// It sends first, so the hub merges.
        case push
    }

    var way: Way
    var coalesces: Bool

    static let all = Way.allCases.flatMap { way in [true, false].map { ExampleFleet(way: way, coalesces: $0) } }

    static let entity: EntityName = "e"
    static let id: RecordID = "r"

    /// - Returns: What is not as the example says, in sentences.
    func failures(of example: WorkedExample, _ order: WorkedExample.Order) throws -> [String] {
        let bench = try HubBench(rules: RuleBook([Self.entity: example.rules]))
        bench.now = ExampleHub.evening
        if let start = example.start {
            let morning = (RFC3339.timestamp("2026-11-20T08:00:00Z") ?? Timestamp(milliseconds: 0)).milliseconds
            let made = Sent(
                "k-start", .create, Self.entity.text, id: Self.id.text, data: .object(start), ms: UInt64(morning), node: "0000000c")
            _ = try bench.verdicts([made], device: "start")
        }
        var failures: [String] = []
        var devices: [String: Device] = [:]
        for (number, name) in example.devices(.written).enumerated() {
            let device = try Device(name, example.rules, number, coalesces: coalesces)
            devices[name] = device
            let steps = example.steps.filter { $0.device == name }
            if steps[0].seen != .nothing { try device.pull(bench) }
            for step in steps where step.seen != .all { try device.ask(step) }
        }
        for step in example.steps(order) {
            guard let device = devices[step.device] else { continue }
            if step.seen == .all {
                try device.pull(bench)
                try device.ask(step)
            } else if device.hasSent {
                continue
            } else if way == .pull, step.device != example.devices(order).first {
                try device.pull(bench)
            }
            let sent = try device.push(bench)
            if way == .push, !coalesces { failures += try device.differences(of: sent) }
        }
        for _ in 0..<2 {
            for device in devices.values {
                try device.pull(bench)
                _ = try device.push(bench)
            }
        }
        for device in devices.values { failures += try device.differences(from: example, order) }
        guard example.rules.kind == .record else { return failures }
        let outcome = example.outcome(order)
        let document = try bench.data(Self.entity, Self.id)?.withoutMarks
        if document != outcome.document {
            failures.append("the hub's record is \(document?.json ?? "gone"), expected \(outcome.document?.json ?? "none")")
        }
        for device in devices.values {
            let view = try device.view
            if view?.withoutMarks != document, try !device.hasOpenConflict {
                failures.append("\(device.name) shows \(view?.json ?? "nothing"), the hub has \(document?.json ?? "nothing")")
            }
        }
        var told = Set(try bench.hub.lostValues(Self.entity, Self.id).map { Told(field: $0.value.field, value: $0.value.value) })
        for device in devices.values { told.formUnion(try device.told) }
        let wanted = Set(outcome.lost.filter { way == .pull || !$0.isKnownToAgents }.map { Told(field: $0.field, value: $0.value) })
        if told != wanted { failures.append("\(told.map(\.text).sorted()) is told as lost, expected \(wanted.map(\.text).sorted())") }
        return failures
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
    private var asked: [(step: WorkedExample.Step, answer: Result<Enqueued, StoreError>)] = []
    /// Of ``asked``, how many have been compared with what was sent of them.
    private var compared = 0
    private let app = Requester(app: "app", uid: 1_000)

    init(_ name: String, _ rules: EntityRules, _ number: Int, coalesces: Bool) throws {
        self.name = name
        self.coalesces = coalesces
        isPulled = rules.kind == .record
        let dawn = RFC3339.timestamp("2026-11-20T06:00:00Z") ?? Timestamp(milliseconds: 0)
        now = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: dawn)
        let options = StoreOptions(
            device: DeviceID(trusted: name), bootID: "boot", rules: RuleBook([ExampleFleet.entity: rules]), seed: UInt64(number + 1))
        store = try Store(try Database.inMemory(), options, at: now)
    }

    private func wait(until wall: Timestamp) {
        let rest = max(now.wall.duration(to: wall), .seconds(1))
        now = Moment(instant: now.instant.advanced(by: rest), wall: now.wall.advanced(by: rest))
    }

    func ask(_ step: WorkedExample.Step) throws {
        wait(until: step.at)
        var mutation = step.mutation(of: ExampleFleet.entity, ExampleFleet.id)
        mutation.coalesces = coalesces
        store.clockTrust = step.isUnsynced ? .unsynced : .synced
        do throws(StoreError) {
            asked.append((step, .success(try store.enqueue([mutation], by: app, at: now)[0])))
        } catch {
            guard error.problem != nil else { throw error }
            asked.append((step, .failure(error)))
        }
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

    /// - Returns: What went, in its order.
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

    /// What went for each change that was asked for, against what the example says of it.
    func differences(of sent: [OutgoingMutation]) throws -> [String] {
        let taken = asked.dropFirst(compared).filter { (try? $0.answer.get()) != nil }
        compared = asked.count
        guard taken.count == sent.count else { return ["\(name) sends \(sent.count) changes of \(taken.count)"] }
        return try zip(taken, sent).compactMap { one, mutation in
            let wanted = one.step.wire ?? one.step.content
            let found = try MutationContent(mutation)
            return found == wanted ? nil : "\(name) sends \(found.words), expected \(wanted.words)"
        }
    }

    func differences(from example: WorkedExample, _ order: WorkedExample.Order) throws -> [String] {
        try asked.enumerated().compactMap { number, one in
            let wanted = example.answer(to: one.step, order)
            let found = try outcome(of: one.answer)
            let isMet = switch (wanted.verdict, found.verdict) {
            case (.accepted, .accepted): true
            case (.conflict(let fields), .conflict(let others)): fields == [HubMerge.wholeRecord] || fields.sorted() == others.sorted()
            default: wanted.isMet(by: found)
            }
            return isMet ? nil : "change \(number + 1) of \(name) ends as \(found), expected \(wanted)"
        }
    }

    private func outcome(of answer: Result<Enqueued, StoreError>) throws -> WorkedExample.Answer {
        guard case .success(let enqueued) = answer else {
            guard case .failure(let error) = answer, let problem = error.problem else { return .init(.rejected(code: "?", detail: "")) }
            return .init(.rejected(code: problem.code, detail: problem.detail))
        }
        let mutation = try store.reads.mutation(enqueued.key, at: now)
        switch mutation?.presentState {
        case .done, .superseded, .cancelled: return .init(.accepted(merged: [], kept: enqueued.kept))
        case .conflicted: return .init(.conflict(fields: try openConflicts.flatMap { $0.sides.map(\.field) }))
        case .rejected: return .init(.rejected(code: mutation?.problem?.code ?? "", detail: mutation?.problem?.detail ?? ""))
        case let state: return .init(.rejected(code: state?.name ?? "gone", detail: ""))
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

    /// What this device's audit trail says of values that were lost.
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
        operations = try read(sent.operations)?.array?.compactMap { value in
            guard let object = value.object, let field = object["field"]?.text, let operand = object["value"],
                let kind = object["op"]?.text.flatMap({ FieldOperation.Kind(rawValue: $0) })
            else { return nil }
            return FieldOperation(field, kind, operand)
        } ?? []
        base = try read(sent.base)?.object ?? [:]
    }

    fileprivate var words: String {
        let operations = operations.map { "\($0.field) \($0.kind.rawValue) \($0.value.json)" }
        return "\(action) \(JSON.object(data).json) unset \(unset) ops \(operations) base \(JSON.object(base).json)"
    }
}
