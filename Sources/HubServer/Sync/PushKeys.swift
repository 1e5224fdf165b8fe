import SyncCore

/// The idempotency keys of one push, with the fate of each mutation in this push or an earlier one (PROTOCOL A4).
struct PushKeys {
    private let device: DeviceID
    private let store: HubStore
    private var fates: [MutationKey: MutationFate] = [:]
    private var rows: [HubStore.KeyRow] = []
    /// Mutations that accepted ones replace, and the commit in which they did.
    private var superseded: [(key: MutationKey, version: Int64)] = []

    init(of device: DeviceID, in store: HubStore) {
        self.device = device
        self.store = store
    }

    func known(_ key: MutationKey) throws(DatabaseError) -> MutationFate? {
        if let fate = fates[key] { return fate }
        return try store.key(device, key).map { MutationFate(row: $0) }
    }

    /// Records the verdict about a mutation for its repeats, unless it is not final.
    ///
    /// - Parameter state: The record that a test build repeats later in place of the present one.
    mutating func recordFate(_ item: IncomingItem, _ verdict: PushResult.Verdict, _ ending: MutationFate.Ending, replaying state: JSON?) {
        var fate = MutationFate(fingerprint: item.fingerprint, ending: ending, version: 0, payload: nil)
        switch verdict {
        case .duplicate: return
        // The key belongs to another mutation, so that one's fate does not apply.
        case .rejected(let problem, _) where problem.code == "idempotency-mismatch": return
        // The answer is not final: the key is as unknown as before.
        case .retry:
            fates[item.key] = nil
            return
        case .accepted(let version, _, _, _): (fate.version, fate.payload) = (version, state)
        case .rejected(let problem, _): fate.payload = problem.json(prefix: Problem.hubPrefix)
        case .conflict(let fields, _): fate.payload = .list(fields)
        }
        fates[item.key] = fate
        if ending == .accepted, case .success(let mutation) = item.content {
            for older in mutation.supersedes {
                let fingerprint = fates[older]?.fingerprint ?? HubStore.unseen
                fates[older] = MutationFate(fingerprint: fingerprint, ending: .accepted, version: fate.version, payload: nil)
                superseded.append((older, fate.version))
            }
        }
        rows.append(
            HubStore.KeyRow(
                key: item.key, fingerprint: fate.fingerprint, seq: item.seq, status: fate.original, version: fate.version,
                payload: fate.payload?.json))
    }

    /// The caller commits.
    func write(at now: Timestamp) throws(DatabaseError) {
        for row in rows { try store.put(device, row, at: now) }
        for (key, version) in superseded { try store.putSuperseded(device, key, version: version, at: now) }
    }
}
