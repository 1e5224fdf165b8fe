import ArgumentParser
import Glibc
import LocalAPI
import SyncCore
import SyncLinux

struct ImportCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Queue one change for each line of a file.",
        discussion: """
            CSV (RFC 4180) needs a header. Fields that are numbers by the grammar of JSON become numbers, digit for digit. \
            Everything else, and everything in quotes, becomes text. NDJSON has one object in each line. The file is streamed. An \
            invalid line does not stop it; a full queue or disk does. With --key-prefix the import can be repeated after an \
            interruption: no line is accepted twice.

            agentctl import readings readings.csv --id-column serial --key-prefix 2026-11-20-
            """)

    @OptionGroup var global: GlobalOptions
    @Argument(help: .entity) var entity: EntityName
    @Argument(help: "FILE.csv, FILE.ndjson, or - for standard input.") var file: String
    @Option(help: "csv or ndjson. Default: by the file's name; ndjson for standard input.") var format: ImportPlan.Format?
    @Option(help: "create, update, upsert or delete.") var action: NewMutation.Action = .create
    @Option(help: "The column or member that names the record.") var idColumn: String?
    @Option(help: "Prefix of the value of --id-column, or of the number of the row without it.") var idPrefix: String?
    @Option(help: "Prefix of the idempotency key of each line. The number of the line follows it.") var keyPrefix: String?
    @Option(help: "critical, normal or bulk. Default: the entity's.") var priority: Priority?
    @Option(help: "Drop changes that are still unsent after this time, such as 2h or 14d.") var ttl: DurationArgument?

    func validate() throws {
        if format == nil, file != "-", formatByName == nil {
            throw ValidationError("\(file) does not end in .csv, .ndjson or .jsonl. Give --format.")
        }
        if action != .create, idColumn == nil, idPrefix == nil {
            throw ValidationError("--action \(action.rawValue) needs --id-column or --id-prefix.")
        }
    }

    private var formatByName: ImportPlan.Format? {
        if file.hasSuffix(".csv") { return .csv }
        return file.hasSuffix(".ndjson") || file.hasSuffix(".jsonl") ? .ndjson : nil
    }

    func run(_ session: Session) async throws -> Int32 {
        let plan = ImportPlan(
            entity, format ?? formatByName ?? .ndjson, action: action, idColumn: idColumn, idPrefix: idPrefix,
            keyPrefix: keyPrefix, priority: priority, ttl: ttl?.duration)
        let file = try InputFile(file)
        let bar = Environment.isTerminal(STDERR_FILENO) ? ProgressBar(total: file.size, time: SystemClocks()) : nil
        let feed = ImportFeed(
            plan, read: { file.read(upTo: 64 << 10, patience: .milliseconds(250)) },
            onProgress: { bytesRead, answered in bar?.show(bytes: bytesRead, lines: answered) })
        defer { bar?.end() }
        let outcome = try await session.client.importLines(
            nextPiece: { feed.next(upTo: $0) }, onAnswer: { feed.record($0) })
        bar?.end()
        let report = feed.report
        if let fault = report.fault { throw CommandFailure(exitStatus: 1, problem: fault) }
        if session.isJSON { Output.json(summary(outcome, report)) } else { show(outcome, report) }
        return outcome.failed + report.unsent == 0 && outcome.isComplete && !report.isStopped ? 0 : 1
    }

    private func show(_ outcome: ImportOutcome, _ report: ImportFeed.Report) {
        let failed = outcome.failed + report.unsent
        for failure in report.failures {
            Output.note(PlainText.safe("line \(failure.line): \(failure.problem.code): \(failure.problem.detail)"))
        }
        let more = failed - Int64(report.failures.count)
        if more > 0 { Output.note("and \(PlainText.count(more)) more") }
        var text = "\(PlainText.count(outcome.accepted)) accepted"
        if outcome.repeated > 0 { text += " (\(PlainText.count(outcome.repeated)) already accepted before)" }
        Output.line(text + ", \(PlainText.count(failed)) failed")
        let again = keyPrefix == nil ? "" : ". Repeat the import with the same --key-prefix"
        if !outcome.isComplete {
            Output.note("the connection was lost. Lines without an answer were not accepted" + again)
        } else if let stop = report.stop {
            Output.note(
                PlainText.safe(
                    "stopped at line \(stop.line), which was not accepted: \(stop.problem.detail); \(LocalProblem.hint(stop.problem))"))
            // Answers come in the order of the lines: all lines before that one have theirs.
            let rest =
                if keyPrefix != nil {
                    "then repeat the import with the same --key-prefix"
                } else if report.takenAfterStop == 0 {
                    "then import the lines from \(stop.line) on"
                } else {
                    "\(PlainText.count(report.takenAfterStop)) of the lines after it were accepted: import the others"
                }
            Output.note(rest + "; the accepted lines are safe")
        }
    }

    private func summary(_ outcome: ImportOutcome, _ report: ImportFeed.Report) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("accepted", outcome.accepted)
            writer.member("repeated", outcome.repeated)
            writer.member("failed", outcome.failed + report.unsent)
            writer.member("complete", outcome.isComplete && !report.isStopped)
            if let stop = report.stop { writer.member("stopped_at", stop.line) }
            writer.name("failures")
            writer.array { writer in
                for failure in report.failures {
                    writer.object { writer in
                        writer.member("line", failure.line)
                        writer.name("problem")
                        failure.problem.writeNote(to: &writer)
                    }
                }
            }
        }
        return writer.bytes
    }
}
