import LocalAPI
import SyncCore
import Synchronization

/// Apps that write without a pause and insist: a request that was not answered is repeated with its key until it is.
final class Workload: Sendable {
    /// The acknowledged mutations.
    struct Told: Sendable {
        /// Changes of each record, its creation included.
        var records: [String: Int] = [:]
        var readings: Set<String> = []
    }

    private struct State {
        var told = Told()
        var count = 0
        var isOver = false
        var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let stand: Stand
    private let recordsOfWriter: Int
    private let state = Mutex(State())

    init(_ stand: Stand, recordsOfWriter: Int) {
        self.stand = stand
        self.recordsOfWriter = recordsOfWriter
    }

    var told: Told { state.withLock { $0.told } }

    /// Acknowledged mutations.
    var count: Int { state.withLock { $0.count } }

    /// Changes records one after another, round and round.
    func writeRecords(writer: Int) async throws {
        defer { end() }
        var step = 0
        while !isOver {
            let record = "w\(writer)-\(step % recordsOfWriter)"
            let number = step / recordsOfWriter + 1
            // A mark of its own beside the running number, so that a document shows which changes it has seen.
            let change = NewMutation(
                number == 1 ? .create : .update, EntityName(trusted: "work_orders"), RecordID(trusted: record),
                data: ["n": .int(number), "s\(number)": .int(number)], coalesces: false)
            try await enqueue(change, key: "\(record)/\(number)")
            acknowledge { $0.records[record] = number }
            step += 1
        }
    }

    func writeReadings() async throws {
        defer { end() }
        var number = 0
        while !isOver {
            number += 1
            let name = "r\(number)"
            // No id of ours: had it been applied twice, there would be two of it.
            let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["name": .string(name)])
            try await enqueue(reading, key: name)
            acknowledge { $0.readings.insert(name) }
        }
    }

    /// Nothing new is begun; what was begun is brought to its answer.
    func end() {
        wake { $0.isOver = true }
    }

    /// Returns after that many more acknowledged mutations, or when it is over.
    func advance(by more: Int) async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                if !state.isOver { state.waiting.append((state.count + more, continuation)) }
                return state.isOver
            }
            if isDone { continuation.resume() }
        }
    }

    private var isOver: Bool { state.withLock { $0.isOver } }

    private func acknowledge(_ note: (inout Told) -> Void) {
        wake { state in
            note(&state.told)
            state.count += 1
        }
    }

    private func wake(_ change: (inout State) -> Void) {
        let ready = state.withLock { state in
            change(&state)
            let ready = state.waiting.filter { state.isOver || state.count >= $0.count }
            state.waiting.removeAll { state.isOver || state.count >= $0.count }
            return ready
        }
        for waiting in ready { waiting.continuation.resume() }
    }

    private func enqueue(_ mutation: NewMutation, key: String) async throws {
        while true {
            let failure: AgentError
            do throws(AgentError) {
                _ = try await stand.client.enqueue(mutation, key: key)
                return
            } catch {
                failure = error
            }
            guard failure.code != .refused || failure.isRetryable else { throw failure }
            try Task.checkCancellation()
            await stand.untilAgentRuns()
        }
    }
}
