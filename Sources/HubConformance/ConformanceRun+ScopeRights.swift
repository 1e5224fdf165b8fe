import SyncCore

// Checks of the changes that a device may make, and of what it is told of the records of others (PROTOCOL A16).
extension ConformanceRun {
    func checkRights() async {
        await check("scope-create", "A16", "A device makes records in its own scopes.") {
            try await accepted(.first, try order(.create, stage.mine, ["site": .string(stage.north), "note": "mine"]))
            let made = try order(.create, stage.foreign, ["site": .string(stage.south), "note": "of the second device"])
            try await accepted(.second, made)
            stage.foreignKey = made["idempotency_key"]?.text
            return "one record each"
        }
        await check(
            "scope-create-elsewhere", "A16", "A device makes no record in a scope of others: rejected as forbidden, and nothing is there."
        ) {
            let id = newRecord()
            try await forbidden(.first, try order(.create, id, ["site": .string(stage.south)]))
            try require(try await listed(.office).records[id] == nil, "the record is there")
            return "forbidden"
        }
        await check("scope-create-nowhere", "A16", "A device makes no record without a scope.") {
            try await forbidden(.first, try order(.create, newRecord(), ["note": "in no scope"]))
            return "forbidden"
        }
        await check("scope-move-out", "A16", "A device moves no record into a scope of others.") {
            try await forbidden(.first, try order(.update, stage.mine, ["site": .string(stage.south)]))
            let site = try await listed(.first).records[stage.mine]?.data["site"]?.text
            try require(site == stage.north, "its site is \(site ?? "gone")")
            return "forbidden"
        }
        await check("scope-field-right", "A16", "A field that only a role may change is changed by devices with that role alone.") {
            try await forbidden(.first, try order(.update, stage.mine, ["price": 7]))
            try await accepted(.office, try order(.update, stage.mine, ["price": 8]))
            let price = try await listed(.first).records[stage.mine]?.data["price"]?.json
            try require(price == "8", "the price is \(price ?? "missing"), not 8")
            return "forbidden, then accepted"
        }
        await check("scope-field-repeated", "A16", "A change that leaves such a field as it is needs no right.") {
            guard try await listed(.first).records[stage.mine]?.data["price"]?.int == 8 else { throw NotTried("scope-field-right failed") }
            try await accepted(.first, try order(.update, stage.mine, ["price": 8, "note": "the price as it is"]))
            return "accepted"
        }
        await check("scope-old-base", "A16", "A change is decided by the record as it is now, not as the device knew it.") {
            let id = newRecord()
            let base = try await accepted(.office, try order(.create, id, ["site": .string(stage.north)]))
            try await accepted(.office, try order(.update, id, ["site": .string(stage.south)]))
            let answer = try await withheld(.first, try order(.update, id, ["note": "late"], base: base))
            let note = try await listed(.office).records[id]?.data["note"]?.json
            try require(note == nil, "the note is \(note ?? "")")
            return answer
        }
        await check("scope-hand-back", "A16", "A device may take its own scope out of a record; the verdict then shows nothing of it.") {
            let id = newRecord()
            try await accepted(.office, try order(.create, id, ["site": .list([stage.north, stage.south])]))
            let verdict = try await decided(.first, try order(.update, id, ["site": .list([stage.south])]))
            guard case .accepted(_, _, let shown, _) = verdict else { throw Deviation("\(word(verdict)), not accepted") }
            try require(shown == nil, "the verdict shows the record")
            try require(try await listed(.first).records[id] == nil, "the listing still shows it")
            try require(try await listed(.second).records[id] != nil, "the second device has lost it")
            return "accepted"
        }
    }

    // MARK: Records of others

    func checkForeignRecords() async {
        await check(
            "scope-update-foreign", "A16, A6",
            "An update of a record of others is rejected as forbidden, shows nothing, and changes nothing. In a new history it may have to "
                + "wait (retry: dependency-missing)."
        ) {
            let answer = try await withheld(.first, try order(.update, stage.foreign, ["note": "stolen"]))
            try await require("of the second device")
            return answer
        }
        await check(
            "scope-delete-foreign", "A16, A6",
            "A deletion of a record of others is rejected as forbidden, shows nothing, and deletes nothing. In a new history it may have "
                + "to wait (retry: dependency-missing)."
        ) {
            let answer = try await withheld(.first, try order(.delete, stage.foreign))
            try await require("of the second device")
            return answer
        }
        await check("scope-update-alike", "A16", "An update has one answer for a record of others and for one that never was.") {
            try await requireAlike(.first) { [try order(.update, $0, ["note": "stolen"], base: 1)] }
            return "the same"
        }
        await check("scope-delete-alike", "A16", "A deletion has one answer for a record of others and for one that never was.") {
            try await requireAlike(.first) { [try order(.delete, $0, base: 1)] }
            return "the same"
        }
        await check(
            "scope-list-forbidden", "A16, A4",
            "An atomic list with a forbidden member is refused as a whole, and says nothing of that record. In a new history it may have "
                + "to wait (retry: dependency-missing)."
        ) {
            try offered("groups")
            let group = newName()
            let response = try await push(.first, try atomic(group, stage.foreign))
            let verdicts = try PushMessages.readResponse(try body(response)).results.map(\.verdict)
            let words = verdicts.map { word($0) }
            try require(verdicts.count == 2, words.joined(separator: "; "))
            let mayWait = letsUnknownWait && waitsForMaker(verdicts[1])
            try require(words[1].hasPrefix("rejected: forbidden") || mayWait, words.joined(separator: "; "))
            let detail: String
            switch verdicts[0] {
            case .rejected(let problem, _) where !mayWait: detail = problem.detail
            case .retry(let problem, _) where mayWait: detail = problem?.detail ?? ""
            default: throw Deviation("the first member was \(words[0])")
            }
            try require(!detail.contains(stage.foreign.text), "the first member was \(words[0])")
            let note = try await listed(.first).records[stage.mine]?.data["note"]?.text
            try require(note?.hasPrefix("in a list") == false, "the first member was applied: the note is \(note ?? "missing")")
            return words.joined(separator: "; ")
        }
        await check("scope-list-alike", "A16", "An atomic list has one answer with a record of others and with one that never was.") {
            try offered("groups")
            try await requireAlike(.first) { id in
                // The name of the list is in no answer.
                try atomic(newName(), id)
            }
            return "the same"
        }
    }

    private func atomic(_ group: String, _ id: RecordID) throws -> [JSONObject] {
        [
            try order(.update, stage.mine, ["note": "in a list"], group: group),
            try order(.update, id, ["note": "in a list"], base: 1, group: group),
        ]
    }

    /// The record of the second device is as that device has made it.
    private func require(_ note: String) async throws {
        let seen = try await listed(.second).records[stage.foreign]?.data["note"]?.text
        try require(seen == note, "its note is \(seen ?? "gone")")
    }

    // MARK: Keys and parents of others

    func checkForeignNames() async {
        await check("scope-repeat", "A16", "A repeat of what was accepted does not show a record that has left the share since.") {
            let id = newRecord()
            let create = try order(.create, id, ["site": .string(stage.north)])
            try await accepted(.first, create)
            try await accepted(.office, try order(.update, id, ["site": .string(stage.south), "note": "of others"]))
            let verdict = try await decided(.first, create)
            guard case .duplicate(.accepted, let current) = verdict else { throw Deviation("\(word(verdict)), not a duplicate") }
            try require(!isShown(current), "the duplicate shows the record")
            return "duplicate, without the record"
        }
        await check(
            "scope-key-reused", "A16, A4", "A key that is used again for a record of others is refused, and shows nothing of that record."
        ) {
            let used = try order(.create, newRecord(), ["site": .string(stage.north)])
            try await accepted(.first, used)
            let key = used["idempotency_key"]?.text ?? ""
            let verdict = try await decided(.first, try order(.update, stage.foreign, ["note": "stolen"], base: 1, key: key))
            guard case .rejected(let problem, let current) = verdict, problem.code == "idempotency-mismatch" else {
                throw Deviation("\(word(verdict)), not rejected: idempotency-mismatch")
            }
            try require(!isShown(current), "the answer shows the record")
            try await requireAlike(.first) { [try order(.update, $0, ["note": "stolen"], base: 1, key: key)] }
            return "rejected"
        }
        await check("scope-known", "A16, A6", "A device that asks for the key of another one gets the answer for a key that never was.") {
            let made = try order(.update, stage.foreign, ["note": "of the second device"])
            try await accepted(.second, made)
            let asked = [made["idempotency_key"]?.text ?? "", newName()]
            let response = try await ask(.first, .post, "/v1/sync/known", JSON.object(["keys": .list(asked)]).bytes)
            let unknown = try KnownMessages.readResponse(try body(response)).map(\.text)
            try require(unknown == asked, "unknown are \(unknown), not \(asked)")
            return "both unknown"
        }
        await check("scope-depends", "A16, A4", "A change that another device has sent is missing for what depends on it, not forbidden.") {
            let key = try foreignKey(), never = newName()
            let (theirs, nobodys) = (
                try order(.create, newRecord(), ["site": .string(stage.north)], dependsOn: [key]),
                try order(.create, newRecord(), ["site": .string(stage.north)], dependsOn: [never])
            )
            func names(_ mutation: JSONObject) -> [String] {
                [mutation["record_id"]?.text ?? "", mutation["idempotency_key"]?.text ?? "", key, never]
            }
            let answers = (try await push(.first, [theirs]), try await push(.first, [nobodys]))
            try requireAlike(answers.0, names(theirs), answers.1, names(nobodys))
            let results = try PushMessages.readResponse(try body(answers.0)).results
            guard case .retry(let problem, _) = results.first?.verdict, problem?.code == "dependency-missing" else {
                throw Deviation("\(results.first.map { word($0.verdict) } ?? "no verdict"), not retry: dependency-missing")
            }
            return "dependency-missing"
        }
        await check("scope-key-foreign", "A16, A6", "The key of another device's change is as new as any: keys are of one device.") {
            let key = try foreignKey()
            try await accepted(.first, try order(.create, newRecord(), ["site": .string(stage.north)], key: key))
            return "accepted"
        }
        await check("scope-parent", "A16", "A parent of others has the answer of a parent that never was.") {
            let child = newRecord(), orphan = newRecord()
            func names(_ pushed: [JSONObject]) -> [String] {
                pushed.flatMap { [$0["record_id"]?.text ?? "", $0["idempotency_key"]?.text ?? ""] }
            }
            func family(_ child: RecordID, of parent: RecordID) throws -> [JSONObject] {
                [
                    try order(.update, parent, ["note": "the parent"], base: 1),
                    try order(.create, child, ["site": .string(stage.north), "parent": .string(parent.text)]),
                ]
            }
            let (theirs, nobodys) = (try family(child, of: stage.foreign), try family(orphan, of: stage.missing))
            let answers = (try await push(.first, theirs), try await push(.first, nobodys))
            try requireAlike(answers.0, names(theirs), answers.1, names(nobodys))
            let words = try PushMessages.readResponse(try body(answers.0)).results.map { word($0.verdict) }
            try require(words.last?.contains("forbidden") == false, "the child was \(words.last ?? "not decided")")
            return words.last ?? ""
        }
        // Last of all: the hub remembers that it has refused this creation.
        await check("scope-create-taken", "A16", "A create with the id of a record of others is rejected as forbidden, and shows nothing.")
        {
            try await forbidden(.first, try order(.create, stage.foreign, ["site": .string(stage.north), "note": "stolen"], base: 0))
            try await require("of the second device")
            return "forbidden"
        }
    }

    private func foreignKey() throws -> String {
        guard let key = stage.foreignKey else { throw NotTried("scope-create failed") }
        return key
    }
}
