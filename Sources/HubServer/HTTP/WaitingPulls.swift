import SyncCore

/// The list of pulls that wait for news, as a value: it decides which of them are asked again, and when.
struct WaitingPulls {
    typealias ID = UInt64

    private struct Entry {
        var interest: PullInterest
        var until: Instant
    }

    private var entries: [ID: Entry] = [:]
    private var byDevice: [DeviceID: [ID]] = [:]
    /// Pulls by the tenth of a second in which their wait is over.
    private var ends: [Int64: [ID]] = [:]
    /// The state of the last look. All pulls of the list were answered from it, or from a later one.
    private(set) var seen: HubSight?

    /// Largest number of waiting pulls of one device. An agent has one; a few more may hang on connections that died unnoticed.
    static let deviceMax = 4

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    var all: [ID] { entries.keys.sorted() }

    /// Adds a pull.
    ///
    /// - Returns: The oldest pull of the same device, if it has too many. It is not on the list any more.
    mutating func add(_ id: ID, _ interest: PullInterest, until: Instant) -> ID? {
        if entries.isEmpty { seen = interest.sight }
        entries[id] = Entry(interest: interest, until: until)
        ends[WaitingPulls.tenth(until), default: []].append(id)
        byDevice[interest.device, default: []].append(id)
        guard let own = byDevice[interest.device], own.count > WaitingPulls.deviceMax else { return nil }
        remove(own[0])
        return own[0]
    }

    mutating func remove(_ id: ID) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        byDevice[entry.interest.device]?.removeAll { $0 == id }
        if byDevice[entry.interest.device]?.isEmpty == true { byDevice[entry.interest.device] = nil }
        let place = WaitingPulls.tenth(entry.until)
        ends[place]?.removeAll { $0 == id }
        if ends[place]?.isEmpty == true { ends[place] = nil }
        if entries.isEmpty { seen = nil }
    }

    /// Pulls whose wait is over, in the order of their ends.
    func due(at now: Instant) -> [ID] {
        let last = now.nanoseconds / WaitingPulls.tenth
        return ends.keys.filter { $0 <= last }.sorted().flatMap { ends[$0] ?? [] }
    }

    /// Scopes for which pulls wait, in each of these entities.
    func scopes(of entities: [EntityName]) -> [EntityName: Set<Int64>] {
        var asked: [EntityName: Set<Int64>] = [:]
        if entities.isEmpty { return asked }
        for entry in entries.values {
            for stream in entry.interest.streams where entities.contains(stream.entity) {
                asked[stream.entity, default: []].formUnion(stream.scopes ?? [])
            }
        }
        return asked
    }

    /// Pulls that may have news, in the order in which they came, after a look.
    ///
    /// - Parameter changes: The changes since ``seen``; `nil`: every device may get another answer.
    mutating func concerned(by changes: HubChanges?, _ sight: HubSight) -> [ID] {
        seen = sight
        guard let changes else { return all }
        return entries.filter { changes.concern($0.value.interest) }.keys.sorted()
    }

    private static let tenth: Int64 = 100_000_000

    /// Rounded up: no wait ends early.
    private static func tenth(_ instant: Instant) -> Int64 { instant.nanoseconds.saturatingAdd(tenth - 1) / tenth }
}
