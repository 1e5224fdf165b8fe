import HubServer
import LocalAPI
import NumbersKit
import SyncCore
import Testing

/// Numbers that break arithmetic, in every place of the hub's answers, while a whole agent syncs with it: the agent accepts work
/// throughout, and what it stamps afterwards has the time of now.
@Suite("Numbers from outside, in the hub's answers")
struct HubAnswerNumberTests {
    static let headers = [
        "Sync-Time", "Sync-Head", "Sync-Device-Seq", "Sync-Config", "Sync-Twins", "Sync-Token-Ends", "Sync-Token-Refresh",
    ]
    static let paces = ["Retry-After", "RateLimit"]

    private func work(_ stand: AgentStand, _ id: String) async throws -> String {
        try await stand.enqueue(#"{"entity":"audits","record_id":"\#(id)","action":"upsert","data":{"n":1}}"#)
    }

    /// The stamp of a record at the hub, milliseconds from now.
    private func stampAge(_ stand: AgentStand, _ id: String) throws -> Int64 {
        let page = try PullMessages.readResponse(stand.hub.ask("GET", "/v1/sync/pull?entity=audits").body).pages.first
        let record = try #require(page?.records.first { $0.id.text == id })
        let stamp = try #require(record.record.hlc.flatMap { HybridTime($0) })
        return Int64(stamp.milliseconds) - SystemClocksNow.milliseconds
    }

    @Test("A header of the hub says anything; work is accepted, and is stamped sanely when the hub is sane again", arguments: headers)
    func header(_ name: String) async throws {
        let stand = try await AgentStand.start()
        _ = try await work(stand, "first")
        #expect(try await stand.sync()["result"] == "ok")
        for (index, value) in HostileNumbers.numbers.enumerated() {
            stand.hub.weather = .changes { _, response in response.headers[name] = value }
            _ = try await work(stand, "r-\(index)")
            _ = try await stand.sync()
            _ = try await work(stand, "q-\(index)")
        }
        stand.hub.weather = .fine
        _ = try await stand.sync()
        _ = try await work(stand, "last")
        #expect(try await stand.sync()["result"] == "ok")
        for id in ["last", "q-4", "r-7"] { #expect(try abs(stampAge(stand, id)) < 60_000, "\(id)") }
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.outbox.isBalanced && status.outbox.open == 0)
        if name == "Sync-Time" { #expect(!status.alarms.contains { $0.code == "hub_clock" }, "it agrees again") }
        try await stand.stop()
    }

    @Test("A hub that asks for silence of any length is left alone, and work is accepted", arguments: paces)
    func pace(_ name: String) async throws {
        for value in HostileNumbers.numbers + HostileNumbers.dates {
            let stand = try await AgentStand.start()
            stand.hub.weather = .changes { _, response in
                response.status = 503
                response.headers[name] = name == "RateLimit" ? "\"default\";r=0;t=\(value)" : value
            }
            _ = try await work(stand, "a")
            _ = try await stand.sync()
            _ = try await work(stand, "b")
            #expect(try await stand.send(.get, "/v1/status").status == 200)
            try await stand.stop()
        }
    }

    @Test(
        "A number in the body of an answer says anything; work is accepted, and the next cycles go through",
        arguments: [
            "/v1/sync/hello", "/v1/sync/pull", "/v1/sync/push",
        ])
    func body(_ path: String) async throws {
        for value in HostileNumbers.numbers {
            let stand = try await AgentStand.start()
            _ = try stand.hub.publish("audits", "published", ["n": 1])
            stand.hub.weather = .changes { request, response in
                guard request.url.contains(path), let json = try? JSONReader.read(response.body, limits: .message),
                    let other = HostileNumbers.number(value)
                else { return }
                response.body = Self.replacing(json, with: other).bytes
            }
            _ = try await work(stand, "a")
            _ = try await stand.sync()
            _ = try await work(stand, "b")
            stand.hub.weather = .fine
            _ = try await stand.sync()
            _ = try await work(stand, "c")
            _ = try await stand.sync()
            #expect(try abs(stampAge(stand, "c")) < 60_000, "\(value)")
            #expect(try await stand.send(.get, "/v1/status").status == 200)
            try await stand.stop()
        }
    }

    /// Every number but those of documents, which are data.
    private static func replacing(_ json: JSON, with other: JSON) -> JSON {
        switch json {
        case .number: return other
        case .array(let elements): return .array(elements.map { replacing($0, with: other) })
        case .object(let object):
            var copy = object
            for member in object.members where member.name.text != "data" { copy[member.name.text] = replacing(member.value, with: other) }
            return .object(copy)
        default: return json
        }
    }

    @Test("One answer with a time that cannot be is told, and told to be over")
    func told() async throws {
        let stand = try await AgentStand.start()
        func alarm() async throws -> String? {
            try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) }?.alarms.first { $0.code == "hub_clock" }?.detail
        }
        stand.hub.weather = .changes { _, response in response.headers["Sync-Time"] = "253402300799000" }
        _ = try await work(stand, "a")
        _ = try await stand.sync()
        #expect(try #require(try await alarm()).contains("253402300799000 ms"))
        stand.hub.weather = .fine
        _ = try await work(stand, "b")
        _ = try await stand.sync()
        #expect(try await alarm() == nil)
        try await stand.stop()
    }
}
