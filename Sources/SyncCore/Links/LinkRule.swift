/// What the operator says about network interfaces whose name matches a pattern.
package struct LinkRule: Hashable, Sendable {
    package var match: InterfacePattern
    /// `nil`: found out from the link itself.
    package var metered: Bool?
    /// `nil`: ``LinkBudget/meteredDefault`` on a metered link, none on another.
    package var budget: LinkBudget?
    /// Bytes per second that the agent takes at most; `nil`: no limit.
    package var bytesPerSecond: Int?
    /// Of several usable links the one with the highest number carries the sync.
    package var prefer = 0
    /// Absolute path of a program that may bring the link back (``LinkRecovery``); `nil`: nothing is done when nothing answers.
    package var recover: String?
    /// It is run when nothing has answered for so long, ...
    package var recoverAfter: Duration = .seconds(900)
    /// ... and at most once in this time.
    package var recoverEvery: Duration = .seconds(3_600)

    package init(match: InterfacePattern) {
        self.match = match
    }
}

extension Collection where Element == LinkRule {
    /// The first rule that matches counts, wholly.
    package func rule(for name: String) -> LinkRule? {
        first { $0.match.matches(name) }
    }
}

/// Bytes per period, up and down together. Invariant: `dayBytes <= monthBytes` where both are set.
package struct LinkBudget: Hashable, Sendable {
    /// `nil`: no limit.
    package var dayBytes: Int?
    package var monthBytes: Int?
    /// Day of the month on which the month begins, 1 to 28, so that every month has it.
    package var anchorDay = 1

    package init() {}

    /// For a metered link without a budget of its own.
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

    /// - Returns: `nil` unless `text` is 1 to 64 bytes of visible ASCII without `/` (a name never has it,
    ///   netdevice(7)).
    package init?(_ text: String) {
        let bytes = text.utf8
        guard !bytes.isEmpty, bytes.count <= 64, bytes.allSatisfy({ $0 > 32 && $0 < 127 && $0 != 47 }) else {
            return nil
        }
        self.text = text
    }

    /// `*`
    package static let all = InterfacePattern(checked: "*")

    private init(checked text: String) {
        self.text = text
    }

    package func matches(_ name: String) -> Bool {
        let pattern = Array(text.utf8), name = Array(name.utf8)
        let star = UInt8(ascii: "*"), question = UInt8(ascii: "?")
        var p = 0, n = 0
        // Where to go on when what follows the last `*` does not fit: that star takes one character more.
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
