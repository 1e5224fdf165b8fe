/// Sizes of the requests: of batches by what the hub takes, and of pages and batches by the present link.
struct RequestSizes: Hashable, Sendable {
    private(set) var batches = BatchSizer()
    /// Sizes of pages and batches on the present link.
    private(set) var pace = LinkPace()
    /// The link that ``pace`` was measured on.
    private var link: String?
    /// Size of a small record in an answer, bytes; most are larger.
    private static let smallRecord = 64

    /// A link that comes back has its former speed.
    mutating func linkIsNow(_ name: String?) {
        if link != name { (pace, link) = (LinkPace(), name) }
    }

    // MARK: Batches

    func limits(under allowed: Allowance, leastPriority: Priority) -> BatchLimits {
        var limits = batches.limits(leastPriority: leastPriority)
        limits.bytes = min(limits.bytes, allowed.batchBytes)
        limits.sizes = allowed.sizes
        return limits
    }

    mutating func recordLimits(_ announced: HelloResponse.Announced) {
        batches.limit(mutations: announced.pushMutations, bytes: announced.pushBytes)
    }

    mutating func recordSuccess(of batch: Batch, after trip: Duration, growing: Bool) {
        batches.succeeded(batch, after: trip, growing: growing)
    }

    /// - Returns: See ``BatchSizer/failed(_:isCertain:isAnswerTooLarge:)``.
    mutating func recordFailure(of batch: Batch, isCertain: Bool, isAnswerTooLarge: Bool) -> Bool {
        batches.failed(batch, isCertain: isCertain, isAnswerTooLarge: isAnswerTooLarge)
    }

    /// - Returns: See ``BatchSizer/setAside(_:)``.
    mutating func setAside(_ key: MutationKey) -> Bool {
        batches.setAside(key)
    }

    // MARK: Pages

    /// Number of records to ask for in one page. An older hub does not limit bytes, so on a slow link it is asked for few records.
    func listedRecords(announced: Int) -> Int {
        min(Limits.listedRecords(announced: announced), max(1, pace.down.bytes / Self.smallRecord))
    }

    // MARK: Pace

    mutating func recordRead(_ bytes: Int, in time: Duration) {
        pace.down.moved(bytes, in: time)
    }

    mutating func recordSent(_ bytes: Int, in time: Duration) {
        pace.up.moved(bytes, in: time)
    }

    /// A running request got no answer.
    mutating func recordBroken(_ error: TransportError, isReading: Bool) {
        pace.broke(error.code, isReading: isReading, error.traffic)
    }

    /// A request did not arrive in time.
    mutating func recordSlowRequest() {
        pace.up.broke()
    }
}
