import RepetitionOracle
import Synchronization
import Testing

/// Clients that repeated themselves without end, as the fake servers of the stand have seen them (``RepetitionOracle``). Every stand looks
/// at this when it is taken down, whatever its test is about.
enum WatchedServers {
    private static let complaints = Mutex<[String]>([])

    /// Above what a test needs that asks for one sync after the other as fast as it can.
    static var limits: RepetitionOracle.Limits {
        var limits = RepetitionOracle.Limits()
        (limits.requests, limits.same) = (4_000, 400)
        return limits
    }

    static func complain(_ words: [String], of server: String) {
        complaints.withLock { $0 += words.map { "\(server): \($0)" } }
    }

    /// Takes what was said so far.
    static func take() -> [String] {
        complaints.withLock { said in
            defer { said = [] }
            return said
        }
    }

    static func check() {
        for words in take() { Issue.record("a program repeats itself: \(words)") }
    }
}
