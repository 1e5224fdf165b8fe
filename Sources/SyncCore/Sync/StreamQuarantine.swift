/// Streams whose answers could not be used, each with the time at which it is asked again.
///
/// One unreadable record must stop neither the pushes nor the other entities. So the stream that brought it is left out of
/// the cycle, with its cursor where it was: nothing of its page is applied, and nothing of the feed is skipped. It is told
/// (``SyncReport/streamHeld(_:detail:isAlarm:)``) and asked again, alone, after a wait that grows with every failure.
///
/// | cause | wait after the 1st, 2nd, 3rd … failure | at most |
/// |---|---|---|
/// | content: unreadable, or the feed leads in a circle | 30 s, 60 s, 2 min … | 1 h |
/// | the server's own error about this stream | as any failed request: 1 s, 2 s, 4 s … | `sync.max_backoff` |
///
/// It lives in memory: after a restart of the agent each stream gets one attempt.
package struct StreamQuarantine: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// Failures in a row.
        package var failures = 0
        /// Why, for people.
        package var detail: String
        /// Asked again from then on.
        package var until: Instant
        /// What shows that it can be read again.
        package var relief = Relief.page
    }

    /// What was read of a stream. Each shows as much as those before it.
    package enum Relief: Int, Hashable, Sendable {
        /// A page of its listing by id.
        case listing
        /// A page of its feed.
        case page
        /// The last page of its feed: one page more is nothing new of a feed that leads in a circle.
        case end
    }

    package enum Cause: Hashable, Sendable {
        /// What came cannot be used, whatever it was that the server meant.
        case content
        /// The server says that it cannot.
        case error
    }

    package private(set) var entries: [EntityName: Entry] = [:]
    package static let first: Duration = .seconds(30)
    package static let cap: Duration = .seconds(3600)

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    package subscript(entity: EntityName) -> Entry? { entries[entity] }

    /// Whether the stream must not be asked for yet.
    package func holds(_ entity: EntityName, at now: Instant) -> Bool {
        entries[entity].map { $0.until > now } ?? false
    }

    /// The earliest time at which one of them may be asked again.
    package var nextAt: Instant? { entries.values.map(\.until).min() }

    /// For people: `sites (expected a record id at /streams/0/records/3/id), works (…)`.
    package var sentence: String {
        let names = entries.keys.sorted()
        let shown = names.prefix(8).map { "\($0) was not read: \(entries[$0]?.detail ?? "")" }
        return shown.joined(separator: "; ") + (names.count > 8 ? " and \(names.count - 8) more" : "")
    }

    /// Those that are not held, and those that failed before, each in their order.
    package func split(_ streams: [StreamPosition]) -> (sound: [StreamPosition], doubtful: [StreamPosition]) {
        (streams.filter { entries[$0.entity] == nil }, streams.filter { entries[$0.entity] != nil })
    }

    /// The stream failed once more.
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

    /// The stream was read.
    ///
    /// - Returns: Whether it was held, and is not any more.
    package mutating func release(_ entity: EntityName, by relief: Relief) -> Bool {
        guard let entry = entries[entity], relief.rawValue >= entry.relief.rawValue else { return false }
        entries[entity] = nil
        return true
    }
}

/// Finds out that a walk from place to place leads in a circle, with the memory of one place (Brent, 1980).
///
/// One place is remembered, and replaced after 1, 2, 4, 8 … steps. A circle of n places that is entered after m steps is
/// found within three times the larger of both, and a walk without one never is.
package struct CircleDetector: Hashable, Sendable {
    private var remembered: String?
    private var steps: Int64 = 0
    private var span: Int64 = 1

    package init() {}

    /// - Returns: Whether the walk has been there before.
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
