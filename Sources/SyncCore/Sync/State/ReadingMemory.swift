/// State of reading that the engine keeps from cycle to cycle.
struct ReadingMemory: Hashable, Sendable {
    /// Streams that are left out.
    var held = StreamQuarantine()
    /// Entities whose comparison with the hub failed; their feeds are read all the same.
    var uncompared = StreamQuarantine()
    /// Detectors for feeds that are read over several pages.
    var circles: [EntityName: CircleDetector] = [:]
    /// Feeds that were started again because their cursor had expired, and of which no pull was answered since.
    var restarted: Set<EntityName> = []
    /// Entities whose cursor was made under other scopes, until they are listed again.
    var rescoped: Set<EntityName> = []
    /// Number of streams in one request; `nil`: as many as the protocol allows. It is smaller during a search for the one stream that
    /// makes the answer fail for all.
    var width: Int?
    /// Number of cycles that ended over a read, since the last complete read.
    var failures = 0
    /// The last cycle ended over a read, before it came to its push.
    var owesPush = false
    /// Number of cycles in a row whose pages announced more and were empty.
    var emptyCycles = 0
}
