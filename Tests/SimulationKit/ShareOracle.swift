import SyncCore

/// The rights of devices to see and change records, as plain as in PROTOCOL A16. It shares no code with the hub: no scopes of rules, rows,
/// codes or cursors.
///
/// A scope is a text such as `site=s1`. Facts of the database, which are records and the grants in them, go back with a backup. Grants of
/// operators and knowledge of devices do not.
struct ShareOracle {
    private struct Place: Hashable {
        /// Scopes of the record. A deleted record keeps its last ones.
        var scopes: Set<String>
        var isLive: Bool
        var since: Timestamp
    }

    /// Grants of operators, by device.
    private var granted: [Shares.Book: [DeviceID: Set<String>]] = [:]
    /// Sites of each group, and the groups that operators have given to each device.
    private var sitesOfGroups: [String: Set<String>] = [:]
    private var joined: [Shares.Book: [DeviceID: Set<String>]] = [:]
    /// Sites that a record grants, by device.
    private var assigned: [RecordName: [DeviceID: Set<String>]] = [:]
    private var places: [RecordName: Place] = [:]
    /// All past scopes of each device and of each record. They tell which records a device may have heard of.
    private var hadBefore: [DeviceID: Set<String>] = [:]
    private var wasIn: [RecordName: Set<String>] = [:]

    // MARK: What happens

    mutating func grant(_ site: String, to device: DeviceID, in book: Shares.Book, isGranted: Bool) {
        if isGranted {
            granted[book, default: [:]][device, default: []].insert(site)
            hadBefore[device, default: []].insert("site=" + site)
        } else {
            granted[book, default: [:]][device, default: []].remove(site)
        }
    }

    mutating func set(_ sites: Set<String>, of group: String) {
        sitesOfGroups[group] = sites
        recordGroups()
    }

    mutating func join(_ group: String, _ device: DeviceID, in book: Shares.Book, isMember: Bool) {
        if isMember {
            joined[book, default: [:]][device, default: []].insert(group)
        } else {
            joined[book, default: [:]][device, default: []].remove(group)
        }
        recordGroups()
    }

    private mutating func recordGroups() {
        for device in Shares.field { hadBefore[device, default: []].formUnion(sitesByGroups(device).map { "site=" + $0 }) }
    }

    private func sitesByGroups(_ device: DeviceID) -> Set<String> {
        Shares.Book.allCases.reduce(into: Set<String>()) { sites, book in
            for group in joined[book]?[device] ?? [] { sites.formUnion(sitesOfGroups[group] ?? []) }
        }
    }

    /// Notes the state of a record after a commit.
    ///
    /// - Parameters:
    ///   - document: Document of the record; `nil` if it is deleted or never existed.
    ///   - last: Document that the record had within the commit, which may have made and deleted it. A deletion is told in its scopes.
    mutating func recordDocument(_ name: RecordName, _ document: JSONObject?, after last: JSONObject? = nil, at now: Timestamp) {
        if name.entity == Shares.assignments {
            assigned[name] = document.map { Self.assignment($0) }
            for (device, sites) in assigned[name] ?? [:] { hadBefore[device, default: []].formUnion(sites.map { "site=" + $0 }) }
        }
        guard Shares.scoped.contains(name.entity) else { return }
        if let document {
            let scopes = Self.scopes(of: document)
            places[name] = Place(scopes: scopes, isLive: true, since: now)
            wasIn[name, default: []].formUnion(scopes)
        } else if let scopes = last.map({ Self.scopes(of: $0) }) ?? places[name].flatMap({ $0.isLive ? $0.scopes : nil }) {
            places[name] = Place(scopes: scopes, isLive: false, since: now)
            wasIn[name, default: []].formUnion(scopes)
        }
    }

    /// Removes deletions that are older than what the hub remembers.
    mutating func forget(before: Timestamp) {
        places = places.filter { $0.value.isLive || $0.value.since >= before }
    }

    /// Replaces the facts of the database by those of an older copy.
    mutating func goBack(to then: ShareOracle) {
        (places, assigned) = (then.places, then.assigned)
    }

    // MARK: Who sees what

    /// The sites of a device, by any grant.
    func sites(of device: DeviceID) -> Set<String> {
        if device == Shares.office || device == Shares.observer { return Set(Shares.sites) }
        let ofRecords = assigned.values.reduce(into: sitesByGroups(device)) { $0.formUnion($1[device] ?? []) }
        return Shares.Book.allCases.reduce(into: ofRecords) { $0.formUnion(granted[$1]?[device] ?? []) }
    }

    /// Tells if any record grants a site to any device.
    var hasGrantsOfRecords: Bool { assigned.values.contains { $0.values.contains { !$0.isEmpty } } }

    /// Tells if the document is in the share of the device.
    func includes(_ name: RecordName, _ document: JSONObject, _ device: DeviceID) -> Bool {
        !Shares.scoped.contains(name.entity) || isShared(Self.scopes(of: document), device)
    }

    /// Tells if the hub has or remembers the record while the device must not learn of it.
    func isHidden(_ name: RecordName, from device: DeviceID) -> Bool {
        places[name].map { !isShared($0.scopes, device) } ?? false
    }

    func isLive(_ name: RecordName) -> Bool { places[name]?.isLive == true }
    /// Tells if the hub has the record or remembers its deletion.
    func isKnown(_ name: RecordName) -> Bool { places[name] != nil }

    /// Tells if the device may have received the record at some time.
    func mayKnow(_ name: RecordName, _ device: DeviceID) -> Bool {
        let scopes = wasIn[name] ?? []
        return isShared(scopes, device) || !scopes.isDisjoint(with: hadBefore[device] ?? [])
    }

    /// Records of an entity in the scopes of the device, once for each scope.
    func total(of entity: EntityName, _ device: DeviceID) -> Int {
        places.reduce(0) { sum, place in
            guard place.key.entity == entity, place.value.isLive else { return sum }
            return sum + place.value.scopes.count { isShared([$0], device) }
        }
    }

    private func isShared(_ scopes: Set<String>, _ device: DeviceID) -> Bool {
        let sites = sites(of: device)
        return scopes.contains { scope in
            let value = scope.drop { $0 != "=" }.dropFirst()
            return value == device.text || scope.hasPrefix("site=") && sites.contains(String(value)) || device == Shares.observer
        }
    }

    // MARK: Who changes what

    enum Right: Hashable {
        case given, refused(String)
        /// The change leaves the document as it is, so both answers are allowed.
        case open
    }

    /// Tells if a device may turn one state of a record into another.
    ///
    /// - Parameters:
    ///   - old: State before; `nil` for no record.
    ///   - new: State after; `nil` for no record.
    func right(of device: DeviceID, to name: RecordName, from old: JSONObject?, to new: JSONObject?) -> Right {
        if name.entity == Shares.assignments { return ofAssignment(device, from: old, to: new) }
        guard Shares.scoped.contains(name.entity) else { return .given }
        let before = old.map { Self.scopes(of: $0) } ?? places[name]?.scopes
        if let before, !isShared(before, device) { return .refused("\(name) is of others") }
        if before == nil, new == nil { return .refused("there is no \(name)") }
        if let fault = fault(name, device, before, old, new) { return old == new ? .open : .refused(fault) }
        return .given
    }

    private func fault(_ name: RecordName, _ device: DeviceID, _ before: Set<String>?, _ old: JSONObject?, _ new: JSONObject?) -> String? {
        let own = "assignee=" + device.text
        if name.entity == Shares.jobs, let before, !before.contains(own) { return "\(name) is assigned to another device" }
        guard let new else { return nil }
        let after = Self.scopes(of: new)
        if after.isEmpty { return "\(name) would be in no scope" }
        if let foreign = after.subtracting(before ?? []).sorted().first(where: { !isShared([$0], device) }) {
            return "\(foreign) is not a scope of the device"
        }
        if name.entity == Shares.jobs, before == nil, !after.contains(own) { return "\(name) would be assigned to another device" }
        if name.entity == Shares.orders, old?["price"] != new["price"], device != Shares.office { return "the office sets the price" }
        return nil
    }

    private func ofAssignment(_ device: DeviceID, from old: JSONObject?, to new: JSONObject?) -> Right {
        if device == Shares.office || old?["device"] == new?["device"] && old?["site"] == new?["site"] { return .given }
        return .refused("the office alone assigns")
    }

    // MARK: Documents

    static func scopes(of document: JSONObject) -> Set<String> {
        Set(["site", "assignee"].flatMap { field in texts(document[field]).map { "\(field)=\($0)" } })
    }

    private static func assignment(_ document: JSONObject) -> [DeviceID: Set<String>] {
        var given: [DeviceID: Set<String>] = [:]
        for device in texts(document["device"]) { given[DeviceID(trusted: device), default: []].formUnion(texts(document["site"])) }
        return given
    }

    private static func texts(_ value: JSON?) -> [String] { value.map { ($0.array ?? [$0]).compactMap(\.text) } ?? [] }
}
