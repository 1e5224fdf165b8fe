package import SyncCore

extension DeliveryAnswer {
    /// The answer for people.
    package var lines: [String] {
        func rows(_ name: String, _ texts: [String]) -> [String] {
            texts.enumerated().map { PlainText.safe(PlainText.padded($0 == 0 ? name : "", to: 9) + $1) }
        }
        func rows(_ name: String, _ text: String?) -> [String] { rows(name, text.map { [$0] } ?? []) }
        return rows("record", recordText) + rows("scopes", scopesText) + rows("device", deviceText) + rows("has", grantTexts)
            + rows("had", takenBackTexts) + rows("asked", askedText) + rows("keep", keepText)
            + rows("verdict", reasons.map { text(of: $0) })
            + rows("next", next.map { "\(ShellWords.line($0.words))  # \($0.effect)" })
    }

    // MARK: The record

    private var recordText: String {
        switch facts.stored {
        case .absent: "\(facts.record), not at the hub"
        case .present(let change): "\(facts.record), version \(change.version), changed \(text(of: change))"
        case .deleted(let change): "\(facts.record), version \(change.version), deleted \(text(of: change))"
        case .damaged(let version, _): "\(facts.record), version \(version), damaged"
        }
    }

    private func text(of change: DeliveryFacts.Change) -> String {
        "\(change.at) by \(change.writer)" + (change.author.map { " (\($0))" } ?? "")
    }

    private var scopesText: String? {
        // The scopes of events say who may write them.
        if !facts.entity.isKnown || facts.entity.kind == .event { return nil }
        guard let scope = facts.entity.scope else { return "none, because \(facts.record.entity) has no scope fields" }
        if !facts.scopes.isEmpty { return facts.scopes.map(\.description).joined(separator: ", ") }
        return "none; \(scope.count == 1 ? "the scope field" : "the scope fields") of \(facts.record.entity): \(fields(", "))"
    }

    // MARK: The device

    private var deviceText: String {
        let seen = facts.lastSeen.map { "last contact \($0)" } ?? "has never connected"
        let token =
            switch facts.standing {
            case .admitted: ""
            case .unknown: "unknown, "
            case .noToken: "no token, "
            case .revoked: "token revoked, "
            case .expired: "token expired, "
            }
        return "\(facts.device), \(token)\(seen)"
    }

    /// One line for each place that grants come from. The places that give the record to the device come first.
    private var grantTexts: [String] {
        var places: [(place: String, rights: [String], isNeeded: Bool)] = []
        var indexes: [String: Int] = [:]
        for grant in facts.grants {
            let place = (grant.group.map { "by group=\($0) " } ?? "") + grant.source.description
            let index = indexes[place] ?? places.count
            if index == places.count { places.append((place, [], false)) }
            indexes[place] = index
            places[index].rights.append(grant.right.description)
            if case .scope(let scope) = grant.right, facts.scopes.contains(scope) { places[index].isNeeded = true }
        }
        let sorted = places.filter(\.isNeeded) + places.filter { !$0.isNeeded }
        var texts = sorted.prefix(DeliveryAnswer.shownMax).map { place in
            let more = place.rights.count - DeliveryAnswer.shownMax
            let shown = place.rights.prefix(DeliveryAnswer.shownMax).joined(separator: ", ")
            return "\(shown)\(more > 0 ? " and \(more) more" : "")  \(place.place)"
        }
        if sorted.count > texts.count { texts.append("and more; to list all: agenthub grants \(facts.device)") }
        let own = (facts.entity.scope ?? []).map { Scope($0, facts.device.text).description }
        if !own.isEmpty, !namesAreUnknown { texts.append("\(own.joined(separator: ", "))  by its id") }
        return texts.isEmpty ? ["no grants"] : texts
    }

    private var takenBackTexts: [String] {
        if !reasons.contains(.scopesDiffer) { return [] }
        return facts.takenBack.suffix(DeliveryAnswer.shownMax).map { "\($0.kind)  \($0.history)" }
    }

    /// Largest number of places of grants, and of the grants of a place, that are shown.
    private static let shownMax = 8

    private var askedText: String? {
        guard isReceived || reasons == [.deleted], let since = hasConnectedSince else { return nil }
        guard facts.lastSeen != nil else { return "no: the device has never connected" }
        let unit = reasons == [.deleted] ? "deletion" : self.since == changedAt ? "last change" : "grant"
        return since
            ? "probably: the last contact was after the \(unit). The hub notes greetings and pushes, and no pulls"
            : "unknown: the last contact was before the \(unit). The hub notes greetings and pushes, and no pulls"
    }

    private var changedAt: Timestamp? {
        switch facts.stored {
        case .present(let change), .deleted(let change): change.at
        case .absent, .damaged: nil
        }
    }

    private var keepText: String? {
        guard isReceived, facts.mayBeDropped, let keep = facts.entity.keep else { return nil }
        return "the device may have dropped the document, because the record is older than \(PlainText.count(keep.days, "day"))"
    }

    // MARK: The verdict

    private func text(of reason: Reason) -> String {
        let (device, record, entity) = (facts.device, facts.record, facts.record.entity)
        func meant(_ near: String?) -> String { near.map { " (did you mean \($0)?)" } ?? "" }
        switch reason {
        case .scopeMatches(let scope):
            return "\(device) \(receives) it, because the record and the device have \(scope)"
        case .noScopeFields: return "\(device) \(receives) it, because every device receives all records of \(entity)"
        case .scopesDiffer:
            let devices = facts.scopes.filter { facts.namesOfDevices.contains($0.value) }
            let owners = Set(devices.map(\.value)).sorted { precedesInBytes($0, $1) }.joined(separator: ", ")
            let hint = devices.count == facts.scopes.count ? "; they belong to \(owners), because their values are ids of devices" : ""
            return "\(device) does not receive it, because none of the record's scopes is one of the device's\(hint)"
        case .noScopeValue: return "no device receives it, because the record has no value in \(fields(" or "))"
        case .event: return "no device receives it, because \(entity) are events, which go from devices to the hub only"
        case .noRecord:
            guard case .absent(forgetsDeletions: true) = facts.stored else {
                return "the hub has no record \(record), and has deleted none of this name"
            }
            return "the hub has no record \(record); it may have been deleted, because older deletions of \(entity) are forgotten"
        case .deleted: return "the record was deleted; a device that has it removes it with its next pull"
        case .damaged:
            guard case .damaged(_, let detail) = facts.stored else { preconditionFailure("damage without a damaged record") }
            return "no device receives it, because the hub cannot read the record: \(detail)"
        case .unknownEntity: return "the hub knows no entity \(entity)\(meant(facts.entity.near?.text))"
        case .unknownDevice:
            guard case .unknown(let near) = facts.standing else { preconditionFailure("an unknown device that is known") }
            return "the hub does not know the device \(device)\(meant(near?.text))"
        case .noToken:
            guard case .noToken(let end?) = facts.standing else { return "\(device) has no token and has never connected" }
            return "\(device) has never connected: it has an enrolment token until \(end) and has not used it"
        case .tokenRevoked: return "\(device) does not receive it, because its tokens were revoked"
        case .tokenExpired:
            guard case .expired(let end) = facts.standing else { preconditionFailure("an expired token that is valid") }
            return "\(device) does not receive it, because its token expired at \(end)"
        case .agentTooOld:
            return "\(device) gets no \(entity), because its agentd would keep records that have left its share; update agentd there"
        }
    }

    private var receives: String { isReceived ? "receives" : "would otherwise receive" }

    // MARK: For programs

    package var json: JSON {
        let (state, change) = stored
        let record: JSONObject = [
            "state": .string(state), "version": .optional(change?.version), "changed_at": .optional(change?.at.description),
            "changed_by": .optional(change?.writer.text), "author": .optional(change?.author),
            "scope_fields": facts.entity.scope.map { JSON.list($0) } ?? .null, "scopes": JSON.list(facts.scopes.map(\.description)),
        ]
        return [
            "device": .string(facts.device.text), "entity": .string(facts.record.entity.text), "id": .string(facts.record.id.text),
            "receives": .bool(isReceived), "verdict": .string(reasons[0].code),
            "reasons": .array(reasons.map { ["code": .string($0.code), "text": .string(text(of: $0))] }),
            "record": .object(record), "grants": .array(facts.grants.map { json(of: $0) }),
            "taken_back": .array(facts.takenBack.map { json(ofTakenBack: $0) }),
            "last_seen": .optional(facts.lastSeen?.description), "seen_since": hasConnectedSince.map { .bool($0) } ?? .null,
            "may_be_dropped": .bool(facts.mayBeDropped),
            "next": .array(
                next.map {
                    ["at": .string($0.place.rawValue), "command": .string(ShellWords.line($0.words)), "effect": .string($0.effect)]
                }),
        ]
    }

    private var stored: (state: String, change: DeliveryFacts.Change?) {
        switch facts.stored {
        case .absent: ("absent", nil)
        case .present(let change): ("present", change)
        case .deleted(let change): ("deleted", change)
        case .damaged: ("damaged", nil)
        }
    }

    /// All grants have the same members, which are those of `agenthub grants --json` as far as they are in force.
    private func json(of grant: DeliveryFacts.Grant) -> JSON {
        var object: JSONObject = ["grant": .string(grant.right.description), "source": .null, "group": .optional(grant.group)]
        for member in grant.source.json.members where !member.name.text.hasPrefix("revoked_") { object[member.name.text] = member.value }
        return .object(object)
    }

    private func json(ofTakenBack grant: TokenBook.Grant) -> JSON {
        [
            "grant": .string(grant.kind.description), "granted_at": .string(grant.at.description), "granted_by": .optional(grant.by),
            "revoked_at": .optional(grant.revokedAt?.description), "revoked_by": .optional(grant.revokedBy),
        ]
    }
}
