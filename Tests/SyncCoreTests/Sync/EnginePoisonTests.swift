import SyncCore
import Testing

/// One bad mutation never blocks the queue (PROTOCOL A4, "Poison isolation").
@Suite("Engine: the mutation that the hub cannot digest")
struct EnginePoisonTests {
    typealias Rig = EngineRig

    /// An outbox with what a store does to it, as far as the search for poison needs one.
    private struct Outbox {
        var inFlight: [Int64] = []
        /// The batch that is with the hub.
        var sent: Batch?
        var pending: [Int64]
        /// Mutations that go only in a batch of their own, after the others.
        var aside: [Int64] = []
        var counted: [Int64: Int] = [:]
        var rejected: [Int64] = []
        var failed: [Int64] = []
        var done: [Int64] = []

        mutating func claim(_ limit: Int) -> Batch? {
            if pending.isEmpty, !aside.isEmpty {
                inFlight.append(aside.removeFirst())
            } else {
                inFlight += pending.prefix(limit)
                pending.removeFirst(min(limit, pending.count))
            }
            return inFlight.isEmpty ? nil : Self.batch(inFlight)
        }

        static func batch(_ seqs: [Int64]) -> Batch {
            Batch(mutations: seqs.map { Rig.mutation($0) }, ackedSeq: 0, maxSentSeq: 1_000)
        }
    }

    /// Runs until everything is done, parked or refused. `answer` is the hub; `nil` is silence, or the failure that is named.
    private func run(
        _ outbox: inout Outbox, steps: Int, failure: TransportError.Code = .timedOut, answer: (Batch) -> HTTPResponse?
    ) -> EngineRig {
        var rig = Rig.settled()
        run(&rig, &outbox, steps: steps, failure: failure, answer: answer)
        return rig
    }

    private func run(
        _ rig: inout EngineRig, _ outbox: inout Outbox, steps: Int, failure: TransportError.Code = .timedOut,
        answer: (Batch) -> HTTPResponse?
    ) {
        rig.handle(.enqueued(.normal))
        for _ in 0..<steps {
            if outbox.inFlight.isEmpty, outbox.pending.isEmpty, outbox.aside.isEmpty { break }
            if let call = rig.call {
                switch call.kind {
                case .hello: rig.answer(Rig.hello())
                case .pull, .snapshot, .known, .verify: rig.answer(Rig.pull())
                case .settle, .push:
                    guard let batch = outbox.sent else { return }
                    if let response = answer(batch) { rig.answer(response) } else { rig.fail(failure, after: .seconds(30)) }
                }
                continue
            }
            switch rig.command {
            case .loadInFlight(let limits)?:
                outbox.sent = outbox.inFlight.isEmpty ? nil : Outbox.batch(Array(outbox.inFlight.prefix(limits.mutations)))
                rig.stored(.batch(outbox.sent, retryAt: nil))
            case .claim(let limits)?:
                outbox.sent = outbox.claim(limits.mutations)
                rig.stored(.batch(outbox.sent, retryAt: nil))
            case .applyResults(let results, let next, _, _)?:
                var summary = Rig.summary()
                for result in results {
                    let seq = outbox.inFlight.first { Rig.mutation($0).key == result.key } ?? 0
                    outbox.inFlight.removeAll { $0 == seq }
                    if case .rejected = result.verdict {
                        outbox.rejected.append(seq)
                        summary.rejected += 1
                    } else {
                        outbox.done.append(seq)
                        summary.done += 1
                    }
                }
                outbox.sent = next.flatMap { outbox.claim($0.mutations) }
                rig.stored(.resultsApplied(summary, next: outbox.sent))
            case .setAside(let key, _, let counts)?:
                let seq = outbox.inFlight.first { Rig.mutation($0).key == key } ?? 0
                outbox.inFlight.removeAll { $0 == seq }
                if counts { outbox.counted[seq, default: 0] += 1 }
                if outbox.counted[seq, default: 0] >= 10 { outbox.failed.append(seq) } else { outbox.aside.append(seq) }
                rig.stored(.done)
            case .loadStreams?: rig.stored(.streams([Rig.position(Rig.works)]))
            case .applyPull?: rig.stored(.pullApplied(PullSummary()))
            case .housekeep?: rig.stored(.housekept(more: false))
            case .remember?: rig.stored(.done)
            case nil: rig.begin()
            default: Issue.record("unexpected: \(String(describing: rig.command))")
            }
        }
    }

    @Test("A 400 over one of fifty: halved at once, the one is found, the others go through")
    func malformed() {
        var outbox = Outbox(pending: Array(1...50))
        let rig = run(&outbox, steps: 160) { batch in
            batch.mutations.contains { $0.seq == 23 } ? Rig.problem(400, "malformed") : Rig.push(Rig.accepted(batch))
        }
        #expect(Set(outbox.done) == Set(1...50).subtracting([23]))
        #expect(rig.reports.contains { if case .setAside(Rig.mutation(23).key, _) = $0 { true } else { false } })
    }

    @Test("A 500 over one of fifty: found with patience, the others go through")
    func failing() {
        var outbox = Outbox(pending: Array(1...50))
        _ = run(&outbox, steps: 260) { batch in
            batch.mutations.contains { $0.seq == 23 } ? Rig.problem(500, "internal") : Rig.push(Rig.accepted(batch))
        }
        #expect(Set(outbox.done) == Set(1...50).subtracting([23]))
    }

    @Test("A mutation about which every answer is nonsense, or left out, is isolated like any other", arguments: [false, true])
    func nonsense(_ leavesOut: Bool) {
        var outbox = Outbox(pending: Array(1...20))
        _ = run(&outbox, steps: 300) { batch in
            guard batch.mutations.contains(where: { $0.seq == 7 }) else { return Rig.push(Rig.accepted(batch)) }
            guard leavesOut else { return Rig.ok(Array("{".utf8)) }
            return Rig.push(Rig.accepted(batch).filter { $0.key != Rig.mutation(7).key })
        }
        #expect(Set(outbox.done) == Set(1...20).subtracting([7]))
    }

    @Test("A mutation over which the hub falls silent is set aside, and never uses up its attempts: a tunnel is silent, too")
    func hanging() {
        var outbox = Outbox(pending: Array(1...10))
        _ = run(&outbox, steps: 600) { batch in
            batch.mutations.contains { $0.seq == 4 } ? nil : Rig.push(Rig.accepted(batch))
        }
        #expect(Set(outbox.done) == Set(1...10).subtracting([4]))
        #expect(outbox.counted.isEmpty)
    }

    @Test("In a tunnel nothing is set aside at all")
    func tunnel() {
        // So long a silence opens the breaker; here it is to go on.
        var settings = SyncEngine.Settings()
        settings.breaker.opensAfter = .seconds(1_000_000)
        var rig = Rig.pushing(Rig.batch(1...3), settings: settings)
        for _ in 0..<30 {
            rig.fail(.timedOut, after: .seconds(30))
            rig.keepHouse()
            rig.begin()
            // The greeting that tells a dead hub from a hanging one.
            while rig.asked == "hello" {
                rig.fail(.timedOut, after: .seconds(30))
                rig.keepHouse()
                rig.begin()
                if rig.engine.memory.failures > 40 { return }
            }
            guard case .loadInFlight(let limits)? = rig.command else {
                Issue.record("set aside in a tunnel: \(String(describing: rig.asked))")
                return
            }
            rig.stored(.batch(Rig.batch(1...Int64(min(3, limits.mutations))), retryAt: nil))
        }
    }

    @Test("Ten answered failures alone, with others passing in between, park it")
    func parks() {
        var rig = Rig.settled()
        var outbox = Outbox(pending: [1, 2])
        // Traffic goes on: whenever the poison has been tried, something else arrives.
        for next in Int64(3)...60 where outbox.failed.isEmpty {
            outbox.pending.append(next)
            run(&rig, &outbox, steps: 30) { batch in
                batch.mutations.contains { $0.seq == 2 } ? Rig.problem(500, "internal") : Rig.push(Rig.accepted(batch))
            }
        }
        #expect(outbox.failed == [2])
        #expect(outbox.counted == [2: 10])
        #expect(!outbox.done.contains(2))
    }

    @Test("A hub that fails over everything uses up no attempts of a mutation")
    func brokenHub() {
        var outbox = Outbox(pending: Array(1...4))
        _ = run(&outbox, steps: 1_500) { _ in Rig.problem(500, "internal") }
        #expect(outbox.counted.isEmpty)
        #expect(outbox.failed.isEmpty)
    }

    @Test("413 over one alone is the hub's verdict; over many it only halves")
    func tooLarge() {
        var outbox = Outbox(pending: Array(1...16))
        _ = run(&outbox, steps: 120) { batch in
            batch.mutations.count > 2 || batch.mutations.contains { $0.seq == 5 }
                ? Rig.problem(413, "too-large") : Rig.push(Rig.accepted(batch))
        }
        #expect(outbox.rejected == [5])
        #expect(Set(outbox.done) == Set(1...16).subtracting([5]))
    }

    @Test("An answer beyond what the agent reads halves the batch, and all of it goes through in a few more requests")
    func answerTooLarge() {
        var outbox = Outbox(pending: Array(1...400))
        var tooLarge = 0, asked = 0
        let rig = run(&outbox, steps: 600, failure: .tooLarge) { batch in
            asked += 1
            if batch.mutations.count <= 9 { return Rig.push(Rig.accepted(batch)) }
            tooLarge += 1
            return nil
        }
        #expect(Set(outbox.done) == Set(1...400))
        #expect(outbox.counted.isEmpty && outbox.failed.isEmpty && outbox.rejected.isEmpty)
        // 50, 25, 12, and 50 as often as it takes to greet; then batches stay small.
        #expect(tooLarge <= 8, "\(tooLarge) of \(asked)")
        #expect(!rig.reports.contains { if case .setAside = $0 { true } else { false } })
    }

    @Test("One mutation to which the answer is always too large is set aside, the others go through, and it is parked in the end")
    func answerTooLargeAlone() {
        var outbox = Outbox(pending: Array(1...16))
        _ = run(&outbox, steps: 1_500, failure: .tooLarge) { batch in
            batch.mutations.contains { $0.seq == 5 } ? nil : Rig.push(Rig.accepted(batch))
        }
        #expect(Set(outbox.done) == Set(1...16).subtracting([5]))
        #expect(outbox.rejected.isEmpty)
    }

    @Test("A page too large for the agent that may be a portal's is not asked for again at once")
    func tooLargeUnknown() {
        var rig = Rig.pushing(Rig.batch(1...8))
        rig.fail(.tooLarge)
        #expect(rig.call == nil)
        rig.keepHouse()
        rig.begin()
        // The hello comes first.
        #expect(rig.asked == "hello")
    }

    @Test("An atomic list cannot be halved: over a 400 it is set aside as a whole, instead of being sent again and again")
    func malformedList() {
        var rig = Rig.pushing(Rig.list(1...3))
        rig.answer(Rig.problem(400, "malformed"))
        guard case .setAside(let key, _, _)? = rig.command else {
            Issue.record("setAside was expected: \(String(describing: rig.asked))")
            return
        }
        #expect(key == Rig.mutation(1).key)
    }

    @Test("An atomic list that will never fit is refused as a whole")
    func tooLargeList() {
        var rig = Rig.pushing(Rig.list(1...3))
        rig.answer(Rig.problem(413, "too-large"))
        guard case .applyResults(let results, nil, _, _)? = rig.command else {
            Issue.record("applyResults was expected: \(String(describing: rig.asked))")
            return
        }
        #expect(results.map(\.key) == Rig.list(1...3).mutations.map(\.key))
        #expect(results.allSatisfy { if case .rejected = $0.verdict { true } else { false } })
    }

    @Test("A Retry-After stops the search until its time has come")
    func retryAfter() {
        var rig = Rig.pushing(Rig.batch(1...8))
        rig.answer(Rig.problem(413, "too-large", retryAfter: "60"))
        rig.keepHouse()
        rig.handle(.requested(SyncRequest(isForced: true)))
        #expect(rig.engine.cycle == nil)
        rig.begin()
        guard case .loadInFlight(let limits)? = rig.command else {
            Issue.record("loadInFlight was expected")
            return
        }
        #expect(limits.mutations == 4)
    }
}
