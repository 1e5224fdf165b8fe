package import SyncCore

/// Maps secrets to devices. Only hashes are stored; a token is shown once, when it is created.
///
/// A token is 32 random bytes, so a plain SHA-256 is enough: there is nothing to guess. The book is a small text file of one JSON object a
/// line. Each change replaces it as a whole, and the server reads it again when it changes. It is no table of an SQLite database, because
/// adding a token while the server runs would make a second writer there.
package struct TokenBook: Sendable, Hashable {
    package struct Entry: Sendable, Hashable {
        package var device: DeviceID
        /// SHA-256 of the token's text.
        package var hash: [UInt8]
        package var createdAt: Timestamp
        /// Time of the revocation. A revoked token blocks its bearer for good, with an answer that says so.
        package var revokedAt: Timestamp?
        /// Time from which it is refused; `nil`: it does not expire.
        package var endsAt: Timestamp?
        /// The purpose of the token.
        package var use = Use.device
        /// Hash of the token that it replaces, until this one is shown. Until then the other one stays valid, so that a lost answer locks
        /// no device out.
        package var replaces: [UInt8]?
        /// An operator created it, and no device has shown it yet.
        package var isSpare = false
        /// Time until which an operator lets its device return with it, although it has expired.
        package var readmittedUntil: Timestamp?
        /// The scopes, roles and groups of the device, with those that were taken back; only where ``use`` says so.
        package var grants: [Grant] = []
        /// Grants of the device that were taken back are no longer among ``grants``, because there were too many.
        package var hasDroppedGrants = false

        package enum Use: String, Sendable, Hashable {
            /// Authenticates the device.
            case device
            /// Is exchanged for a device token, once.
            case enrolment
            /// Is no token: the entry has the grants of the device, and no secret leads to it.
            case grants
        }

        /// Time at which a device should request the next one: after four fifths of its life (PROTOCOL A10).
        package var refreshAt: Timestamp? {
            endsAt.map { createdAt.advanced(by: createdAt.duration(to: $0) * 4 / 5) }
        }

        /// `true` when a device has shown it, as far as is known. Entries of earlier versions do not say, and count as shown.
        var wasShown: Bool { use == .device && replaces == nil && !isSpare }

        /// A secret leads to it.
        package var isToken: Bool { use != .grants }

        /// `true` when its first use must be recorded (``TokenBook/confirm(_:at:)``).
        var awaitsFirstUse: Bool { replaces != nil || isSpare }

        package func isOver(at now: Timestamp) -> Bool { endsAt.map { $0 <= now } ?? false }

        /// The first 8 hexadecimal digits of the hash: enough to tell two tokens apart, too little to be of use.
        package var name: String { String(hexText(hash).prefix(8)) }
    }

    package private(set) var entries: [Entry] = []
    /// Entries by the first 8 bytes of the hash.
    private var places: [UInt64: [Int]] = [:]

    package init() {}

    // MARK: Changing

    /// - Parameter life: `nil`: it does not expire.
    /// - Returns: The token, which is stored nowhere else.
    package mutating func add(
        _ device: DeviceID, _ use: Entry.Use = .device, life: Duration? = nil, replacing old: [UInt8]? = nil, at now: Timestamp,
        using random: inout some RandomNumberGenerator
    ) -> String {
        var secret: [UInt8] = []
        for _ in 0..<4 { withUnsafeBytes(of: random.next()) { secret.append(contentsOf: $0) } }
        let token = (use == .device ? "est_" : DeviceMessages.enrolmentPrefix) + Base64URL.encode(secret)
        append(
            Entry(
                device: device, hash: SHA256.hash(Array(token.utf8)), createdAt: now, revokedAt: nil,
                endsAt: life.map { now.advanced(by: $0) }, use: use, replaces: old, isSpare: use == .device && old == nil))
        return token
    }

    /// Issues a token in place of one that was shown, for an enrolment or a refresh. Earlier replacements of it that no device has shown
    /// are removed.
    package mutating func issue(
        for old: Entry, life: Duration?, at now: Timestamp, using random: inout some RandomNumberGenerator
    ) -> String {
        entries.removeAll { $0.replaces == old.hash }
        // Entries that expired long ago are dropped. Revoked tokens are kept, and the last token of a silent device is kept for much
        // longer.
        let forgotten = now.advanced(by: .zero - Self.memory)
        let forgottenLast = now.advanced(by: .zero - Self.memoryOfLast)
        let newest = newestOfDevices
        entries.removeAll { entry in
            guard entry.revokedAt == nil, entry.hash != old.hash else { return false }
            return entry.isOver(at: entry.createdAt == newest[entry.device] ? forgottenLast : forgotten)
        }
        index()
        return add(old.device, life: life, replacing: old.hash, at: now, using: &random)
    }

    /// Records that a token was shown for the first time: its bearer has it for good. The token that it replaces ends. A device token ends
    /// with a day's grace, for a device whose disk went back to it.
    package mutating func confirm(_ entry: Entry, at now: Timestamp) {
        guard entry.awaitsFirstUse, let place = entries.firstIndex(where: { $0.hash == entry.hash }) else { return }
        entries[place].replaces = nil
        entries[place].isSpare = false
        for index in entries.indices where entries[index].device == entry.device { entries[index].readmittedUntil = nil }
        guard let old = entry.replaces, let before = entries.firstIndex(where: { $0.hash == old }) else { return }
        let end = entries[before].use == .device ? now.advanced(by: Self.grace) : now
        entries[before].endsAt = min(entries[before].endsAt ?? end, end)
    }

    package static let grace: Duration = .seconds(86_400)
    private static let memory: Duration = .seconds(30 * 86_400)
    private static let memoryOfLast: Duration = .seconds(1_095 * 86_400)

    /// Lets a device return whose tokens have expired. It may use the newest of them that it has shown, because an older one may be a copy.
    /// It may also use one that was issued and not shown yet: it is unknown which of them the device has.
    ///
    /// - Returns: `true` when it has such a token.
    package mutating func readmit(_ device: DeviceID, until end: Timestamp, at now: Timestamp) -> Bool {
        let ended = entries.indices.filter { index in
            let entry = entries[index]
            return entry.device == device && entry.use == .device && entry.revokedAt == nil && entry.isOver(at: now)
        }
        // If two were created at the same time, the second one counts.
        let newest = ended.filter { entries[$0].wasShown }.max { (entries[$0].createdAt, $0) < (entries[$1].createdAt, $1) }
        for index in ended { entries[index].readmittedUntil = index == newest || entries[index].awaitsFirstUse ? end : nil }
        return !ended.isEmpty
    }

    /// The creation time of the newest token that each device has shown.
    private var newestOfDevices: [DeviceID: Timestamp] {
        var newest: [DeviceID: Timestamp] = [:]
        for entry in entries where entry.wasShown {
            newest[entry.device] = max(newest[entry.device] ?? entry.createdAt, entry.createdAt)
        }
        return newest
    }

    /// - Returns: The number of tokens of the device that were valid until now.
    package mutating func revoke(_ device: DeviceID, at now: Timestamp) -> Int {
        var count = 0
        for index in entries.indices
        where entries[index].device == device && entries[index].revokedAt == nil && entries[index].use != .grants {
            entries[index].revokedAt = now
            count += 1
        }
        return count
    }

    private mutating func index() {
        places = [:]
        for (place, entry) in entries.enumerated() { places[TokenBook.place(entry.hash), default: []].append(place) }
    }

    /// Adds an entry, or replaces the one with its hash.
    mutating func replace(_ entry: Entry) {
        guard let place = entries.firstIndex(where: { $0.hash == entry.hash }) else { return append(entry) }
        entries[place] = entry
    }

    private mutating func append(_ entry: Entry) {
        places[TokenBook.place(entry.hash), default: []].append(entries.count)
        entries.append(entry)
    }

    // MARK: Queries

    /// The entry of a token. The comparison takes the same time wherever two hashes differ.
    package func find(_ token: String) -> Entry? { find(hash: SHA256.hash(Array(token.utf8))) }

    func find(hash: [UInt8]) -> Entry? {
        let candidates = places[TokenBook.place(hash)] ?? []
        return candidates.first { constantTimeEqual(entries[$0].hash, hash) }.map { entries[$0] }
    }

    /// Returns whether an expired token may still request the next one. A device that was silent for longer than its token's life can
    /// therefore return by itself. The token must be the last that the device has shown: an older one may be a copy.
    ///
    /// - Parameter grace: Time after its end in which it may.
    package func mayReturn(_ entry: Entry, within grace: Duration, at now: Timestamp) -> Bool {
        guard entry.use == .device, entry.revokedAt == nil, let end = entry.endsAt, end <= now else { return false }
        if let until = entry.readmittedUntil, until > now { return true }
        guard end.advanced(by: grace) > now else { return false }
        return newestOfDevices[entry.device].map { $0 <= entry.createdAt } ?? true
    }

    /// Returns whether all tokens of a device were revoked. It is then refused, also with a certificate.
    package func isBlocked(_ device: DeviceID) -> Bool {
        let its = entries.filter { $0.device == device && $0.use == .device }
        return !its.isEmpty && its.allSatisfy { $0.revokedAt != nil }
    }

    private static func place(_ hash: [UInt8]) -> UInt64 {
        hash.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    // MARK: The file

    /// - Throws: ``HubError`` with the invalid line; a damaged book admits no device by accident.
    package init(reading text: String) throws(HubError) {
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() where !line.isEmpty {
            guard let entry = Entry(reading: String(line)) else {
                throw HubError(.badTokens, doing: "read the tokens", detail: "line \(number + 1) is not a token entry")
            }
            append(entry)
        }
    }

    package var text: String { entries.map { $0.line + "\n" }.joined() }

    // MARK: Rows

    /// Applies changes that were made elsewhere.
    ///
    /// - Parameter changes: Entries by hash; `nil` removes one.
    mutating func apply(_ changes: [[UInt8]: Entry?]) {
        var waiting = changes
        entries = entries.compactMap { entry in
            guard let change = waiting.removeValue(forKey: entry.hash) else { return entry }
            return change
        }
        entries += waiting.values.compactMap { $0 }.sorted { ($0.device, $0.createdAt) < ($1.device, $1.createdAt) }
        index()
    }

    /// The row changes that lead from an earlier book to this one, where entries are rows.
    func changes(since old: TokenBook) -> [[UInt8]: Entry?] {
        let (before, after) = (old.byHash, byHash)
        var changes: [[UInt8]: Entry?] = [:]
        for (hash, entry) in after where before[hash] != entry { changes[hash] = .some(entry) }
        for hash in before.keys where after[hash] == nil { changes[hash] = .some(nil) }
        return changes
    }

    private var byHash: [[UInt8]: Entry] { Dictionary(entries.map { ($0.hash, $0) }) { _, last in last } }
}

extension TokenBook.Entry {
    /// - Parameter line: One JSON object.
    /// - Returns: `nil` when it is invalid.
    init?(reading line: String) {
        // Every caller treats `nil` as damage: no book of tokens is used with a line left out.
        guard let object = (try? JSONReader.read(line))?.object, let device = object["device"]?.text.flatMap({ DeviceID($0) }),
            let hash = object["sha256"]?.text.flatMap({ hexBytes($0) }), hash.count == 32,
            let created = object["created_at"]?.text.flatMap({ RFC3339.timestamp($0) })
        else { return nil }
        let revoked = object["revoked_at"]?.text.flatMap { RFC3339.timestamp($0) }
        let ends = object["ends_at"]?.text.flatMap { RFC3339.timestamp($0) }
        let use = object["use"]?.text.map { Use(rawValue: $0) } ?? .device
        guard let use, ends != nil || object["ends_at"] == nil else { return nil }
        let grants = (object["grants"]?.array ?? []).map { TokenBook.Grant($0) }
        guard !grants.contains(nil) else { return nil }
        self.init(
            device: device, hash: hash, createdAt: created, revokedAt: revoked, endsAt: ends, use: use,
            replaces: object["replaces"]?.text.flatMap { hexBytes($0) }, isSpare: object["spare"]?.bool ?? false,
            readmittedUntil: object["readmitted_until"]?.text.flatMap { RFC3339.timestamp($0) }, grants: grants.compactMap { $0 },
            hasDroppedGrants: object["grants_dropped"]?.bool ?? false)
    }

    var line: String {
        var object: JSONObject = [
            "device": .string(device.text), "sha256": .string(hexText(hash)), "created_at": .string(createdAt.description),
        ]
        if let revokedAt { object["revoked_at"] = .string(revokedAt.description) }
        if let endsAt { object["ends_at"] = .string(endsAt.description) }
        if use != .device { object["use"] = .string(use.rawValue) }
        if let replaces { object["replaces"] = .string(hexText(replaces)) }
        if isSpare { object["spare"] = true }
        if let readmittedUntil { object["readmitted_until"] = .string(readmittedUntil.description) }
        if !grants.isEmpty { object["grants"] = .array(grants.map(\.json)) }
        if hasDroppedGrants { object["grants_dropped"] = true }
        return object.json
    }
}
