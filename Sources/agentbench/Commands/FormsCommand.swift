import ArgumentParser
import BenchKit
import CBenchFloors
import Glibc
import LocalAPI
import SyncCore

/// Measures publishing, the judgement of changes by forms, progress, and the change of a schema while apps go on writing.
struct FormsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forms",
        abstract: "Measures publishing of forms, changes judged by them, progress, and a change of the schema.",
        discussion: """
            Publishing: forms of 1 KB beside a running hub, with the same number of rows in plain SQLite as the floor. Judgement \
            and progress: 200 forms of 100 questions, audits of 100 answers, each complete; the floors are the same document in an \
            entity without a form, and the plain read. A change of the schema: the longest enqueue while the agent converts its \
            records; the floor is the longest enqueue before.
            """)

    @OptionGroup var shared: SharedOptions

    func run() throws {
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        let size = shared.quick ? FormsSize.quick : .full
        var report = Report(command: "forms", workplace: workplace)
        var publishing = Figure(
            id: "publish_forms", title: "\(size.published) forms published", unit: .microseconds, floor: "SQLite, 256 rows a transaction",
            goal: .below(10_000_000 * Double(size.published) / 100_000))
        var judged = Figure(
            id: "enqueue_judged_p99", title: "enqueue of a complete audit: p99", unit: .microseconds, floor: "without a form",
            goal: .below(10_000))
        var progress = Figure(
            id: "progress_p99", title: "progress of an audit: p99", unit: .microseconds, floor: "read of the audit", goal: .below(10_000))
        var conversion = Figure(
            id: "schema_change_enqueue_max", title: "longest enqueue, \(size.records) records converted", unit: .microseconds,
            floor: "longest enqueue before", goal: nil)
        for round in 1...shared.roundCount(full: 3) {
            Talk.say("round \(round)")
            try publish(size.published, &publishing, workplace)
            try judge(size, &judged, &progress, &conversion, workplace)
        }
        report.figures = [publishing, judged, progress, conversion]
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }

    /// A hub that no device asks meanwhile.
    private func publish(_ count: Int, _ figure: inout Figure, _ workplace: Workplace) throws {
        let folder = try workplace.folder("publishing")
        try writeLines(count, to: "\(folder)/forms.ndjson") { #"{"id":"f-\#($0)","data":\#(BenchForms.kilobyte($0))}"# }
        let floor = try Floors(folder: workplace.folder("floor"), withRecord: false).batches(count, rowsPerCommit: 256)
        var tokens: [String: String] = [:]
        let hub = try HubUnderTest(program: shared.agenthub, in: folder, devices: [], tokens: &tokens)
        defer { hub.stop() }
        try write(BenchForms.entities(version: 1), to: "\(folder)/entities.yaml")
        try hub.operate(["entities", "apply", "\(folder)/entities.yaml"])
        let before = bench_now()
        try hub.operate(["publish", "forms", "\(folder)/forms.ndjson"])
        figure.add(floor: Double(floor.nanoseconds) / 1_000, agent: Double(bench_now() - before) / 1_000)
    }

    /// A hub and one device that has its forms and records.
    private func judge(
        _ size: FormsSize, _ judged: inout Figure, _ progress: inout Figure, _ conversion: inout Figure, _ workplace: Workplace
    ) throws {
        let folder = try workplace.folder("hub")
        var tokens: [String: String] = [:]
        let hub = try HubUnderTest(program: shared.agenthub, in: folder, devices: ["bench"], tokens: &tokens)
        defer { hub.stop() }
        for version in 1...2 { try write(BenchForms.entities(version: version), to: "\(folder)/entities-\(version).yaml") }
        try hub.operate(["entities", "apply", "\(folder)/entities-1.yaml"])
        try writeLines(BenchForms.count, to: "\(folder)/forms.ndjson") { #"{"id":"f-\#($0)","data":\#(BenchForms.form($0))}"# }
        try hub.operate(["publish", "forms", "\(folder)/forms.ndjson"])
        try writeLines(size.records, to: "\(folder)/work.ndjson") {
            #"{"id":"w-\#($0)","data":{"site":"site-\#($0 % 50)","note":"\#(String(repeating: "n", count: 150))","n":\#($0)}}"#
        }
        try hub.operate(["publish", "work", "\(folder)/work.ndjson"])

        let agent = try AgentUnderTest(
            program: shared.agentd, in: workplace.folder("agent"), hubURL: "http://127.0.0.1:\(hub.port)", token: tokens["bench"] ?? "",
            producers: Producers(wanted: 1))
        defer { agent.stop() }
        try agent.explaining {
            try fill(agent, with: ["forms": BenchForms.count, "work": size.records])
            let plain = try times(size.requests) { try enqueue("plain", $0, agent) }
            let complete = try times(size.requests) { try enqueue("audits", $0, agent) }
            judged.add(floor: plain.quantile(0.99) / 1_000, agent: complete.quantile(0.99) / 1_000)
            let read = try times(size.requests) { try agent.call("GET", "/v1/records/audits/a-\($0)") }
            let counted = try times(size.requests) { try agent.call("GET", "/v1/records/audits/a-\($0)/progress") }
            progress.add(floor: read.quantile(0.99) / 1_000, agent: counted.quantile(0.99) / 1_000)

            try hub.operate(["entities", "apply", "\(folder)/entities-2.yaml"])
            var during: [UInt64] = []
            let end = ContinuousClock.now + .seconds(120)
            func write(_ count: Int) throws {
                for _ in 0..<count { during += try times(1) { _ in try enqueue("plain", size.requests + during.count, agent) }.sorted }
            }
            // The settings come with the next pull. Reads show the new version already while the records are converted, so the conversion
            // is under way at the end of the loop, and the writes after it wait for its end.
            while try !agent.call("GET", "/v1/records/work/w-1").contains("site_id") {
                guard ContinuousClock.now < end else { throw BenchError("the agent does not take over the second version") }
                try agent.call("POST", "/v1/sync", body: #"{"scope":"all","force":true}"#)
                try write(20)
            }
            try write(500)
            conversion.add(floor: plain.max / 1_000, agent: Times(during).max / 1_000)
        }
    }

    private func fill(_ agent: AgentUnderTest, with wanted: [String: Int]) throws {
        let end = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < end {
            try agent.call("POST", "/v1/sync", body: #"{"scope":"all","force":true,"wait":true}"#)
            let entities = try agent.status().entities
            if wanted.allSatisfy({ name, count in entities.contains { $0.name == name && $0.records == count } }) { return }
        }
        throw BenchError("the agent does not receive the forms and records of its hub")
    }

    private func enqueue(_ entity: String, _ number: Int, _ agent: AgentUnderTest) throws {
        let answers = BenchForms.answers(number % BenchForms.count)
        try agent.call(
            "POST", "/v1/mutations",
            body: #"{"entity":"\#(entity)","action":"upsert","record_id":"a-\#(number)","data":\#(answers)}"#)
    }

    private func times(_ count: Int, _ body: (Int) throws -> Void) throws -> Times {
        Times(
            try (0..<count).map { number in
                let before = bench_now()
                try body(number)
                return bench_now() - before
            })
    }

    private func writeLines(_ count: Int, to path: String, _ line: (Int) -> String) throws {
        guard let file = fopen(path, "w") else { throw BenchError("cannot write \(path): \(String(cString: strerror(errno)))") }
        for number in 0..<count { fputs(line(number) + "\n", file) }
        guard fclose(file) == 0 else { throw BenchError("cannot write \(path): \(String(cString: strerror(errno)))") }
    }
}

private struct FormsSize {
    var published: Int
    var requests: Int
    var records: Int

    static let full = FormsSize(published: 100_000, requests: 2_000, records: 20_000)
    static let quick = FormsSize(published: 10_000, requests: 200, records: 2_000)
}

/// Forms of 100 questions in ten sections, and complete answers to them. Every second question is visible because of the one before.
private enum BenchForms {
    static let count = 200

    /// A form of one question and a long text, 1 KB in all.
    static func kilobyte(_ number: Int) -> String {
        let help = String(repeating: "h", count: 830)
        return #"{"title":"Form \#(number)","version":1,"schema":{"title":"Form \#(number)","sections":[{"id":"s","title":"S","fields":["#
            + #"{"id":"q","label":"\#(help)","type":"choice","choices":["pass","fail"],"required":true}]}]}}"#
    }

    static func form(_ number: Int) -> String {
        let sections = (0..<10).map { section in
            let fields = (0..<5).map { pair in
                let id = "q\(section)_\(pair)"
                return #"{"id":"\#(id)","label":"Question \#(id)","type":"choice","choices":["pass","fail"],"required":true},"#
                    + #"{"id":"\#(id)_why","label":"Why","type":"text","max_length":500,"required":true,"visible_when":{"\#(id)":"fail"}}"#
            }
            return #"{"id":"s\#(section)","title":"Section \#(section)","fields":[\#(fields.joined(separator: ","))]}"#
        }
        let title = "Form \(number)"
        return #"{"title":"\#(title)","version":1,"schema":{"title":"\#(title)","sections":[\#(sections.joined(separator: ","))]}}"#
    }

    /// 100 answers.
    static func answers(_ form: Int) -> String {
        let answers = (0..<50).map { #""q\#($0 / 5)_\#($0 % 5)":"fail","q\#($0 / 5)_\#($0 % 5)_why":"worn out""# }
        return #"{"status":"completed","form_id":"f-\#(form)",\#(answers.joined(separator: ","))}"#
    }

    static func entities(version: Int) -> String {
        """
        entities:
          forms: { kind: reference }
          plain: { kind: record }
          audits:
            form: { entity: forms, ref: form_id, path: schema }
            complete: { when: { status: [completed] } }
          work:
            schema: \(version)
            versions:
              1: { schema: { properties: { site: { type: string } } } }
        \(version == 1 ? "" : "      2: { schema: { properties: { site_id: { type: string } } }, up: [ { rename: { site: site_id } } ] }")

        """
    }
}
