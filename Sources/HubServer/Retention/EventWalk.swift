import SyncCore

/// Decides which events of one entity go, page by page in the order of their commits.
///
/// Events go from the oldest commit on, up to the first one that is younger than the rule. Commits come in the order of acceptance whatever
/// the clock says, so an event whose time is too early, because the clock was wrong, is not taken for older than those before it. A time in
/// the future says nothing: such an event goes with the next one behind it whose time is known. Where only such events are left, all stay.
struct EventWalk: Hashable, Sendable {
    /// The place of a row in the feed of its entity.
    struct Place: Hashable, Comparable, Sendable {
        var version: Int64
        var id: String

        static let start = Place(version: 0, id: "")

        static func < (a: Place, b: Place) -> Bool {
            a.version == b.version ? precedesInBytes(a.id, b.id) : a.version < b.version
        }
    }

    struct Row: Hashable, Sendable {
        var place: Place
        /// Time of acceptance.
        var at: Timestamp
    }

    enum Step: Hashable, Sendable {
        /// The first rows of the page go, and the walk goes on behind them.
        case remove(Int)
        /// The first rows of the page go, and nothing after them.
        case removeLast(Int)
        /// Nothing is decided yet: the walk reads on from ``from``.
        case readOn
    }

    let entity: EntityName
    /// Events that were accepted before this time go.
    let before: Timestamp
    let now: Timestamp
    /// Events of later commits stay: a consumer has yet to read them.
    let upTo: Int64
    /// The next page begins behind this place.
    private(set) var from = Place.start
    /// Everything up to this place goes.
    private var decided = Place.start

    init(_ entity: EntityName, before: Timestamp, now: Timestamp, upTo: Int64) {
        (self.entity, self.before, self.now, self.upTo) = (entity, before, now, upTo)
    }

    /// Decides about the rows of the next page.
    ///
    /// - Parameters:
    ///   - page: The rows behind ``from``, in order.
    ///   - isLast: There are no more behind them.
    mutating func decide(about page: [Row], isLast: Bool) -> Step {
        var isOver = false
        for row in page where row.place > decided {
            guard row.place.version <= upTo else {
                isOver = true
                break
            }
            if row.at > now { continue }
            guard row.at < before else {
                isOver = true
                break
            }
            decided = row.place
        }
        let isAtStart = from == .start
        let count = page.prefix { $0.place <= decided }.count
        if isAtStart, count > 0 || isOver || isLast {
            return isOver || isLast ? .removeLast(count) : .remove(count)
        }
        // Rows whose time says nothing fill the page. What is behind them decides.
        if !isAtStart, count > 0 {
            from = .start
            return .readOn
        }
        guard !isOver, !isLast, let last = page.last else { return .removeLast(0) }
        from = last.place
        return .readOn
    }
}
