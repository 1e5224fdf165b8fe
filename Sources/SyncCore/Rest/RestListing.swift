/// One page of an entity's list: the request for it, and the content of its answer.
package enum RestListing {
    /// Builds the request for the next page. Wherever `next` points, only the configured server is asked, because only that one may see the
    /// credentials.
    ///
    /// - Returns: `nil` when the place in the list cannot be requested.
    package static func request(_ list: RestEntity.List, _ cursor: RestCursor, now: Timestamp? = nil) -> RestRequest? {
        if let next = cursor.next, !list.path.places.contains("next") {
            return target(of: next, from: list).map { RestRequest(.get, $0) }
        }
        let asked = list.cursorFrom == nil ? nil : cursor.asked(overlap: list.overlap, now: now)
        let target = list.path.filled { name in
            switch name {
            case "cursor": asked
            case "limit": String(list.limit)
            case "next": cursor.next
            default: nil
            }
        }
        return target.map { RestRequest(.get, $0) }
    }

    /// Path and query of an address such as `https://elsewhere/audits?page=2`, `/audits?page=2` or `?page=2`.
    static func target(of address: String, from list: RestEntity.List) -> String? {
        var rest = Substring(address)
        for scheme in ["https://", "http://"] where rest.hasPrefix(scheme) {
            rest = rest.dropFirst(scheme.count)
            rest = rest[(rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex)...]
            break
        }
        if let fragment = rest.firstIndex(of: "#") { rest = rest[..<fragment] }
        if rest.hasPrefix("?") {
            let path = list.path.filled { _ in "" } ?? "/"
            rest = path.prefix { $0 != "?" } + rest
        }
        guard rest.hasPrefix("/"), !rest.hasPrefix("//"), rest.utf8.count <= 2_048,
            rest.utf8.allSatisfy({ $0 > 32 && $0 < 127 })
        else { return nil }
        return String(rest)
    }

    /// - Throws: An error when the answer does not match the mapping. No part of it is used then: a mapping that misses the records would
    ///   make all of them look deleted.
    package static func read(
        _ response: HTTPResponse, _ entity: EntityName, _ mapping: RestEntity, _ list: RestEntity.List, after cursor: RestCursor,
        now: Timestamp
    ) throws(ReplyError) -> StreamPage {
        let body: JSON
        do throws(JSONError) {
            body = try JSONReader.read(response.body, limits: .answer)
        } catch {
            throw ReplyError("", "JSON (\(error))")
        }
        guard let items = list.items.values(in: body).first?.array else {
            throw ReplyError(list.items.text, "the list of records")
        }
        guard items.count <= Limits.pullRecordsMax * 2 else {
            throw ReplyError(list.items.text, "at most \(Limits.pullRecordsMax * 2) records in a page; lower the limit")
        }
        var page = StreamPage(entity: entity, cursor: "", hasMore: false, records: [], deletions: [])
        for (index, item) in items.enumerated() {
            guard item.object != nil, let id = mapping.serverID(of: item) else {
                throw ReplyError("\(list.items.text)[\(index)]", "a record with its id at \(mapping.id.text)")
            }
            let remote = mapping.remote(item, etag: list.version.flatMap { $0.value(in: item) })
            let ours = mapping.clientID.flatMap { item.object?[$0]?.idText }
            let mark = RestMark(serverID: id, etag: remote.etag, ours: ours.flatMap { RecordID($0) })
            if let place = list.deleted, let value = place.value(in: item), value.bool != false {
                page.marks.append(mark)
                page.deletions.append(StreamPage.Deletion(id: mark.plainID, version: 0))
            } else {
                var record = StreamPage.Record(id: mark.plainID, record: HubRecord(version: 0, data: remote.document ?? [:]))
                record.mark = mark
                page.records.append(record)
            }
        }
        let ids = items.map { mapping.serverID(of: $0)?.idText ?? "" }
        try end(&page, response, body, list, after: cursor, ids: ids, now: now)
        return page
    }

    /// Determines where the list continues.
    private static func end(
        _ page: inout StreamPage, _ response: HTTPResponse, _ body: JSON, _ list: RestEntity.List, after cursor: RestCursor,
        ids: [String], now: Timestamp
    ) throws(ReplyError) {
        var cursor = cursor
        // Our clock is the second choice: if it is slow, more is listed than needed.
        let clock = response.headers["Date"].flatMap { HTTPDate.timestamp($0) } ?? now
        if cursor.page == 0 { cursor.began = clock.isPlausible ? clock : nil }
        cursor.page += 1
        if let path = list.cursorFrom {
            cursor.high = RestCursor.later(cursor.high, path.value(in: body)?.idText)
            // Without it, a list would be read from its beginning every time without notice.
            guard ids.isEmpty || cursor.high != nil else { throw ReplyError(path.text, "a time (RFC 3339 or a number)") }
            if cursor.isAhead(of: clock) { page.ahead = cursor.high }
        }
        let next = list.next.flatMap { Self.nextPlace($0, response, body) }
        if let next, !next.isEmpty {
            guard next != cursor.next else { throw ReplyError(list.next?.text ?? "", "another page than this one") }
            guard next.utf8.count <= 2_048 else { throw ReplyError(list.next?.text ?? "", "at most 2048 bytes") }
            // The request target is compared, not its spelling: hosts do not count, because only one is ever asked.
            let place = list.path.places.contains("next") ? next : target(of: next, from: list) ?? next
            do throws(ReplyError) {
                try cursor.goOn(to: place, after: ids)
            } catch {
                throw ReplyError(list.next?.text ?? "", error.expected)
            }
            cursor.next = next
            page.hasMore = true
        } else {
            cursor.end()
        }
        page.cursor = cursor.text
    }

    private static func nextPlace(_ source: AnswerSource, _ response: HTTPResponse, _ body: JSON) -> String? {
        if case .header(let name) = source, asciiCaseEqual(name, "Link") { return response.headers[name].flatMap { linkNext($0) } }
        guard let value = source.value(of: response.headers, body), value.bool == nil else { return nil }
        return value.idText
    }

    /// Reads a link such as `<https://api.example.org/audits?page=2>; rel="next"` (RFC 8288).
    static func linkNext(_ text: String) -> String? {
        var rest = Substring(text)
        while let open = rest.firstIndex(of: "<"), let close = rest[open...].firstIndex(of: ">") {
            let target = rest[rest.index(after: open)..<close]
            let after = rest[rest.index(after: close)...]
            let parameters = after.prefix { $0 != "<" }
            let words = parameters.split { $0 == ";" || $0 == "," || $0 == " " }
            if words.contains(where: { $0 == "rel=\"next\"" || $0 == "rel=next" }) { return String(target) }
            rest = after.dropFirst(parameters.count)
        }
        return nil
    }
}

/// The facts by which the store identifies a record of a backend.
package struct RestMark: Hashable, Sendable {
    /// The backend's id, a text or a number.
    package var serverID: JSON
    package var etag: String?
    /// Our own id of the record, where the backend shows it.
    package var ours: RecordID?

    package init(serverID: JSON, etag: String? = nil, ours: RecordID? = nil) {
        self.serverID = serverID
        self.etag = etag
        self.ours = ours
    }

    /// The backend's id as one of ours; an id that does not fit (an address, a text with spaces) is replaced by its digest.
    package var plainID: RecordID {
        let text = serverID.idText ?? ""
        if let id = RecordID(text) { return id }
        return RecordID(trusted: "rest:" + hexText(Array(SHA256.hash(Array(text.utf8)).prefix(16))))
    }

    /// The id of a record whose plain id is used by another one that was made here.
    package var otherID: RecordID {
        RecordID("rest:" + plainID.text) ?? RestMark(serverID: .string("rest:" + plainID.text + " ")).plainID
    }
}
