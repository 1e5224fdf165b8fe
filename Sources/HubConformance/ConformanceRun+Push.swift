import SyncCore

// The effects of a push (PROTOCOL A4, A6, A7).
extension ConformanceRun {
    func checkPush() async {
        await check("snapshot-start", "A8", "The first page of a listing has the cursor of a feed that goes on from there.") {
            let response = try await send(
                .get, "/v1/sync/snapshot?" + SnapshotMessages.query(SnapshotRequest(entity: settings.entity, after: nil, limit: 1)))
            let page = try SnapshotMessages.readResponse(try body(response))
            began = page.startCursor
            return "cursor of \(page.startCursor.utf8.count) bytes, head \(page.startVersion)"
        }
        await checkAccepted()
        await checkRepeats()
        await checkBatches()
        await checkDeletions()
    }

    private func checkAccepted() async {
        let id = newRecord()
        var version: Int64 = 0
        await check("push-create", "A4", "A create is accepted, and can be read in the version that its verdict says.") {
            version = try await accept(mutation(.create, id, ["status": "open", "notes": "first"]))
            let seen = try await stored(id)
            try require(
                seen?.record.data["status"]?.text == "open",
                "the listing has \(seen.map { JSON.object($0.record.data).json } ?? "no such record")")
            try require(seen?.record.version == version, "accepted as version \(version), listed as \(seen?.record.version ?? -1)")
            return "version \(version)"
        }
        await check("push-device-seq", "A1", "After a push Sync-Device-Seq is the highest seq of this replica.") {
            let answer = try await post("/v1/sync/push", pushBody([]))
            _ = try body(answer)
            try require(
                headers(answer).deviceSeq == lastSeq,
                "Sync-Device-Seq is \(answer.headers[HubHeader.deviceSeq] ?? "missing"), not \(lastSeq)")
            return "\(lastSeq)"
        }
        await check("push-update", "A4", "An update changes its fields, leaves the others, and gets a higher version.") {
            guard version > 0 else { throw NotTried("the create failed") }
            let next = try await accept(mutation(.update, id, ["status": "done"], base: version))
            try require(next > version, "version \(next) after \(version)")
            let seen = try await stored(id)
            try require(
                seen?.record.data["status"]?.text == "done" && seen?.record.data["notes"]?.text == "first",
                "the document is \(seen.map { JSON.object($0.record.data).json } ?? "gone")")
            return "version \(next)"
        }
        await check(
            "push-versions-rise", "A4",
            """
            The version of a record rises with each of its changes, with its deletion and with its return. It need not be dense, nor be \
            comparable with the version of another record or with Sync-Head.
            """
        ) {
            let id = newRecord()
            var versions = [try await accept(mutation(.create, id, ["n": 0]))]
            for n in 1...3 { versions.append(try await accept(mutation(.update, id, ["n": .int(Int64(n))], base: versions[n - 1]))) }
            versions.append(try await accept(mutation(.delete, id, base: versions[3])))
            versions.append(try await accept(mutation(.create, id, ["n": 5], base: versions[4])))
            let words = versions.map { String($0) }.joined(separator: ", ")
            try require(versions[0] > 0 && zip(versions, versions.dropFirst()).allSatisfy { $0 < $1 }, "versions \(words)")
            let listed = try await stored(id)?.record.version
            try require(listed == versions[5], "versions \(words), and it is listed in \(listed.map { String($0) } ?? "none")")
            return "versions \(words)"
        }
        await check("push-merge", "A4, D", "An update on an old base changes what no other device changed since; both changes stay.") {
            guard version > 0 else { throw NotTried("the create failed") }
            _ = try await accept(mutation(.update, id, ["added": "by an old base"], base: version))
            let seen = try await stored(id)
            try require(
                seen?.record.data["status"]?.text == "done" && seen?.record.data["added"]?.text == "by an old base",
                "the document is \(seen.map { JSON.object($0.record.data).json } ?? "gone")")
            return "both are there"
        }
        await check("push-values-kept", "A1", "Numbers and texts of documents come back exactly as they were sent.") {
            let exact = newRecord()
            let sent = "{\"big\":9007199254740993,\"price\":1.10,\"text\":\"e\\u0301\"}"
            _ = try await accept(mutation(.create, exact, try JSONReader.read(sent)))
            let data = try await stored(exact)?.record.data
            for (name, expected) in [("big", "9007199254740993"), ("price", "1.10")] {
                try require(data?[name]?.json == expected, "\(name) came back as \(data?[name]?.json ?? "nothing"), not \(expected)")
            }
            // The text must keep two scalars, and not become the one that looks the same.
            let scalars = data?["text"]?.text.map { Array($0.unicodeScalars.map(\.value)) }
            try require(scalars == [0x65, 0x301], "text came back with the scalars \(scalars ?? [])")
            return "exact"
        }
        await check("push-clock", "A11", "A stamp far ahead of the server's clock is no reason to refuse work.") {
            _ = try await accept(mutation(.create, newRecord(), ["from": "the future"], ahead: .seconds(400 * 86_400)))
            return "accepted"
        }
        await check("push-unknown-members", "A1", "Members of a mutation that a server does not know are skipped.") {
            var one = mutation(.create, newRecord(), ["n": 1])
            one["colour"] = "blue"
            _ = try await accept(one)
            return "accepted"
        }
    }

    private func checkRepeats() async {
        let id = newRecord()
        let first = mutation(.create, id, ["n": 1])
        var version: Int64 = 0
        await check(
            "push-duplicate", "A4, A6",
            "The same key with the same content is a duplicate: nothing is applied, and the current record comes with it."
        ) {
            version = try await accept(first)
            let again = try await verdict(first)
            guard case .duplicate(.accepted, .record(let record)) = again else {
                throw Deviation("\(word(again)), not a duplicate with the record")
            }
            try require(record.version == version, "the repeat made version \(record.version) of \(version): it was applied")
            return "duplicate of accepted, version \(version)"
        }
        await check("push-duplicate-current", "A6", "A late repeat brings the record as it is now, not as it was.") {
            guard version > 0 else { throw NotTried("the create failed") }
            let next = try await accept(mutation(.update, id, ["n": 2], base: version))
            let again = try await verdict(first)
            guard case .duplicate(_, .record(let record)) = again else {
                throw Deviation("\(word(again)), not a duplicate with the record")
            }
            try require(
                record.version == next && record.data["n"]?.int == 2,
                "version \(record.version) with n = \(record.data["n"]?.json ?? "nothing"), not \(next) with 2")
            return "version \(next)"
        }
        await check(
            "push-duplicate-acked", "A6",
            "A key stays known when the device has the answer on flash: a device that was restored repeats it all the same."
        ) {
            guard version > 0 else { throw NotTried("the create failed") }
            _ = try await verdicts([], extra: ["acked_seq": .int(lastSeq)])
            let again = try await verdict(first)
            guard case .duplicate(.accepted, _) = again else { throw Deviation("\(word(again)), not a duplicate") }
            return "duplicate"
        }
        await check("push-key-reused", "A4", "The same key with other content is rejected as idempotency-mismatch, and changes nothing.") {
            guard version > 0 else { throw NotTried("the create failed") }
            var other = first
            other["data"] = ["n": 99]
            let answer = try await verdict(other)
            guard case .rejected(let problem, _) = answer, problem.code == "idempotency-mismatch" else {
                throw Deviation("\(word(answer)), not rejected as idempotency-mismatch")
            }
            let seen = try await stored(id)?.record.data["n"]?.json
            try require(seen == "2", "n is \(seen ?? "gone") now")
            return "rejected"
        }
        await check(
            "push-duplicate-rejected", "A4", "A repeat of what was rejected is a duplicate of a rejection: the verdict on a key stays."
        ) {
            let bad = malformed(newRecord())
            let verdict = try await verdict(bad)
            guard case .rejected = verdict else { throw Deviation("data that is no object was \(word(verdict)), not rejected") }
            let again = try await self.verdict(bad)
            guard case .duplicate(.rejected, _) = again else { throw Deviation("the repeat was \(word(again))") }
            return "duplicate of rejected"
        }
    }

    /// A creation that every hub rejects: its data is no object.
    private func malformed(_ id: RecordID, group: String? = nil) -> JSONObject {
        var bad = mutation(.create, id, group: group)
        bad["data"] = "no object"
        return bad
    }

    private func checkBatches() async {
        await check(
            "push-each-by-itself", "A4",
            "One mutation that is not valid is rejected alone; those before and after it are accepted, in their order."
        ) {
            var bad = mutation(.create, newRecord(), ["n": 2])
            bad["action"] = "explode"
            let batch = [mutation(.create, newRecord(), ["n": 1]), bad, mutation(.create, newRecord(), ["n": 3])]
            let words = try await verdicts(batch).map { word($0.verdict) }
            try require(
                words[0].hasPrefix("accepted") && words[1].hasPrefix("rejected") && words[2].hasPrefix("accepted"),
                words.joined(separator: "; "))
            return "accepted, rejected, accepted"
        }
        await check("push-in-order", "A4", "Mutations of one record in one push take effect in the order given.") {
            let id = newRecord()
            let create = mutation(.create, id, ["n": 1])
            let results = try await verdicts([create, mutation(.update, id, ["n": 2]), mutation(.update, id, ["n": 3])])
            let words = results.map { word($0.verdict) }
            try require(words.allSatisfy { $0.hasPrefix("accepted") }, words.joined(separator: "; "))
            let seen = try await stored(id)?.record.data["n"]?.json
            try require(seen == "3", "n is \(seen ?? "gone"), not 3")
            return "n is 3"
        }
        await check("push-parent-rejected", "A4", "What depends on a mutation that was rejected is rejected as parent-rejected.") {
            let bad = malformed(newRecord())
            let key = bad["idempotency_key"]?.text ?? ""
            let words = try await verdicts([bad, mutation(.create, newRecord(), ["n": 1], dependsOn: [key])]).map { word($0.verdict) }
            try require(words[1].hasPrefix("rejected: parent-rejected"), "the second was \(words[1])")
            return "rejected"
        }
        await check("push-creation-rejected", "A4", "A change of a record whose creation was rejected is rejected as parent-rejected.") {
            let id = newRecord()
            let bad = malformed(id)
            let words = try await verdicts([bad, mutation(.update, id, ["n": 1])]).map { word($0.verdict) }
            try require(words[1].hasPrefix("rejected: parent-rejected"), "the change was \(words[1])")
            return "rejected"
        }
        await check("push-dependency", "A4", "What depends on a mutation that never came is told to retry: dependency-missing.") {
            let answer = try await verdict(mutation(.create, newRecord(), ["n": 1], dependsOn: [newName()]))
            guard case .retry(let problem, _) = answer, problem?.code == "dependency-missing" else {
                throw Deviation("\(word(answer)), not retry: dependency-missing")
            }
            return "retry"
        }
        await check("push-dependency-on-itself", "A4", "What depends on itself could never be accepted and is rejected.") {
            let key = newName()
            let answer = try await verdict(mutation(.create, newRecord(), ["n": 1], key: key, dependsOn: [key]))
            guard case .rejected = answer else { throw Deviation("\(word(answer)), not rejected") }
            return "rejected"
        }
        await check("push-group", "A4", "Mutations of a group are applied together or not at all.") {
            try offered("groups")
            let group = newName(), (first, second, third) = (newRecord(), newRecord(), newRecord())
            let bad = malformed(second, group: group)
            let torn = try await verdicts([mutation(.create, first, ["n": 1], group: group), bad])
            if case .accepted = torn[0].verdict {
                throw Deviation("one of a group was accepted beside one that was \(word(torn[1].verdict))")
            }
            try require(try await stored(first) == nil, "half of a group is there")
            let whole = newName()
            let words = try await verdicts([
                mutation(.create, first, ["n": 1], group: whole), mutation(.create, third, ["n": 1], group: whole),
            ]).map { word($0.verdict) }
            try require(words.allSatisfy { $0.hasPrefix("accepted") }, "a whole group was " + words.joined(separator: "; "))
            return "none of the torn one, all of the whole one"
        }
        await check("push-empty", "A4", "A push without mutations is answered 200 without results.") {
            try require(try await verdicts([]).isEmpty, "results")
            return "200"
        }
    }

    private func checkDeletions() async {
        let id = newRecord()
        let create = mutation(.create, id, ["n": 1])
        var tombstone: Int64 = 0
        await check("push-delete", "A7", "A delete is accepted, and the record is in no listing any more.") {
            let version = try await accept(create)
            tombstone = try await accept(mutation(.delete, id, base: version))
            try require(tombstone > version, "version \(tombstone) after \(version)")
            try require(try await stored(id) == nil, "it is still listed")
            return "version \(tombstone)"
        }
        await check(
            "push-delete-absent", "A6, A7",
            "A delete of a record that is not there is accepted. In a new history it may have to wait for the device that made the "
                + "record (retry: dependency-missing)."
        ) {
            let verdict = try await verdict(mutation(.delete, newRecord()))
            if tombstone > 0 { _ = try await accept(mutation(.delete, id, base: tombstone)) }
            switch verdict {
            case .accepted: return "accepted"
            case .retry where waitsForMaker(verdict):
                letsUnknownWait = true
                return Ending.waits.rawValue
            default: throw Deviation(word(verdict))
            }
        }
        await check(
            "push-duplicate-deleted", "A6", "A late repeat of a create brings no deleted record back: it is a duplicate, and deleted."
        ) {
            guard tombstone > 0 else { throw NotTried("the delete failed") }
            let again = try await verdict(create)
            guard case .duplicate(.accepted, .deleted) = again else { throw Deviation("\(word(again)), not a duplicate that says deleted") }
            try require(try await stored(id) == nil, "it is listed again")
            return "duplicate, deleted"
        }
        await check("push-undelete", "A7", "A create on top of the tombstone brings the record back.") {
            guard tombstone > 0 else { throw NotTried("the delete failed") }
            let version = try await accept(mutation(.create, id, ["n": 5], base: tombstone))
            try require(try await stored(id)?.record.data["n"]?.int == 5, "it is not listed")
            return "version \(version)"
        }
        await check(
            "push-deleted-whole", "D4",
            "An update that had not seen the deletion brings all of the record back, or is refused as deleted, or is a conflict about "
                + "$delete. In a new history it may have to wait (retry: dependency-missing)."
        ) {
            let id = newRecord()
            let version = try await accept(mutation(.create, id, ["n": 1, "kept": "whole"]))
            try await accept(mutation(.delete, id, base: version))
            return try await changed(id, base: version, [], member: "kept").rawValue
        }
        await check("push-deletion-order", "D4", "A change and a deletion that have not seen each other end alike, whichever comes first.")
        {
            let other = try other()
            let first = newRecord(), last = newRecord()
            var version = try await accept(mutation(.create, first, ["n": 1]))
            try await accept(mutation(.delete, first, base: version))
            let deletedFirst = try await changed(first, base: version, other, member: nil)
            version = try await accept(mutation(.create, last, ["n": 1]))
            _ = try await changed(last, base: version, other, member: nil)
            let deletedLast = try await deleted(last, base: version)
            try require(
                deletedFirst == deletedLast,
                "deleted first, the record is \(deletedFirst.rawValue); deleted last, it is \(deletedLast.rawValue)")
            return deletedFirst.rawValue
        }
    }

    /// The result for a record that was deleted and changed.
    private enum Ending: String {
        case gone, there
        case asked = "for a person to decide"
        case waits = "waits for the record's device"
    }

    /// Returns whether a server that began a new history does not know yet if the record is deleted, because its device has not connected
    /// yet.
    func waitsForMaker(_ verdict: PushResult.Verdict) -> Bool {
        guard case .retry(let problem, _) = verdict else { return false }
        return problem?.code == "dependency-missing"
    }

    /// Pushes an update on an old base.
    private func changed(
        _ id: RecordID, base: Int64, _ headers: [(String, String?)], member: String?
    ) async throws -> Ending {
        let verdict = try await verdicts([mutation(.update, id, ["n": 2], base: base)], changed: headers)[0].verdict
        let seen = try await stored(id)?.record.data
        switch verdict {
        case .accepted:
            try require(
                seen?["n"]?.int == 2,
                "the change was accepted, and the listing has \(seen.map { JSON.object($0).json } ?? "no such record")")
            if let member {
                try require(seen?[member] != nil, "it came back as \(seen.map { JSON.object($0).json } ?? "nothing"), without \(member)")
            }
            return .there
        case .rejected(let problem, _) where problem.code == "deleted":
            try require(seen == nil, "the change was refused as deleted, and the record is listed")
            return .gone
        case .conflict(let fields, _) where fields == [HubMerge.wholeRecord]: return .asked
        case .retry where waitsForMaker(verdict):
            try require(seen == nil, "the change has to wait, and the record is listed")
            return .waits
        default: throw Deviation(word(verdict))
        }
    }

    private func deleted(_ id: RecordID, base: Int64) async throws -> Ending {
        let verdict = try await verdict(mutation(.delete, id, base: base))
        let seen = try await stored(id)?.record
        switch verdict {
        case .accepted(_, _, let shown, let merged):
            guard let seen else { return .gone }
            try require(
                merged == [HubMerge.wholeRecord] && shown?.data == seen.data,
                "the record is there after its deletion was accepted, and the answer does not say so")
            return .there
        case .conflict(let fields, _) where fields == [HubMerge.wholeRecord]: return .asked
        default: throw Deviation(word(verdict))
        }
    }
}
