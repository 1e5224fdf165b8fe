import HubServer
import NumbersKit
import SyncCore
import Testing

/// Numbers that break arithmetic, in every place of every message of the hub protocol (`deploy/api/corpus`): none of them may
/// end the hub, make it answer 5xx, or change what it does for others afterwards. About 12,000 requests; a trap ends the run.
@Suite("Numbers from outside, at the hub")
struct HubNumberTests {
    @Test("No number in a request of the corpus ends the hub, and it serves another device as before", arguments: CorpusCase.names)
    func requests(_ name: String) throws {
        let example = try CorpusCase(named: name)
        // A request that cannot be committed is answered 503, whatever the numbers are.
        guard !example.before.contains(where: { if case .event("fail-commits") = $0 { true } else { false } }) else { return }
        var replay = try CorpusReplay(example.hub)
        _ = try replay.run(example)
        var faults: [String] = []
        replay.sendHostile(example.request) { place, answer in
            if answer.status >= 500 {
                faults.append("\(place): \(answer.status) \(String(decoding: answer.body.prefix(200), as: UTF8.self))")
            }
        }
        #expect(faults == [])
        guard example.hub["tokens"] == nil, example.hub["entities"] == nil else { return }
        let bench = replay.bench
        let key = "0199c3f2-0000-7000-8000-00000000beef"
        let answer = bench.push([Sent(key, .create, "sane", id: "s-1", data: ["n": 1])], device: .two, replica: "r-sane")
        #expect(answer.status == 200, "\(HubBench.Unexpected(answer))")
        let record = try #require(try bench.pull([("sane", nil)], device: .two).pages.first?.records.first)
        let stamp = try #require(record.record.hlc.flatMap { HybridTime($0) })
        #expect(Int64(stamp.milliseconds) <= bench.now.advanced(by: HybridClock.aheadMax).milliseconds)
        #expect(record.record.version < 1_000, "commits are counted one by one: \(record.record.version)")
    }

    @Test("No number in an answer of the corpus ends the agent's readers", arguments: CorpusCase.names)
    func answers(_ name: String) throws {
        let example = try CorpusCase(named: name)
        var replay = try CorpusReplay(example.hub)
        let (answer, _) = try replay.run(example)
        let now = Timestamp(milliseconds: 1_795_208_400_000)
        var read = 0
        // An answer that cannot be read is an error of the reader, which is one of the two good ends.
        func reads(_ answer: HubResponse) {
            _ = try? CorpusReading.lines(example.request.path, answer, now: now)
            _ = HubHeaders(reading: answer.headers, now: now).rateLimit?.pause
            read += 1
        }
        reads(answer)
        if let json = try? JSONReader.read(answer.body, limits: .message) {
            for variant in HostileNumbers.variants(of: json) {
                reads(HubResponse(status: answer.status, headers: answer.headers, body: variant.json.bytes))
            }
        }
        for name in [
            "Sync-Time", "Sync-Head", "Sync-Device-Seq", "Sync-Config", "Sync-Twins", "Sync-Token-Ends", "Sync-Token-Refresh",
            "Retry-After", "Sync-Version", "Sync-Versions",
        ] {
            for value in HostileNumbers.numbers + HostileNumbers.dates {
                var changed = answer
                changed.headers[name] = value
                reads(changed)
            }
        }
        for left in HostileNumbers.numbers {
            for time in HostileNumbers.numbers {
                var changed = answer
                changed.headers["RateLimit"] = "\"default\";r=\(left);t=\(time)"
                reads(changed)
            }
        }
        #expect(read > 200)
    }
}
