/// Numbers of calls and probes, and what is needed of the latest call until its answer.
struct CallLog: Hashable, Sendable {
    private(set) var lastID: UInt64 = 0
    private(set) var kind = HubCall.Kind.hello
    /// Size of the body of the latest call, bytes, and its time limit.
    private(set) var bodyBytes = 0
    private(set) var timeLimit: Duration = .zero
    /// The hub could let it wait, so its time measures nothing.
    private(set) var hasWaited = false
    /// Other calls were answered while it waited, so its answer may be older than theirs.
    private(set) var isOvertaken = false
    /// The receipt that it shows.
    private(set) var receipt: String?

    /// - Returns: The number of the next call or probe.
    mutating func next() -> UInt64 {
        lastID += 1
        return lastID
    }

    mutating func record(_ call: HubCall, isOvertaken: Bool = false) {
        self.isOvertaken = isOvertaken
        kind = call.kind
        bodyBytes = call.body.count
        timeLimit = call.timeLimit
        hasWaited = call.waitSeconds != nil
        receipt = call.receipt
    }
}
