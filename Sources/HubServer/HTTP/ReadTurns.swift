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

    /// Largest number of requests of one transaction.
    var most: Int {
        switch self {
        case .short: 16
        // They mostly bring the same news, which is read once (``HubStore/LatestFeed``).
        case .patient: 32
        case .ended: 128
        case .long: 1
        }
    }
}

/// Requests that wait for a reader, as a value: it decides which of them share the next transaction.
///
/// The kinds take turns, so a request waits for one transaction of each other kind, however many requests of those there are.
struct ReadTurns<Request> {
    private var waiting: [ReadKind: [Request]] = [:]
    private var latest = ReadKind.long

    var isEmpty: Bool { waiting.values.allSatisfy { $0.isEmpty } }

    mutating func add(_ requests: [Request], as kind: ReadKind) { waiting[kind, default: []] += requests }

    /// Takes out all requests of a kind.
    mutating func remove(_ kind: ReadKind) -> [Request] { waiting.removeValue(forKey: kind) ?? [] }

    /// Takes out the requests of the next transaction, which are of one kind, in the order in which they came.
    mutating func next() -> [Request] {
        let kinds = ReadKind.allCases
        let inTurn = (1...kinds.count).map { kinds[(latest.rawValue + $0) % kinds.count] }
        guard let kind = inTurn.first(where: { waiting[$0]?.isEmpty == false }) else { return [] }
        latest = kind
        return ReadTurns.take(kind.most, of: &waiting[kind, default: []])
    }

    private static func take(_ count: Int, of requests: inout [Request]) -> [Request] {
        defer { requests.removeFirst(min(count, requests.count)) }
        return Array(requests.prefix(count))
    }
}
