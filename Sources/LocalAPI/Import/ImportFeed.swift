package import SyncCore
import Synchronization

/// The result of one read of an imported file.
package enum ImportPiece: Hashable, Sendable {
    case bytes([UInt8])
    /// A pipe or terminal has been silent for a while.
    case nothingYet
    case end
    /// The reason why it cannot be read further.
    case failed(String)
}

/// Connects a file with ``AgentClient/importLines(nextPiece:onAnswer:)``: it encodes the input, counts the answers, and stops when the
/// agent has no room.
///
/// A bad line does not stop an import, because the next one may be good. A full queue does: further lines would only be refused, and a file
/// of a million lines with them.
package final class ImportFeed: Sendable {
    package struct Report: Hashable, Sendable {
        package var bytesRead: Int64 = 0
        package var answered: Int64 = 0
        /// Number of lines that never became a mutation.
        package var unsent: Int64 = 0
        /// The first failures in the order of the file: unsent and refused lines.
        package var failures: [ImportFailure] = []
        /// The first line for which the agent had no room; the rest of the file was not sent.
        package var stop: ImportFailure?
        package var isStopped: Bool { stop != nil }
        /// Number of lines after that one which were accepted all the same: there was room again, or they need less.
        package var takenAfterStop: Int64 = 0
        /// The reason why the file, or the rest of it, could not be used.
        package var fault: Problem?
    }

    private struct State {
        var encoder: ImportEncoder
        var report = Report()
        var output: ArraySlice<UInt8> = []
        /// The last piece ended inside a line.
        var isInLine = false
        var isAtEnd = false
    }

    /// Largest number of failures in the report; further ones are only counted.
    package static let failuresMax = 10

    private let read: @Sendable () -> ImportPiece
    private let onProgress: @Sendable (_ bytesRead: Int64, _ answered: Int64) -> Void
    private let state: Mutex<State>

    /// - Parameters:
    ///   - read: Returns the next piece of the file; may block.
    ///   - onProgress: Called after each answer; must not call back.
    package init(
        _ plan: ImportPlan, read: @escaping @Sendable () -> ImportPiece,
        onProgress: @escaping @Sendable (_ bytesRead: Int64, _ answered: Int64) -> Void = { _, _ in }
    ) {
        self.read = read
        self.onProgress = onProgress
        state = Mutex(State(encoder: ImportEncoder(plan)))
    }

    package var report: Report {
        state.withLock { state in
            var report = state.report
            report.failures.sort { $0.line < $1.line }
            return report
        }
    }

    /// The next bytes for the agent, 1 to `count`; `nil` at the end.
    package func next(upTo count: Int) -> [UInt8]? {
        state.withLock { state in
            if state.report.isStopped { cutOff(&state) }
            while state.output.isEmpty {
                if state.isAtEnd { return nil }
                switch read() {
                // An empty line is a keep-alive for the agent, and lets its answers come in.
                case .nothingYet: return [UInt8(ascii: "\n")]
                case .bytes(let bytes):
                    state.report.bytesRead += Int64(bytes.count)
                    accept(state.encoder.read(bytes), &state)
                case .end:
                    state.isAtEnd = true
                    accept(state.encoder.finish(), &state)
                case .failed(let words):
                    state.isAtEnd = true
                    state.report.fault = Problem("file", status: 0, detail: "cannot read on: " + words)
                }
                if let fault = state.encoder.headerFault {
                    state.isAtEnd = true
                    state.report.fault = fault
                }
            }
            let piece = Array(state.output.prefix(count))
            state.output = state.output.dropFirst(piece.count)
            state.isInLine = piece.last != UInt8(ascii: "\n")
            return piece
        }
    }

    package func record(_ answer: BulkAnswer) {
        let (bytesRead, answered) = state.withLock { state in
            switch answer {
            case .accepted:
                state.report.answered += 1
                if state.report.isStopped { state.report.takenAfterStop += 1 }
            case .refused(let line, let ref, let problem):
                state.report.answered += 1
                let failure = ImportFailure(line: ref?.int ?? line, problem: problem)
                keep(failure, &state)
                switch LocalProblem(problem) {
                case .queueFull?, .diskFull?, .readOnly?:
                    if state.report.stop.map({ failure.line < $0.line }) ?? true { state.report.stop = failure }
                default: break
                }
            case .summary: break
            }
            return (state.report.bytesRead, state.report.answered)
        }
        onProgress(bytesRead, answered)
    }

    /// Keeps only the rest of the running line, because half a line would be read as a bad one.
    private func cutOff(_ state: inout State) {
        state.isAtEnd = true
        let end = state.isInLine ? state.output.firstIndex(of: UInt8(ascii: "\n")) : nil
        state.output = end.map { state.output[...$0] } ?? []
    }

    private func accept(_ encoded: (lines: [UInt8], failures: [ImportFailure]), _ state: inout State) {
        state.output = encoded.lines[...]
        state.report.unsent += Int64(encoded.failures.count)
        for failure in encoded.failures { keep(failure, &state) }
    }

    private func keep(_ failure: ImportFailure, _ state: inout State) {
        if state.report.failures.count < ImportFeed.failuresMax { state.report.failures.append(failure) }
    }
}
