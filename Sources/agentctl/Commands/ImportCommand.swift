import ArgumentParser
import Glibc
import LocalAPI
import SyncCore
import SyncLinux
import Synchronization

struct ImportCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Ask for one change per line of a file.",
        discussion: """
            CSV (RFC 4180) needs a header; fields that are numbers by the grammar of JSON become numbers, digit for digit, \
            everything else and everything in quotes text. NDJSON has one object a line. The file is streamed. With \
            --key-prefix the import can be run again after a cut: what was taken is not taken twice.
            """)

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The entity.") var entity: EntityName
    @Argument(help: "FILE.csv, FILE.ndjson, or - for standard input.") var file: String
    @Option(help: "csv or ndjson. Default: by the file's name; ndjson for standard input.") var format: ImportPlan.Format?
    @Option(help: "create, update, upsert or delete.") var action: NewMutation.Action = .create
    @Option(help: "The column or member that names the record.") var idColumn: String?
    @Option(help: "Before the value of --id-column; without that, before the number of the row.") var idPrefix: String?
    @Option(help: "Idempotency key of each line: this and the line's number.") var keyPrefix: String?
    @Option(help: "critical, normal or bulk. Default: the entity's.") var priority: Priority?
    @Option(help: "Give up unsent after this time, such as 2h or 14d.") var ttl: DurationArgument?

    func validate() throws {
        if format == nil, file != "-", formatByName == nil {
            throw ValidationError("\(file) ends neither in .csv nor in .ndjson or .jsonl: say --format.")
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
        let feed = ImportFeed(try InputFile(file), plan, showsProgress: Environment.isTerminal(STDERR_FILENO))
        let outcome: ImportOutcome
        do throws(AgentError) {
            outcome = try await session.client.importLines(
                nextPiece: { feed.next(upTo: $0) }, onAnswer: { feed.note($0) })
        } catch {
            feed.endProgress()
            throw error
        }
        feed.endProgress()
        if let fault = feed.fault { throw CommandFailure(exitStatus: 1, problem: fault) }
        return report(outcome, feed)
    }

    private func report(_ outcome: ImportOutcome, _ feed: ImportFeed) -> Int32 {
        let failed = outcome.failed + feed.unsent
        if global.json {
            Output.json(summary(outcome, feed))
        } else {
            for failure in feed.failures {
                Output.note(PlainText.safe("line \(failure.line): \(failure.problem.code): \(failure.problem.detail)"))
            }
            let more = failed - Int64(feed.failures.count)
            if more > 0 { Output.note("and \(PlainText.count(more)) more") }
            var text = "\(PlainText.count(outcome.accepted)) accepted"
            if outcome.repeated > 0 { text += " (\(PlainText.count(outcome.repeated)) were there already)" }
            text += ", \(PlainText.count(failed)) failed"
            Output.line(text)
            if !outcome.isComplete {
                let again = keyPrefix == nil ? "" : "; run it again with the same --key-prefix"
                Output.note("the stream was cut: lines without an answer were not taken" + again)
            }
        }
        return failed == 0 && outcome.isComplete ? 0 : 1
    }

    private func summary(_ outcome: ImportOutcome, _ feed: ImportFeed) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("accepted", outcome.accepted)
            writer.member("repeated", outcome.repeated)
            writer.member("failed", outcome.failed + feed.unsent)
            writer.member("complete", outcome.isComplete)
            writer.name("failures")
            writer.array { writer in
                for failure in feed.failures {
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

/// Between the file and the transport's thread: reads, encodes, counts, and draws the progress bar.
final class ImportFeed: Sendable {
    private struct State {
        var encoder: ImportEncoder
        var output: ArraySlice<UInt8> = []
        var isAtEnd = false
        var fault: Problem?
        var bytesRead: Int64 = 0
        var answered: Int64 = 0
        var unsent: Int64 = 0
        var failures: [ImportFailure] = []
        var bar: ProgressBar?
    }

    private let file: InputFile
    private let state: Mutex<State>
    /// Shown at the end; the rest is only counted.
    private static let failuresShown = 10

    init(_ file: InputFile, _ plan: ImportPlan, showsProgress: Bool) {
        self.file = file
        let bar = showsProgress ? ProgressBar(total: file.size, now: SystemClocks().now().instant) : nil
        state = Mutex(State(encoder: ImportEncoder(plan), bar: bar))
    }

    /// Why the file, or the rest of it, could not be read.
    var fault: Problem? { state.withLock { $0.fault } }
    /// Lines that never became a mutation.
    var unsent: Int64 { state.withLock { $0.unsent } }
    /// The first ones, in the order of the file.
    var failures: [ImportFailure] { state.withLock { $0.failures.sorted { $0.line < $1.line } } }

    func next(upTo count: Int) -> [UInt8]? {
        state.withLock { state in
            while state.output.isEmpty {
                if state.isAtEnd { return nil }
                // A pipe may be silent for long: an empty line shows the agent that we live, and lets the answers through.
                switch file.read(upTo: 64 << 10, patience: .milliseconds(250)) {
                case .nothingYet: return [UInt8(ascii: "\n")]
                case .bytes(let bytes):
                    state.bytesRead += Int64(bytes.count)
                    take(state.encoder.read(bytes), &state)
                case .end:
                    state.isAtEnd = true
                    take(state.encoder.finish(), &state)
                case .failed(let words):
                    state.isAtEnd = true
                    state.fault = Problem("file", status: 0, detail: "cannot read on: " + words)
                }
                if let fault = state.encoder.headerFault {
                    state.isAtEnd = true
                    state.fault = fault
                }
            }
            let piece = Array(state.output.prefix(count))
            state.output = state.output.dropFirst(piece.count)
            return piece
        }
    }

    func note(_ answer: BulkAnswer) {
        state.withLock { state in
            switch answer {
            case .accepted: state.answered += 1
            case .refused(let line, let ref, let problem):
                state.answered += 1
                keep(ImportFailure(line: ref?.int ?? line, problem: problem), &state)
            case .summary: break
            }
            state.bar?.show(bytes: state.bytesRead, lines: state.answered, now: SystemClocks().now().instant)
        }
    }

    func endProgress() {
        state.withLock { $0.bar?.end(bytes: $0.bytesRead, lines: $0.answered, now: SystemClocks().now().instant) }
    }

    private func take(_ encoded: (lines: [UInt8], failures: [ImportFailure]), _ state: inout State) {
        state.output = encoded.lines[...]
        state.unsent += Int64(encoded.failures.count)
        for failure in encoded.failures { keep(failure, &state) }
    }

    private func keep(_ failure: ImportFailure, _ state: inout State) {
        if state.failures.count < ImportFeed.failuresShown { state.failures.append(failure) }
    }
}
