import SyncCore

// Checks of the records that each device receives (PROTOCOL A16). The changes that each may make are in `ConformanceRun+ScopeRights.swift`.
extension ConformanceRun {
    func checkScopes() async {
        guard settings.scopes != nil else { return }
        await checkGrants()
        await checkRights()
        await checkForeignRecords()
        await checkForeignNames()
        await checkShares()
        await checkForeignCursors()
        await checkMoves()
        await checkGains()
        await checkForeignFiles()
        await checkShownFiles()
        await cleanUpScopes()
    }

    // MARK: Grants

    private func checkGrants() async {
        var marks: [String] = []
        await check(
            "scope-grant", "A16", "A record of a source of grants gives its device the scopes that it names, from the next answer on."
        ) {
            for party in Party.allCases { stage.devices[party] = try await greeted(party).device }
            try require(Set(stage.devices.values).count == Party.allCases.count, "the three tokens are of \(stage.devices.values.sorted())")
            marks.append(try await mark())
            try await grant(.first, [stage.north])
            marks += [try await mark(), try await mark()]
            try await grant(.second, [stage.south])
            marks.append(try await mark())
            // The office also sees what belongs to the first device by its id.
            try await grant(.office, [stage.north, stage.south, stage.west, device(.first)])
            let sites = try await sites(.first)
            try require(sites.contains(stage.north) && !sites.contains(stage.south), "hello tells the sites \(sites)")
            stage.isSet = true
            return "site \(stage.north)"
        }
        await check("scope-hello", "A2", "Hello tells a device its own scopes and roles, and the scopes and roles of no other device.") {
            _ = try orders()
            let (first, second, office) = (try await sites(.first), try await sites(.second), try await sites(.office))
            try require(second.contains(stage.south) && !second.contains(stage.north), "hello tells the second device the sites \(second)")
            try require(office.contains(stage.west) && !first.contains(stage.west), "hello tells the first device the sites \(first)")
            let roles = (try await greeted(.first).share?.roles ?? [], try await greeted(.office).share?.roles ?? [])
            try require(roles.1.contains("office") && !roles.0.contains("office"), "the roles are \(roles.0) and \(roles.1)")
            return "sites \(first.count), \(second.count), \(office.count)"
        }
        await check("scope-mark", "A1", "Sync-Scopes changes when the scopes of the device do, and only then.") {
            _ = try orders()
            guard marks.count == 4 else { throw NotTried("scope-grant failed") }
            try require(marks[0] != marks[1], "\(marks[0]) before and after a grant")
            try require(marks[1] == marks[2], "\(marks[1]), then \(marks[2]) without any grant")
            try require(marks[2] == marks[3], "\(marks[2]), then \(marks[3]) after a grant to another device")
            return marks[3]
        }
        await check("scope-grant-right", "A16", "A device without the right makes no record that grants scopes, and deletes none.") {
            _ = try orders()
            let entity = try grantsEntity()
            let own: JSON = ["device": .string(device(.first)), "site": .string(stage.west)]
            try await forbidden(.first, mutation(.create, newRecord(), own, of: entity))
            try require(!(try await sites(.first)).contains(stage.west), "the device has granted itself a scope")
            guard let (id, version) = stage.grants.min(by: { $0.key < $1.key }) else { throw NotTried("scope-grant failed") }
            try await forbidden(.first, mutation(.delete, id, base: version, of: entity))
            try require(try await sites(.first).contains(stage.north), "the grant is gone")
            return "forbidden"
        }
    }

    private func greeted(_ party: Party) async throws -> HelloResponse {
        let hello = try HelloMessages.readResponse(try body(try await ask(party, .post, "/v1/sync/hello", Array("{}".utf8))))
        try require(hello.share != nil, "hello tells no scopes: the server shares nothing out")
        return hello
    }

    private func sites(_ party: Party) async throws -> [String] {
        try await greeted(party).share?.scopes.first { $0.name == "site" }?.values ?? []
    }

    private func mark() async throws -> String {
        let answer = try await ask(.first, .post, "/v1/sync/known", JSON.object(["keys": []]).bytes)
        guard let mark = headers(answer).shareMark else {
            throw Deviation("Sync-Scopes is \(answer.headers[HubHeader.scopes] ?? "missing")")
        }
        return mark
    }

    @discardableResult
    func grant(_ party: Party, _ sites: [String]) async throws -> RecordID {
        let id = newRecord()
        let data: JSON = ["device": .string(device(party)), "site": .list(sites)]
        stage.grants[id] = try await accepted(.office, mutation(.create, id, data, of: try grantsEntity()))
        return id
    }

    func withdraw(_ id: RecordID) async throws {
        try await accepted(.office, mutation(.delete, id, base: stage.grants[id] ?? 0, of: try grantsEntity()))
        stage.grants[id] = nil
    }

    private func grantsEntity() throws -> EntityName {
        guard let scopes = settings.scopes else { throw NotTried("no source of grants was named") }
        return scopes.grants
    }

    // MARK: Shares

    private func checkShares() async {
        await check("scope-listing", "A16", "A listing shows a device the records of its own scopes, and no other.") {
            let (first, second) = (try await listed(.first).records, try await listed(.second).records)
            try require(first[stage.mine] != nil && first[stage.foreign] == nil, "it shows the first device \(names(first.keys))")
            try require(second[stage.foreign] != nil && second[stage.mine] == nil, "it shows the second device \(names(second.keys))")
            return PlainText.count(first.count, "record") + " and " + PlainText.count(second.count, "record")
        }
        await check("scope-listing-told", "A8", "Where the end of a listing tells scopes, they are those of the device.") {
            let (records, _, last) = try await listed(.first)
            guard let told = last.share else { throw NotOffered("no scopes at the end of a listing") }
            let outside = records.filter { !told.includes($1.data) }.keys
            try require(outside.isEmpty, "none of them is a scope of \(names(outside)), which the listing shows")
            try require(!told.includes(["site": .string(stage.south)]), "one of them is a scope of the second device")
            return PlainText.count(records.count, "record") + " in them"
        }
        await check("scope-own-id", "A16", "The id of a device is a scope of its own, without any grant.") {
            let id = newRecord()
            try await accepted(.office, try order(.create, id, ["site": .string(device(.first)), "note": "for the first device"]))
            try require(try await listed(.first).records[id] != nil, "the listing does not show it")
            try require(try await listed(.second).records[id] == nil, "the listing shows it to the second device")
            return "one record"
        }
        await check("scope-seed", "A16", "The records that a new device gets first are of its own scopes as well.") {
            let seed = try await listed(.first, isSeed: true).records
            try require(seed[stage.foreign] == nil, "they are \(names(seed.keys))")
            return PlainText.count(seed.count, "record")
        }
        await check("scope-buckets", "A16", "The listing of a bucket shows a device the records of its own scopes, and no other.") {
            let theirs = try await listed(.first, buckets: [EntityDigest.bucket(of: stage.foreign)]).records
            try require(theirs[stage.foreign] == nil, "it shows \(names(theirs.keys))")
            let own = try await listed(.first, buckets: [EntityDigest.bucket(of: stage.mine)]).records
            try require(own[stage.mine] != nil, "the device's own record is not in its bucket")
            return "its own record"
        }
        await check("scope-feed", "A16", "A feed from its beginning has the records of the device's scopes, and says nothing of others.") {
            let shown = Set(try await listed(.first).records.keys)
            stage.mirrors[.first] = nil
            try require(try await update(.first), came: shown)
            stage.mirrors[.first] = nil
            try require(try await update(.first, limit: 1), came: shown)
            return PlainText.count(shown.count, "record")
        }
        await check(
            "scope-feed-later", "A16",
            "What other devices make, change and delete in their scopes is not in the feed, not even as a deletion."
        ) {
            guard stage.mirrors[.first]?.cursor != nil else { throw NotTried("scope-feed failed") }
            let id = newRecord()
            try await accepted(.second, try order(.create, id, ["site": .string(stage.south)]))
            try await accepted(.second, try order(.update, stage.foreign, ["note": "changed"]))
            try await accepted(.second, try order(.delete, id))
            try require(try await update(.first), came: [])
            return "nothing"
        }
        await check("scope-feed-get", "A16", "GET /v1/sync/pull has the same share.") {
            let answer = try await ask(.first, .get, "/v1/sync/pull?entity=\(try orders())&limit=500")
            let records = try PullMessages.readResponse(try body(answer)).pages.flatMap(\.records).map(\.id).filter { isOurs($0) }
            try require(records.contains(stage.mine) && !records.contains(stage.foreign), "it has \(names(records))")
            return PlainText.count(records.count, "record")
        }
        await checkVerifiedShare()
        await checkCounts()
    }

    func names(_ ids: some Sequence<RecordID>) -> String {
        let names = ids.map(\.text).sorted()
        return names.isEmpty ? "nothing" : names.prefix(6).joined(separator: ", ")
    }

    private func checkVerifiedShare() async {
        await check("scope-verify", "A16", "A comparison is one with the device's own share: changes of others make no bucket differ.") {
            try offered(VerifyMessages.capability)
            let (digest, cursor) = try await share(.first)
            var differs = try await differences(.first, digest, cursor)
            try require(differs.isEmpty, "buckets \(differs.prefix(8)) differ")
            try await accepted(.second, try order(.update, stage.foreign, ["note": "changed again"]))
            differs = try await differences(.first, digest, cursor)
            try require(differs.isEmpty, "buckets \(differs.prefix(8)) differ after a change of the second device")
            return "none differs"
        }
        await check("scope-verify-foreign", "A16", "A record of another device counts as one too many, as one does that never was.") {
            try offered(VerifyMessages.capability)
            let (digest, cursor) = try await share(.first)
            for (id, version) in [(stage.foreign, stage.versions[stage.foreign] ?? 1), (stage.missing, 1)] {
                var more = digest
                more.add(id, version: version)
                let differs = try await differences(.first, more, cursor)
                try require(differs == [EntityDigest.bucket(of: id)], "with \(id) the buckets \(differs.prefix(8)) differ")
            }
            return "its bucket"
        }
    }

    private func share(_ party: Party) async throws -> (digest: EntityDigest, cursor: String) {
        var digest = EntityDigest()
        var after: RecordID?
        var cursor: String?
        repeat {
            let request = SnapshotRequest(entity: try orders(), after: after, limit: 1_000)
            let page = try SnapshotMessages.readResponse(
                try body(try await ask(party, .get, "/v1/sync/snapshot?" + SnapshotMessages.query(request))))
            if cursor == nil { cursor = page.startCursor }
            for record in page.records { digest.add(record.id, version: record.record.version) }
            after = page.hasMore ? page.after : nil
        } while after != nil
        return (digest, cursor ?? "")
    }

    func differences(_ party: Party, _ digest: EntityDigest, _ cursor: String) async throws -> [UInt8] {
        let request = VerifyRequest(entity: try orders(), cursor: cursor, digest: digest)
        return try VerifyMessages.readResponse(try body(try await ask(party, .post, "/v1/sync/verify", VerifyMessages.request(request))))
            .differs
    }

    private func checkCounts() async {
        await check("scope-total", "A16", "The total of a listing or feed does not count records of others.") {
            let before = try await total(.first)
            let id = newRecord()
            try await accepted(.second, try order(.create, id, ["site": .string(stage.south)]))
            let after = try await total(.first)
            try require(before == after, "\(before) and then \(after), when the second device had made a record")
            return "\(after)"
        }
        await check("scope-deleted-total", "A16", "Deletions are counted in the device's own scopes alone (deleted_total).") {
            guard let before = try await listed(.first).first.deletedTotal else { throw NotOffered("no deleted_total") }
            let id = newRecord()
            try await accepted(.second, try order(.create, id, ["site": .string(stage.south)]))
            try await accepted(.second, try order(.delete, id))
            let after = try await listed(.first).first.deletedTotal
            try require(after == before, "\(before) and then \(after.map { String($0) } ?? "none"), after a deletion of the second device")
            return "\(before)"
        }
    }

    /// The totals of a listing and of a feed, both of which tell one when there is more than a page.
    private func total(_ party: Party) async throws -> [Int64?] {
        let request = SnapshotRequest(entity: try orders(), after: nil, limit: 1)
        let page = try SnapshotMessages.readResponse(
            try body(try await ask(party, .get, "/v1/sync/snapshot?" + SnapshotMessages.query(request))))
        return [page.total, try await pull(party, nil, limit: 1).pages.first?.total]
    }

    // MARK: Afterwards

    private func cleanUpScopes() async {
        await check("scope-cleanup", "A16", "What the checks of scopes made can be deleted again by a device that receives it.") {
            let records = try await listed(.office).records
            for (id, record) in records.sorted(by: { $0.key < $1.key }) {
                try await accepted(.office, try order(.delete, id, base: record.version))
            }
            for id in stage.grants.keys.sorted() { try await withdraw(id) }
            return PlainText.count(records.count, "record") + " deleted"
        }
        for id in stage.grants.keys.sorted() {
            left.append("record \(settings.scopes?.grants.text ?? "")/\(id): it grants scopes of this run")
        }
    }
}
