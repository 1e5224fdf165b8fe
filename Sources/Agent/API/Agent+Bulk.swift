import LocalAPI
import SyncCore
import SyncHTTP
import SyncStore

// `POST /v1/mutations/bulk`: lines in, lines out, for as long as the client keeps the stream open.
extension Agent {
    func enqueueLines(_ call: LocalCall) throws(Problem) {
        guard call.exchange.request.header("If-Match") == nil else {
            throw LocalProblem.malformed.problem("If-Match is for one mutation: in a stream each line has its own if_match")
        }
        let schemas = try AppSchemas(call.exchange.request, loaded.configuration.rules)
        measureSpace()
        let intake = LineIntake(call: call, agent: self, schemas: schemas)
        call.exchange.begin(status: 200, headers: [("Content-Type", LocalAnswer.lines)])
        intake.proceed()
    }
}

/// Accepts one stream of lines: it splits the stream, passes the lines to the store in groups, and answers each line in its order.
///
/// Two groups may be with the store at once, so that reading and committing overlap. A client that does not read its answers must not fill
/// our memory with them, and one byte of a line may cause some hundred bytes of an answer. So no group is made and nothing is read while
/// more than ``answersMax`` of answers wait to be sent. A stream therefore costs one piece of the body (64 KiB), a line (128 KiB), two
/// groups and their answers, whatever the client does. A fast client is slowed down, and one that reads nothing is disconnected
/// (``HTTPServerLimits/writeStallTime``).
///
/// A line is accepted when its answer says so. A line that a cut stream left without an answer may be stored or not: the client
/// sends it again with the same key, and it is not stored twice.
final class LineIntake: @unchecked Sendable {
    // Sendable because every method runs on the agent's loop; nothing else touches the state.
    private let call: LocalCall
    private let agent: Agent
    private let schemas: AppSchemas
    private var splitter = LineSplitter(bytesMax: Limits.lineBytes)
    /// Bytes that were read and not yet split into lines.
    private var uncut: ArraySlice<UInt8> = []
    private var accepted: Int64 = 0
    private var failed: Int64 = 0
    private var groupsUnderWay = 0
    private var isReading = false
    private var waitsForRoom = false
    private var bodyHasEnded = false
    private var lastLineIsCut = false
    private var isBroken = false
    private var isFinished = false

    private static let groupsMax = 2
    /// Size of the answers that may wait for the client before the next group is made, bytes: the mark at which the connection makes
    /// streams wait.
    private static let answersMax = 64 << 10

    init(call: LocalCall, agent: Agent, schemas: AppSchemas) {
        self.schemas = schemas
        self.call = call
        self.agent = agent
    }

    /// Does all possible work; called again whenever an awaited event has come.
    func proceed() {
        while !isBroken, groupsUnderWay < Self.groupsMax, hasRoomForAnswers() {
            if !uncut.isEmpty {
                submit(splitter.read(Array(nextGroup())))
            } else if !bodyHasEnded {
                // Its answer calls this again, perhaps before this call returns.
                return read()
            } else if !lastLineIsCut {
                lastLineIsCut = true
                submit(splitter.finish())
            } else {
                break
            }
        }
        finishIfDone()
    }

    private func read() {
        guard !isReading else { return }
        isReading = true
        call.exchange.readBody { [self] part in
            isReading = false
            switch part {
            case .bytes(let bytes): uncut = bytes[...]
            case .end: bodyHasEnded = true
            case .failed: end()
            }
            proceed()
        }
    }

    /// The client is gone or the framing broke. Groups that the store has already are stored all the same, without an answer.
    private func end() {
        isBroken = true
        uncut = []
    }

    private func hasRoomForAnswers() -> Bool {
        guard call.exchange.isOpen else {
            end()
            return false
        }
        guard call.exchange.unsentBytes > Self.answersMax else { return true }
        if !waitsForRoom {
            waitsForRoom = true
            call.exchange.whenWritable { [self] in
                waitsForRoom = false
                proceed()
            }
        }
        return false
    }

    /// The bytes of the lines of one group, or all bytes.
    private func nextGroup() -> ArraySlice<UInt8> {
        var lines = 0
        let end = uncut.firstIndex { byte in
            lines += byte == UInt8(ascii: "\n") ? 1 : 0
            return lines == Limits.groupRows
        }
        let group = uncut[...(end ?? uncut.endIndex - 1)]
        uncut = uncut[group.endIndex...]
        return group
    }

    private func submit(_ lines: [LineSplitter.Line]) {
        guard !lines.isEmpty else { return }
        let items = lines.map(read)
        let requester = call.peer.requester
        let work = items
        groupsUnderWay += 1
        agent.store.run { store, now throws(StoreError) in
            // Each line is accepted alone: a refused one leaves nothing behind and does not affect the others.
            work.map { item -> Result<Enqueued, StoreError> in
                do throws(StoreError) {
                    let mutation = try item.mutation()
                    let made = try store.enqueue([mutation], by: requester, appKey: item.line.appKey, at: now)
                    guard let first = made.first else { preconditionFailure("an enqueue of one mutation brought no result") }
                    return .success(first)
                } catch {
                    return .failure(error)
                }
            }
        } completion: { [self] result in
            groupsUnderWay -= 1
            answer(work, result)
            proceed()
        }
    }

    private struct Item: Sendable {
        var number: Int64
        var line: BulkLine

        func mutation() throws(StoreError) -> NewMutation {
            switch line.mutation {
            case .success(let mutation): return mutation
            case .failure(let problem): throw .refused(problem)
            }
        }
    }

    private func read(_ line: LineSplitter.Line) -> Item {
        guard let bytes = line.bytes else { return Item(number: line.number, line: BulkLine(refusing: BulkLine.tooLong)) }
        var parsed = BulkLine.read(bytes)
        if case .success(let mutation) = parsed.mutation {
            parsed.mutation = agent.problem(with: mutation, for: call).map { .failure($0) } ?? .success(schemas.stamped(mutation))
        }
        return Item(number: line.number, line: parsed)
    }

    private func answer(_ items: [Item], _ result: Result<[Result<Enqueued, StoreError>], StoreError>) {
        var lines: [UInt8] = []
        var taken: [NewMutation] = []
        for (index, item) in items.enumerated() {
            let outcome: Result<Enqueued, StoreError> =
                switch result {
                // The commit failed: no line of the group is stored, whatever its own result was.
                case .failure(let error): .failure(error)
                case .success(let list): list[index]
                }
            switch outcome {
            case .success(let enqueued):
                accepted += 1
                if case .success(let mutation) = item.line.mutation { taken.append(mutation) }
                lines +=
                    BulkAnswer.accepted(
                        line: item.number, ref: item.line.ref, id: enqueued.key, state: enqueued.state.name,
                        isRepeat: enqueued.isRepeat, kept: enqueued.kept
                    ).bytes
            case .failure(let error):
                failed += 1
                lines += BulkAnswer.refused(line: item.number, ref: item.line.ref, error.localProblem).bytes
            }
        }
        call.exchange.write(lines)
        agent.assumeIsolated { $0.reportNewWork(taken) }
    }

    private func finishIfDone() {
        guard isBroken || lastLineIsCut, groupsUnderWay == 0, !isFinished else { return }
        isFinished = true
        if isBroken { return call.exchange.abort() }
        call.exchange.write(BulkAnswer.summary(accepted: accepted, failed: failed).bytes)
        call.exchange.end()
    }
}
