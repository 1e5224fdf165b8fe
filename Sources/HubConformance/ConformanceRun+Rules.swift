import SyncCore

// The effects of operations on a document, for any rules of the entity (PROTOCOL D2).
extension ConformanceRun {
    func checkRules() async {
        await checkExtremes()
        await checkMembers()
        await checkSets()
        await checkStamps()
    }

    private func checkExtremes() async {
        let id = newRecord()
        var version: Int64 = 0
        await check("push-max-kept", "D2", "A max that does not beat what is there changes nothing, and the verdict says what was kept.") {
            version = try await accept(mutation(.create, id, ["peak": 7]))
            version = try await kept(["peak": 7], by: operated(id, [("peak", "max", 1)], base: version))
            try await require("peak", of: id, "7")
            version = try await kept([:], by: operated(id, [("peak", "max", 9)], base: version))
            try await require("peak", of: id, "9")
            return "kept, then raised"
        }
        await check("push-max-reset", "D2", "A removal comes before the operations of its mutation: so a max begins anew.") {
            guard version > 0 else { throw NotTried("the create failed") }
            var reset = operated(id, [("peak", "max", 1)], base: version)
            reset["unset"] = ["peak"]
            _ = try await kept([:], by: reset)
            try await require("peak", of: id, "1")
            return "peak is 1"
        }
    }

    private func checkMembers() async {
        await check(
            "push-op-member", "D2",
            "An operation on a name with a dot changes that member, or is refused, or changes a field of that very name."
        ) {
            let id = newRecord()
            let version = try await accept(mutation(.create, id, ["part": ["count": 1]]))
            let verdict = try await verdict(operated(id, [("part.count", "inc", 1)], base: version))
            let data = try await stored(id)?.record.data ?? [:]
            let (member, field) = (data["part"]?.object?["count"]?.json ?? "gone", data["part.count"]?.json ?? "none")
            let seen = "\(word(verdict)), and part.count is \(member) as a member and \(field) as a field"
            switch verdict {
            case .rejected(let problem, _):
                try require(
                    problem.code == "validation" && problem.errors.map(\.pointer) == ["/ops/0/field"],
                    "rejected without the pointer /ops/0/field")
                try require((member, field) == ("1", "none"), seen)
                return "refused"
            case .accepted:
                try require((member, field) == ("2", "none") || (member, field) == ("1", "1"), seen)
                return field == "none" ? "the member" : "a field of that name"
            default: throw Deviation(seen)
            }
        }
    }

    private func checkSets() async {
        await check(
            "push-set-unseen", "D2",
            "A removal does not take out of a set what another device added unseen, with an update or with a create."
        ) {
            let other = try other()
            let id = newRecord()
            let seen = try await accept(mutation(.create, id, ["n": 1]))
            let added = try await accept(operated(id, [("marks", "add", "x"), ("marks", "add", "y")], base: seen))
            try await accept(operated(id, [("marks", "remove", "x")], base: seen), from: other)
            try await require("marks", of: id, "[\"x\",\"y\"]")
            var create = operated(id, [("marks", "remove", "y")], base: 0)
            create["action"] = "create"
            create["data"] = ["n": 1]
            try await accept(create, from: other)
            try await require("marks", of: id, "[\"x\",\"y\"]")
            try await accept(operated(id, [("marks", "remove", "x")], base: added), from: other)
            try await require("marks", of: id, "[\"y\"]")
            return "both stay; what was seen goes"
        }
    }

    private func checkStamps() async {
        await check(
            "push-field-stamps", "D5",
            "A field that was written earlier than the rest of its mutation is compared by its own stamp (field_hlc)."
        ) {
            let other = try other()
            let id = newRecord()
            let seen = try await accept(mutation(.create, id, ["l": 1, "k": 1]))
            try await accept(mutation(.update, id, ["l": 2], base: seen), from: other)
            let later = try await accept(mutation(.update, id, ["l": 3], base: seen))
            guard try await stored(id)?.record.data["l"]?.json == "3" else { throw NotTried("the later change does not win here") }
            try await accept(mutation(.update, id, ["k": 2], base: later), from: other)
            // Taken from a mutation that is not sent.
            let early = mutation(.update, id, ahead: .seconds(-60))["hlc"]
            var joined = mutation(.update, id, ["k": 3, "m": 3], base: later)
            joined["field_hlc"] = ["k": early ?? .null]
            try await accept(joined)
            try await require("k", of: id, "2")
            try await require("m", of: id, "3")
            return "the other one's later value stays"
        }
        await check("push-same-later", "D5", "A value that is written again later, as it is there already, is the last word.") {
            let other = try other()
            let id = newRecord()
            let seen = try await accept(mutation(.create, id, ["l": 1], ahead: .seconds(-120)))
            try await accept(mutation(.update, id, ["l": 2], base: seen, ahead: .seconds(-60)), from: other)
            let theirs = try await stored(id)?.record.version ?? seen
            let mine = try await accept(mutation(.update, id, ["l": 3], base: seen, ahead: .seconds(-50)))
            try await accept(mutation(.update, id, ["l": 4], base: theirs, ahead: .seconds(-55)), from: other)
            guard try await stored(id)?.record.data["l"] == 3 else { throw NotTried("the later change does not win here") }
            try await accept(mutation(.update, id, ["l": 3, "again": 1], base: theirs, ahead: .seconds(-40)), from: other)
            try await accept(mutation(.update, id, ["l": 5], base: mine, ahead: .seconds(-45)))
            try await require("l", of: id, "3")
            return "it counts"
        }
        await check("push-respelled", "D6", "A value that is spelled anew and means the same is stored as it was written last.") {
            let id = newRecord()
            let seen = try await accept(mutation(.create, id, ["v": try JSONReader.read("1.5")]))
            try await accept(mutation(.update, id, ["v": try JSONReader.read("1.50")], base: seen))
            try await require("v", of: id, "1.50")
            return "1.50"
        }
        await check("push-member-stamps", "D5", "A member of a merged object is compared by its own stamp, not by that of its field.") {
            let other = try other()
            let id = newRecord()
            let seen = try await accept(mutation(.create, id, ["part": ["size": 1, "count": 0]], ahead: .seconds(-120)))
            func sized(_ size: JSON, _ ahead: Duration) -> JSONObject {
                var sized = mutation(.update, id, ["part": ["size": size, "count": 0]], base: seen, ahead: ahead)
                sized["base"] = ["part": ["size": 1, "count": 0]]
                return sized
            }
            try await accept(sized(2, .seconds(-60)))
            // The field is as new as this mutation; the size is not.
            guard case .accepted = try await verdict(operated(id, [("part.count", "inc", 1)], base: seen)),
                try await stored(id)?.record.data["part"] == ["size": 2, "count": 1]
            else { throw NotTried("members are not merged here") }
            try await accept(sized(3, .seconds(-30)), from: other)
            try await require("part", of: id, "{\"size\":3,\"count\":1}")
            return "the later size stays, and the count as well"
        }
    }

    // MARK: Parts

    private func operated(_ id: RecordID, _ operations: [(field: String, kind: String, value: JSON)], base: Int64) -> JSONObject {
        var mutation = mutation(.update, id, base: base)
        mutation["ops"] = .array(operations.map { ["field": .string($0.field), "op": .string($0.kind), "value": $0.value] })
        return mutation
    }

    /// - Returns: The version.
    private func kept(_ expected: JSONObject, by mutation: JSONObject) async throws -> Int64 {
        let result = try await verdicts([mutation])[0]
        guard case .accepted(let version, _, _, _) = result.verdict else { throw Deviation("\(word(result.verdict)), not accepted") }
        let (seen, wanted) = (JSON.object(result.notes.kept).json, JSON.object(expected).json)
        try require(result.notes.kept == expected, "kept is \(seen), not \(wanted)")
        return version
    }

    private func require(_ field: String, of id: RecordID, _ expected: String) async throws {
        let seen = try await stored(id)?.record.data[field]?.json ?? "gone"
        try require(seen == expected, "\(field) is \(seen), not \(expected)")
    }

    /// Pushes one mutation with the header fields of another device.
    private func accept(_ mutation: JSONObject, from other: [(String, String?)]) async throws {
        let body: JSON = ["acked_seq": 0, "max_sent_seq": .int(lastSeq), "mutations": [.object(mutation)]]
        let response = try await post("/v1/sync/push", body, changed: other)
        let verdict = try PushMessages.readResponse(try self.body(response)).results.first?.verdict
        guard case .accepted(let version, _, _, _)? = verdict, let id = mutation["record_id"]?.text.flatMap({ RecordID($0) }) else {
            throw Deviation((verdict.map { word($0) } ?? "no verdict") + ", not accepted")
        }
        records[id] = version
    }
}
