import LocalAPI
import SyncCore
import SyncStore

extension FuzzTarget {
    /// Bodies of the local API: the first byte says of which request. A mutation goes on into a store: what is refused there
    /// has left nothing, and what is accepted is counted.
    static let localBody = FuzzTarget("local-body") { bytes in
        var rest = bytes[...]
        guard let kind = choice(&rest, of: 12) else { return }
        let body = Array(rest)
        do {
            switch kind {
            case 0, 1, 2, 3: try enqueue(body)
            case 4: try again(RecordListQuery.self, try QueryBody.read(body))
            case 5: try again(SyncBody.read, try SyncBody.read(body), \.bytes)
            case 6: try again(PauseBody.read, try PauseBody.read(body), \.bytes)
            case 7: try again(RetryBody.read, try RetryBody.read(body), \.bytes)
            case 8: try again(DiscardBody.read, try DiscardBody.read(body), \.bytes)
            case 9: _ = try ResolveBody.read(body)
            case 10: _ = try PlanBody.read(body)
            default: _ = try LinkHintBody.read(body)
            }
        } catch let problem as Problem {
            try claim((400...499).contains(problem.status), "refused with \(problem.status)")
        }
    }

    private static func again(_ type: RecordListQuery.Type, _ query: RecordListQuery) throws {
        try claim(query.limit > 0, "a query for \(query.limit) records")
    }

    private static func again<Body: Hashable>(_ read: ([UInt8]) throws(Problem) -> Body, _ body: Body, _ bytes: KeyPath<Body, [UInt8]>) throws {
        do throws(Problem) {
            try claimSame(body, try read(body[keyPath: bytes]))
        } catch {
            throw Broken("what was read is refused when it is written: \(error.detail)")
        }
    }

    private static func claimSame<Value: Hashable>(_ left: Value, _ right: Value) throws(Problem) {
        guard left == right else { throw Problem("changed", status: 0, detail: "\(left) became \(right)") }
    }

    private static func enqueue(_ body: [UInt8]) throws {
        let read = try EnqueueBody.read(body)
        let (mutations, isAtomic) =
            switch read {
            case .one(let mutation): ([mutation], false)
            case .atomic(let list): (list, true)
            }
        for mutation in mutations {
            let written = MutationBody.bytes(mutation)
            var same = try MutationBody.read(written)
            same.size = mutation.size
            try claim(same == mutation, "written and read, a mutation changed: \(String(decoding: written, as: UTF8.self))")
        }
        let stand = try StoreStand()
        let before = try stand.facts()
        do {
            let taken = try stand.enqueue(mutations, isAtomic: isAtomic)
            let after = try stand.facts()
            try claim(taken.count == mutations.count, "\(mutations.count) mutations, \(taken.count) answers")
            try claim(after.enqueued >= before.enqueued && after.enqueued <= before.enqueued + Int64(mutations.count), "miscounted")
            let counted = after.counts.values.reduce(0) { $0 + $1.values.reduce(0, +) }
            try claim(counted == after.enqueued, "\(after.enqueued) accepted, the states add up to \(counted)")
        } catch let error as StoreError {
            guard let problem = error.problem else { throw Broken("the store failed: \(error)") }
            try claim((400...499).contains(problem.status), "refused with \(problem.status)")
            let after = try stand.facts()
            try claim(before == after, "what was refused has left a trace")
        }
    }

    /// A request line: what is a target can be written, and reads back as the same; a path is a route or it is not.
    static let localRoute = FuzzTarget("local-route", lengthMax: 1_024) { bytes in
        let words = bytes.split(separator: UInt8(ascii: " "), maxSplits: 1)
        guard words.count == 2 else { return }
        let target = words[1].asText
        do {
            let read = try RequestTarget(target)
            let same: RequestTarget
            do throws(Problem) {
                same = try RequestTarget(RequestTarget.text(read.segments, read.parameters))
            } catch {
                throw Broken("a target that was read is refused when it is written: \(error.detail)")
            }
            try claim(same == read, "\(target) became \(RequestTarget.text(read.segments, read.parameters))")
            try claim(!read.segments.contains { $0.isEmpty || $0 == ".." || $0.contains("/") }, "a path that leads elsewhere")
        } catch let problem as Problem {
            try claim(problem.status == 400 || problem.status == 404, "refused with \(problem.status)")
        }
        do throws(Problem) {
            _ = try Route.parse(method: words[0].asText, target: target)
        } catch {
            try claim([400, 404, 405].contains(error.status), "refused with \(error.status)")
        }
    }

    /// Lines of a bulk enqueue, cut anywhere: the same lines, and each that is a mutation is written back to the same.
    static let lines = FuzzTarget("lines") { bytes in
        func lines(_ pieces: [ArraySlice<UInt8>]) -> [LineSplitter.Line] {
            var splitter = LineSplitter(bytesMax: 512)
            return pieces.flatMap { splitter.read(Array($0)) } + splitter.finish()
        }
        let whole = lines([bytes[...]])
        try claim(whole == lines(bytes[...].pieces), "the lines depend on where the bytes are cut")
        for line in whole {
            guard let text = line.bytes else { continue }
            try claim(text.count <= 512 && !text.contains(10), "a line of \(text.count) bytes")
            let read = BulkLine.read(text)
            switch read.mutation {
            case .success(let mutation):
                let written = BulkLine.bytes(mutation, ref: read.ref, key: read.appKey?.key).dropLast()
                var same = BulkLine.read(Array(written))
                guard case .success(var other) = same.mutation else { throw Broken("refused when it is written: \(Array(written)[...].asText)") }
                other.size = mutation.size
                same.appKey?.fingerprint = read.appKey?.fingerprint ?? []
                try claim(other == mutation && same.ref == read.ref && same.appKey == read.appKey, "a line changed: \(Array(written)[...].asText)")
            case .failure(let problem):
                try claim((400...499).contains(problem.status), "refused with \(problem.status)")
            }
        }
    }

    /// The stream of events as `agentctl watch` reads it, cut anywhere.
    static let events = FuzzTarget("events") { bytes in
        func events(_ pieces: [ArraySlice<UInt8>]) -> (EventParser, [LocalEvent]) {
            var parser = EventParser()
            return (parser, pieces.flatMap { parser.read($0) })
        }
        let whole = events([bytes[...]]).1, cut = events(bytes[...].pieces).1
        try claim(whole.map(\.data) == cut.map(\.data) && whole.map(\.id) == cut.map(\.id), "the events depend on where the bytes are cut")
        try claim(whole.reduce(0) { $0 + $1.data.count } <= bytes.count, "more came out than went in")
    }
}

/// A store in memory with a few records in it, made once and given back to its state by the caller's refusal.
struct StoreStand {
    private let store: Store
    private let now = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: Timestamp(milliseconds: 1_763_700_000_000))
    private let app = Requester(app: AppName(trusted: "inspector"), uid: 1000)

    init() throws {
        var reading = EntityRules()
        reading.kind = .event
        var template = EntityRules()
        template.kind = .reference
        var counted = EntityRules()
        counted.fields = ["visits": .counter, "tags": .set, "notes": .append]
        let rules = RuleBook([
            EntityName(trusted: "audit"): counted, EntityName(trusted: "reading"): reading, EntityName(trusted: "template"): template,
        ])
        let options = StoreOptions(
            device: DeviceID(trusted: "gw-17"), bootID: "boot-1", rules: rules, capacity: StoreCapacity(), seed: 1, ablations: .none)
        store = try Store(Database.inMemory(), options, at: now)
        let first = NewMutation(
            .create, EntityName(trusted: "audit"), RecordID(trusted: "a"), data: ["n": 1, "visits": 2, "tags": ["x"], "notes": "y"])
        _ = try store.enqueue([first], by: app, at: now)
    }

    func facts() throws(StoreError) -> StoreFacts { try store.reads.facts(at: now) }

    func enqueue(_ mutations: [NewMutation], isAtomic: Bool) throws(StoreError) -> [Enqueued] {
        try store.enqueue(mutations, isAtomic: isAtomic, by: app, at: now)
    }
}
