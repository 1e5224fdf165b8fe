/// Every limit of the library in one place, each with its reason.
package enum Limits {
    /// Status line and fields of one answer, bytes. The agent's own heads have some 300.
    package static let headBytes = 16 << 10
    /// Informational answers (1xx) before the real one. The agent sends at most one.
    package static let interimAnswers = 8
    /// The size line of one chunk with its extension, bytes.
    package static let chunkLineBytes = 256
    /// One answer that is held as a whole, bytes. The agent ends a page after 4 MiB and one more record.
    package static let answerBytes = 16 << 20
    /// One event of the feed, bytes. The agent's own have some hundred.
    package static let eventBytes = 1 << 20
    /// Mutations in one request of `enqueue(contentsOf:)`. The agent commits as many lines at once.
    package static let batchLines = 256
    /// Bytes of mutations in one such request. One line alone may have 128 KiB.
    package static let batchBytes = 512 << 10
    /// Mutations of one atomic list.
    package static let atomicMutations = 50
    /// Versions of a schema, as the agent knows them.
    package static let schemaVersions = 1...1_000_000
    /// Entities of which one client names a version. The agent reads a head of at most 16 KiB, and these take half of it.
    package static let schemas = 100
    /// Bytes that are read from or written to a socket or a file at once.
    package static let pieceBytes = 64 << 10
    /// Items of one page of mutations, conflicts and files. The agent gives at most 1,000.
    package static let pageItems = 200
    /// Requests of one client at the same time. The agent gives a user 8 connections, of which 4 may be feeds.
    package static let connections = 4
    /// Mutations that one call waits for. They are held in memory with their states.
    package static let waitedMutations = 10_000
    /// Time without a byte after which a feed counts as dead. The agent writes at least every 15 s.
    package static let feedSilence = Duration.seconds(45)
    /// Time without a byte after which a request counts as lost.
    package static let answerSilence = Duration.seconds(30)
    /// Time in which the agent must have stored a file whose last byte was sent.
    package static let fileTime = Duration.seconds(600)
    /// Seconds that one request waits for a file that comes from the hub; a longer wait takes several requests. The agent accepts 300.
    package static let fileWaitSeconds = 30
    /// `sun_path` of unix(7) without the NUL that ends it.
    package static let socketPathBytes = 107
}
