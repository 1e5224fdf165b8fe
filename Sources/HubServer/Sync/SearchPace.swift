import SyncCore

/// Says how far the database looks for seeds in its next part, and when the page ends.
///
/// A request waits for its page, and others wait behind it. On PostgreSQL a statement also has a time limit (15 s), and one that meets it
/// meets it again with each repetition: the device would never go on. The cost of a document grows with its size. Of 10 KB each and stored
/// out of line, 580,000 took 25 s (17 s with two more processes of the server), and 20,000 that lie far apart 4.1 s; of 130 bytes, 580,000
/// took 0.4 s (PostgreSQL 15, two slow cores). A part is therefore bounded by number and by bytes, and it grows only while parts are quick.
struct SearchPace: Hashable {
    /// The largest size of a part. It has at least one document, whatever that weighs.
    struct Bounds: Hashable {
        var documents: Int
        /// Bytes of documents before compression. Only an engine that knows sizes without reading the documents uses this limit.
        var bytes: Int
    }

    /// Largest number of documents that the database looks through for one page. A page often ends by ``pageTime`` before.
    static let documentsMax = 600_000
    /// Largest number of documents of a part: what comes next may cost more than what was looked through.
    static let partMax = 100_000
    /// Largest number of bytes of a part: 0.5 s at 130 MB a second, and a third of the time limit of PostgreSQL at 13 MB a second.
    static let bytesMax = 64 << 20
    static let bytesMin = 1 << 20
    /// The first part: where many documents pass, it fills the page.
    static let first = Bounds(documents: 2 * Limits.pullRecordsMax, bytes: 16 << 20)
    /// The time that a part should take.
    static let partTime: Duration = .seconds(1)
    /// Time after which no further part of a page begins.
    static let pageTime: Duration = .seconds(5)
    private static let growthMax = 10

    private var bounds = SearchPace.first
    private var documents = 0
    private var elapsed: Duration = .zero

    /// The bounds of the next part; `nil`: the page ends here.
    var next: Bounds? {
        let left = SearchPace.documentsMax - documents
        guard left > 0, elapsed < SearchPace.pageTime else { return nil }
        return Bounds(documents: min(bounds.documents, left), bytes: bounds.bytes)
    }

    /// Records the cost of a part, and sizes the next one by it.
    ///
    /// - Parameters:
    ///   - documents: Number of documents that were looked through; `nil`: unknown, because the part ended with its last row.
    ///   - elapsed: Time that it took; zero where nothing is measured.
    mutating func record(documents: Int?, elapsed: Duration) {
        self.elapsed += max(.zero, elapsed)
        guard let documents else { return }
        self.documents += documents
        bounds.documents = min(max(1, SearchPace.scaled(documents, after: elapsed)), SearchPace.partMax)
        bounds.bytes = min(max(SearchPace.scaled(bounds.bytes, after: elapsed), SearchPace.bytesMin), SearchPace.bytesMax)
    }

    /// A size with which the next part takes ``partTime``, if it costs what this one did.
    private static func scaled(_ size: Int, after elapsed: Duration) -> Int {
        // Both sizes have a limit far below the largest number.
        guard elapsed * growthMax > partTime else { return size * growthMax }
        return Int(Double(size) * (partTime / elapsed))
    }
}
