import SyncCore

// The feed (PROTOCOL A3).
extension ConformanceRun {
    /// Largest number of pages of one feed: an endless server must not hang the run.
    private static let pagesMax = 5_000

    func checkPull() async {
        guard let began else {
            await check("pull", "A3", "A feed goes on from the cursor of a listing.") {
                throw NotTried("there is no cursor: snapshot-start failed")
            }
            return
        }
        let (kept, gone) = (newRecord(), newRecord())
        var end: String?
        await check(
            "pull-changes", "A3",
            "A pull from a cursor has what changed since, each record once and as it is now, and deletions beside them."
        ) {
            let first = try await accept(mutation(.create, kept, ["n": 1]))
            let newest = try await accept(mutation(.update, kept, ["n": 2], base: first))
            let doomed = try await accept(mutation(.create, gone, ["n": 1]))
            let deleted = try await accept(mutation(.delete, gone, base: doomed))
            let pages = try await follow(from: began, limit: 500)
            end = pages.last?.cursor
            let records = pages.flatMap(\.records).filter { isOurs($0.id) }
            let found = records.filter { $0.id == kept }
            try require(found.count == 1, "\(kept) is there \(found.count) times")
            try require(
                found[0].record.version == newest && found[0].record.data["n"]?.int == 2,
                "\(kept) is there with version \(found[0].record.version), not \(newest), and the document "
                    + JSON.object(found[0].record.data).json)
            let deletions = pages.flatMap(\.deletions).filter { $0.id == gone }
            try require(
                deletions.map(\.version) == [deleted],
                "the deletion of version \(deleted) is there with the versions \(deletions.map(\.version))")
            try require(!records.contains { $0.id == gone }, "the deleted record is there as a record")
            return PlainText.count(records.count, "record") + " of this run"
        }
        await check(
            "pull-paging", "A3", "Small pages give the same as large ones; none has more than twice its limit, and the cursor moves on."
        ) {
            let small = try await follow(from: began, limit: 1)
            for page in small {
                try require(
                    page.records.count + page.deletions.count <= 2, "a page of \(page.records.count + page.deletions.count) with limit 1")
            }
            let large = try await follow(from: began, limit: 1_000)
            func seen(_ pages: [StreamPage]) -> Set<String> {
                Set(
                    pages.flatMap(\.records).filter { isOurs($0.id) }.map { "\($0.id) \($0.record.version)" }
                        + pages.flatMap(\.deletions).filter { isOurs($0.id) }.map { "\($0.id) deleted \($0.version)" })
            }
            let missing = seen(large).symmetricDifference(seen(small))
            try require(missing.isEmpty, "not in both: \(missing.sorted().prefix(3).joined(separator: ", "))")
            return "\(small.count) pages, \(seen(small).count) changes of this run"
        }
        await check("pull-nothing-new", "A3", "At its end a feed has nothing, and says so without an error.") {
            guard let end else { throw NotTried("pull-changes failed") }
            let answer = try await pull([(settings.entity, end)])
            try require(answer.errors.isEmpty, "the problem \(answer.errors.first?.problem.code ?? "")")
            let ours = answer.pages.flatMap(\.records).filter { isOurs($0.id) }.count
            try require(ours == 0, "\(ours) records again")
            return "nothing"
        }
        await checkWait(end, began)
        await check("pull-then-more", "A3", "What comes after the end of a feed is what the next pull from there has.") {
            guard let end else { throw NotTried("pull-changes failed") }
            let id = newRecord()
            let version = try await accept(mutation(.create, id, ["n": 1]))
            let ours = try await follow(from: end, limit: 500).flatMap(\.records).filter { isOurs($0.id) }
            try require(
                ours.map(\.id) == [id] && ours.first?.record.version == version,
                "\(ours.map(\.id.text).joined(separator: ", ")), not just \(id)")
            return "one record"
        }
        await check("pull-get", "A3", "GET /v1/sync/pull?entity=&cursor=&limit= is the same for one entity.") {
            let answer = try await send(.get, "/v1/sync/pull?entity=\(settings.entity)&cursor=\(began)&limit=500")
            let other = try PullMessages.readResponse(try body(answer))
            let same = try await pull([(settings.entity, began)], limit: 500)
            try require(other.pages.first?.records.map(\.id) == same.pages.first?.records.map(\.id), "another page than by POST")
            return "the same page"
        }
        await check("pull-entities", "A3", "Who asks for the entities that there are gets their names, also in a pull of no stream.") {
            try offered(EntityList.capability)
            let answer = try await pull([], namesEntities: true)
            guard let names = answer.entities else { throw Deviation("no entities in the answer") }
            try require(names.contains(settings.entity), "\(settings.entity) is not among \(names.prefix(20).map(\.text))")
            try require(try await pull([]).entities == nil, "entities although the request did not ask for them")
            return "\(names.count) entities"
        }
        await check("pull-epoch", "A3", "A pull tells epoch and head.") {
            let answer = try await pull([(settings.entity, began)], limit: 1)
            try require(answer.epoch == hello?.epoch, "epoch \(answer.epoch ?? "missing"), not \(hello?.epoch ?? "")")
            return "head \(answer.head)"
        }
        await checkCursors(began)
        await checkPullForms()
    }

    private func checkCursors(_ began: String) async {
        await check(
            "pull-cursor-bad", "A3", "A cursor that cannot be read is a problem 410 of its entity, with resync: snapshot, in an answer 200."
        ) {
            let answer = try await pull([(settings.entity, "conformance-no-cursor")])
            return try expired(answer, settings.entity)
        }
        await check("pull-cursor-of-another", "A3", "A cursor of another entity is such a problem, too.") {
            let other = EntityName(trusted: settings.entity.text == "conformance_other" ? "conformance_others" : "conformance_other")
            return try expired(try await pull([(other, began)]), other)
        }
        await check("pull-one-bad-stream", "A3", "A stream that fails spoils no other stream of the request.") {
            let other = EntityName(trusted: "conformance_other")
            let answer = try await pull([(other, "conformance-no-cursor"), (settings.entity, began)])
            try require(answer.errors.map(\.entity) == [other], "errors of \(answer.errors.map(\.entity.text))")
            let ours = answer.pages.first { $0.entity == settings.entity }
            try require(ours?.records.isEmpty == false, "the good stream has no records")
            return "one error, one page"
        }
    }

    private func checkPullForms() async {
        await check("pull-malformed", "A5", "A pull without streams, or with a limit of 0, is 400 malformed.") {
            try refusal(try await post("/v1/sync/pull", ["streams": "all"]), 400, "malformed")
            let none: JSON = ["streams": [["entity": .string(settings.entity.text), "cursor": nil]], "limit": 0]
            try refusal(try await post("/v1/sync/pull", none), 400, "malformed")
            return "400"
        }
        await check("pull-entity-twice", "A3", "One entity twice in a pull is 400 malformed.") {
            let stream: JSON = ["entity": .string(settings.entity.text), "cursor": nil]
            try refusal(try await post("/v1/sync/pull", ["streams": [stream, stream], "limit": 1]), 400, "malformed")
            return "400"
        }
    }

    // MARK: Requests

    func pull(_ streams: [(EntityName, String?)], limit: Int = 500, namesEntities: Bool = false) async throws -> PullResponse {
        var request = PullRequest(
            streams: streams.map { StreamPosition(entity: $0.0, cursor: $0.1) }, limit: limit, maxBytes: Limits.pullBytes,
            maxSentSeq: lastSeq)
        request.namesEntities = namesEntities
        return try PullMessages.readResponse(try body(try await send(.post, "/v1/sync/pull", PullMessages.request(request))))
    }

    /// All pages of the entity's feed from this cursor to its end.
    private func follow(from start: String, limit: Int) async throws -> [StreamPage] {
        var pages: [StreamPage] = []
        var cursor = start
        while pages.count < Self.pagesMax {
            let answer = try await pull([(settings.entity, cursor)], limit: limit)
            if let problem = answer.errors.first?.problem { throw Deviation("the problem \(problem.code) for a cursor of this server") }
            guard let page = answer.pages.first(where: { $0.entity == settings.entity }) else {
                try require(pages.last?.hasMore != true, "has_more, and then there was nothing")
                return pages
            }
            pages.append(page)
            guard page.hasMore else { return pages }
            try require(page.cursor != cursor, "has_more, and the cursor stays where it was")
            cursor = page.cursor
        }
        throw Deviation("no end after \(pages.count) pages")
    }

    private func expired(_ answer: PullResponse, _ entity: EntityName) throws -> String {
        guard let error = answer.errors.first(where: { $0.entity == entity }) else { throw Deviation("no error for \(entity)") }
        let problem = error.problem
        try require(problem.status == 410, "status \(problem.status) of the problem, not 410")
        try require(["cursor-expired", "epoch-changed"].contains(problem.code), "the problem \(problem.code), not cursor-expired")
        try require(problem.members["resync"]?.text == "snapshot", "resync is \(problem.members["resync"]?.json ?? "missing")")
        return "\(problem.code)"
    }
}
