import SyncCore

// Shares that change: cursors of others, records that move, scopes that come and go (PROTOCOL A16).
extension ConformanceRun {
    // MARK: Cursors

    func checkForeignCursors() async {
        await check("scope-cursor-foreign", "A16", "The cursor of another device brings nothing of that device's share, not even an id.") {
            try await update(.second)
            guard let cursor = stage.mirrors[.second]?.cursor else { throw NotTried("the second device has no cursor") }
            return try await shows(.first, cursor)
        }
        await check("scope-cursor-listed", "A16", "The start of another device's listing brings nothing of that device's share either.") {
            try await shows(.first, try await listed(.second).first.startCursor)
        }
        await check(
            "scope-cursor-flipped", "A16", "A cursor with a bit that is not as the server wrote it brings nothing of the share of others."
        ) {
            try await update(.first)
            guard let cursor = stage.mirrors[.first]?.cursor else { throw NotTried("the first device has no cursor") }
            var seen: Set<String> = []
            let bytes = Array(cursor.utf8)
            for place in stride(from: 0, to: bytes.count, by: max(1, bytes.count / 32)) {
                var flipped = bytes
                // The neighbour in the alphabet of base64url, so that most cursors can still be decoded.
                flipped[place] = bytes[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
                seen.insert(try await shows(.first, String(decoding: flipped, as: UTF8.self)))
            }
            return seen.sorted().joined(separator: ", ")
        }
        await check(
            "scope-verify-cursor", "A16", "A comparison with another device's cursor is refused, or is one with the device's own share."
        ) {
            try offered(VerifyMessages.capability)
            guard let cursor = stage.mirrors[.second]?.cursor else { throw NotTried("the second device has no cursor") }
            var digest = EntityDigest()
            for (id, record) in stage.mirrors[.second]?.records ?? [:] { digest.add(id, version: record.version) }
            let request = VerifyRequest(entity: try orders(), cursor: cursor, digest: digest)
            let answer = try await ask(.first, .post, "/v1/sync/verify", VerifyMessages.request(request))
            if answer.status == 410 { return "410" }
            // The digest of the second device is not that of the first one.
            let differs = try VerifyMessages.readResponse(try body(answer)).differs
            try require(differs.contains(EntityDigest.bucket(of: stage.foreign)), "the other device's records are not one too many")
            return "the device's own share"
        }
    }

    /// Pulls with a cursor that is not the device's own, or is none.
    ///
    /// - Returns: The answer in a word.
    private func shows(_ party: Party, _ cursor: String) async throws -> String {
        let own = Set(try await listed(party).records.keys)
        let answer = try await pull(party, cursor)
        let told = answer.pages.flatMap { page in page.records.map(\.id) + page.deletions.map(\.id) }.filter { isOurs($0) }
        let strangers = Set(told).subtracting(own)
        try require(strangers.isEmpty, "the answer names \(names(strangers))")
        guard let problem = answer.errors.first?.problem else { return answer.pages.isEmpty ? "nothing" : "the device's own share" }
        try require(problem.status == 410, "the problem \(problem.code) with status \(problem.status), not 410")
        try require(!problem.detail.contains(prefix), "the problem says: \(problem.detail)")
        return problem.code
    }

    // MARK: Moves

    func checkMoves() async {
        let id = newRecord()
        var version: Int64 = 0
        await check(
            "scope-left", "A16", "A record that leaves the share comes as a deletion with the reason revoked, without author and time."
        ) {
            try await accepted(.office, try order(.create, id, ["site": .string(stage.north)]))
            try await update(.first)
            try await update(.second)
            version = try await accepted(.office, try order(.update, id, ["site": .string(stage.south)]))
            let news = try await update(.first)
            try require(news, came: [], left: [id])
            try require(news.left.allSatisfy(\.isRevoked), "the reason is \(news.left.first?.reason ?? "missing")")
            try require(
                news.left.allSatisfy { $0.hlc == nil && $0.originDevice == nil && $0.originAuthor == nil }, "the deletion tells who or when"
            )
            try require(try await update(.second), came: [id])
            return "revoked here, received there"
        }
        await check(
            "scope-left-silent", "A16", "The later changes of such a record, and its deletion, are nothing to the device that lost it."
        ) {
            guard version > 0 else { throw NotTried("scope-left failed") }
            try await accepted(.second, try order(.update, id, ["note": "later"]))
            try require(try await update(.first), came: [])
            let other = newRecord()
            try await accepted(.office, try order(.create, other, ["site": .string(stage.north)]))
            try await update(.first)
            try await accepted(.office, try order(.update, other, ["site": .string(stage.south)]))
            try await update(.first)
            try await accepted(.second, try order(.delete, other))
            try require(try await update(.first), came: [])
            return "nothing"
        }
        await check("scope-returned", "A16, A4", "A record that comes back into the share is received as it is then, in a higher version.")
        {
            guard version > 0 else { throw NotTried("scope-left failed") }
            try await accepted(.office, try order(.update, id, ["site": .string(stage.north)]))
            try require(try await update(.first), came: [id])
            let record = stage.mirrors[.first]?.records[id]
            try require(record?.version ?? 0 > version, "version \(record?.version ?? 0) after \(version)")
            try require(record?.data["note"]?.text == "later", "the note is \(record?.data["note"]?.json ?? "missing")")
            return "version \(record?.version ?? 0)"
        }
        await check(
            "scope-left-told", "A6",
            "A change that takes the record out of the share, and whose result the device cannot know, shows nothing and says left."
        ) {
            let other = newRecord()
            try await accepted(.office, try order(.create, other, ["site": .list([stage.north, stage.south]), "note": "of others"]))
            let answer = try await push(.first, [try order(.create, other, ["site": .string(stage.south)], base: 0)])
            let result = try PushMessages.readResponse(try body(answer)).results.first
            guard let result, case .accepted(let version, _, let record, _) = result.verdict else {
                throw Deviation("\(result.map { word($0.verdict) } ?? "nothing"), not accepted")
            }
            stage.versions[other] = version
            try require(record == nil, "it shows the record")
            try require(result.notes.hasLeft, "it does not say left")
            try await update(.first)
            try await update(.second)
            return "left"
        }
    }

    // MARK: Grants that come and go

    func checkGains() async {
        let (past, both) = (newRecord(), newRecord())
        var grantOfWest: RecordID?
        var before: String?
        await check("scope-gained", "A16", "A scope that a device gains brings its past, and nothing is sent again.") {
            try await accepted(.office, try order(.create, past, ["site": .string(stage.west)]))
            try await accepted(.office, try order(.create, both, ["site": .list([stage.north, stage.west])]))
            try await update(.first)
            before = stage.mirrors[.first]?.cursor
            grantOfWest = try await grant(.first, [stage.west])
            try require(try await update(.first, limit: 1), came: [past])
            return "one record"
        }
        await check("scope-gained-once", "A16", "After that the feed has nothing until something happens.") {
            guard grantOfWest != nil else { throw NotTried("scope-gained failed") }
            try require(try await update(.first), came: [])
            let answer = try await pull(.first, stage.mirrors[.first]?.cursor)
            try require(answer.errors.isEmpty, "the problem \(answer.errors.first?.problem.code ?? "")")
            return "nothing"
        }
        await check("scope-cursor-older", "A16", "A cursor from before a grant brings what the grant added, or is 410 scope-changed.") {
            guard grantOfWest != nil, let before else { throw NotTried("scope-gained failed") }
            let answer = try await pull(.first, before)
            if let problem = answer.errors.first?.problem {
                try isChangeOfShare(problem)
                return problem.code
            }
            let own = Set(try await listed(.first).records.keys)
            let news = try await update(.first, from: before)
            try require(news.left.isEmpty && news.came.contains(past) && Set(news.came).isSubset(of: own), news.words)
            return "\(news.came.count) records"
        }
        await check(
            "scope-lost", "A16", "A scope that a device loses is taken back: its records come as deletions with the reason revoked."
        ) {
            guard let grant = grantOfWest else { throw NotTried("scope-gained failed") }
            before = stage.mirrors[.first]?.cursor
            try await withdraw(grant)
            grantOfWest = nil
            let news = try await update(.first, limit: 1)
            // The record of two scopes stays.
            try require(news, came: [], left: [past])
            try require(news.left.allSatisfy(\.isRevoked), "the reason is \(news.left.first?.reason ?? "missing")")
            try require(try await listed(.first).records[past] == nil, "the listing still shows it")
            return "revoked"
        }
        await check(
            "scope-lost-silent", "A16",
            "What enters a lost scope after the loss is not told, not even by its id, whichever cursor is shown."
        ) {
            guard let before, stage.mirrors[.first]?.records[past] == nil else { throw NotTried("scope-lost failed") }
            let late = newRecord()
            try await accepted(.office, try order(.create, late, ["site": .string(stage.west)]))
            for cursor in [before, stage.mirrors[.first]?.cursor ?? before] {
                let answer = try await pull(.first, cursor)
                let told = answer.pages.flatMap { page in page.records.map(\.id) + page.deletions.map(\.id) }
                try require(!told.contains(late), "the answer names it")
            }
            return "nothing"
        }
        await check("scope-lost-rights", "A16", "With the scope the right to write in it is gone.") {
            let answer = try await withheld(.first, try order(.update, past, ["note": "late"]))
            let note = try await listed(.office).records[past]?.data["note"]?.json
            try require(note == nil, "the note is \(note ?? "")")
            try await forbidden(.first, try order(.create, newRecord(), ["site": .string(stage.west)]))
            return answer
        }
    }

    // MARK: Files

    func checkForeignFiles() async {
        let content = (0..<600).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        var digest: BlobDigest?
        await check("scope-file-foreign", "A16, H2", "A file of another device has the answer of a file that never was, to HEAD and GET.") {
            try offered("tus")
            _ = try orders()
            let place = try await create(content.count, BlobDigest(bytes: SHA256.hash(content)), from: try other())
            let answer = try await patch(place, at: 0, content, changed: try other())
            try require(answer.status == 204, "the second device's upload is \(answer.status)\(said(answer))")
            guard let theirs = BlobDigest(bytes: SHA256.hash(content)), let nobodys = BlobDigest(bytes: SHA256.hash([1] + content)) else {
                throw NotTried("no digest")
            }
            digest = theirs
            for method in [HTTPRequest.Method.head, .get] {
                let answers = (
                    try await ask(.first, method, "/v1/blobs/\(theirs)"), try await ask(.first, method, "/v1/blobs/\(nobodys)")
                )
                try require(answers.0.status == 404, "\(method.rawValue) is \(answers.0.status)")
                try requireAlike(answers.0, ["\(theirs)", theirs.hex], answers.1, ["\(nobodys)", nobodys.hex])
            }
            left.append("one file of \(content.count) bytes, \(theirs)")
            return "404"
        }
        await check(
            "scope-file-again", "A16, H1", "A file that another device has brought already is asked for again, from its first byte on."
        ) {
            guard let digest else { throw NotTried("scope-file-foreign failed") }
            let place = try await create(content.count, digest)
            let head = try await tus(.head, place)
            try require(Tus.count(head.headers[Tus.offset]) == 0, "Upload-Offset is \(head.headers[Tus.offset] ?? "missing"), not 0")
            let answer = try await patch(place, at: 0, content)
            try require(answer.status == 204, "\(answer.status)\(said(answer))")
            let here = try await ask(.first, .head, "/v1/blobs/\(digest)")
            try require(here.status == 200, "HEAD of the file is \(here.status) afterwards")
            return "all \(content.count) bytes"
        }
        await check(
            "scope-upload-foreign", "A16, H1", "An upload of another device has the answer of one that never was, and goes on untouched."
        ) {
            try offered("tus")
            _ = try orders()
            let place = try await create(content.count, nil, from: try other())
            guard let id = place.split(separator: "/").last.map({ String($0) }) else { throw NotTried("the upload has no name") }
            // The name of no upload, as long as that of this one and of the same characters.
            let none = String(id.reversed()) == id ? String(repeating: "0", count: id.count) : String(id.reversed())
            for method in [HTTPRequest.Method.head, .patch, .delete] {
                let bytes: [UInt8]? = method == .patch ? content : nil
                let fields: [(String, String?)] = method == .patch ? [(Tus.offset, "0"), ("Content-Type", Tus.contentType)] : []
                let answers = (
                    try await tus(method, place, bytes, changed: fields),
                    try await tus(method, place.replacing(id, with: none), bytes, changed: fields)
                )
                try requireAlike(answers.0, [id], answers.1, [none])
            }
            let head = try await tus(.head, place, changed: try other())
            try require(Tus.count(head.headers[Tus.offset]) == 0, "afterwards the second device's HEAD is \(head.status)")
            _ = try await tus(.delete, place, changed: try other())
            return "404 or 410"
        }
    }
}
