import SyncCore

// Listings, comparisons, and the small requests (PROTOCOL A2, A6, A8, A12).
extension ConformanceRun {
    private static let pagesMax = 200

    func checkListing() async {
        await checkSnapshot()
        await checkVerify()
        await checkKnown()
        await checkConfig()
        await check(
            "diagnostics", "A2", "POST /v1/diagnostics takes lines of JSON with 202, gzipped where hello offers it, if it is served at all."
        ) {
            let lines = Array("{\"level\":\"ok\",\"reasons\":[]}\n".utf8) + Array(repeating: UInt8(ascii: "\n"), count: 200)
            let packed = hello?.capabilities.contains("gzip") == true ? compressor.gzip(lines) : nil
            let (body, coding) = packed.map { ($0, "gzip") } ?? (lines, "identity")
            let answer = try await send(
                .post, "/v1/diagnostics", body, changed: [("Content-Type", "application/x-ndjson"), ("Content-Encoding", coding)])
            if answer.status == 404 { throw NotOffered("404") }
            try require(answer.status == 202, "\(answer.status)\(said(answer)), not 202")
            left.append("one short report of diagnostics")
            return "202"
        }
    }

    private func checkSnapshot() async {
        await check(
            "snapshot-paging", "A8", "A listing goes by id, each live record once, and goes on after the last id of the page before."
        ) {
            var ids: [RecordID] = []
            var after = RecordID(prefix)
            for _ in 0..<Self.pagesMax {
                let page = try await listing(after: after, limit: 3)
                try require(page.records.count <= 3, "\(page.records.count) records with limit 3")
                ids += page.records.map(\.id)
                guard page.hasMore, let next = page.after, isOurs(next) else { break }
                after = next
            }
            let ours = ids.filter { isOurs($0) }
            try require(
                zip(ids, ids.dropFirst()).allSatisfy { $0 < $1 }, "not in the order of ids, or an id twice: \(ids.prefix(6).map(\.text))")
            let missing = Set(records.keys).symmetricDifference(ours)
            try require(missing.isEmpty, "listed or there, but not both: \(missing.sorted().prefix(5).map(\.text))")
            return PlainText.count(ours.count, "record") + " of this run"
        }
        await check(
            "snapshot-one", "A8",
            "A listing of one that begins right before an id shows that record, though no record has the id before it."
        ) {
            guard let id = records.keys.max() else { throw NotTried("there is no record") }
            let shown = try await listing(after: id.predecessor, limit: 1).records.map(\.id)
            try require(shown == [id], shown.isEmpty ? "nothing, where \(id) comes next" : "\(shown[0]), where \(id) comes next")
            return "\(id)"
        }
        await check("snapshot-feed", "A8", "From the cursor of a listing the feed has what changes afterwards.") {
            let start = try await listing(after: nil, limit: 1).startCursor
            let id = newRecord()
            _ = try await accept(mutation(.create, id, ["n": 1]))
            let answer = try await pull([(settings.entity, start)])
            let found = answer.pages.flatMap(\.records).contains { $0.id == id }
            try require(found, answer.errors.first.map { "the problem \($0.problem.code)" } ?? "the new record is not in it")
            return "the new record"
        }
        await check("snapshot-deleted-total", "A8", "Where a listing counts deletions (deleted_total), it counts one that was just made.") {
            guard let before = try await listing(after: nil, limit: 1).deletedTotal else { throw NotOffered("no deleted_total") }
            let id = newRecord()
            let made = try await accept(mutation(.create, id, ["n": 1]))
            _ = try await accept(mutation(.delete, id, base: made))
            let after = try await listing(after: nil, limit: 1).deletedTotal
            // Other devices may work at the same time.
            try require(after.map { $0 > before } == true, "\(before) before a deletion, \(after.map { "\($0)" } ?? "nothing") after it")
            return "\(before), then \(after ?? 0)"
        }
        await check("snapshot-malformed", "A5", "A listing without an entity is 400 malformed.") {
            try refusal(try await send(.get, "/v1/sync/snapshot?limit=1"), 400, "malformed")
            return "400"
        }
    }

    private func listing(after: RecordID?, limit: Int, buckets: [UInt8]? = nil) async throws -> SnapshotPage {
        let request = SnapshotRequest(entity: settings.entity, after: after, limit: limit, buckets: buckets)
        return try SnapshotMessages.readResponse(try body(try await send(.get, "/v1/sync/snapshot?" + SnapshotMessages.query(request))))
    }

    private func checkVerify() async {
        var digest = EntityDigest()
        var cursor: String?
        await check(
            "verify-same", "A8", "POST /v1/sync/verify names no bucket to a device that has the same records with the same versions."
        ) {
            try offered(VerifyMessages.capability)
            var after: RecordID?
            var pages = 0
            repeat {
                let page = try await listing(after: after, limit: 1_000)
                if cursor == nil { cursor = page.startCursor }
                for record in page.records { digest.add(record.id, version: record.record.version) }
                after = page.hasMore ? page.after : nil
                pages += 1
                if pages > Self.pagesMax {
                    cursor = nil
                    throw NotTried("the entity has too many records; --entity names a smaller one")
                }
            } while after != nil
            let differs = try await verify(digest, cursor)
            try require(differs.isEmpty, "buckets \(differs.prefix(8)) differ")
            return "none differs"
        }
        await check(
            "verify-differs", "A8", "It names the bucket of a record that one side has otherwise, and a listing of that bucket has it."
        ) {
            try offered(VerifyMessages.capability)
            guard let cursor, let id = records.keys.min() else { throw NotTried("verify-same failed") }
            digest.add(id, version: 1)
            let bucket = EntityDigest.bucket(of: id)
            let differs = try await verify(digest, cursor)
            try require(differs == [bucket], "buckets \(differs.prefix(8)), not \(bucket) alone")
            let page = try await listing(after: nil, limit: 1_000, buckets: [bucket])
            let strangers = page.records.filter { EntityDigest.bucket(of: $0.id) != bucket }.count
            try require(strangers == 0, "\(strangers) records of other buckets in its listing")
            try require(page.hasMore || page.records.contains { $0.id == id }, "\(id) is not in its listing")
            return "bucket \(bucket)"
        }
    }

    private func verify(_ digest: EntityDigest, _ cursor: String?) async throws -> [UInt8] {
        let request = VerifyRequest(entity: settings.entity, cursor: cursor ?? "", digest: digest)
        return try VerifyMessages.readResponse(try body(try await send(.post, "/v1/sync/verify", VerifyMessages.request(request)))).differs
    }

    private func checkKnown() async {
        await check("known", "A6", "POST /v1/sync/known names the keys that the server has not accepted, and no other.") {
            let accepted = mutation(.create, newRecord(), ["n": 1])
            _ = try await accept(accepted)
            let known = accepted["idempotency_key"]?.text ?? "", never = newName()
            let unknown = try KnownMessages.readResponse(try body(try await post("/v1/sync/known", ["keys": .list([known, never])]))).map(
                \.text)
            try require(unknown == [never], "unknown are \(unknown), not just \(never)")
            return "one known, one not"
        }
        await check("known-malformed", "A5", "Keys that are no list are 400 malformed.") {
            try refusal(try await post("/v1/sync/known", ["keys": "all"]), 400, "malformed")
            return "400"
        }
    }

    private func checkConfig() async {
        var version: Int64 = 0
        var etag: String?
        await check(
            "config", "A12",
            "GET /v1/config has a version, and an ETag where there is something to say; Sync-Config in the header says the same."
        ) {
            let answer = try await send(.get, "/v1/config")
            if answer.status == 404 { throw NotOffered("404") }
            guard let object = try JSONReader.read(try body(answer)).object, let said = object["version"]?.int else {
                throw Deviation("no version\(said(answer))")
            }
            if said == 0 { throw NotOffered("version 0: the server has nothing to say") }
            version = said
            etag = answer.headers["ETag"]
            try require(etag != nil, "version \(version) without an ETag")
            try require(
                headers(answer).config == version, "Sync-Config is \(answer.headers[HubHeader.config] ?? "missing"), not \(version)")
            return "version \(version)"
        }
        await check("config-known", "A12", "With its ETag in If-None-Match the answer is 304 without a body.") {
            guard version > 0, let etag else { throw NotOffered("there is no configuration") }
            let answer = try await send(.get, "/v1/config", changed: [("If-None-Match", etag)])
            try require(answer.status == 304 && answer.body.isEmpty, "\(answer.status) with \(answer.body.count) bytes")
            return "304"
        }
    }
}
