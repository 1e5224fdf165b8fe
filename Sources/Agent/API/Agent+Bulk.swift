import LocalAPI
import SyncCore
import SyncHTTP
import SyncStore

// `POST /v1/mutations/bulk`: lines in, lines out, for as long as the client likes.
extension Agent {
    func enqueueLines(_ call: LocalCall) throws(Problem) {
        guard call.exchange.request.header("If-Match") == nil else {
            throw LocalProblem.malformed.problem("If-Match is for one mutation: in a stream each line has its own if_match")
        }
        measureSpace()
        let intake = LineIntake(call: call, agent: self)
        call.exchange.begin(status: 200, headers: [("Content-Type", LocalAnswer.lines)])
        intake.read()
    }
}

/// Takes one stream of lines: cuts it, hands the lines to the store in groups, and answers each in its order.
///
/// Two groups may be with the store at once, so that reading and committing overlap; nothing more is read from the socket
/// while they are, which is what slows a fast client down and keeps memory at a few hundred KiB a stream. A line is
/// accepted when its answer says so; what a cut stream left without an answer is not.
final class LineIntake: @unchecked Sendable {
    // Sendable because every method runs on the agent's loop; nothing else touches the state.
    private let call: LocalCall
    private let agent: Agent
    private var splitter = LineSplitter(bytesMax: Limits.lineBytes)
    private var accepted: Int64 = 0
    private var failed: Int64 = 0
    private var groupsUnderWay = 0
    private var isReading = false
    private var hasEnded = false
    private var isBroken = false

    private static let groupsMax = 2

    init(call: LocalCall, agent: Agent) {
        self.call = call
        self.agent = agent
    }

    func read() {
        guard !isReading, !hasEnded, groupsUnderWay < Self.groupsMax else { return }
        isReading = true
        call.exchange.readBody { [self] part in
            isReading = false
            take(part)
        }
    }

    private func take(_ part: HTTPExchange.BodyPart) {
        switch part {
        case .bytes(let bytes): submit(splitter.read(bytes))
        case .end:
            hasEnded = true
            submit(splitter.finish())
        case .failed:
            // The client is gone or the framing broke: what was answered holds, the rest never was.
            hasEnded = true
            isBroken = true
            finishIfDone()
            return
        }
        // A client that does not read its answers must not fill our memory with them.
        if call.exchange.unsentBytes > EventStream.backlogMax {
            call.exchange.whenWritable { [self] in read() }
        } else {
            read()
        }
        finishIfDone()
    }

    private func submit(_ lines: [LineSplitter.Line]) {
        for start in stride(from: 0, to: lines.count, by: Limits.groupRows) {
            submit(group: lines[start..<min(lines.count, start + Limits.groupRows)])
        }
    }

    private func submit(group lines: ArraySlice<LineSplitter.Line>) {
        let items = lines.map(read)
        let requester = call.peer.requester
        let work = items
        groupsUnderWay += 1
        agent.store.run { store, now throws(StoreError) in
            // Each line stands alone: a refused one leaves nothing behind and does not disturb the others.
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
            read()
            finishIfDone()
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
        if case .success(let mutation) = parsed.mutation, let problem = agent.problem(with: mutation, for: call) {
            parsed.mutation = .failure(problem)
        }
        return Item(number: line.number, line: parsed)
    }

    private func answer(_ items: [Item], _ result: Result<[Result<Enqueued, StoreError>], StoreError>) {
        var lines: [UInt8] = []
        var taken: [NewMutation] = []
        for (index, item) in items.enumerated() {
            let outcome: Result<Enqueued, StoreError> =
                switch result {
                // The commit failed: none of the group is stored, whatever was said inside it.
                case .failure(let error): .failure(error)
                case .success(let list): list[index]
                }
            switch outcome {
            case .success(let enqueued):
                accepted += 1
                if case .success(let mutation) = item.line.mutation { taken.append(mutation) }
                lines += BulkAnswer.accepted(
                    line: item.number, ref: item.line.ref, id: enqueued.key, state: enqueued.state.name,
                    isRepeat: enqueued.isRepeat
                ).bytes
            case .failure(let error):
                failed += 1
                lines += BulkAnswer.refused(line: item.number, ref: item.line.ref, error.localProblem).bytes
            }
        }
        call.exchange.write(lines)
        agent.assumeIsolated { $0.noteEnqueued(taken) }
    }

    private func finishIfDone() {
        guard hasEnded, !isReading, groupsUnderWay == 0 else { return }
        groupsUnderWay = -1
        if isBroken { return call.exchange.abort() }
        call.exchange.write(BulkAnswer.summary(accepted: accepted, failed: failed).bytes)
        call.exchange.end()
    }
}
