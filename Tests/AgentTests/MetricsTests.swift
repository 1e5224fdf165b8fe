import Agent
import Foundation
import HubServer
import SyncCore
import Testing

/// `GET /v1/metrics`, read by the rules of Prometheus' text format 0.0.4 and its naming conventions; by promtool too where it
/// is installed.
@Suite("Metrics")
struct MetricsTests {
    struct Family {
        var name: String
        var kind: String
        var help: String
        var samples: [(labels: [String: String], value: Double)] = []
    }

    struct Fault: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// Strict: one HELP and one TYPE before the samples of a family, families not mixed, every line of a known form.
    static func read(_ text: String) throws -> [Family] {
        guard text.hasSuffix("\n") else { throw Fault("the last line does not end") }
        var families: [Family] = []
        var help: (name: String, text: String)?
        for line in text.dropLast().split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line.hasPrefix("# HELP ") {
                let words = line.dropFirst(7).split(separator: " ", maxSplits: 1).map(String.init)
                guard words.count == 2, help == nil else { throw Fault("HELP: \(line)") }
                help = (words[0], words[1])
            } else if line.hasPrefix("# TYPE ") {
                let words = line.dropFirst(7).split(separator: " ").map(String.init)
                guard words.count == 2, let said = help, said.name == words[0], ["counter", "gauge", "histogram"].contains(words[1])
                else { throw Fault("TYPE: \(line)") }
                guard !families.contains(where: { $0.name == words[0] }) else { throw Fault("twice: \(words[0])") }
                families.append(Family(name: words[0], kind: words[1], help: said.text))
                help = nil
            } else {
                guard var family = families.popLast(), help == nil else { throw Fault("a sample without a family: \(line)") }
                family.samples.append(try sample(line, of: family))
                families.append(family)
            }
        }
        return families
    }

    private static func sample(_ line: String, of family: Family) throws -> (labels: [String: String], value: Double) {
        guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]) else {
            throw Fault("no value: \(line)")
        }
        var rest = line[..<space]
        guard rest.hasPrefix(family.name) else { throw Fault("\(line) stands among \(family.name)") }
        rest = rest.dropFirst(family.name.count)
        var labels: [String: String] = [:]
        if family.kind == "histogram" {
            guard let part = ["_bucket", "_sum", "_count"].first(where: { rest.hasPrefix($0) }) else {
                throw Fault("no part of a histogram: \(line)")
            }
            labels["part"] = String(part.dropFirst())
            rest = rest.dropFirst(part.count)
        }
        guard !rest.isEmpty else { return (labels, value) }
        guard rest.first == "{", rest.last == "}" else { throw Fault("labels: \(line)") }
        var characters = Array(rest.dropFirst().dropLast())[...]
        while !characters.isEmpty {
            let name = String(characters.prefix { $0 != "=" })
            guard name.wholeMatch(of: /[a-zA-Z_][a-zA-Z0-9_]*/) != nil, !name.hasPrefix("__") else { throw Fault("label name: \(line)") }
            characters = characters.dropFirst(name.count + 1)
            guard characters.popFirst() == "\"" else { throw Fault("label value: \(line)") }
            var value = ""
            var isClosed = false
            while let next = characters.popFirst() {
                isClosed = next == "\""
                if isClosed { break }
                guard next == "\\" else {
                    value.append(next)
                    continue
                }
                guard let escaped = characters.popFirst(), ["\\", "\"", "n"].contains(escaped) else { throw Fault("escape: \(line)") }
                value.append(escaped == "n" ? "\n" : escaped)
            }
            guard isClosed else { throw Fault("a label without an end: \(line)") }
            guard labels.updateValue(value, forKey: name) == nil else { throw Fault("label twice: \(line)") }
            if let comma = characters.popFirst(), comma != "," { throw Fault("after a label: \(line)") }
        }
        return (labels, value)
    }

    /// Bounds rise, counts never fall, the last bound is infinity and has all.
    private static func check(_ family: Family) throws {
        let buckets = family.samples.filter { $0.labels["part"] == "bucket" }
        let bounds = buckets.compactMap { $0.labels["le"] }.compactMap { $0 == "+Inf" ? .infinity : Double($0) }
        #expect(bounds.count == buckets.count && bounds == bounds.sorted() && bounds.last == .infinity, "\(family.name)")
        #expect(buckets.map(\.value) == buckets.map(\.value).sorted(), "\(family.name)")
        let count = try #require(family.samples.first { $0.labels == ["part": "count"] })
        #expect(buckets.last?.value == count.value)
        #expect(family.samples.contains { $0.labels == ["part": "sum"] && $0.value >= 0 })
    }

    /// https://prometheus.io/docs/practices/naming: prefix, base units, `_total` for counters alone.
    private static func check(_ families: [Family], prefix: String, mayBeEmpty: Set<String> = []) throws {
        for family in families {
            #expect(family.name.hasPrefix(prefix + "_") && family.name.wholeMatch(of: /[a-z][a-z0-9_]*[a-z0-9]/) != nil, "\(family.name)")
            #expect(family.name.hasSuffix("_total") == (family.kind == "counter"), "\(family.name)")
            for unit in ["_ms", "_milliseconds", "_kb", "_mb", "_minutes", "_hours", "_percent"] { #expect(!family.name.contains(unit)) }
            #expect(family.help.hasSuffix("."), "\(family.name)")
            #expect(!family.samples.isEmpty || family.kind == "counter" || mayBeEmpty.contains(family.name), "\(family.name) has no sample")
            let series = family.samples.map { $0.labels.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: ",") }
            #expect(Set(series).count == series.count, "\(family.name) has a series twice")
            if family.kind == "histogram" {
                try Self.check(family)
                continue
            }
            #expect(Set(family.samples.map { $0.labels.keys.sorted() }).count <= 1, "\(family.name) has samples with different labels")
            if family.kind == "counter" { for sample in family.samples { #expect(sample.value >= 0) } }
        }
    }

    @Test("The hub's figures keep to the same rules")
    func hub() throws {
        var settings = Hub.Settings()
        (settings.version, settings.freeBytes) = ("0.1.0", { 1_000_000_000 })
        let hub = try Hub(.memory, settings: settings, random: SeededRandom(seed: 1))
        hub.transactionTimes.add(.milliseconds(3))
        let now = Timestamp(milliseconds: 1_795_208_400_000)
        _ = hub.handle(HubRequest("GET", "/nowhere"), at: now)
        try hub.housekeep(at: now)
        let answer = hub.handle(HubRequest("GET", "/metrics"), at: now)
        #expect(answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        let text = String(decoding: answer.body, as: UTF8.self)
        let families = try Self.read(text)
        try Self.check(families, prefix: "agenthub")
        func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
            families.first { $0.name == name }?.samples.first { $0.labels == labels }?.value
        }
        #expect(value("agenthub_info", ["version": "0.1.0"]) == 1 && value("agenthub_database_up") == 1)
        #expect(value("agenthub_requests_total", ["path": "other", "status": "404"]) == 1)
        #expect(value("agenthub_transaction_seconds", ["part": "count"]) == 1)
        #expect(value("agenthub_disk_free_bytes") == 1e9 && (value("agenthub_database_bytes") ?? 0) > 0)
        #expect(value("agenthub_housekeeping_timestamp_seconds") == 1_795_208_400)
        try promtool(text)
    }

    @Test("Every line is of the format, every name follows the conventions, and no series is there twice")
    func conventions() async throws {
        let stand = try await AgentStand.start { $0.runProgram = { path, link, onEnd in onEnd(path == "/sbin/reset", "link \(link)") } }
        for _ in 0..<2 { await stand.agent.recover(LinkRecovery.Run(program: "/sbin/reset", link: "wwan0")) }
        // A critical one would go in a cycle of its own, if the one below does not come before.
        _ = try await stand.enqueue(#"{"entity":"audits","action":"create","data":{"n":1}}"#)
        try await stand.sync()
        _ = try await stand.send(.get, "/v1/nothing")
        let answer = try await stand.send(.get, "/v1/metrics")
        #expect(answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        let families = try Self.read(answer.text)
        #expect(families.count >= 10)
        try Self.check(families, prefix: "agentd", mayBeEmpty: ["agentd_link_state", "agentd_records_not_kept"])
        func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
            families.first { $0.name == name }?.samples.first { $0.labels == labels }?.value
        }
        #expect(value("agentd_enqueued_total") == 1)
        #expect(value("agentd_link_recoveries_total", ["link": "wwan0"]) == 2)
        #expect(value("agentd_finished_total", ["state": "done"]) == 1)
        #expect(value("agentd_reachability", ["state": "online"]) == 1)
        #expect(value("agentd_sync_cycles_total", ["result": "ok"]) == 1)
        for name in ["agentd_enqueue_seconds", "agentd_fsync_seconds", "agentd_push_seconds", "agentd_pull_page_seconds"] {
            #expect((value(name, ["part": "count"]) ?? 0) >= 1, "\(name)")
        }
        #expect((value("agentd_store_job_seconds", ["part": "count"]) ?? 0) >= 1 && (value("agentd_store_job_longest_seconds") ?? 0) > 0)
        #expect(value("agentd_store_jobs_over_bound_total") == 0)
        #expect(value("agentd_conflicts_open") == 0)
        let up = families.first { $0.name == "agentd_bytes_total" }?.samples.filter {
            $0.labels["class"] == "push" && $0.labels["dir"] == "up"
        }
        #expect((up?.first?.value ?? 0) > 0)
        try await stand.stop()
        try promtool(answer.text)
    }

    @Test(
        "The reader of these tests sees what is wrong",
        arguments: [
            "a 1\n", "# TYPE a gauge\na 1\n", "# HELP a x\n# TYPE a gauge\nb 1\n", "# HELP a x\n# TYPE a gauge\na 1",
            "# HELP a x\n# TYPE a thing\na 1\n",
            "# HELP a x\n# TYPE a gauge\na{b=\"c} 1\n", "# HELP a x\n# TYPE a gauge\na{b=\"c\",b=\"d\"} 1\n",
            "# HELP a x\n# TYPE a gauge\na one\n",
            "# HELP a x\n# TYPE a gauge\na{b=\"\\x\"} 1\n", "# HELP a x\n# TYPE a gauge\na 1\n# HELP a x\n# TYPE a gauge\na 2\n",
            "# HELP a x\n# TYPE a gauge\na{1b=\"c\"} 1\n",
        ])
    func readerIsStrict(_ text: String) {
        #expect(throws: Fault.self) { try Self.read(text) }
    }

    @Test("A cycle counts once, as failed if it has an error, and as a bad reply if the answer was not the hub's or made no sense")
    func countedCycles() {
        var metrics = Metrics()
        for kind in [nil, .transport(.unreachable), .foreign, .nonsense] as [HubReply.Kind?] {
            var outcome = CycleOutcome(session: "s")
            (outcome.error, outcome.errorKind) = (kind.map { "\($0)" }, kind)
            metrics.cycleEnded(outcome)
        }
        #expect(metrics.cycles == 4)
        #expect(metrics.failedCycles == 3)
        #expect(metrics.badReplies == 2)
    }

    @Test("Bytes are counted with the headers of TCP, by link and purpose; times by the kind of the request")
    func countedRequests() {
        var metrics = Metrics()
        var traffic = Traffic()
        (traffic.up, traffic.headersUp, traffic.down) = (100, 40, 7)
        metrics.moved(traffic, for: .push, over: "eth0")
        metrics.moved(traffic, for: .push, over: "eth0")
        metrics.moved(traffic, for: .pull, over: "wwan0")
        #expect(metrics.bytes[TrafficSeries(link: "eth0", purpose: .push)]?.up == 280)
        #expect(metrics.bytes[TrafficSeries(link: "eth0", purpose: .push)]?.down == 14)
        #expect(metrics.bytes.count == 2)
        let now = Moment(instant: Instant(nanoseconds: 5), wall: Timestamp(milliseconds: 1_000))
        for kind in [.pull, .snapshot, .push, .settle, .hello, .known, .verify] as [HubCall.Kind] {
            let question = HubAnswer.Question.sync(kind, took: .seconds(1))
            metrics.handle(HubAnswer(question, .success(HTTPResponse(status: 500)), over: nil, at: now))
            metrics.handle(HubAnswer(question, .failure(TransportError(.timedOut, doing: "ask", detail: "late")), over: nil, at: now))
        }
        #expect(metrics.pullTimes.sum == .seconds(2))
        #expect(metrics.pushTimes.sum == .seconds(2))
        for code in ["forbidden", "rate", "forbidden"] { metrics.refused(code) }
        #expect(metrics.refusals == ["forbidden": 2, "rate": 1])
    }

    private func promtool(_ text: String) throws {
        let path = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map { "\($0)/promtool" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
        guard let path else {
            print("skipped: promtool is not installed, so it does not check the metrics")
            return
        }
        let process = Process(), input = Pipe()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = ["check", "metrics"]
        process.standardInput = input
        try process.run()
        input.fileHandleForWriting.write(Data(text.utf8))
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }
}
