import LocalAPI
import SyncCore
import Synchronization
import Testing

@Suite("The feed of an import") struct ImportFeedTests {
    private let plan = ImportPlan(EntityName(trusted: "e"), .ndjson)

    /// A file that comes in these pieces, and then is at its end.
    private final class Script: Sendable {
        private let pieces: Mutex<[ImportPiece]>
        init(_ pieces: [ImportPiece]) { self.pieces = Mutex(pieces) }
        func next() -> ImportPiece { pieces.withLock { $0.isEmpty ? .end : $0.removeFirst() } }
    }

    private func feed(_ plan: ImportPlan? = nil, _ pieces: [ImportPiece]) -> ImportFeed {
        let script = Script(pieces)
        return ImportFeed(plan ?? self.plan, read: { script.next() })
    }

    private func bytes(_ text: String) -> ImportPiece { .bytes(Array(text.utf8)) }

    private func all(_ feed: ImportFeed, upTo count: Int) -> String {
        var sent: [UInt8] = []
        while let piece = feed.next(upTo: count) {
            #expect((1...count).contains(piece.count))
            sent += piece
        }
        return String(decoding: sent, as: UTF8.self)
    }

    private let one = #"{"ref":1,"entity":"e","action":"create","data":{"a":1}}"# + "\n"
    private let two = #"{"ref":2,"entity":"e","action":"create","data":{"b":2}}"# + "\n"

    @Test("Every line of the file is sent, in pieces as large as asked for", arguments: [1, 7, 1_000])
    func sendsAll(_ count: Int) {
        let feed = feed(nil, [bytes(#"{"a":1}"# + "\n" + #"{"b"#), bytes(#"":2}"#)])
        #expect(all(feed, upTo: count) == one + two)
        #expect(feed.report.bytesRead == 15)
        #expect(feed.report.unsent == 0 && feed.report.fault == nil)
    }

    @Test("A silent pipe becomes an empty line, never an empty piece or an end")
    func silence() {
        let feed = feed(nil, [.nothingYet, bytes(#"{"a":1}"# + "\n"), .nothingYet])
        #expect(all(feed, upTo: 100) == "\n" + one + "\n")
    }

    @Test("Bad lines are counted and named, up to ten of them, in the order of the file")
    func badLines() {
        let feed = feed(nil, [bytes(String(repeating: "x\n", count: 12) + #"{"a":1}"# + "\n")])
        feed.record(.refused(line: 1, ref: 3, LocalProblem.validation.problem("no")))
        #expect(all(feed, upTo: 100).hasPrefix(#"{"ref":13,"#))
        #expect(feed.report.unsent == 12)
        #expect(feed.report.failures.map(\.line) == [1, 2, 3, 3, 4, 5, 6, 7, 8, 9])
    }

    @Test(
        "When the agent has no room, the line under way is finished and nothing more is sent",
        arguments: [LocalProblem.queueFull, .diskFull, .readOnly])
    func stops(_ problem: LocalProblem) {
        let feed = feed(
            nil, [bytes(#"{"a":1}"# + "\n" + #"{"b":2}"# + "\n" + #"{"c":3}"# + "\n"), bytes(#"{"d":4}"# + "\n")])
        var sent = feed.next(upTo: one.utf8.count + 5) ?? []
        feed.record(.refused(line: 1, ref: 1, problem.problem("full")))
        while let piece = feed.next(upTo: 9) { sent += piece }
        #expect(String(decoding: sent, as: UTF8.self) == one + two)
        #expect(feed.report.isStopped && feed.report.stop?.line == 1)
        #expect(feed.next(upTo: 100) == nil)
        // A line that was under way has an answer of its own.
        feed.record(.refused(line: 2, ref: 2, problem.problem("full")))
        #expect(feed.report.stop?.line == 1 && feed.report.takenAfterStop == 0)
    }

    @Test("Between two lines it stops at once")
    func stopsBetweenLines() {
        let feed = feed(nil, [bytes(#"{"a":1}"# + "\n" + #"{"b":2}"# + "\n")])
        #expect(feed.next(upTo: one.utf8.count) == Array(one.utf8))
        feed.record(.refused(line: 1, ref: 1, LocalProblem.queueFull.problem("full")))
        #expect(feed.next(upTo: 100) == nil)
    }

    @Test("Another refusal does not stop it")
    func goesOn() {
        let feed = feed(nil, [bytes(#"{"a":1}"# + "\n")])
        feed.record(.refused(line: 1, ref: 1, LocalProblem.validation.problem("no")))
        #expect(all(feed, upTo: 100) == one)
        #expect(!feed.report.isStopped)
    }

    @Test("A file that cannot be read on, or has no usable header, ends the stream with its reason")
    func faults() {
        let broken = feed(nil, [bytes(#"{"a":1}"# + "\n"), .failed("Input/output error")])
        #expect(all(broken, upTo: 100) == one)
        #expect(broken.report.fault?.detail == "cannot read on: Input/output error")
        let header = feed(ImportPlan(EntityName(trusted: "e"), .csv), [bytes("a,a\n1,2\n")])
        #expect(all(header, upTo: 100) == "")
        #expect(header.report.fault?.detail == "two columns are named a")
    }

    @Test("Progress is told with each answer")
    func progress() {
        let seen = Mutex<[Int64]>([])
        let script = Script([bytes(#"{"a":1}"# + "\n")])
        let feed = ImportFeed(
            plan, read: { script.next() }, onProgress: { _, answered in seen.withLock { $0.append(answered) } })
        _ = all(feed, upTo: 100)
        feed.record(.accepted(line: 1, ref: 1, id: MutationKey(trusted: "k"), state: "pending", isRepeat: false))
        feed.record(.summary(accepted: 1, failed: 0))
        #expect(seen.withLock { $0 } == [1, 1])
    }
}
