/// The operator's settings for network interfaces whose name matches a pattern.
package struct LinkRule: Hashable, Sendable {
    package var match: InterfacePattern
    /// `true` when the link is metered; `nil`: determined from the link itself.
    package var metered: Bool?
    /// The budget; `nil`: ``LinkBudget/meteredDefault`` on a metered link, none on another.
    package var budget: LinkBudget?
    /// Rate limit of the agent, bytes per second; `nil`: no limit.
    package var bytesPerSecond: Int?
    /// Preference. Of several usable links, the one with the highest number carries the sync.
    package var prefer = 0
    /// Absolute path of a program that may bring the link back (``LinkRecovery``); `nil`: none is run.
    package var recover: String?
    /// Time without any answer after which the program is run.
    package var recoverAfter: Duration = .seconds(900)
    /// Shortest time between two runs.
    package var recoverEvery: Duration = .seconds(3_600)

    package init(match: InterfacePattern) {
        self.match = match
    }
}

extension Collection where Element == LinkRule {
    /// The first matching rule; it applies as a whole.
    package func rule(for name: String) -> LinkRule? {
        first { $0.match.matches(name) }
    }
}

/// Bytes per period, up and down together. Invariant: `dayBytes <= monthBytes` where both are set.
package struct LinkBudget: Hashable, Sendable {
    /// Limit of a day, bytes; `nil`: no limit.
    package var dayBytes: Int?
    package var monthBytes: Int?
    /// Day on which the month begins, 1 to 28, so that every month has it.
    package var anchorDay = 1

    package init() {}

    /// The budget of a metered link without one of its own.
    package static let meteredDefault: LinkBudget = {
        var budget = LinkBudget()
        budget.dayBytes = 20_000_000
        budget.monthBytes = 500_000_000
        return budget
    }()
}

/// A pattern for interface names: `*` stands for any characters, `?` for one.
package struct InterfacePattern: Hashable, Sendable {
    package let text: String

    /// - Returns: `nil` unless `text` is 1 to 64 bytes of visible ASCII without `/`, which no name contains (netdevice(7)).
    package init?(_ text: String) {
        let bytes = text.utf8
        guard !bytes.isEmpty, bytes.count <= 64, bytes.allSatisfy({ $0 > 32 && $0 < 127 && $0 != 47 }) else {
            return nil
        }
        self.text = text
    }

    /// The pattern `*`.
    package static let all = InterfacePattern(checked: "*")

    private init(checked text: String) {
        self.text = text
    }

    package func matches(_ name: String) -> Bool {
        let pattern = Array(text.utf8), name = Array(name.utf8)
        let star = UInt8(ascii: "*"), question = UInt8(ascii: "?")
        var p = 0, n = 0
        // Position to continue from when the rest after the last `*` does not match: that star takes one more character.
        var retry: (pattern: Int, name: Int)?
        while n < name.count {
            if p < pattern.count, pattern[p] == star {
                retry = (p + 1, n)
                p += 1
            } else if p < pattern.count, pattern[p] == question || pattern[p] == name[n] {
                p += 1
                n += 1
            } else if let last = retry {
                retry = (last.pattern, last.name + 1)
                p = last.pattern
                n = last.name + 1
            } else {
                return false
            }
        }
        return pattern[p...].allSatisfy { $0 == star }
    }
}
