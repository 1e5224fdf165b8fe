import Foundation
import HubServer
import SyncCore
import Testing

/// The observations of an operator, and the data that a hub drops by itself.
@Suite("The views of an operator", .eachEngine)
struct OperatorTests {
    private func hello(_ bench: HubBench, _ device: DeviceID, waiting: String?) -> HubResponse {
        bench.send(
            "POST", "/v1/sync/hello", ["agent": "0.1.0", "platform": "linux/arm64"], device: device,
            headers: waiting.map { [("Sync-Waiting", $0)] } ?? [])
    }

    @Test("Each device with its agent, its database, how far it is, and what waits there")
    func devices() throws {
        let bench = try HubBench()
        #expect(try bench.hub.devices(at: bench.now).isEmpty)
        #expect(hello(bench, .one, waiting: "17").status == 200)
        let began = bench.now
        bench.now = bench.now.advanced(by: .seconds(60))
        #expect(bench.push([Sent("k-1", seq: 4, .create), Sent("k-2", seq: 5, .create, id: "a-2")], acked: 3).status == 200)
        #expect(hello(bench, .two, waiting: nil).status == 200)
        let devices = try bench.hub.devices(at: bench.now)
        #expect(devices.map(\.id) == [.one, .two])
        let first = try #require(devices.first)
        #expect(first.agent == "0.1.0" && first.platform == "linux/arm64" && first.replica == "r-1" && first.replicas == 1)
        #expect(first.maxSeq == 5 && first.ackedSeq == 3 && first.counters.applied == 2)
        #expect(first.firstSeen == began && first.lastSeen == bench.now)
        // A push that says nothing of a backlog changes nothing of what was said.
        #expect(first.waiting == 17 && first.waitingAt == began)
        #expect(devices.last?.waiting == nil)
        #expect(try bench.hub.devices(.two, at: bench.now).map(\.id) == [.two])
        #expect(try bench.hub.devices("nobody", at: bench.now).isEmpty)
    }

    @Test("Mutations that a push settles wait no more; those with a retry do")
    func backlog() throws {
        let bench = try HubBench()
        let orphan = Sent("k-3", seq: 3, .create, id: "a-3", dependsOn: ["k-9"])
        let body: JSON = [
            "acked_seq": 0,
            "mutations": .array([Sent("k-1", .create), Sent("k-1b", seq: 2, .create, id: "a-2"), orphan].map { .object($0.json) }),
        ]
        let answer = bench.send("POST", "/v1/sync/push", body, headers: [("Sync-Waiting", "10")])
        let settled = try PushMessages.readResponse(answer.body).results.count { !$0.verdict.word.hasPrefix("retry") }
        #expect(settled == 2)
        #expect(try bench.hub.devices(.one, at: bench.now).first?.waiting == Int64(10 - settled))
        // A number below that of the pushed mutations, or nonsense, does no harm.
        let one: JSON = ["acked_seq": 0, "mutations": .array([.object(Sent("k-4", seq: 4, .create, id: "a-4").json)])]
        #expect(bench.send("POST", "/v1/sync/push", one, headers: [("Sync-Waiting", "0")]).status == 200)
        #expect(try bench.hub.devices(.one, at: bench.now).first?.waiting == 0)
        #expect(hello(bench, .one, waiting: "-5").status == 200)
        #expect(hello(bench, .one, waiting: "many").status == 200)
        #expect(try bench.hub.devices(.one, at: bench.now).first?.waiting == 0)
    }

    @Test("Two databases that speak in turns are named, for a day")
    func clones() throws {
        let bench = try HubBench()
        var refused = 0
        for turn in 0..<12 {
            let replica = ReplicaID(turn % 2 == 0 ? "r-1" : "r-2")
            let answer = bench.push(
                [Sent("k-\(turn)", seq: Int64(turn / 2 + 1), .create, id: RecordID("a-\(turn)")?.text ?? "")], replica: replica)
            if answer.problem?.code == "replica-regressed" { refused += 1 } else { #expect(answer.status == 200) }
        }
        #expect(refused == 3, "a database that returns gets a new id, unless it returns again and again")
        let device = try #require(try bench.hub.devices(at: bench.now).first)
        #expect(device.twins == 2 && device.replicas == 2 && device.returns >= 4)
        #expect(metrics(bench)["agenthub_cloned_devices"] == "1")
        #expect(try bench.hub.devices(at: bench.now.advanced(by: .seconds(2 * 86_400))).first?.twins == 0)
    }

    // MARK: Retention

    @Test("Values with a number of days are removed when these are over, and the metrics count them")
    func retention() throws {
        let bench = try HubBench()
        bench.hub.settings.retention.deletions = .seconds(30 * 86_400)
        bench.hub.settings.retention.reports = .seconds(2 * 86_400)
        #expect(bench.push([Sent("k-1", .create), Sent("k-2", seq: 2, .delete)]).status == 200)
        #expect(bench.send("POST", "/v1/diagnostics", ["n": 1]).status == 202)
        bench.now = bench.now.advanced(by: .seconds(2 * 86_400 + 1))
        try bench.hub.housekeep(at: bench.now)
        var seen = metrics(bench)
        #expect(seen[#"agenthub_dropped_total{kind="report"}"#] == "1" && seen[#"agenthub_dropped_total{kind="deletion"}"#] == "0")
        bench.now = bench.now.advanced(by: .seconds(28 * 86_400))
        try bench.hub.housekeep(at: bench.now)
        seen = metrics(bench)
        #expect(seen[#"agenthub_dropped_total{kind="deletion"}"#] == "1")
        #expect(seen["agenthub_housekeeping_timestamp_seconds"] == String(bench.now.milliseconds / 1_000))
        #expect(try bench.hub.stats().entities.isEmpty)
    }

    // MARK: Figures and readiness

    private func metrics(_ bench: HubBench) -> [String: String] {
        let answer = bench.hub.handle(HubRequest("GET", "/metrics"), at: bench.now)
        let lines = String(decoding: answer.body, as: UTF8.self).split(separator: "\n").filter { !$0.hasPrefix("#") }
        return Dictionary(
            lines.compactMap { line in line.lastIndex(of: " ").map { (String(line[..<$0]), String(line[line.index(after: $0)...])) } }
        ) { $1 }
    }

    @Test("The figures count devices by their age, and what waits")
    func figures() throws {
        let bench = try HubBench()
        #expect(hello(bench, .one, waiting: "5").status == 200)
        bench.now = bench.now.advanced(by: .seconds(3 * 86_400))
        #expect(hello(bench, .two, waiting: "7").status == 200)
        let seen = metrics(bench)
        #expect(seen[#"agenthub_devices{seen="day"}"#] == "1" && seen[#"agenthub_devices{seen="week"}"#] == "1")
        #expect(seen[#"agenthub_devices{seen="earlier"}"#] == "0")
        #expect(seen["agenthub_waiting_mutations"] == "12" && seen["agenthub_database_up"] == "1")
    }

    @Test("Alive is not ready: without its database or its disk it answers, says which, and shows figures all the same")
    func readiness() throws {
        let bench = try HubBench()
        func ask(_ path: String) -> HubResponse { bench.hub.handle(HubRequest("GET", path), at: bench.now) }
        #expect(ask("/readyz").status == 200)
        let room = 100_000_000
        bench.hub.settings.freeBytes = { Int64(room) }
        #expect(ask("/readyz").status == 200)
        bench.hub.settings.freeBytes = { 1_000 }
        // The free bytes change with what other devices send, so a stranger gets the limit and not the number.
        let full = "the disk of the database has less than 16777216 bytes free\n"
        #expect(ask("/readyz").status == 503 && String(decoding: ask("/readyz").body, as: UTF8.self) == full)
        #expect(ask("/healthz").status == 200)
        #expect(metrics(bench)["agenthub_disk_free_bytes"] == "1000")
        bench.hub.settings.freeBytes = nil
        bench.hub.beforeCommit = { false }
        #expect(ask("/readyz").status == 503)
        #expect(ask("/healthz").status == 200)
        #expect(metrics(bench)["agenthub_database_up"] == "0")
        // The answers of other requests are right, and the order stays.
        bench.hub.beforeCommit = nil
        var headers: HTTPHeaders = [:]
        HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
        let answers = bench.hub.handle(
            [
                HubRequest("GET", "/healthz"), HubRequest("POST", "/v1/sync/hello", headers: headers, body: Array("{}".utf8)),
                HubRequest("GET", "/readyz"),
            ],
            at: bench.now)
        #expect(answers.map(\.status) == [200, 200, 200])
        #expect(String(decoding: answers[0].body, as: UTF8.self) == "ok\n" && String(decoding: answers[2].body, as: UTF8.self) == "ready\n")
        #expect(answers[1].headers["Sync-Epoch"] != nil)
    }
}

/// The file itself: copies of it, and its size.
@Suite("Copies and size of the hub's file")
final class HubBackupTests {
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("hub-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

    @Test("A copy is made beside a hub that is in the middle of its work, and has all that was answered, in one file")
    func beside() throws {
        let bench = try HubBench(place: .file(path("hub.db")))
        for number in 1...50 { _ = try bench.verdict(Sent("k-\(number)", seq: Int64(number), .create, id: "a-\(number)")) }
        let facts = try HubBackup.copy(path("hub.db"), to: path("copy.db"))
        #expect(facts.epoch == bench.hub.epoch && facts.head == 50)
        _ = try bench.verdict(Sent("k-51", seq: 51, .create, id: "a-51"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("copy.db") } == ["copy.db"])
        #expect(try HubBackup.check(path("copy.db")) == facts)
        let copy = try HubBench(place: .file(path("copy.db")))
        #expect(copy.hub.epoch == bench.hub.epoch && copy.hub.head == 50)
        #expect(try copy.verdict(Sent("k-50", seq: 50, .create, id: "a-50")).word == "duplicate")
    }

    @Test("A copy that is renewed is another history with the same records, and knows of no file on its way")
    func renewed() throws {
        var bench: HubBench? = try HubBench(place: .file(path("hub.db")))
        _ = try bench?.verdict(Sent("k-1", .create))
        let epoch = bench?.hub.epoch
        bench = nil
        let mark = try HubBackup.renew(path("hub.db"), random: SeededRandom(seed: 5))
        #expect(mark.epoch != epoch && mark.head == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["hub.db"])
        let again = try HubBench(place: .file(path("hub.db")))
        #expect(again.hub.epoch == mark.epoch)
        #expect(try again.verdict(Sent("k-1", .create)).word == "duplicate")
    }

    enum Damage: CaseIterable { case page, cut, foreign, empty, newer }

    @Test("A damaged or foreign folder, or one of a newer version, is no backup", arguments: Damage.allCases)
    func damaged(_ damage: Damage) throws {
        var bench: HubBench? = try HubBench(place: .file(path("hub.db")))
        for number in 1...200 {
            _ = try bench?.verdict(
                Sent(
                    "k-\(number)", seq: Int64(number), .create, id: "a-\(number)",
                    data: ["text": .string(String(repeating: "x", count: 300))]))
        }
        _ = try HubBackup.copy(path("hub.db"), to: path("copy.db"))
        bench = nil
        let url = URL(fileURLWithPath: path("copy.db"))
        var bytes = try Data(contentsOf: url)
        switch damage {
        case .page: bytes.replaceSubrange(8_192..<12_288, with: Data(repeating: 0xA5, count: 4_096))
        case .cut: bytes = bytes.prefix(bytes.count / 2)
        case .foreign: bytes.replaceSubrange(68..<72, with: Data(count: 4))
        case .empty: bytes = Data()
        case .newer: bytes.replaceSubrange(60..<64, with: Data([0, 0, 0, 99]))
        }
        try bytes.write(to: url)
        #expect(throws: HubError.self) { try HubBackup.check(self.path("copy.db")) }
    }

    @Test("Pages that nothing uses any more go back to the file system, slice by slice")
    func shrinks() throws {
        let bench = try HubBench(place: .file(path("hub.db")))
        let text = String(repeating: "x", count: 100_000)
        for number in 1...60 {
            _ = try bench.verdict(Sent("k-\(number)", seq: Int64(number), .create, id: "a-\(number)", data: ["text": .string(text)]))
        }
        #expect(try bench.hub.shrink(), "nothing is free yet")
        for number in 1...60 {
            _ = try bench.verdict(Sent("d-\(number)", seq: Int64(60 + number), .delete, id: "a-\(number)", base: Int64(number)))
        }
        var slices = 0
        while try !bench.hub.shrink() { slices += 1 }
        #expect(slices >= 2)
        bench.hub.checkpoint()
        let size = try #require(try FileManager.default.attributesOfItem(atPath: path("hub.db"))[.size] as? Int)
        #expect(size < 1_000_000)
        #expect(try bench.verdict(Sent("k-1", .create, id: "a-1")).word != "accepted", "the keys are all there")
    }
}
