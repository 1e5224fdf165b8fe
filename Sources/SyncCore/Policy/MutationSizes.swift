/// The most bytes of payload that one mutation, or one atomic list, of each priority may have now. What a budget keeps for critical
/// work is more than what is left for others.
package struct MutationSizes: Hashable, Sendable {
    private var limits: [Priority: Int] = [:]

    package init() {}

    package init(_ limits: [Priority: Int]) {
        self.limits = limits
    }

    /// `nil`: none is too large.
    package subscript(priority: Priority) -> Int? {
        get { limits[priority] }
        set { limits[priority] = newValue }
    }

    package var isUnlimited: Bool { limits.isEmpty }

    /// - Returns: `nil` when a mutation of one of these priorities may have any size.
    func largest(downTo least: Priority) -> Int? {
        let sizes = Priority.allCases.filter { $0 <= least }.map { limits[$0] }
        return sizes.contains(nil) ? nil : sizes.compactMap(\.self).max()
    }
}

/// What could go but for its size, as the store found it when it last chose a batch: it needs no new look at the outbox to know when a
/// larger allowance is of use to it.
package struct WithheldWork: Hashable, Sendable {
    package struct Class: Hashable, Sendable {
        /// Of a number that is too large to count, the first ``WithheldWork/countMax``.
        package var count = 0
        /// Bytes of payload of the smallest one.
        package var smallest = Int.max
    }

    package private(set) var classes: [Priority: Class] = [:]
    /// Behind so many that are too large nobody looks for a smaller one: a choice has to end.
    package static let countMax = 1_000

    package init() {}

    package var isEmpty: Bool { classes.isEmpty }
    package var count: Int { classes.values.reduce(0) { $0 + $1.count } }

    package mutating func note(_ priority: Priority, bytes: Int) {
        var its = classes[priority] ?? Class()
        its.count += 1
        its.smallest = min(its.smallest, bytes)
        classes[priority] = its
    }

    /// What was found when all down to `least` was looked at.
    mutating func found(_ other: WithheldWork, downTo least: Priority) {
        for priority in Priority.allCases where priority <= least { classes[priority] = other.classes[priority] }
    }

    /// The most urgent work that fits now.
    func fitting(_ allowed: Allowance) -> Priority? {
        Priority.allCases.first { priority in
            guard allowed.allows(priority), let its = classes[priority] else { return false }
            return allowed.sizes[priority].map { its.smallest <= $0 } ?? true
        }
    }
}
