// The versions of schemas, which may change while the agent runs (PROTOCOL D7).
extension SyncState {
    /// The schemas have changed since the cycle began. Documents that it holds or has asked for are of the former version, and those of
    /// this device are not any more.
    var isOutOfDate: Bool { !ablations.contains(.newSchemasUnseen) && (cycle.map { $0.schemas != settings.schemas } ?? false) }

    /// Ends the cycle; the next one begins at once, and serves the same request. It settles the mutations that were sent.
    mutating func beginAnew() -> NextPhase {
        cycle?.outcome.error = "the versions of the schemas have changed"
        let request = cycle?.outcome.request
        trigger(.again(at: now.instant))
        handOn(request, because: .schemasChanged)
        if let request { trigger(.requested(isForced: request.isForced)) }
        return .close
    }

    /// The versions of the hub's schemas, where it has a newer one than this device; `nil`: it has none. Then it shows its documents in the
    /// version of this device, which may say less.
    var newerSchemas: SchemaNumbers? {
        guard let schemas = cycle?.facts.schemas, schemas.named.contains(where: { $1 > settings.schemas[$0] }) else { return nil }
        return schemas
    }

    /// The hub offers the settings with its newer schemas. Until this device has taken them over, it reads nothing.
    var mustLearnSchemas: Bool {
        guard newerSchemas != nil, let offered = cycle?.facts.config else { return false }
        return offered != settings.configVersion && offered != settings.refusedConfig
    }

    /// Notes in results that their documents may say less than those of the hub.
    func marked(_ results: [PushResult]) -> [PushResult] {
        guard let newerSchemas else { return results }
        return results.map { result in
            var result = result
            result.notes.newerSchemas = newerSchemas
            return result
        }
    }
}

extension CyclePhase {
    /// `true` when it holds mutations or documents, or positions that it reads from.
    var holdsDocuments: Bool {
        switch self {
        case .settling, .pulling, .pushing, .settingAside: true
        case .greeting, .adopting, .healing, .closing: false
        }
    }
}
