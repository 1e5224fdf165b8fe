import SyncCore

extension FuzzTarget {
    /// A cursor as it is stored, a line feed, and the list that a backend answers. Nothing traps; a cursor reads as it is written;
    /// no answer makes the next list begin later than the backend's clock, or ours, says it is.
    static let restList = FuzzTarget("rest-list", lengthMax: 2_048) { bytes in
        let now = Timestamp(milliseconds: 1_795_216_800_000)
        let parts = bytes.split(separator: 10, maxSplits: 1, omittingEmptySubsequences: false)
        let stored = RestCursor(parts[0].asText)
        try claim(RestCursor(stored.text) == stored, "the cursor \(stored.text) reads otherwise")
        guard let list = Self.list else { throw Broken("the list of the target does not read") }
        for overlap in [Duration.zero, .seconds(300), .seconds(Int64.max)] { _ = stored.asked(overlap: overlap, now: now) }
        _ = RestListing.request(list, stored, now: now)
        var ended = stored
        ended.end()
        guard parts.count == 2 else { return }
        let response = HTTPResponse(status: 200, headers: [:], body: Array(parts[1]))
        let page: StreamPage
        do throws(ReplyError) {
            page = try RestListing.read(response, EntityName(trusted: "audits"), RestEntity(), list, after: stored, now: now)
        } catch {
            return
        }
        let next = RestCursor(page.cursor)
        try claim(RestCursor(next.text) == next, "the cursor \(next.text) reads otherwise")
        // A run that an earlier program began has its own word for when that was.
        if stored.page == 0, !page.hasMore, let since = next.since, let time = RestCursor.time(since) {
            try claim(time <= now, "the next list begins at \(time), and now is \(now)")
        }
    }

    private static let list: RestEntity.List? = {
        guard let path = PathTemplate("/audits?since={cursor}&limit={limit}"), let items = JSONPath("$.items") else { return nil }
        var list = RestEntity.List(path: path, items: items)
        list.next = AnswerSource("$.next")
        list.cursorFrom = JSONPath("$.items[*].at:max")
        list.deleted = JSONPath("$.gone")
        list.version = JSONPath("$.rev")
        return list
    }()
}
