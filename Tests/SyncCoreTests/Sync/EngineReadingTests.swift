import SyncCore
import Testing

/// Progress beside poison: for each thing that a hub may send and that cannot be used, everything else goes on.
@Suite("Engine: one bad stream, one bad mutation, and everything else")
struct EngineReadingTests {
    struct Poison: Sendable, CustomTestStringConvertible {
        var what: String
        /// Part of what is told about the stream; `nil`: it is not the stream that is told about.
        var told: String?
        /// The most requests about the poisoned entity in an hour.
        var requestsMax = 40
        var prepare: @Sendable (inout EngineWorld) -> Void = { _ in }
        var spoil: @Sendable (HubCall, HTTPResponse) -> EngineWorld.Spoiled?
        var testDescription: String { what }
    }

    /// Changes the page of the poisoned entity as JSON.
    private static func page(
        _ what: String, _ told: String, requestsMax: Int = 40, _ change: @escaping @Sendable (inout JSONObject) -> Void
    ) -> Poison {
        Poison(what: what, told: told, requestsMax: requestsMax) { call, response in
            guard call.kind == .pull, EngineWorld.isAboutPoison(call), var body = (try? JSONReader.read(response.body))?.object else {
                return nil
            }
            body["streams"] = .array(
                (body["streams"]?.array ?? []).map { stream in
                    guard var object = stream.object, object["entity"]?.text == "works" else { return stream }
                    change(&object)
                    return .object(object)
                })
            var changed = response
            changed.body = JSON.object(body).bytes
            return .answer(changed)
        }
    }

    private static func record(_ what: String, _ told: String, _ record: JSONObject) -> Poison {
        page(what, told) { $0["records"] = .array([.object(record)]) }
    }

    /// Any answer to a request of a kind about the poisoned entity.
    private static func whole(
        _ what: String, _ told: String?, kind: HubCall.Kind = .pull, requestsMax: Int = 60,
        prepare: @escaping @Sendable (inout EngineWorld) -> Void = { _ in }, _ answer: @escaping @Sendable () -> EngineWorld.Spoiled
    ) -> Poison {
        Poison(what: what, told: told, requestsMax: requestsMax, prepare: prepare) { call, _ in
            call.kind == kind && EngineWorld.isAboutPoison(call) ? answer() : nil
        }
    }

    private static let list: @Sendable (inout EngineWorld) -> Void = { $0.listings = [EngineWorld.poisoned, EngineWorld.entities[0]] }
    private static let compare: @Sendable (inout EngineWorld) -> Void = { $0.comparisons = Set(EngineWorld.entities) }
    private static let deep = #"{"head":1,"streams":["# + String(repeating: "[", count: 5_000) + String(repeating: "]", count: 5_000) + "]}"

    static let poisons: [Poison] = [
        record("an id of 65 characters", "/records/0/id", ["id": .string(String(repeating: "x", count: 65)), "version": 1, "data": [:]]),
        record("an id that leads up", "../../x", ["id": "../../x", "version": 1, "data": [:]]),
        record("no id", "/records/0/id", ["version": 1, "data": [:]]),
        record("version -1", "(record r-1)", ["id": "r-1", "version": -1, "data": [:]]),
        record("version 2^63 - 1", "/records/0/version", ["id": "r-1", "version": .int(Int64.max), "data": [:]]),
        record("data that is a list", "/records/0/data", ["id": "r-1", "version": 1, "data": []]),
        record("data that is null", "/records/0/data", ["id": "r-1", "version": 1, "data": nil]),
        record("stamps that are a list", "field_hlc", ["id": "r-1", "version": 1, "data": [:], "field_hlc": []]),
        page("records that are no list", "/records: expected an array") { $0["records"] = ["r-1": [:]] },
        page("deletions that are no list", "/deletions: expected an array") { $0["deletions"] = "r-1" },
        page("a deletion without a version", "/deletions/0/version") { $0["deletions"] = [["id": "r-1"]] },
        page("a deletion with a bad id", "/deletions/0/id") { $0["deletions"] = [["id": "a b", "version": 1]] },
        page("no cursor", "/cursor") { $0["cursor"] = nil },
        page("a cursor of 513 bytes", "/cursor") { $0["cursor"] = .string(String(repeating: "c", count: 513)) },
        page("no word about more", "/has_more") { $0["has_more"] = nil },
        page("2,001 records", "at most") { page in
            page["records"] = .array((0..<2_001).map { ["id": .string("r-\($0)"), "version": 1, "data": [:]] })
        },
        page("a feed that leads in a circle", "circle", requestsMax: 80) { page in
            // From 1 the honest answer would lead to 6.
            page["cursor"] = page["cursor"]?.text == "c6" ? "c2" : "c1"
            page["has_more"] = true
        },
        page("a cursor that stands still", "a cursor that moves") { page in
            page["cursor"] = "c5"
            page["records"] = []
            page["has_more"] = true
        },
        Poison(what: "the hub's own error about the stream", told: "broken index", requestsMax: 120) { call, response in
            guard call.kind == .pull, EngineWorld.isAboutPoison(call), let honest = try? PullMessages.readResponse(response.body) else {
                return nil
            }
            let error = StreamError(entity: EngineWorld.poisoned, problem: Problem("internal", status: 500, detail: "broken index"))
            return .answer(EngineRig.pull(honest.pages.filter { $0.entity != EngineWorld.poisoned }, errors: [error], head: honest.head))
        },
        Poison(what: "a cursor that has expired again and again", told: "expired", requestsMax: 60) { call, response in
            guard call.kind == .pull, EngineWorld.isAboutPoison(call), let honest = try? PullMessages.readResponse(response.body) else {
                return nil
            }
            let error = EngineRig.expired(EngineWorld.poisoned)
            return .answer(EngineRig.pull(honest.pages.filter { $0.entity != EngineWorld.poisoned }, errors: [error], head: honest.head))
        },
        whole("410 for the whole pull", "expired", requestsMax: 80) { .answer(EngineRig.problem(410, "cursor-expired")) },
        whole("a record of five thousand levels", "JSON") { .answer(EngineRig.ok(Array(deep.utf8))) },
        whole("JSON that was cut", "JSON") { .answer(EngineRig.ok(Array(#"{"head":1,"streams":[{"ent"#.utf8))) },
        whole("no head", "/head") { .answer(EngineRig.ok(Array(#"{"streams":[]}"#.utf8))) },
        whole("a page of an entity that was not asked for", "asked for") {
            .answer(EngineRig.pull([EngineRig.page(EntityName(trusted: "strangers"), cursor: "c")]))
        },
        whole("an answer above the limit", "reach the hub") { .nothing(.tooLarge) },
        whole("an answer that is no HTTP", "reach the hub") { .nothing(.malformed) },
        whole("400 of the hub's own", "malformed it is") { .answer(EngineRig.problem(400, "malformed")) },
        whole("413 of the hub's own", "too-large it is") { .answer(EngineRig.problem(413, "too-large")) },
        whole("404 of the hub's own", "unknown it is") { .answer(EngineRig.problem(404, "unknown")) },
        whole("500 of the hub's own", "internal it is", requestsMax: 240) { .answer(EngineRig.problem(500, "internal")) },
        whole("a listing with a bad record", "/records/0/id", kind: .snapshot, prepare: list) {
            .answer(
                EngineRig.ok(
                    Array(#"{"entity":"works","start":{"cursor":"c","version":1},"records":[{"id":"a b"}],"has_more":false}"#.utf8)))
        },
        whole("a listing of another entity", "/entity", kind: .snapshot, prepare: list) {
            .answer(EngineRig.snapshot(EntityName(trusted: "strangers"), ["a"]))
        },
        whole("404 for a listing", "unknown it is", kind: .snapshot, prepare: list) { .answer(EngineRig.problem(404, "unknown")) },
        whole("500 for a listing", "internal it is", kind: .snapshot, requestsMax: 240, prepare: list) {
            .answer(EngineRig.problem(500, "internal"))
        },
        whole("a comparison that is none", nil, kind: .verify, requestsMax: 800, prepare: compare) {
            .answer(EngineRig.ok(Array(#"{"differs":[9,8]}"#.utf8)))
        },
        whole("500 for a comparison", nil, kind: .verify, requestsMax: 800, prepare: compare) {
            .answer(EngineRig.problem(500, "internal"))
        },
    ]

    @Test(
        "A stream that cannot be read: pushes and all other entities go on, it is told, asked for with care, and read when it can be",
        arguments: poisons)
    func progress(_ poison: Poison) {
        var world = EngineWorld()
        poison.prepare(&world)
        world.spoil = poison.spoil
        world.run(.seconds(3_600))
        world.run(.seconds(120), isBusy: false)
        #expect(world.enqueued >= 300)
        #expect(Self.stopped(in: world) == [])
        if let told = poison.told {
            #expect(!world.isCaughtUp(EngineWorld.poisoned))
            #expect(world.alarms[EngineWorld.poisoned]?.contains(told) == true, "\(String(describing: world.alarms))")
            #expect(world.rig.engine.memory.lastError?.contains("works was not read") == true)
            #expect(!world.rig.engine.isCaughtUp)
        }
        #expect(world.callsAboutPoison <= poison.requestsMax, "\(world.callsAboutPoison) requests")
        #expect(world.rejected == [])
        // It heals by itself.
        world.spoil = { _, _ in nil }
        world.run(.seconds(4_500), isBusy: false)
        #expect(world.isCaughtUp(EngineWorld.poisoned) && world.alarms.isEmpty, "\(world.alarms)")
        #expect(world.rig.engine.heldStreams.isEmpty && world.rig.engine.memory.lastError == nil)
    }

    /// Returns the streams and mutations without a fault that did not go on.
    private static func stopped(in world: EngineWorld) -> [String] {
        var found: [String] = []
        if world.accepted.count != Int(world.enqueued) { found.append("\(world.waiting) mutations wait") }
        for entity in EngineWorld.entities where entity != EngineWorld.poisoned {
            if !world.isCaughtUp(entity) { found.append("\(entity) is not read") }
            if !world.compared.isEmpty, world.compared[entity] != 1 { found.append("\(entity) is not compared") }
        }
        return found
    }

    @Test(
        "The check sees what one bad thing stops: the pushes, and other entities",
        arguments: [
            (HubCall.Kind.push, "mutations wait"), (.pull, "is not read"),
        ])
    func planted(_ kind: HubCall.Kind, _ finding: String) {
        var world = EngineWorld()
        // As an agent would do that stops at the first thing that it cannot use: nothing of that kind gets through any more.
        world.spoil = { call, _ in call.kind == kind || (kind == .push && call.kind == .settle) ? .nothing(.timedOut) : nil }
        world.run(.seconds(3_600))
        world.run(.seconds(120), isBusy: false)
        #expect(Self.stopped(in: world).contains { $0.contains(finding) }, "\(Self.stopped(in: world))")
    }

    @Test("Without poison all goes on, and the hub is not asked more than it was", arguments: [1, 2, 3])
    func control(_ seed: UInt64) {
        var world = EngineWorld(seed: seed)
        world.run(.seconds(3_600))
        world.run(.seconds(120), isBusy: false)
        #expect(world.accepted.count == Int(world.enqueued) && world.alarms.isEmpty)
        #expect(EngineWorld.entities.allSatisfy { world.isCaughtUp($0) })
        #expect(world.calls[.pull, default: 0] <= 2 * 360)
    }

    @Test("When every answer to a pull is nonsense, few requests find that out, and pushes go on")
    func allNonsense() {
        var world = EngineWorld()
        world.spoil = { call, _ in call.kind == .pull ? .answer(EngineRig.ok(Array("{}".utf8))) : nil }
        world.run(.seconds(3_600))
        world.run(.seconds(120), isBusy: false)
        #expect(world.accepted.count == Int(world.enqueued))
        #expect(world.calls[.pull, default: 0] <= 60, "\(world.calls)")
        #expect(world.alarms.count == 3)
    }

    @Test("An operator's sync asks for a stream that is left out at once, and once")
    func requested() {
        var world = EngineWorld()
        world.spoil = Self.poisons[0].spoil
        world.run(.seconds(600), isBusy: false)
        let before = world.callsAboutPoison
        world.rig.handle(.requested(SyncRequest(isForced: true)))
        world.run(.seconds(1), isBusy: false)
        #expect(world.callsAboutPoison == before + 1)
    }

    struct Answer: Sendable, CustomTestStringConvertible {
        var what: String
        var spoiled: @Sendable () -> EngineWorld.Spoiled
        var testDescription: String { what }
    }

    @Test(
        "Where pulls alone are answered by something in between, or not at all, pushes go on",
        arguments: [
            Answer(what: "413 of a proxy") { .answer(HTTPResponse(status: 413, headers: ["Content-Type": "text/html"])) },
            Answer(what: "403 of a proxy") { .answer(HTTPResponse(status: 403)) },
            Answer(what: "500 of a proxy") { .answer(HTTPResponse(status: 500)) },
            Answer(what: "503 of the hub") { .answer(EngineRig.problem(503, "overloaded")) },
            Answer(what: "a portal") { .answer(EngineRig.portal) },
            Answer(what: "silence") { .nothing(.timedOut) },
            Answer(what: "a cut") { .nothing(.broken) },
        ])
    func pullsAlone(_ answer: Answer) {
        var world = EngineWorld()
        world.spoil = { call, _ in call.kind == .pull ? answer.spoiled() : nil }
        world.run(.seconds(3_600))
        // All mutations that were enqueued before the last long wait were sent.
        #expect(world.accepted.count >= Int(world.enqueued) - 60, "\(world.accepted.count) of \(world.enqueued)")
        #expect(world.rejected == [])
    }

    @Test(
        "One mutation that cannot go: the others go, and what a proxy says of it never rejects it",
        arguments: [
            (400, true, false), (413, true, true), (413, false, false), (500, true, false),
        ])
    func mutation(_ status: Int, _ isHubs: Bool, _ isRejected: Bool) {
        var world = EngineWorld()
        world.spoil = { call, _ in
            guard call.kind == .push || call.kind == .settle, String(decoding: call.body, as: UTF8.self).contains("\"key-7\"") else {
                return nil
            }
            return .answer(EngineRig.problem(status, status == 413 ? "too-large" : "malformed", isHubs: isHubs))
        }
        world.run(.seconds(3_600))
        world.run(.seconds(120), isBusy: false)
        #expect(world.accepted.count == Int(world.enqueued) - 1, "\(world.accepted.count) of \(world.enqueued)")
        #expect(world.rejected == (isRejected ? [7] : []))
        #expect(EngineWorld.entities.allSatisfy { world.isCaughtUp($0) })
    }

    @Test("A feed that says that more is to come and sends nothing is asked less and less often")
    func emptyPages() {
        var world = EngineWorld()
        let number = Counter()
        world.spoil = { call, _ in
            guard call.kind == .pull else { return nil }
            number.value += 1
            return .answer(
                EngineRig.pull(EngineWorld.entities.map { EngineRig.page($0, cursor: "c\(1_000 + number.value)", hasMore: true) }))
        }
        world.run(.seconds(3_600), isBusy: false)
        #expect(world.calls[.pull, default: 0] <= 120 * Limits.pullPagesPerCycle, "\(world.calls)")
    }

    private final class Counter: @unchecked Sendable {
        // Unchecked: used by one test on one thread.
        var value = 0
    }
}

@Suite("A walk that leads in a circle")
struct CircleDetectorTests {
    @Test(
        "A circle is found within three times the larger of its length and the way to it; a walk without one never is",
        arguments: [
            (0, 1), (0, 2), (0, 3), (1, 2), (5, 7), (100, 3), (3, 100), (64, 64),
        ])
    func circles(_ way: Int, _ length: Int) {
        var detector = CircleDetector()
        func place(_ step: Int) -> String { step < way ? "w\(step)" : "c\((step - way) % length)" }
        let found = (0..<10_000).first { detector.visits(place($0)) }
        #expect(found.map { $0 <= 3 * max(way, length) + 3 } == true, "\(String(describing: found))")
        var straight = CircleDetector()
        #expect(!(0..<5_000).contains { straight.visits("p\($0)") })
    }
}

@Suite("Streams that are left out")
struct StreamQuarantineTests {
    @Test("The wait doubles from half a minute to an hour for content, and follows the ordinary backoff for errors")
    func waits() {
        var random = SeededRandom(seed: 3)
        var quarantine = StreamQuarantine()
        let entity = EntityName(trusted: "works")
        let now = Instant(nanoseconds: 0)
        for (failures, most) in [(1, 30), (2, 60), (3, 120), (4, 240), (7, 1_920), (8, 3_600), (9, 3_600)] as [(Int, Int64)] {
            while (quarantine[entity]?.failures ?? 0) < failures {
                quarantine.add(entity, "bad", .content, backoff: Backoff(), at: now, using: &random)
            }
            let wait = quarantine[entity].map { now.duration(to: $0.until) } ?? .zero
            #expect(wait <= .seconds(most) && wait >= .seconds(most) * 3 / 4, "\(failures): \(wait)")
        }
        var errors = StreamQuarantine()
        for _ in 0..<20 { errors.add(entity, "bad", .error, backoff: Backoff(cap: .seconds(9)), at: now, using: &random) }
        #expect(errors[entity].map { now.duration(to: $0.until) <= .seconds(9) } == true)
    }

    @Test("A page ends the hold for a bad page, only the last page that for a circle, and a listing's page that for a listing")
    func relief() {
        var random = SeededRandom(seed: 3)
        let entity = EntityName(trusted: "works")
        for held in [StreamQuarantine.Relief.listing, .page, .end] {
            for read in [StreamQuarantine.Relief.listing, .page, .end] {
                var quarantine = StreamQuarantine()
                quarantine.add(entity, "bad", .content, until: held, backoff: Backoff(), at: Instant(nanoseconds: 0), using: &random)
                #expect(quarantine.release(entity, by: read) == (read.rawValue >= held.rawValue), "\(held) by \(read)")
            }
        }
    }
}
