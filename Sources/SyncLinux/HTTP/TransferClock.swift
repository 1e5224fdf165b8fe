import SyncCore

/// Tracks the step of a transfer and finds its first deadline to pass.
///
/// curl's own connect timeout covers name, TCP and TLS. The later steps are timed here, because curl only knows a total time and a minimum
/// speed. Neither detects a peer that accepts and then stays silent without also ending transfers on a slow link.
///
///     step        deadline                             counted from
///     connecting  (curl's)
///     sending     idle                                 last byte that left
///     waiting     first byte, idle                     last byte of the request that left
///     receiving   idle                                 last byte of the answer
///     all         total                                start
struct TransferClock {
    enum Step: Hashable { case connecting, sending, waiting, receiving }
    enum Limit: Hashable { case firstByte, idle, total }

    private(set) var step = Step.connecting
    private let deadlines: HTTPRequest.Deadlines
    private let started: Instant
    /// Time of the last byte in either direction.
    private(set) var moved: Instant

    init(_ deadlines: HTTPRequest.Deadlines, now: Instant) {
        self.deadlines = deadlines
        started = now
        moved = now
    }

    mutating func connected(hasBody: Bool, now: Instant) {
        step = hasBody ? .sending : .waiting
        moved = now
    }

    /// Records that bytes of the request left.
    mutating func sent(isAll: Bool, now: Instant) {
        if isAll, step == .sending { step = .waiting }
        moved = now
    }

    /// Records that a line of the head or bytes of the body came.
    mutating func received(now: Instant) {
        step = .receiving
        moved = now
    }

    /// Records that the peer's TCP accepted bytes that had left earlier; on a slow link much of a request waits in the kernel.
    mutating func acknowledged(at moment: Instant) {
        moved = max(moved, moment)
    }

    /// The end of the deadline that passes first, `nil` when there is none.
    var next: Instant? { all.map(\.end).min() }

    /// The first deadline that has passed and its length.
    func passed(now: Instant) -> (limit: Limit, length: Duration)? {
        all.filter { $0.end <= now }.min { $0.end < $1.end }.map { ($0.limit, $0.length) }
    }

    private var all: [(limit: Limit, length: Duration, end: Instant)] {
        var all: [(Limit, Duration, Instant)] = []
        if let total = deadlines.total { all.append((.total, total, started.advanced(by: total))) }
        if step == .waiting, let firstByte = deadlines.firstByte {
            all.append((.firstByte, firstByte, moved.advanced(by: firstByte)))
        }
        if step != .connecting, let idle = deadlines.idle { all.append((.idle, idle, moved.advanced(by: idle))) }
        return all
    }
}
