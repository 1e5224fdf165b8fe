import NIOCore
import SyncCore

/// The kinds of requests that take turns at a reader, in the order of their turns.
enum ReadKind: Int, CaseIterable {
    /// Other pulls and short requests, as they came.
    case short
    /// Pulls that may wait, as they came or after a commit, when thousands of them may come at once.
    case patient
    /// Pulls whose wait is over. They have no news as a rule, so the database knows their answers from the rows of their devices.
    case ended
    /// Listings and comparisons of a whole entity, which may take seconds.
    case long

    /// Number of requests of one transaction: that of the first transaction, and the largest.
    var sizes: ClosedRange<Int> {
        switch self {
        case .short: 16...16
        // After a commit they mostly bring the same news, which is read once (``HubStore/LatestFeed``). They may also bring a page of 1 MiB
        // each, which is kept until the transaction is over.
        case .patient: 32...64
        case .ended: 128...128
        case .long: 1...1
        }
    }
}

/// Requests that wait for a reader, as a value: it decides which of them share the next transaction.
///
/// The kinds take turns, so a request waits for one transaction of each other kind, however many requests of those there are. Transactions
/// that are quick get larger ones behind them, up to the limit of their kind, because each has a round trip to the database.
struct ReadTurns<Request> {
    private var waiting: [ReadKind: CircularBuffer<Request>] = [:]
    private var sizes: [ReadKind: Int] = [:]
    private var latest = ReadKind.long

    /// A transaction that took less than the first time may be followed by one that is twice as large; one that took longer than the
    /// second time is followed by a smaller one. Nanoseconds.
    private static var goodTime: ClosedRange<Int64> { 4_000_000...12_000_000 }

    var isEmpty: Bool { waiting.values.allSatisfy { $0.isEmpty } }

    mutating func add(_ requests: [Request], as kind: ReadKind) { waiting[kind, default: []].append(contentsOf: requests) }

    /// Removes all requests of a kind.
    ///
    /// - Returns: The requests.
    mutating func remove(_ kind: ReadKind) -> [Request] { waiting.removeValue(forKey: kind).map { Array($0) } ?? [] }

    /// Removes the requests of the next transaction, which are of one kind, in the order in which they came.
    mutating func next() -> [Request] {
        let kinds = ReadKind.allCases
        let inTurn = (1...kinds.count).map { kinds[(latest.rawValue + $0) % kinds.count] }
        guard let kind = inTurn.first(where: { waiting[$0]?.isEmpty == false }) else { return [] }
        latest = kind
        let count = min(size(of: kind), waiting[kind]?.count ?? 0)
        let requests = waiting[kind].map { Array($0.prefix(count)) } ?? []
        waiting[kind]?.removeFirst(count)
        return requests
    }

    /// The transaction of the requests that ``next()`` returned is over.
    mutating func ended(_ count: Int, after time: Duration) {
        let size = size(of: latest)
        if time.nanoseconds < Self.goodTime.lowerBound, count == size { sizes[latest] = min(2 * size, latest.sizes.upperBound) }
        if time.nanoseconds > Self.goodTime.upperBound { sizes[latest] = max(size / 2, latest.sizes.lowerBound) }
    }

    private func size(of kind: ReadKind) -> Int { sizes[kind] ?? kind.sizes.lowerBound }
}
