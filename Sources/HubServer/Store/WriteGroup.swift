import SyncCore

/// The rows that a transaction of many requests has read, and those that it will write with its last statements, one for each table.
///
/// A request works on a layer of its own. The layer becomes part of the group when the request is done, and is dropped when it fails: a
/// savepoint without a statement. A request that reads through ``HubStore`` sees all earlier changes as if they were written already.
final class WriteGroup {
    private(set) var done = Layer()
    var request = Layer()
    /// The newest commit number in the database.
    var head: Int64
    /// For a decision without the lock of the hub: the state that it rests on, and the rows as they were read.
    let basis: DecisionBasis?
    var facts: Facts?

    init(head: Int64, in spelling: SQLSpelling, basis: DecisionBasis? = nil) {
        self.head = head
        self.basis = basis
        facts = basis == nil ? nil : Facts(spelling)
    }

    func change(at now: Timestamp, _ body: (inout Layer) -> Void) {
        request.writes.at = now
        body(&request)
    }

    func keepRequest() {
        done.add(request)
        request = Layer()
    }

    func dropRequest() {
        request = Layer()
    }

    /// Removes and returns the rows to write; the rows that were read stay.
    func takeWrites() -> Writes {
        done.add(request)
        request = Layer()
        defer { done.writes = Writes() }
        return done.writes
    }

    // MARK: Reading

    func view(of device: DeviceID) -> HubStore.DeviceView? { request.seen.views[device] ?? done.seen.views[device] }
    /// `nil`: it was not read.
    func record(_ name: RecordName) -> HubStore.RecordRow?? { request.seen.records[name] ?? done.seen.records[name] }
    func key(_ name: KeyName) -> HubStore.KeyRow?? { request.seen.keys[name] ?? done.seen.keys[name] }
    func horizon(_ entity: EntityName) -> Int64? {
        request.seen.horizons[entity] ?? done.seen.horizons[entity] ?? (done.seen.knowsAllHorizons ? 0 : nil)
    }
    /// The changed links of a file, by record.
    func links(of digest: BlobDigest) -> [RecordName: FileLinkState] {
        var found: [RecordName: FileLinkState] = [:]
        for (link, state) in done.writes.links where link.digest == digest { found[link.record] = state }
        for (link, state) in request.writes.links where link.digest == digest { found[link.record] = state }
        return found
    }

    /// `nil`: it was not changed.
    func link(_ link: FileLink) -> FileLinkState? { request.writes.links[link] ?? done.writes.links[link] }
    /// `nil`: it was not read.
    func refusal(_ name: RefusalName) -> Int64?? {
        if let written = request.writes.refusals[name] ?? done.writes.refusals[name] { return .some(written) }
        return request.seen.refusals[name] ?? done.seen.refusals[name]
    }

    /// An earlier request of the group has changed grants, which are not written yet.
    var changesGrants: Bool { !done.writes.grants.isEmpty }

    /// Adds rows that were read before the first request.
    func readAhead(_ seen: Seen) {
        done.seen.add(seen)
        facts?.add(seen)
    }

    /// Only for a test build, which has deleted keys.
    func forgetKeys() {
        done.seen.keys = [:]
        request.seen.keys = [:]
    }

    struct Layer {
        var seen = Seen()
        var writes = Writes()

        fileprivate mutating func add(_ other: Layer) {
            seen.add(other.seen)
            writes.add(other.writes)
        }
    }

    /// Rows as the transaction sees them, its own writes included. A value of `nil`: there is no such row.
    struct Seen {
        var views: [DeviceID: HubStore.DeviceView] = [:]
        var records: [RecordName: HubStore.RecordRow?] = [:]
        var keys: [KeyName: HubStore.KeyRow?] = [:]
        var horizons: [EntityName: Int64] = [:]
        /// Versions of the refused creations, as they were before the group; `nil`: there is no such row.
        var refusals: [RefusalName: Int64?] = [:]
        /// An entity that is not among ``horizons`` has none.
        var knowsAllHorizons = false

        init() {}

        /// Nothing is known yet of these devices and databases, and they are about to be read.
        init(asking callers: [(device: DeviceID, replica: ReplicaID?)]) {
            for (device, replica) in callers {
                views[device, default: HubStore.DeviceView()].asked.formUnion(replica.map { [$0] } ?? [])
            }
        }

        fileprivate mutating func add(_ other: Seen) {
            views.add(other.views)
            records.add(other.records)
            keys.add(other.keys)
            horizons.add(other.horizons)
            refusals.add(other.refusals)
            knowsAllHorizons = knowsAllHorizons || other.knowsAllHorizons
        }
    }

    struct KeyName: Hashable, Comparable {
        var device: DeviceID
        var key: MutationKey

        static func < (a: KeyName, b: KeyName) -> Bool { a.device == b.device ? a.key < b.key : a.device < b.device }
    }

    struct RefusalName: Hashable, Comparable {
        var device: DeviceID
        var record: RecordName

        static func < (a: RefusalName, b: RefusalName) -> Bool { a.device == b.device ? a.record < b.record : a.device < b.device }
    }

    struct ReplicaName: Hashable, Comparable {
        var device: DeviceID
        var replica: ReplicaID

        static func < (a: ReplicaName, b: ReplicaName) -> Bool { a.device == b.device ? a.replica < b.replica : a.device < b.device }
    }

    /// The rows to write, each once.
    struct Writes {
        /// The time of the requests.
        var at = Timestamp(milliseconds: 0)
        /// The newest commit number, with the verdicts of these requests; `nil`: no number was given out.
        var head: Int64?
        var counters = HubCounters()
        private(set) var devices: [DeviceID: DeviceWrite] = [:]
        private(set) var replicas: [ReplicaName: ReplicaWrite] = [:]
        var records: [RecordName: [DatabaseValue]] = [:]
        var keys: [KeyName: HubStore.KeyRow] = [:]
        /// Keys that a later mutation replaces, with the commit in which it did.
        var superseded: [KeyName: HubStore.KeyRow] = [:]
        var losses: [[DatabaseValue]] = []
        var refusals: [RefusalName: Int64] = [:]
        var scopes: [ScopeName: ScopeWrite] = [:]
        /// The scopes that records grant: all of a record.
        var grants: [RecordName: [(device: DeviceID, scope: Scope)]] = [:]
        var links: [FileLink: FileLinkState] = [:]

        mutating func device(_ id: DeviceID, _ change: (inout DeviceWrite) -> Void) { change(&devices[id, default: DeviceWrite()]) }

        mutating func replica(_ device: DeviceID, _ id: ReplicaID, _ change: (inout ReplicaWrite) -> Void) {
            change(&replicas[ReplicaName(device: device, replica: id), default: ReplicaWrite()])
        }

        /// Adds the changes of a later request. Its values take the place of earlier ones.
        fileprivate mutating func add(_ other: Writes) {
            at = max(at, other.at)
            head = other.head ?? head
            counters.add(other.counters)
            devices.merge(other.devices) { $0.followed(by: $1) }
            replicas.merge(other.replicas) { $0.followed(by: $1) }
            records.add(other.records)
            keys.add(other.keys)
            superseded.add(other.superseded)
            losses += other.losses
            refusals.add(other.refusals)
            scopes.merge(other.scopes) { $0.followed(by: $1) }
            grants.add(other.grants)
            links.add(other.links)
        }
    }

    /// New information about a device; `nil`: nothing new.
    struct DeviceWrite {
        var seen = Timestamp(milliseconds: 0)
        var replica: ReplicaID?
        var agent: String?
        var platform: String?
        var config: Int64?
        var counters = HubCounters()
        var waiting: (count: Int64, at: Timestamp)?

        fileprivate func followed(by other: DeviceWrite) -> DeviceWrite {
            var both = self
            both.seen = max(seen, other.seen)
            both.replica = other.replica ?? replica
            both.agent = other.agent ?? agent
            both.platform = other.platform ?? platform
            both.config = other.config ?? config
            both.counters.add(other.counters)
            both.waiting = other.waiting ?? waiting
            return both
        }
    }

    struct ReplicaWrite {
        var seen = Timestamp(milliseconds: 0)
        var maxSeq: Int64 = 0
        var ackedSeq: Int64 = 0
        /// Added to the known returns.
        var returns: Int64 = 0

        fileprivate func followed(by other: ReplicaWrite) -> ReplicaWrite {
            ReplicaWrite(
                seen: max(seen, other.seen), maxSeq: max(maxSeq, other.maxSeq), ackedSeq: max(ackedSeq, other.ackedSeq),
                returns: returns + other.returns)
        }
    }
}

extension Dictionary {
    /// Adds the elements of another one. Its values take the place of earlier ones.
    fileprivate mutating func add(_ other: Dictionary) {
        if isEmpty { self = other } else { merge(other) { $1 } }
    }
}
