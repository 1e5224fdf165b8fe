/// Streams whose answers could not be used, each with the time of its next attempt.
///
/// One unreadable record must stop neither the pushes nor the other entities. So its stream is left out of the cycle, with its cursor
/// unchanged: nothing of its page is applied, and nothing of the feed is skipped. It is reported
/// (``SyncReport/streamHeld(_:detail:isAlarm:)``) and asked again, alone, after a delay that grows with every failure.
///
/// | cause | delay after the 1st, 2nd, 3rd … failure | at most |
/// |---|---|---|
/// | content: unreadable, or the feed leads in a circle | 30 s, 60 s, 2 min … | 1 h |
/// | the server's own error about this stream | as any failed request: 1 s, 2 s, 4 s … | `sync.max_backoff` |
///
/// It is kept in memory: after a restart of the agent each stream gets one attempt.
package struct StreamQuarantine: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// Number of failures in a row.
        package var failures = 0
        /// The reason, for people.
        package var detail: String
        /// Time from which the stream is asked again.
        package var until: Instant
        /// The kind of read that ends the quarantine.
        package var relief = Relief.page
    }

    /// A successful read of a stream. Each case proves as much as those before it.
    package enum Relief: Int, Hashable, Sendable {
        /// A page of its listing by id.
        case listing
        /// A page of its feed.
        case page
        /// The last page of its feed. In a feed that leads in a circle, another page proves nothing.
        case end
    }

    package enum Cause: Hashable, Sendable {
        /// The content cannot be used, whatever the server meant.
        case content
        /// The server reports an error.
        case error
    }

    package private(set) var entries: [EntityName: Entry] = [:]
    package static let first: Duration = .seconds(30)
    package static let cap: Duration = .seconds(3600)

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    package subscript(entity: EntityName) -> Entry? { entries[entity] }

    /// Returns whether the stream must not be asked yet.
    package func holds(_ entity: EntityName, at now: Instant) -> Bool {
        entries[entity].map { $0.until > now } ?? false
    }

    /// Earliest time at which one of them may be asked again.
    package var nextAt: Instant? { entries.values.map(\.until).min() }

    /// A text for people: `sites (expected a record id at /streams/0/records/3/id), works (…)`.
    package var sentence: String {
        let names = entries.keys.sorted()
        let shown = names.prefix(8).map { "\($0) was not read: \(entries[$0]?.detail ?? "")" }
        return shown.joined(separator: "; ") + (names.count > 8 ? " and \(names.count - 8) more" : "")
    }

    /// The streams without failures, and those that failed before, each in their order.
    package func split(_ streams: [StreamPosition]) -> (sound: [StreamPosition], doubtful: [StreamPosition]) {
        (streams.filter { entries[$0.entity] == nil }, streams.filter { entries[$0.entity] != nil })
    }

    /// Records another failure of a stream.
    package mutating func add(
        _ entity: EntityName, _ detail: String, _ cause: Cause, until relief: Relief = .page, backoff: Backoff, at now: Instant,
        using random: inout SeededRandom
    ) {
        let failures = (entries[entity]?.failures ?? 0).saturatingAdd(1)
        let wait: Duration
        switch cause {
        case .content:
            let whole = min(Self.cap, Self.first * (1 << min(failures - 1, 10)))
            wait = random.duration(from: whole * 3 / 4, to: whole)
        case .error: wait = backoff.delay(afterFailures: failures, using: &random)
        }
        entries[entity] = Entry(
            failures: failures, detail: Printable.text(detail), until: now.advanced(by: wait), relief: relief)
    }

    /// Records a successful read of a stream.
    ///
    /// - Returns: `true` when the stream was held, and is not any more.
    package mutating func release(_ entity: EntityName, by relief: Relief) -> Bool {
        guard let entry = entries[entity], relief.rawValue >= entry.relief.rawValue else { return false }
        entries[entity] = nil
        return true
    }
}

/// Detects that a walk from place to place leads in a circle, with the memory of one place (Brent, 1980).
///
/// One place is remembered, and replaced after 1, 2, 4, 8 … steps. A circle of n places that is entered after m steps is detected within
/// three times the larger of both. A walk without a circle is never reported.
package struct CircleDetector: Hashable, Sendable {
    private var remembered: String?
    private var steps: Int64 = 0
    private var span: Int64 = 1

    package init() {}

    /// - Returns: `true` when the walk has visited the place before.
    package mutating func visits(_ place: String) -> Bool {
        if let remembered, remembered.utf8.elementsEqual(place.utf8) { return true }
        steps += 1
        if remembered == nil || steps >= span {
            (remembered, steps) = (place, 0)
            span = min(span.saturatingMultiply(2), 1 << 40)
        }
        return false
    }
}
