/// The purpose of traffic (column `class` of the table `usage`).
package enum UsagePurpose: String, Hashable, Sendable, CaseIterable {
    /// Control traffic: greeting, configuration, schemas.
    case hello
    case pull, push
    /// Repeated batches whose answer was lost.
    case settle
    case probe, blobs, diagnostics
}

/// Bytes and requests on one link, on one day, for one purpose.
package struct UsageRow: Hashable, Sendable {
    package var link: String
    package var day: UTCDay
    package var purpose: UsagePurpose
    package var up: Int64
    package var down: Int64
    package var requests: Int64

    package init(
        link: String, day: UTCDay, purpose: UsagePurpose, up: Int64 = 0, down: Int64 = 0, requests: Int64 = 0
    ) {
        self.link = link
        self.day = day
        self.purpose = purpose
        self.up = max(0, up)
        self.down = max(0, down)
        self.requests = max(0, requests)
    }
}

/// Counted rows that are not stored yet. They are written at the end of a cycle, and ten seconds after the first row at the latest: a crash
/// loses no more than that.
package struct UsageBatch: Hashable, Sendable {
    package static let longest: Duration = .seconds(10)
    /// Largest number of rows. Links that come and go (`veth…`) must not fill the memory: further ones are counted under one name.
    package static let maxRows = 256
    package static let otherLinks = "other"

    private var sums: [Key: UsageRow] = [:]
    private var began: Instant?

    private struct Key: Hashable {
        var link: String
        var day: UTCDay
        var purpose: UsagePurpose
    }

    package init() {}

    package var isEmpty: Bool { sums.isEmpty }

    /// Time at which it must be written; `nil` while it is empty.
    package var dueAt: Instant? { began?.advanced(by: Self.longest) }

    package mutating func add(_ row: UsageRow, now: Instant) {
        var row = row
        if sums.count >= Self.maxRows { row.link = Self.otherLinks }
        let key = Key(link: row.link, day: row.day, purpose: row.purpose)
        if let before = sums[key] {
            row.up = before.up.saturatingAdd(row.up)
            row.down = before.down.saturatingAdd(row.down)
            row.requests = before.requests.saturatingAdd(row.requests)
        }
        sums[key] = row
        began = began ?? now
    }

    /// Removes and returns all rows, in a fixed order. A caller that cannot store them adds them again.
    package mutating func take() -> [UsageRow] {
        let rows = sums.values.sorted {
            ($0.day.number, $0.link, $0.purpose.rawValue) < ($1.day.number, $1.link, $1.purpose.rawValue)
        }
        sums.removeAll()
        began = nil
        return rows
    }
}
