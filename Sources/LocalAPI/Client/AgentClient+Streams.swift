import SyncCore
import Synchronization

/// The result of an import, counted from the answers.
package struct ImportOutcome: Hashable, Sendable {
    package var accepted: Int64 = 0
    /// Number of accepted lines that had been accepted before, under the same key.
    package var repeated: Int64 = 0
    package var failed: Int64 = 0
    /// The agent's own count came and agrees. Otherwise the stream was cut, and a line without an answer may be stored or not.
    package var isComplete = false
}

extension AgentClient {
    /// Sends lines as they become available and returns the answers as they arrive; neither side is ever held completely in memory.
    ///
    /// - Parameters:
    ///   - nextPiece: Called on the transport's thread for the next bytes of NDJSON, at most the given count; `nil` at the end. Lines may
    ///     be split anywhere.
    ///   - onAnswer: Called on the transport's thread for each line, in order.
    /// - Throws: `.refused` when the agent accepts no lines at all. A refused line is an answer, an interrupted stream an incomplete
    ///   outcome.
    package func importLines(
        nextPiece: @escaping @Sendable (_ upTo: Int) -> [UInt8]?, onAnswer: @escaping @Sendable (BulkAnswer) -> Void
    ) async throws(AgentError) -> ImportOutcome {
        var request = request(.enqueueLines, headers: ["Content-Type": LocalAnswer.lines])
        request.body = .pieces(nextPiece)
        // The source of the lines sets the pace: a pipe may be silent for hours. The total size of the answers has no limit.
        request.deadlines.firstByte = nil
        request.deadlines.idle = nil
        request.deadlines.total = nil
        request.maxResponseBytes = .max
        let answers = ImportAnswers(onAnswer)
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await transport.stream(
                request, onHead: { status, _ in answers.begin(status) }, onBody: { answers.read($0) })
        } catch {
            // Answers before the interruption are valid; only a request without any answer is an error.
            let outcome = answers.outcome
            if outcome.accepted + outcome.failed > 0 { return outcome }
            throw AgentError.transport(Self.doing(.enqueueLines), socket: socketPath, error)
        }
        if response.status != 200 {
            throw AgentError.refused(
                Self.doing(.enqueueLines), Self.problem(status: response.status, body: answers.refusal))
        }
        return answers.outcome
    }

    /// One connection to the event stream, until the agent ends it or `onEvent` returns `false`.
    ///
    /// - Parameter lastID: Continue after this event; `nil` begins now.
    package func events(
        _ query: EventQuery, after lastID: String?, onEvent: @escaping @Sendable (LocalEvent) -> Bool
    ) async throws(AgentError) {
        try await events(query, WatchPosition(lastID), onEvent)
    }

    /// Reads the event stream over restarts of the agent, each time after the last event seen, until `onEvent` returns `false`. No event is
    /// missed silently: a `reset` event marks events that are no longer kept.
    ///
    /// - Parameters:
    ///   - pause: Waits for this time, in the way of the caller.
    ///   - onGap: Called for each interruption, before the wait.
    /// - Throws: The error of the first connection, and later every error that another attempt cannot fix.
    package func watch(
        _ query: EventQuery, after lastID: String?, pause: (Duration) async -> Void,
        onGap: (AgentError) -> Void = { _ in }, onEvent: @escaping @Sendable (LocalEvent) -> Bool
    ) async throws(AgentError) {
        let position = WatchPosition(lastID)
        var failures = 0
        while !position.isStopped {
            position.beginConnection()
            do throws(AgentError) {
                try await events(query, position, onEvent)
            } catch {
                guard error.isRetryable, position.wasOpen else { throw error }
                onGap(error)
            }
            if position.isStopped { return }
            // A connection without events may fail again at once: 0.5, 1, 2, 4, 8, 8 … seconds.
            failures = position.sawEvent ? 0 : min(failures + 1, 5)
            if failures > 0 { await pause(.milliseconds(250 << failures)) }
        }
    }

    private func events(
        _ query: EventQuery, _ position: WatchPosition, _ onEvent: @escaping @Sendable (LocalEvent) -> Bool
    ) async throws(AgentError) {
        let doing = Self.doing(.events(query))
        var headers: HTTPHeaders = ["Accept": LocalAnswer.eventStream]
        if let lastID = position.lastID { headers["Last-Event-ID"] = lastID }
        var request = request(.events(query), headers: headers)
        // The agent writes at least a comment every 15 seconds: after three missed ones the connection counts as dead.
        request.deadlines.firstByte = EventStream.keepAliveInterval * 3
        request.deadlines.idle = EventStream.keepAliveInterval * 3
        request.deadlines.total = nil
        request.maxResponseBytes = .max
        let reader = EventReader(position, onEvent)
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await transport.stream(
                request, onHead: { status, _ in reader.begin(status) }, onBody: { reader.read($0) })
        } catch {
            throw AgentError.transport(doing, socket: socketPath, error)
        }
        if response.status != 200 {
            throw AgentError.refused(doing, Self.problem(status: response.status, body: reader.refusal))
        }
        if reader.isBroken { throw AgentError.badAnswer(doing, "an event is too long") }
    }
}

/// The answers of an import that the transport's thread has read. It has a lock, because other threads read its counts.
private final class ImportAnswers: Sendable {
    private struct State {
        var splitter = LineSplitter(bytesMax: 1 << 20)
        var status = 200
        var refusal: [UInt8] = []
        var position: Int64 = 0
        var outcome = ImportOutcome()
    }

    private let state = Mutex(State())
    private let onAnswer: @Sendable (BulkAnswer) -> Void

    init(_ onAnswer: @escaping @Sendable (BulkAnswer) -> Void) {
        self.onAnswer = onAnswer
    }

    var outcome: ImportOutcome { state.withLock { $0.outcome } }
    var refusal: [UInt8] { state.withLock { $0.refusal } }

    func begin(_ status: Int) {
        state.withLock { $0.status = status }
    }

    func read(_ piece: [UInt8]) -> Bool {
        let (answers, goesOn) = state.withLock { state -> ([BulkAnswer], Bool) in
            guard state.status == 200 else {
                if state.refusal.count < 64 << 10 { state.refusal += piece }
                return ([], true)
            }
            var answers: [BulkAnswer] = []
            for line in state.splitter.read(piece) {
                state.position += 1
                // An unreadable answer is reported as such, with its position.
                guard let bytes = line.bytes, let json = try? JSONReader.read(bytes),
                    let answer = BulkAnswer(json, position: state.position)
                else {
                    // It is not an agent's answer: from here on answers cannot be matched with lines.
                    return (answers, false)
                }
                count(answer, &state.outcome)
                answers.append(answer)
            }
            return (answers, true)
        }
        for answer in answers { onAnswer(answer) }
        return goesOn
    }

    private func count(_ answer: BulkAnswer, _ outcome: inout ImportOutcome) {
        switch answer {
        case .accepted(_, _, _, _, let isRepeat, _):
            outcome.accepted += 1
            if isRepeat { outcome.repeated += 1 }
        case .refused: outcome.failed += 1
        case .summary(let accepted, let failed):
            outcome.isComplete = accepted == outcome.accepted && failed == outcome.failed
        }
    }
}

/// The parser between the transport's thread and the caller's handler.
private final class EventReader: Sendable {
    private struct State {
        var parser = EventParser()
        var status = 200
        var refusal: [UInt8] = []
    }

    private let state = Mutex(State())
    private let position: WatchPosition
    private let onEvent: @Sendable (LocalEvent) -> Bool

    init(_ position: WatchPosition, _ onEvent: @escaping @Sendable (LocalEvent) -> Bool) {
        self.position = position
        self.onEvent = onEvent
    }

    var refusal: [UInt8] { state.withLock { $0.refusal } }
    var isBroken: Bool { state.withLock { $0.parser.isBroken } }

    func begin(_ status: Int) {
        state.withLock { $0.status = status }
        if status == 200 { position.recordOpen() }
    }

    func read(_ piece: [UInt8]) -> Bool {
        let (events, lastID, goesOn) = state.withLock { state -> ([LocalEvent], String?, Bool) in
            guard state.status == 200 else {
                if state.refusal.count < 64 << 10 { state.refusal += piece }
                return ([], nil, true)
            }
            let events = state.parser.read(piece)
            return (events, state.parser.lastID, !state.parser.isBroken)
        }
        for event in events {
            position.record(event)
            if !onEvent(event) {
                position.stop()
                return false
            }
        }
        // A position without an event: a stream that is still silent continues from there.
        if let lastID { position.record(lastID) }
        return goesOn
    }
}

/// The position of a watch, over all its connections.
private final class WatchPosition: Sendable {
    private struct State {
        var lastID: String?
        var isStopped = false
        var sawEvent = false
        var wasOpen = false
    }

    private let state: Mutex<State>

    init(_ lastID: String?) {
        state = Mutex(State(lastID: lastID))
    }

    var lastID: String? { state.withLock { $0.lastID } }
    var isStopped: Bool { state.withLock { $0.isStopped } }
    /// An event arrived on this connection.
    var sawEvent: Bool { state.withLock { $0.sawEvent } }
    /// A connection was answered with a stream.
    var wasOpen: Bool { state.withLock { $0.wasOpen } }

    func beginConnection() { state.withLock { $0.sawEvent = false } }
    func recordOpen() { state.withLock { $0.wasOpen = true } }
    func record(_ lastID: String) { state.withLock { $0.lastID = lastID } }
    func stop() { state.withLock { $0.isStopped = true } }

    func record(_ event: LocalEvent) {
        state.withLock { state in
            state.lastID = event.id ?? state.lastID
            if !EventStream.isAboutStream(event.type) { state.sawEvent = true }
        }
    }
}
