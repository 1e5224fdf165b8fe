import Foundation
import HubServer
import SyncCore
import SyncSQLite
import Testing

/// A database that was replaced by an older copy without the command for it (PROTOCOL A6).
@Suite("History of a hub", .eachEngine)
struct HistoryTests {
    /// A push as an agent makes it, with the receipt that it kept.
    private func push(
        _ bench: HubBench, _ mutation: Sent, epoch: String? = nil, receipt: String? = nil, device: DeviceID = .one
    ) -> HubResponse {
        var headers: [(String, String)] = []
        if let epoch { headers.append(("Sync-Epoch", epoch)) }
        if let receipt { headers.append((HubHeader.receipt, receipt)) }
        return bench.send(
            "POST", "/v1/sync/push", ["acked_seq": 0, "mutations": [.object(mutation.json)]], device: device, headers: headers)
    }

    /// A hub with two commits of one device, its copy from after the first, and what the device holds.
    private struct Aged {
        private let place: Hub.Place
        private let bench: HubBench
        private let copy: HubBench.Backup
        let epoch: String
        let cursor: String
        let receipt: String

        init() throws {
            place = try Engine.current.newPlace()
            bench = try HubBench(place: place)
            _ = try bench.verdict(Sent("k-1", .create))
            copy = try bench.backUp()
            let answer = bench.push([Sent("k-2", seq: 2, .create, id: "a-2")])
            receipt = try #require(answer.headers[HubHeader.receipt])
            cursor = try #require(try bench.follow("audits").cursor)
            epoch = bench.hub.epoch
        }

        /// Puts the copy in place, as an operator does who has stopped all hubs, and starts one.
        func putBack() throws -> HubBench {
            try bench.restore(copy, startingEpoch: false)
            guard case .shared = place else { return bench }
            return try HubBench(seed: 5, place: place)
        }
    }

    @Test("A cursor beyond the head begins one new history, in which the same cursor proves nothing any more")
    func cursor() throws {
        let aged = try Aged()
        let bench = try aged.putBack()
        var told: [HubNotice] = []
        bench.hub.onNotice = { told.append($0) }
        #expect(try bench.pull([("audits", aged.cursor)], device: .two).errors.map(\.problem.code) == ["epoch-changed"])
        let epoch = bench.hub.epoch
        #expect(epoch != aged.epoch && bench.hub.head == 1)
        #expect(try bench.pull([("audits", aged.cursor)]).errors.map(\.problem.code) == ["epoch-changed"])
        #expect(bench.hub.epoch == epoch, "once")
        #expect(told.count { if case .newHistory(let cause, _, _, _, _) = $0 { cause.beginsHistory } else { false } } == 1)
        let stats = try bench.hub.stats()
        #expect(stats.lineage.restart?.epoch == epoch)
        #expect(stats.json.object?["history"]?.object?["restarts"] == 1)
    }

    @Test(
        "A receipt beyond the head begins a new history before anything of its push is applied; other requests with it do the same",
        arguments: ["push", "hello", "pull", "snapshot?entity=audits"])
    func receipt(_ request: String) throws {
        let aged = try Aged()
        let bench = try aged.putBack()
        let shown = [(HubHeader.receipt, aged.receipt)]
        let answer =
            switch request {
            case "push": push(bench, Sent("k-3", seq: 3, .create, id: "a-3"), epoch: aged.epoch, receipt: aged.receipt)
            case "hello": bench.send("POST", "/v1/sync/hello", [:], headers: shown)
            case "pull": bench.send("POST", "/v1/sync/pull", ["streams": []], headers: shown)
            default: bench.send("GET", "/v1/sync/" + request, headers: shown)
            }
        #expect(answer.status == (request == "push" ? 410 : 200))
        #expect(answer.headers["Sync-Epoch"] == bench.hub.epoch && bench.hub.epoch != aged.epoch)
        #expect(bench.hub.head == 1)
        #expect(try bench.data("audits", "a-3") == nil)
        #expect(try bench.verdict(Sent("k-2", seq: 2, .create, id: "a-2")).word == "accepted")
    }

    @Test(
        "Commit numbers that have caught up since hide nothing: the opening in a receipt and in a cursor is of the lost branch",
        arguments: [false, true])
    func caughtUp(_ byCursor: Bool) throws {
        let aged = try Aged()
        let bench = try aged.putBack()
        // A device that holds no proof pushes first, and the numbers go past those that were lost.
        for seq in 1...3 as ClosedRange<Int64> {
            _ = try bench.verdict(Sent("o-\(seq)", seq: seq, .create, id: "b-\(seq)"), device: .two)
        }
        #expect(bench.hub.epoch == aged.epoch && bench.hub.head == 4, "no device has proved anything yet")
        if byCursor {
            #expect(try bench.pull([("audits", aged.cursor)]).errors.map(\.problem.code) == ["epoch-changed"])
        } else {
            #expect(push(bench, Sent("k-3", seq: 3, .create, id: "a-3"), epoch: aged.epoch, receipt: aged.receipt).status == 410)
        }
        #expect(bench.hub.epoch != aged.epoch)
        #expect(bench.hub.head == 4, "commit numbers do not go back")
    }

    @Test("A copy from before the last histories shows by a receipt of each of them, once, and refuses nothing as deleted")
    func earlierHistory() throws {
        let place = try Engine.current.newPlace()
        let before = try HubBench(place: place)
        _ = try before.verdict(Sent("k-1", .create))
        let copy = try before.backUp()
        var receipts: [String] = []
        for n in 2...3 {
            try before.hub.startEpoch(at: before.now)
            let answer = push(before, Sent("k-\(n)", seq: Int64(n), .create, id: "a-\(n)"), epoch: before.hub.epoch)
            receipts.append(try #require(answer.headers[HubHeader.receipt]))
        }
        try before.restore(copy, startingEpoch: false)
        let bench = if case .shared = place { try HubBench(seed: 5, place: place) } else { before }
        #expect(
            try bench.verdict(Sent("k-5", seq: 5, .update, id: "a-2", data: ["n": 1], base: 1)).word == "rejected deleted",
            "no device has shown anything")
        var epochs = [bench.hub.epoch]
        for receipt in receipts + receipts {
            #expect(bench.send("POST", "/v1/sync/hello", [:], headers: [(HubHeader.receipt, receipt)]).status == 200)
            epochs.append(bench.hub.epoch)
        }
        #expect(epochs[0] != epochs[1] && epochs[1] != epochs[2], "each history proves something")
        #expect(epochs[2] == epochs[3] && epochs[3] == epochs[4], "once")
        #expect(try bench.verdict(Sent("k-6", seq: 6, .update, id: "a-3", data: ["n": 1], base: 2)).word == "retry dependency-missing")
        #expect(try bench.hub.stats().json.object?["history"]?.object?["restarts"] == 2)
    }

    @Test("A receipt of a history that this database has been through, however long ago, proves nothing")
    func ownHistory() throws {
        let bench = try HubBench()
        let receipt = try #require(bench.push([Sent("k-1", .create)]).headers[HubHeader.receipt])
        try bench.hub.startEpoch(at: bench.now)
        let epoch = bench.hub.epoch
        #expect(bench.send("POST", "/v1/sync/hello", [:], headers: [(HubHeader.receipt, receipt)]).status == 200)
        #expect(bench.hub.epoch == epoch)
    }

    @Test("A claim alone changes no history: a base version beyond the head is counted and reported, once for a device")
    func claims() throws {
        let bench = try HubBench()
        var told: [HubNotice] = []
        bench.hub.onNotice = { told.append($0) }
        _ = try bench.verdict(Sent("k-1", .create))
        let epoch = bench.hub.epoch
        for seq in 2...4 as ClosedRange<Int64> {
            let answer = push(bench, Sent("k-\(seq)", seq: seq, .update, data: ["n": 1], base: 900), epoch: epoch)
            #expect(answer.status == 200)
        }
        #expect(bench.push([Sent("k-9", seq: 9, .create, id: "z")], acked: 8).status == 200, "acked_seq claims nothing")
        #expect(bench.hub.epoch == epoch)
        #expect(told == [.unproved(.one, version: 900, head: 2)] || told == [.unproved(.one, version: 900, head: 1)])
        let page = String(decoding: bench.send("GET", "/metrics").body, as: UTF8.self)
        #expect(page.contains("agenthub_unproved_claims_total 3"))
    }

    @Test("A receipt that another hub has signed, or that was changed, is as good as none", arguments: [0, 1, 2])
    func forged(_ kind: Int) throws {
        let aged = try Aged()
        let other = try HubBench(seed: 9)
        let bench = try aged.putBack()
        let text =
            switch kind {
            case 0: try #require(other.push([Sent("k-1", .create)]).headers[HubHeader.receipt])
            case 1: String(aged.receipt.dropLast()) + (aged.receipt.hasSuffix("A") ? "B" : "A")
            default:
                Receipt(
                    position: HubPosition(epoch: aged.epoch, opening: "00000000", head: 1 << 50), device: .one,
                    replica: ReplicaID(trusted: "r-1"), seq: 1 << 50
                ).text(secret: [1, 2, 3])
            }
        #expect(push(bench, Sent("k-3", seq: 3, .create, id: "a-3"), receipt: text).status == 200)
        #expect(bench.hub.epoch == aged.epoch)
    }

    @Test("Answers that bring verdicts or records carry a receipt; the others, among them a pull without news, stay small")
    func given() throws {
        let bench = try HubBench()
        #expect(bench.push([Sent("k-1", .create)]).headers[HubHeader.receipt] != nil)
        let first = bench.send("POST", "/v1/sync/pull", ["streams": [["entity": "audits"]]])
        #expect(first.headers[HubHeader.receipt] != nil)
        let cursor = try #require(try PullMessages.readResponse(first.body).pages.first?.cursor)
        let idle = bench.send("POST", "/v1/sync/pull", ["streams": [["entity": "audits", "cursor": .string(cursor)]]])
        #expect(idle.status == 200 && idle.headers[HubHeader.receipt] == nil)
        #expect(bench.send("POST", "/v1/sync/hello", [:]).headers[HubHeader.receipt] == nil)
        #expect(bench.send("GET", "/v1/sync/snapshot?entity=audits").headers[HubHeader.receipt] != nil)
    }

    @Test("A process that is killed and comes back, however often, proves nothing against its own database")
    func restarts() throws {
        let folder = try TemporaryFolder()
        var place = try Engine.current.newPlace()
        if case .memory = place { place = .file(folder.path + "/hub.db") }
        var (cursor, receipt): (String?, String?) = (nil, nil)
        var epoch: String?
        for round in 1...6 as ClosedRange<Int64> {
            let bench = try HubBench(seed: UInt64(round), place: place)
            let answer = push(bench, Sent("k-\(round)", seq: round, .create, id: "a-\(round)"), epoch: epoch, receipt: receipt)
            #expect(answer.status == 200)
            (receipt, epoch) = (answer.headers[HubHeader.receipt], bench.hub.epoch)
            let pulled = try bench.pull([("audits", cursor)])
            #expect(pulled.errors.isEmpty)
            cursor = pulled.pages.first?.cursor ?? cursor
        }
    }

    @Test("A change of what a new history has not been offered waits for it, for a week, and is refused as of something deleted then")
    func waitsForOffers() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("x-1", .create, id: "x"), device: .two)
        try bench.hub.startEpoch(at: bench.now)
        let early = try bench.verdict(Sent("k-1", .update, id: "lost", data: ["n": 1]))
        guard case .retry(let problem?, _) = early else {
            Issue.record("\(early)")
            return
        }
        #expect(problem.code == "dependency-missing")
        #expect(
            try bench.verdict(Sent("k-d", seq: 2, .delete, id: "gone", base: -1)).word == "retry dependency-missing",
            "a deletion before its creation would be undone by it")
        // The device that made it comes back: what waited finds it.
        #expect(try bench.verdict(Sent("o-1", .create, id: "lost", data: ["a": 1]), device: .two).word == "accepted")
        #expect(try bench.verdict(Sent("k-1", .update, id: "lost", data: ["n": 1])).word == "accepted")
        #expect(try bench.data("audits", "lost") == ["a": 1, "n": 1])
        bench.now = bench.now.advanced(by: .seconds(7 * 86_400 + 1))
        guard case .rejected(let refused, _) = try bench.verdict(Sent("k-3", seq: 3, .update, id: "never", data: ["n": 1])) else {
            Issue.record("it was to be refused")
            return
        }
        #expect(refused.code == "deleted")
    }

    @Test("A device that deleted a record and changes it later waits, in a new history, for the device that made it anew")
    func waitsForSecondMaker() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("x-1", .create, id: "x"), device: .two)
        try bench.hub.startEpoch(at: bench.now)
        _ = try bench.verdict(Sent("k-1", seq: 1, .create, id: "r", data: ["a": 1]))
        _ = try bench.verdict(Sent("k-2", seq: 2, .delete, id: "r"))
        #expect(try bench.verdict(Sent("k-3", seq: 3, .update, id: "r", data: ["n": 1])).word == "retry dependency-missing")
        // Nothing shows that another device has seen a second creation.
        #expect(try bench.verdict(Sent("x-2", seq: 2, .update, id: "r", data: ["n": 2]), device: .two).word == "rejected deleted")
        #expect(
            try bench.verdict(Sent("x-3", seq: 3, .create, id: "r", data: ["a": 2], base: bench.hub.head), device: .two).word == "accepted")
        #expect(try bench.verdict(Sent("k-3", seq: 3, .update, id: "r", data: ["n": 1])).word == "accepted")
        #expect(try bench.data("audits", "r") == ["a": 2, "n": 1])
    }

    @Test("In the first history of a database only what rests on another history waits")
    func firstHistory() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create))
        #expect(try bench.verdict(Sent("k-2", seq: 2, .update, id: "b", data: ["n": 1], base: 1)).word == "rejected deleted")
        #expect(try bench.verdict(Sent("k-3", seq: 3, .update, id: "c", data: ["n": 1], base: -1)).word == "retry dependency-missing")
    }

    @Test("Hubs on one database that are asked for a new history one after the other begin one; later it is another")
    func joins() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create))
        #expect(try bench.hub.startEpoch(.requested, at: bench.now, joining: .seconds(600)))
        let epoch = bench.hub.epoch
        #expect(try !bench.hub.startEpoch(.requested, at: bench.now.advanced(by: .seconds(60)), joining: .seconds(600)))
        #expect(bench.hub.epoch == epoch)
        #expect(try bench.hub.startEpoch(.requested, at: bench.now.advanced(by: .seconds(3_600)), joining: .seconds(600)))
        #expect(bench.hub.epoch != epoch)
    }

    @Test("A database of a device that comes back after a newer one gets a new id, three times in a month at most")
    func returns() throws {
        let bench = try HubBench()
        var told: [HubNotice] = []
        bench.hub.onNotice = { told.append($0) }
        #expect(bench.push([], maxSent: 0, replica: "r-1").status == 200)
        #expect(bench.push([], maxSent: 0, replica: "r-2").status == 200)
        #expect(bench.send("POST", "/v1/sync/hello", [:], replica: "r-1").status == 409)
        let refused = bench.push([Sent("k-1", .create)], maxSent: 0, replica: "r-1")
        #expect(refused.status == 409 && bench.hub.head == 0)
        #expect(told == [.returned(.one, "r-1"), .returned(.one, "r-1")])
        #expect(bench.push([], maxSent: 0, replica: "r-2").status == 200, "the present one goes on")
        #expect(bench.push([], maxSent: 0, replica: "r-1").status == 409)
        #expect(bench.push([], maxSent: 0, replica: "r-1").status == 200, "two machines must not make new ids for ever")
    }

    @Test("The hub of which the rule was taken away lets such a database in", .enabled(if: Ablations([.returnIgnored]) != .none))
    func returnsUnnoticed() throws {
        let bench = try HubBench(ablations: Ablations([.returnIgnored]))
        for replica in ["r-1", "r-2", "r-1"] as [ReplicaID] { #expect(bench.push([], maxSent: 0, replica: replica).status == 200) }
    }

    @Test("A push whose only mutation has seq 0 is refused for that, and not as a database that went back")
    func seqZero() throws {
        let bench = try HubBench()
        let answer = bench.push([Sent("k-1", seq: 0, .create)])
        #expect(answer.status == 200)
        let result = try #require(try PushMessages.readResponse(answer.body).results.first)
        guard case .rejected(let problem, _) = result.verdict else {
            Issue.record("\(result.verdict)")
            return
        }
        #expect(problem.status == 422 && problem.detail.contains("/seq"))
        // Also from an agent that does not say how far it came, after it has acknowledged something.
        _ = bench.push([Sent("k-2", seq: 5, .create, id: "b")], acked: 4)
        #expect(bench.push([Sent("k-3", seq: 0, .create, id: "c")]).status == 200)
    }

    @Test("A hello that names another device or database than its headers is refused, and no row changes")
    func otherName() throws {
        let bench = try HubBench()
        #expect(bench.send("POST", "/v1/sync/hello", ["device_id": "gw-2"]).status == 400)
        #expect(bench.send("POST", "/v1/sync/hello", ["replica": "r-2"], replica: "r-1").status == 400)
        #expect(try bench.hub.devices(at: bench.now).isEmpty)
        #expect(bench.send("POST", "/v1/sync/hello", ["device_id": "gw-1", "replica": "r-1"], replica: "r-1").status == 200)
        #expect(bench.send("POST", "/v1/sync/hello", ["replica": "r-1"], replica: nil).status == 200)
    }
}

/// Edits by hand of a hub's rows, while no hub serves them.
@Suite("A hub's row changed by hand")
struct HandMadeTests {
    @Test(
        "No commit number is given out twice, whatever was done to the hub's row: a new history begins above all of them",
        arguments: ["DELETE FROM hub", "UPDATE hub SET head = 1", "UPDATE hub SET head = 0; DELETE FROM lineage"])
    func row(_ sql: String) throws {
        let folder = try TemporaryFolder()
        let place = Hub.Place.file(folder.path + "/hub.db")
        var epoch = ""
        do {
            let bench = try HubBench(place: place)
            for seq in 1...5 as ClosedRange<Int64> { _ = try bench.verdict(Sent("k-\(seq)", seq: seq, .create, id: "a-\(seq)")) }
            epoch = bench.hub.epoch
        }
        try folder.run(sql, in: "hub.db")
        let bench = try HubBench(seed: 2, place: place)
        var told: [HubNotice] = []
        bench.hub.onNotice = { told.append($0) }
        #expect(bench.hub.epoch != epoch && bench.hub.head == 5)
        #expect(told.count == 1, "said once it can be heard")
        guard case .accepted(let version, _, _, _) = try bench.verdict(Sent("k-6", seq: 6, .create, id: "a-6")) else {
            Issue.record("it was to be accepted")
            return
        }
        #expect(version == 6)
        #expect(try bench.hub.stats().lineage.restart?.cause == .repaired)
    }

    @Test("A row of the hub that goes while it runs is made again with what the hub knows, and nothing is given out twice")
    func whileRunning() throws {
        let folder = try TemporaryFolder()
        let bench = try HubBench(place: .file(folder.path + "/hub.db"))
        _ = try bench.verdict(Sent("k-1", .create))
        let epoch = bench.hub.epoch
        try folder.run("DELETE FROM hub", in: "hub.db")
        guard case .accepted(let version, _, _, _) = try bench.verdict(Sent("k-2", seq: 2, .create, id: "b")) else {
            Issue.record("it was to be accepted")
            return
        }
        #expect(version == 2 && bench.hub.epoch == epoch)
        #expect(try HubBench(seed: 2, place: .file(folder.path + "/hub.db")).hub.head == 2)
    }

    @Test("A row of a device's database that is deleted shows by the receipt of that device: what is not known is offered again")
    func replicaRow() throws {
        let folder = try TemporaryFolder()
        let bench = try HubBench(place: .file(folder.path + "/hub.db"))
        let receipt = try #require(bench.push([Sent("k-1", seq: 7, .create)]).headers[HubHeader.receipt])
        let epoch = bench.hub.epoch
        try folder.run("DELETE FROM replica", in: "hub.db")
        _ = bench.send("POST", "/v1/sync/hello", [:], headers: [(HubHeader.receipt, receipt)])
        #expect(bench.hub.epoch != epoch)
    }
}

/// Gone with its last reference.
private final class TemporaryFolder {
    let path: String

    init() throws {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent("history-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        path = url.path
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }  // A folder left behind does no harm.

    /// Runs SQL as an operator would by hand. The written pages have their seals, or the hub would refuse them.
    func run(_ sql: String, in file: String) throws {
        try SQLiteConnection(.writing("\(path)/\(file)")).execute(sql)
    }
}
