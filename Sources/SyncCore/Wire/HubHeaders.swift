/// Names of the header fields of the sync protocol (PROTOCOL A1).
package enum HubHeader {
    package static let version = "Sync-Version"
    /// The spelling that some clients send; many proxies drop names with underscores, so it is never the only one.
    package static let versionUnderscored = "sync_version"
    package static let versions = "Sync-Versions"
    package static let device = "Sync-Device"
    package static let replica = "Sync-Replica"
    package static let session = "Sync-Session"
    package static let config = "Sync-Config"
    package static let waiting = "Sync-Waiting"
    package static let can = "Sync-Can"
    package static let time = "Sync-Time"
    package static let epoch = "Sync-Epoch"
    package static let head = "Sync-Head"
    package static let deviceSeq = "Sync-Device-Seq"
    package static let receipt = "Sync-Receipt"
    package static let scopes = "Sync-Scopes"
    package static let schema = "Schema"
    package static let probe = "Sync-Probe"
    package static let twins = "Sync-Twins"
    package static let tokenEnds = "Sync-Token-Ends"
    package static let tokenRefresh = "Sync-Token-Refresh"
    package static let retryAfter = "Retry-After"
    package static let rateLimit = "RateLimit"

    /// The version of the wire format in this code.
    package static let currentVersion = 1
    package static let supportedVersions = [1]
}

/// The values that an agent sends with every request, besides its credential.
package struct HubRequestHeaders: Hashable, Sendable {
    /// The value as sent; `nil` when the header is missing.
    package var version: String?
    package var device: DeviceID?
    package var replica: ReplicaID?
    /// One per cycle; links the logs of both sides. Visible ASCII, at most 64 characters; other values are dropped.
    package var session: String?
    package var config: Int64?
    /// The history of the hub that a push is meant for.
    package var epoch: String?
    /// Number of mutations that wait on the device for this hub, including those of this request; only for the hub's operator.
    package var waiting: Int64?
    /// The newest ``Receipt`` of this hub, unchanged.
    package var receipt: String?
    /// The versions of the schemas in which the device writes and reads.
    package var schemas = SchemaNumbers()
    /// The abilities of the sender. They are those of this program, unless a test plays an older agent.
    package var abilities = AgentAbility.all

    package init(
        version: String? = String(HubHeader.currentVersion), device: DeviceID? = nil, replica: ReplicaID? = nil,
        session: String? = nil, config: Int64? = nil, epoch: String? = nil, waiting: Int64? = nil, receipt: String? = nil
    ) {
        self.receipt = receipt
        self.waiting = waiting
        self.epoch = epoch
        self.version = version
        self.device = device
        self.replica = replica
        self.session = session
        self.config = config
    }

    package init(reading headers: HTTPHeaders) {
        version = headers[HubHeader.version] ?? headers[HubHeader.versionUnderscored]
        device = headers[HubHeader.device].flatMap { DeviceID($0) }
        replica = headers[HubHeader.replica].flatMap { ReplicaID($0) }
        session = headers[HubHeader.session].flatMap { Identifier<Never>($0)?.text }
        config = headers[HubHeader.config].flatMap { HubHeaders.number($0) }
        epoch = headers[HubHeader.epoch].flatMap { Identifier<Never>($0)?.text }
        waiting = headers[HubHeader.waiting].flatMap { HubHeaders.number($0) }
        receipt = headers[HubHeader.receipt].flatMap { Receipt.isCarried($0) ? $0 : nil }
        schemas = SchemaNumbers(reading: headers)
        abilities = headers[HubHeader.can].map { AgentAbility.read($0) } ?? []
    }

    /// The fields that ``init(reading:)`` reads.
    package static let names = [
        HubHeader.version, HubHeader.versionUnderscored, HubHeader.device, HubHeader.replica, HubHeader.session, HubHeader.config,
        HubHeader.epoch, HubHeader.waiting, HubHeader.receipt, HubHeader.schema, HubHeader.can,
    ]

    package func write(to headers: inout HTTPHeaders) {
        headers[HubHeader.epoch] = epoch
        headers[HubHeader.waiting] = waiting.map { String($0) }
        headers[HubHeader.receipt] = receipt
        headers[HubHeader.version] = version
        headers[HubHeader.device] = device?.text
        headers[HubHeader.replica] = replica?.text
        headers[HubHeader.session] = session
        headers[HubHeader.config] = config.map { String($0) }
        headers[HubHeader.schema] = schemas.text
        headers[HubHeader.can] = AgentAbility.text(abilities)
    }
}

/// The values that a hub sends with every answer. An invalid value reads as missing.
package struct HubHeaders: Hashable, Sendable {
    /// The wire format of this answer. A 2xx without it comes from another server: captive portals answer 200.
    package var version: Int?
    package var supportedVersions: [Int]
    /// The hub's wall clock: a hint for the offset estimate, which never sets a clock.
    package var time: Timestamp?
    /// Identity of the hub's history: changes when the hub is restored from a backup or created anew.
    package var epoch: String?
    /// The newest commit number.
    package var head: Int64?
    /// The highest `seq` that the hub has seen from this replica.
    package var deviceSeq: Int64?
    /// With verdicts and records: the receipt that the device shows again (``Receipt``).
    package var receipt: String?
    package var config: Int64?
    /// The present versions of the hub's schemas.
    package var schemas = SchemaNumbers()
    /// A text that changes with the scopes of the device; only its difference counts.
    package var shareMark: String?
    /// Number of databases that speak in turns under the name of this device, if more than one: a cloned device.
    package var twins: Int64?
    /// The end of the token that was shown, and the time to request the next one; `nil`: it does not expire.
    package var tokenEndsAt: Timestamp?
    package var tokenRefreshAt: Timestamp?
    /// Time to wait before the next request; never negative. The caller clamps it.
    package var retryAfter: Duration?
    package var rateLimit: RateLimit?

    package init(
        version: Int? = HubHeader.currentVersion, supportedVersions: [Int] = HubHeader.supportedVersions,
        time: Timestamp? = nil, epoch: String? = nil, head: Int64? = nil, deviceSeq: Int64? = nil, config: Int64? = nil,
        retryAfter: Duration? = nil
    ) {
        self.version = version
        self.supportedVersions = supportedVersions
        self.time = time
        self.epoch = epoch
        self.head = head
        self.deviceSeq = deviceSeq
        self.config = config
        self.retryAfter = retryAfter
    }

    /// - Parameter now: The agent's wall clock, the last resort for a `Retry-After` that is a date.
    package init(reading headers: HTTPHeaders, now: Timestamp) {
        version = headers[HubHeader.version].flatMap { Int($0) }
        supportedVersions = (headers[HubHeader.versions] ?? "").split(separator: ",").prefix(16).compactMap {
            Int(String($0.filter { $0 != " " }))
        }
        time = headers[HubHeader.time].flatMap { HubHeaders.number($0) }.map { Timestamp(milliseconds: $0) }
        epoch = headers[HubHeader.epoch].flatMap { Identifier<Never>($0)?.text }
        head = headers[HubHeader.head].flatMap { HubHeaders.number($0) }
        deviceSeq = headers[HubHeader.deviceSeq].flatMap { HubHeaders.number($0) }
        config = headers[HubHeader.config].flatMap { HubHeaders.number($0) }
        receipt = headers[HubHeader.receipt].flatMap { Receipt.isCarried($0) ? $0 : nil }
        tokenEndsAt = headers[HubHeader.tokenEnds].flatMap { HubHeaders.number($0) }.map { Timestamp(milliseconds: $0) }
        tokenRefreshAt = headers[HubHeader.tokenRefresh].flatMap { HubHeaders.number($0) }.map { Timestamp(milliseconds: $0) }
        schemas = SchemaNumbers(reading: headers)
        shareMark = headers[HubHeader.scopes].flatMap { HubHeaders.isMark($0) ? $0 : nil }
        twins = headers[HubHeader.twins].flatMap { HubHeaders.number($0) }
        // A date is compared with the sender's own clock if it is sent: the local clock may be in 1970.
        let sent = time ?? headers["Date"].flatMap { HTTPDate.timestamp($0) } ?? now
        retryAfter = headers[HubHeader.retryAfter].flatMap { HubHeaders.retryAfter($0, sentAt: sent) }
        rateLimit = headers[HubHeader.rateLimit].flatMap { RateLimit($0) }
    }

    /// The wait that a refusal requests: `Retry-After` outranks `RateLimit`, as the draft of the latter says.
    package var asked: Duration? {
        retryAfter ?? rateLimit.flatMap { $0.remaining == 0 ? $0.reset : nil }
    }

    package func write(to headers: inout HTTPHeaders) {
        headers[HubHeader.version] = version.map { String($0) }
        headers[HubHeader.versions] = supportedVersions.map { String($0) }.joined(separator: ",")
        headers[HubHeader.time] = time.map { String($0.milliseconds) }
        headers[HubHeader.epoch] = epoch
        headers[HubHeader.head] = head.map { String($0) }
        headers[HubHeader.deviceSeq] = deviceSeq.map { String($0) }
        headers[HubHeader.receipt] = receipt
        headers[HubHeader.config] = config.map { String($0) }
        headers[HubHeader.tokenEnds] = tokenEndsAt.map { String($0.milliseconds) }
        headers[HubHeader.tokenRefresh] = tokenRefreshAt.map { String($0.milliseconds) }
        headers[HubHeader.scopes] = shareMark
        headers[HubHeader.schema] = schemas.text
        headers[HubHeader.twins] = twins.map { String($0) }
        headers[HubHeader.retryAfter] = retryAfter.map { String($0.milliseconds.saturatingAdd(999) / 1_000) }
    }

    /// `Retry-After` (RFC 9110, 10.2.3): seconds or an HTTP date.
    ///
    /// - Returns: `nil` for garbage and negative numbers; zero for a date that has passed; at most 100 years.
    package static func retryAfter(_ text: String, sentAt: Timestamp) -> Duration? {
        let century: Int64 = 3_155_760_000
        if !text.isEmpty, text.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }) {
            return .seconds(min(Int64(text) ?? century, century))
        }
        guard let date = HTTPDate.timestamp(text) else { return nil }
        return min(max(sentAt.duration(to: date), .zero), .seconds(century))
    }

    /// Returns whether the text is 1 to 64 visible ASCII characters.
    private static func isMark(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }

    /// Reads digits only, at most 2^53.
    static func number(_ text: String) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }), let value = Int64(text), value <= 1 << 53
        else { return nil }
        return value
    }
}

/// Dates of HTTP (RFC 9110, 5.6.7): the one form that is written and the two old ones that must still be read.
package enum HTTPDate {
    /// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or `Sun Nov  6 08:49:37 1994`.
    package static func timestamp(_ text: String) -> Timestamp? {
        guard text.utf8.count <= 40 else { return nil }
        var words = text.split { $0 == " " || $0 == "," || $0 == "-" }
        guard !words.isEmpty else { return nil }
        words.removeFirst()
        if words.count == 4, let month = month(words[0]) {
            return make(day: words[1], month: month, year: words[3], time: words[2])
        }
        guard words.count == 5, words[4] == "GMT", let month = month(words[1]) else { return nil }
        return make(day: words[0], month: month, year: words[2], time: words[3])
    }

    private static func make(day: Substring, month: Int, year: Substring, time: Substring) -> Timestamp? {
        guard var number = Int(year), (0...9999).contains(number), time.utf8.count == 8 else { return nil }
        // RFC 9110: two digits mean this century unless that is more than 50 years ahead; the project began in 2026.
        if year.utf8.count == 2 { number += number > 76 ? 1900 : 2000 }
        let date = PlainText.digits(Int64(number), 4) + "-" + PlainText.digits(Int64(month), 2)
        return RFC3339.timestamp("\(date)-\(day.utf8.count == 1 ? "0" : "")\(day)T\(time)Z")
    }

    private static func month(_ name: Substring) -> Int? {
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        return names.firstIndex { $0 == name }.map { $0 + 1 }
    }
}
