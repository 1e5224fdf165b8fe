/// The position in the list of an entity (PROTOCOL A3, A13). A backend that lists by the time of change does not announce changes that
/// become visible later than their stamp. So each run begins some time before the end of the last one.
///
/// The members of its text in the store's stream:
///
/// | member | |
/// |---|---|
/// | `since` | the time of change up to which everything was read, in the backend's form; absent: a run lists everything |
/// | `next` | the place of the next page of the running listing; absent: none is running |
/// | `high` | the highest time of change in the run so far |
/// | `began` | the start of the run by the backend's own clock: later changes may be missing in pages that were read before |
/// | `page` | the number of pages of the run so far |
/// | `been` | an earlier place of the run, to detect a list that leads in a circle |
/// | `shown` | a digest of the ids on the page at that place, for a list whose addresses differ although its pages do not |
/// | `empty` | the number of pages in a row without a record |
package struct RestCursor: Hashable, Sendable {
    package var since: String?
    package var next: String?
    package var high: String?
    package var began: Timestamp?
    package var page: Int64 = 0
    package var been: String?
    package var shown: String?
    package var empty: Int64 = 0

    /// Largest number of pages; a list with more has no end.
    package static let pagesMax: Int64 = 100_000
    /// Largest number of pages in a row without a record; a list with more has no end either.
    package static let emptyMax: Int64 = 100

    /// Records a page and the next place, and compares both with one earlier page of the run. That one is replaced after 1, 2, 4, 8 … pages
    /// (Brent, 1980). So a circle of n pages that is entered after m pages is detected within three times the larger of both.
    ///
    /// - Parameter ids: The ids of the page's records, in their order.
    /// - Throws: The reason why the list will not end.
    package mutating func goOn(to place: String, after ids: [String]) throws(ReplyError) {
        guard page <= Self.pagesMax else { throw ReplyError("", "a list that ends within \(Self.pagesMax) pages") }
        empty = ids.isEmpty ? empty.saturatingAdd(1) : 0
        guard empty <= Self.emptyMax else { throw ReplyError("", "a record within \(Self.emptyMax) pages of an unfinished list") }
        guard place != been else { throw ReplyError("", "a list that does not lead in a circle: its next page was read before") }
        let digest = ids.isEmpty ? nil : Self.digest(ids)
        if let digest, digest == shown { throw ReplyError("", "other records than on an earlier page of the same list") }
        if page > 0, page & (page - 1) == 0 { (been, shown) = (place, digest ?? shown) }
    }

    private static func digest(_ ids: [String]) -> String {
        var text = ""
        for id in ids { text += "\(id.utf8.count):\(id)" }
        return Base64URL.encode(Array(SHA256.hash(Array(text.utf8)).prefix(12)))
    }

    package init() {}

    package init(_ text: String?) {
        // `try?`: the cursor of another server has no meaning here, so everything is listed. That loses no data.
        guard let text, let object = (try? JSONReader.read(text))?.object else { return }
        since = object["since"]?.text
        next = object["next"]?.text
        high = object["high"]?.text
        began = object["began_ms"]?.int.map { Timestamp(milliseconds: $0) }
        page = min(max(0, object["page"]?.int ?? 0), Self.pagesMax)
        been = object["been"]?.text
        shown = object["shown"]?.text
        empty = max(0, object["empty"]?.int ?? 0)
    }

    package var text: String {
        var object: JSONObject = [:]
        object["since"] = since.map { .string($0) }
        object["next"] = next.map { .string($0) }
        object["high"] = high.map { .string($0) }
        object["began_ms"] = began.map { .int($0.milliseconds) }
        if page > 0 { object["page"] = .int(page) }
        object["been"] = been.map { .string($0) }
        object["shown"] = shown.map { .string($0) }
        if empty > 0 { object["empty"] = .int(empty) }
        return object.json
    }

    /// Distance ahead of the clock beyond which a time of change was stamped by a wrong clock.
    package static let aheadMax: Duration = .seconds(300)
    /// Distance beyond which a cursor hides every change; a slow local clock cannot explain it.
    private static let aheadOfUsMax: Duration = .seconds(366 * 86_400)

    /// The value of `{cursor}`: ``since`` minus the overlap; `nil` where everything is to be listed.
    ///
    /// - Parameter now: Local wall clock. A cursor that an earlier program moved far ahead of it is not used.
    package func asked(overlap: Duration, now: Timestamp? = nil) -> String? {
        guard let since, let time = Self.time(since) else { return nil }
        if let now, now.isPlausible, time > now.advanced(by: Self.aheadOfUsMax) { return nil }
        let from = Timestamp(milliseconds: time.milliseconds.saturatingSubtract(overlap.milliseconds))
        return Self.write(from, like: since)
    }

    /// The later of two times of change.
    package static func later(_ left: String?, _ right: String?) -> String? {
        guard let left, let first = time(left) else { return right.flatMap { time($0) == nil ? nil : $0 } }
        guard let right, let second = time(right) else { return left }
        return second > first ? right : left
    }

    /// Returns whether ``high`` lies so far ahead of `clock` that a run from there would miss later changes.
    package func isAhead(of clock: Timestamp) -> Bool {
        guard clock.isPlausible, let high, let time = Self.time(high) else { return false }
        return time > clock.advanced(by: Self.aheadMax)
    }

    /// Ends a run after its last page. The next one begins no later than this run began, so a record that is stamped in the future hides
    /// nothing.
    package mutating func end() {
        var reached = RestCursor.later(since, high)
        if let began, let end = reached, let time = Self.time(end), began < time { reached = Self.write(began, like: end) }
        // A clock that was set back at the backend must not make every run begin there.
        self = RestCursor()
        since = reached
    }

    /// Reads RFC 3339, or a whole number of seconds since 1970; from 10^11 on, it is a number of milliseconds.
    package static func time(_ text: String) -> Timestamp? {
        if let number = Int64(text) {
            return Timestamp(milliseconds: number.magnitude >= 100_000_000_000 ? number : number.saturatingMultiply(1_000))
        }
        return RFC3339.timestamp(text)
    }

    private static func write(_ time: Timestamp, like text: String) -> String {
        guard let number = Int64(text) else { return time.description }
        return String(number.magnitude >= 100_000_000_000 ? time.milliseconds : time.milliseconds / 1_000)
    }
}
