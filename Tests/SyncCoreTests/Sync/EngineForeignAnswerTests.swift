import SyncCore
import Testing

/// An answer without the hub's header decides nothing about data, whatever its status, its body and the request.
@Suite("Engine: answers that are not the hub's")
struct EngineForeignAnswerTests {
    typealias Rig = EngineRig

    /// Bodies that would decide much if they were believed.
    static let bodies: [(type: String, text: String)] = [
        ("text/html", "<html>413 Request Entity Too Large</html>"),
        ("application/problem+json", #"{"type":"urn:edge-sync:too-large","title":"x","status":413,"detail":"d"}"#),
        ("application/problem+json", #"{"type":"urn:edge-sync:device-blocked","title":"x","status":403,"detail":"d"}"#),
        ("application/problem+json", #"{"type":"urn:edge-sync:replica-regressed","title":"x","status":409,"detail":"d"}"#),
        ("application/problem+json", #"{"type":"urn:edge-sync:maintenance","title":"x","status":503,"detail":"d"}"#),
        ("application/json", #"{"head":9,"epoch":"other","results":[],"streams":[],"unknown":["key-1"],"differs":[1]}"#),
    ]

    static let kinds: [HubCall.Kind] = [.hello, .settle, .push, .pull, .snapshot, .verify, .known]

    /// An engine with a call of that kind under way.
    static func rig(_ kind: HubCall.Kind) -> Rig {
        var rig: Rig
        switch kind {
        case .push: return Rig.pushing(Rig.batch(1...4))
        case .hello:
            rig = Rig()
            rig.start()
            rig.begin()
            return rig
        case .settle:
            rig = Rig.settled()
            rig.handle(.enqueued(.normal))
            rig.wake()
            rig.stored(.batch(Rig.batch(1...4), retryAt: nil))
        case .pull, .snapshot, .verify:
            rig = Rig()
            rig.start()
            rig.begin()
            let hello = HelloResponse(
                device: DeviceID(trusted: "gw"), epoch: Rig.hub, head: 10, time: nil, deviceSeq: 0,
                capabilities: [VerifyMessages.capability], spread: .zero)
            rig.answer(Rig.ok(HelloMessages.response(hello)))
            for _ in 0..<2 where rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
            if kind == .snapshot { rig.stored(.streams([Rig.listing(Rig.works)])) }
            if kind == .pull { rig.stored(.streams([Rig.position(Rig.works)])) }
            if kind == .verify {
                var position = Rig.position(Rig.works)
                position.fullSync = .overdue
                rig.stored(.streams([position]))
                rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")]))
                rig.stored(.pullApplied(PullSummary()))
                rig.stored(.digest(EntityDigest()))
            }
        case .known:
            rig = Rig.settled()
            rig.handle(.enqueued(.normal))
            rig.wake()
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.answer(Rig.ok(PushMessages.response(head: 1, results: []), epoch: "other"))
            rig.stored(.settled([Rig.mutation(1).key], upTo: 1))
        }
        return rig
    }

    @Test("No status, body and request together change data, credentials or history, or silence the device for long", arguments: kinds)
    func decidesNothing(_ kind: HubCall.Kind) {
        let before = Self.rig(kind)
        #expect(before.call?.kind == kind)
        for status in 200...599 {
            for body in Self.bodies {
                var rig = before
                let response = HTTPResponse(
                    status: status,
                    headers: [
                        "Content-Type": body.type, "Retry-After": "86400", "Location": "https://portal.example/", "Sync-Epoch": "other",
                        "Sync-Head": "1", "Sync-Device-Seq": "99999", "Sync-Twins": "2",
                    ], body: Array(body.text.utf8))
                rig.answer(response)
                check(rig, before, "\(status) \(body.type) to \(kind)")
            }
        }
    }

    private func check(_ after: Rig, _ before: Rig, _ what: String) {
        var rig = after
        let engine = rig.engine
        #expect(engine.replica == before.engine.replica && engine.memory.epoch == before.engine.memory.epoch, "\(what)")
        #expect(engine.maxSentSeq == before.engine.maxSentSeq && engine.twins == before.engine.twins, "\(what)")
        #expect(engine.reachability != .auth && engine.heldStreams.isEmpty, "\(what)")
        // The store is asked for nothing but what the next attempt needs.
        let allowed: Set<String> = ["remember", "loadInFlight", "housekeep", "setAside"]
        if let asked = rig.asked { #expect(allowed.contains(asked) && rig.call == nil, "\(what): \(asked)") }
        // A smaller request holds the same mutation alone, and its attempt does not count.
        if case .setAside(_, _, let counts)? = rig.command { #expect(!counts, "\(what)") }
        if rig.asked == "remember" { rig.stored(.done) }
        if let retryAt = engine.retryAt {
            #expect(rig.wall.duration(to: retryAt) <= .seconds(600), "\(what): \(rig.wall.duration(to: retryAt))")
        }
    }

    @Test("A single mutation that a proxy finds too large leaves the way of the others, and is not rejected")
    func tooLargeForProxy() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(HTTPResponse(status: 413, headers: ["Content-Type": "text/html"]))
        for _ in 0..<8 where rig.asked != "setAside" {
            if rig.asked == "remember" { rig.stored(.done) }
            if rig.asked == "loadInFlight" { rig.stored(.batch(Rig.batch(1...1), retryAt: nil)) }
            if rig.call != nil {
                rig.answer(HTTPResponse(status: 413, headers: ["Content-Type": "text/html"]))
            } else if rig.asked == nil {
                rig.begin()
            }
        }
        guard case .setAside(let key, let problem, let counts)? = rig.command else {
            Issue.record("\(String(describing: rig.asked))")
            return
        }
        #expect(key == Rig.mutation(1).key && !counts)
        #expect(problem.detail.contains("413") && problem.detail.contains("Sync-Version"))
    }

    @Test(
        "The hub's own word still decides: the same statuses with the header",
        arguments: [
            (413, "too-large", "applyResults"), (409, "replica-regressed", "adoptReplica"),
        ])
    func control(_ status: Int, _ code: String, _ command: String) {
        var rig = Rig.pushing(Rig.batch(1...1))
        var response = Rig.problem(status, code)
        response.headers["Sync-Device-Seq"] = "99999"
        rig.answer(response)
        for _ in 0..<8 where rig.asked != command {
            if rig.asked == "remember" { rig.stored(.done) }
            if rig.asked == "loadInFlight" { rig.stored(.batch(Rig.batch(1...1), retryAt: nil)) }
            if rig.call != nil { rig.answer(response) } else if rig.asked == nil { rig.begin() }
        }
        #expect(rig.asked == command)
    }

    @Test("Two new histories of the hub within one cycle, and the next attempt comes soon")
    func twoHistories() {
        var rig = Self.rig(.settle)
        var names = ["x1", "x2", "x3", "x4"]
        for _ in 0..<40 where rig.engine.cycle != nil {
            switch rig.asked {
            case "remember": rig.stored(.done)
            case "loadSettled": rig.stored(.settled([], upTo: 1))
            case "forgetHistory": rig.stored(.historyForgotten(more: false))
            case "loadInFlight": rig.stored(.batch(Rig.batch(1...4), retryAt: nil))
            default:
                guard rig.call != nil else { break }
                rig.answer(Rig.ok(PushMessages.response(head: 1, results: []), epoch: names.isEmpty ? "x5" : names.removeFirst()))
            }
        }
        #expect(rig.outcome?.error?.contains("another history with every answer") == true)
        let wait = rig.engine.retryAt.map { rig.wall.duration(to: $0) } ?? .zero
        #expect(wait <= .seconds(15), "\(wait)")
    }
}
