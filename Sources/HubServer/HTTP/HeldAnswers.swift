import NIOCore
import SyncCore

/// Answers that show an unconfirmed commit (``UnconfirmedRead``), as a value: it decides when they may leave.
///
/// A look is a statement over the connection that has read the commit. If it begins ``proofTime`` after the read and succeeds, the server
/// was not shutting down when it showed the commit. A server that shuts down tells all its sessions to end within microseconds of each
/// other; on a busy machine these are some milliseconds.
struct HeldAnswers<Answer> {
    private struct Entry {
        var read: UnconfirmedRead
        var at: NIODeadline
        var answer: Answer
    }

    /// In the order of their reads.
    private var entries: [Entry] = []

    static var proofTime: TimeAmount { .milliseconds(100) }

    var isEmpty: Bool { entries.isEmpty }

    /// - Parameter time: A moment after the read.
    mutating func hold(_ answer: Answer, of read: UnconfirmedRead, at time: NIODeadline) {
        entries.append(Entry(read: read, at: time, answer: answer))
    }

    /// Returns whether a look that begins now would let an answer leave.
    func needsLook(at now: NIODeadline) -> Bool { entries.first.map { $0.at + Self.proofTime <= now } ?? false }

    /// Takes out the answers whose commits a later commit of this hub has confirmed.
    mutating func confirmed(_ isConfirmed: (HubPosition) -> Bool) -> [Answer] {
        removeEntries { isConfirmed($0.read.position) }.map(\.answer)
    }

    /// Takes out the answers that a look lets leave.
    ///
    /// - Parameters:
    ///   - connection: The connection that has answered.
    ///   - start: A moment before the look.
    /// - Returns: These answers, and their newest read.
    mutating func looked(over connection: Int64, from start: NIODeadline) -> (answers: [Answer], newest: UnconfirmedRead?) {
        let free = removeEntries { $0.read.connection == connection && $0.at + Self.proofTime <= start }
        return (free.map(\.answer), free.last?.read)
    }

    /// Takes out the answers whose connection is lost, which must be given anew.
    ///
    /// - Parameter connection: The present connection; `nil`: there is none.
    mutating func lost(but connection: Int64?) -> [Answer] {
        removeEntries { $0.read.connection != connection }.map(\.answer)
    }

    private mutating func removeEntries(where isTaken: (Entry) -> Bool) -> [Entry] {
        let taken = entries.filter(isTaken)
        if !taken.isEmpty { entries.removeAll(where: isTaken) }
        return taken
    }
}

/// Holds back answers that show an unconfirmed commit. Belongs to one loop.
final class AnswerKeeper: @unchecked Sendable {
    // Unchecked: everything belongs to `loop`.
    /// Answers that were read together.
    struct Batch {
        let release: () -> Void
        /// Called instead when their connection is lost.
        let giveUp: () -> Void
    }

    private let loop: any EventLoop
    /// The newest confirmed commit.
    private let confirmed: ConfirmedHead
    /// Asks the database over the present connection; returns its number, or `nil` when there is no answer.
    private let look: () -> Int64?
    private let confirm: (UnconfirmedRead) -> Void
    private var held = HeldAnswers<Batch>()
    private var timer: Scheduled<Void>?

    /// Time between two questions whether a commit of this hub has confirmed the answers, which ask no database.
    private static let period = TimeAmount.milliseconds(10)

    init(
        on loop: any EventLoop, _ confirmed: ConfirmedHead, look: @escaping () -> Int64?,
        confirm: @escaping (UnconfirmedRead) -> Void
    ) {
        (self.loop, self.confirmed, self.look, self.confirm) = (loop, confirmed, look, confirm)
    }

    func hold(_ batch: Batch, of read: UnconfirmedRead) {
        loop.assertInEventLoop()
        held.hold(batch, of: read, at: .now())
        askLater()
    }

    /// Gives up all answers.
    func stop() {
        loop.assertInEventLoop()
        timer?.cancel()
        timer = nil
        for batch in held.lost(but: nil) { batch.giveUp() }
    }

    private func askLater() {
        guard timer == nil, !held.isEmpty else { return }
        timer = loop.scheduleTask(in: AnswerKeeper.period) { self.ask() }
    }

    private func ask() {
        timer = nil
        for batch in held.confirmed({ confirmed.includes($0) }) { batch.release() }
        let now = NIODeadline.now()
        if held.needsLook(at: now) {
            let connection = look()
            let lost = held.lost(but: connection)
            if let connection {
                let (answers, newest) = held.looked(over: connection, from: now)
                if let newest { confirm(newest) }
                for batch in answers { batch.release() }
            }
            for batch in lost { batch.giveUp() }
        }
        askLater()
    }
}
