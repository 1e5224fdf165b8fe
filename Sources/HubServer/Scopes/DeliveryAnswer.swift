package import SyncCore

/// The answer to an operator's question why a device has a record, or lacks it.
package struct DeliveryAnswer: Hashable, Sendable {
    package let facts: DeliveryFacts
    /// The reasons, the most important one first. The device receives the record if none of them is against it.
    package let reasons: [Reason]

    package enum Reason: Hashable, Sendable {
        case scopeMatches(Scope)
        case noScopeFields
        case scopesDiffer
        /// The record has no value in any scope field.
        case noScopeValue
        case event
        case noRecord, deleted, damaged
        case unknownEntity
        case unknownDevice, noToken, tokenRevoked, tokenExpired
        case agentTooOld
    }

    package init(_ facts: DeliveryFacts) {
        self.facts = facts
        let ofRecord = DeliveryAnswer.ofRecord(facts)
        let ofDevice = DeliveryAnswer.ofDevice(facts)
        if ofDevice.contains(.unknownDevice), ofRecord.isFor || ofRecord == .scopesDiffer {
            // A device that the hub does not know has a mistyped name, so its scopes are no reason.
            reasons = ofDevice
        } else {
            reasons = ofRecord.isFor ? ofDevice + [ofRecord] : [ofRecord] + ofDevice
        }
    }

    package var isReceived: Bool { reasons.allSatisfy(\.isFor) }

    /// The device or the entity is none that the hub knows.
    package var namesAreUnknown: Bool { reasons.contains(.unknownDevice) || reasons.contains(.unknownEntity) }

    private static func ofRecord(_ facts: DeliveryFacts) -> Reason {
        if !facts.entity.isKnown { return .unknownEntity }
        if facts.entity.kind == .event { return .event }
        switch facts.stored {
        case .absent: return .noRecord
        case .deleted: return .deleted
        case .damaged: return .damaged
        case .present: break
        }
        if facts.entity.scope == nil { return .noScopeFields }
        if facts.scopes.isEmpty { return .noScopeValue }
        return facts.scopes.first { facts.share.includes($0) }.map { .scopeMatches($0) } ?? .scopesDiffer
    }

    private static func ofDevice(_ facts: DeliveryFacts) -> [Reason] {
        switch facts.standing {
        case .admitted: facts.keepingEntity == facts.record.entity && facts.entity.scope != nil ? [.agentTooOld] : []
        case .unknown: [.unknownDevice]
        case .noToken: [.noToken]
        case .revoked: [.tokenRevoked]
        case .expired: [.tokenExpired]
        }
    }

    // MARK: Progress

    /// The time since which the device is to have the record: that of its last change, or of the first grant that gives it to the device.
    /// Grants of settings and of records have no times.
    package var since: Timestamp? {
        let changed: Timestamp
        switch facts.stored {
        case .present(let change), .deleted(let change): changed = change.at
        case .absent, .damaged: return nil
        }
        guard facts.entity.scope != nil, !facts.scopes.contains(where: { $0.isOwn(of: facts.device) }) else { return changed }
        var granted: Timestamp?
        for grant in facts.grants {
            guard case .scope(let scope) = grant.right, facts.scopes.contains(scope) else { continue }
            guard case .command(let given) = grant.source else { return changed }
            granted = min(given.at, granted ?? given.at)
        }
        return max(changed, granted ?? changed)
    }

    /// Returns whether a request of the device was noted since then; `nil`: the record has no such time.
    package var hasConnectedSince: Bool? {
        since.map { since in facts.lastSeen.map { $0 >= since } ?? false }
    }

    // MARK: The next command

    /// A command that an operator may need next.
    package struct Step: Hashable, Sendable {
        package enum Place: String, Sendable {
            case hub, device
        }

        package var place: Place
        package var words: [String]
        /// The effect, for people.
        package var effect: String

        package init(_ words: [String], _ effect: String, at place: Place = .hub) {
            (self.place, self.words, self.effect) = (place, words, effect)
        }
    }

    /// The commands in the order of the reasons.
    package var next: [Step] { reasons.filter { isReceived || !$0.isFor }.map { step(after: $0) } }

    private func step(after reason: Reason) -> Step {
        let (device, entity, id) = (facts.device.text, facts.record.entity.text, facts.record.id.text)
        switch reason {
        case .scopeMatches, .noScopeFields:
            if hasConnectedSince != true {
                return Step(["agentctl", "status"], "on \(device): tells when it has synced last, and why not since", at: .device)
            }
            let fetch = facts.mayBeDropped ? ["--fetch"] : []
            return Step(["agentctl", "get"] + fetch + [entity, id], "on \(device)", at: .device)
        case .scopesDiffer:
            guard let scope = grantable else {
                return Step(["agenthub", "publish", entity, "FILE"], "with another value in the scope fields")
            }
            return Step(["agenthub", "grant", device, scope.description], "\(device) then receives all records with \(scope)")
        case .noScopeValue:
            return Step(["agenthub", "publish", entity, "FILE"], "with a value in \(fields(" or "))")
        case .event: return Step(["agenthub", "export", entity], "lists the events at the hub")
        case .noRecord: return Step(["agenthub", "devices", "--waiting"], "lists devices that may not have sent it yet")
        case .deleted: return Step(["agenthub", "publish", entity, "FILE"], "makes the record again")
        case .damaged: return Step(["agenthub", "publish", entity, "FILE"], "replaces the record")
        case .unknownEntity:
            guard let near = facts.entity.near else { return Step(["agenthub", "stats"], "lists the entities with records") }
            return Step(["agenthub", "why", device, "\(near)/\(id)"], "asks about the entity \(near)")
        case .unknownDevice:
            guard case .unknown(let near?) = facts.standing else { return Step(["agenthub", "devices"], "lists the devices") }
            return Step(["agenthub", "why", near.text, facts.record.description], "asks about the device \(near)")
        case .noToken: return Step(["agenthub", "token", "enrol", device], "makes a token with which the device joins")
        case .tokenRevoked: return Step(["agenthub", "token", "enrol", device], "lets the device join again")
        case .tokenExpired: return Step(["agenthub", "token", "readmit", device], "lets the device connect again")
        case .agentTooOld: return Step(["agenthub", "devices", device], "tells the version to update, and since when")
        }
    }

    /// The first scope of the record that a command can grant. One whose value is the id of a device cannot be granted, nor can one whose
    /// field has the name of another kind of grant.
    private var grantable: Scope? {
        facts.scopes.first { scope in
            !facts.namesOfDevices.contains(scope.value) && TokenBook.Grant.Kind(scope.description) == .scope(scope)
        }
    }

    /// The scope fields of the entity, as text.
    func fields(_ separator: String) -> String { (facts.entity.scope ?? []).joined(separator: separator) }
}

extension DeliveryAnswer.Reason {
    /// The device receives the record for this reason, if there is none against it.
    package var isFor: Bool {
        switch self {
        case .scopeMatches, .noScopeFields: true
        case .scopesDiffer, .noScopeValue, .event, .noRecord, .deleted, .damaged, .unknownEntity, .unknownDevice, .noToken, .tokenRevoked,
            .tokenExpired, .agentTooOld:
            false
        }
    }

    /// The name for programs.
    package var code: String {
        switch self {
        case .scopeMatches: "scope-matches"
        case .noScopeFields: "no-scope-fields"
        case .scopesDiffer: "scopes-differ"
        case .noScopeValue: "no-scope-value"
        case .event: "event"
        case .noRecord: "no-record"
        case .deleted: "deleted"
        case .damaged: "damaged"
        case .unknownEntity: "unknown-entity"
        case .unknownDevice: "unknown-device"
        case .noToken: "no-token"
        case .tokenRevoked: "token-revoked"
        case .tokenExpired: "token-expired"
        case .agentTooOld: "agent-too-old"
        }
    }
}
