/// Largest payload of one mutation, or one atomic list, of each priority at present, bytes. Critical work may use the reserve of a budget,
/// so its limit is larger than that of others.
package struct MutationSizes: Hashable, Sendable {
    private var limits: [Priority: Int] = [:]

    init() {}

    package init(_ limits: [Priority: Int]) {
        self.limits = limits
    }

    /// The limit of a priority; `nil`: no limit.
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

/// Work that could go but for its size, as the store found it when it last chose a batch. With it, no new look at the outbox is needed to
/// decide whether a larger allowance helps.
package struct WithheldWork: Hashable, Sendable {
    package struct Class: Hashable, Sendable {
        /// Number of mutations, at most ``WithheldWork/countMax``.
        package var count = 0
        /// Payload of the smallest one, bytes.
        package var smallest = Int.max
    }

    package private(set) var classes: [Priority: Class] = [:]
    /// Number of mutations that are too large, after which the search for a smaller one stops: a choice has to end.
    package static let countMax = 1_000

    package init() {}

    package var isEmpty: Bool { classes.isEmpty }
    package var count: Int { classes.values.reduce(0) { $0 + $1.count } }

    package mutating func add(_ priority: Priority, bytes: Int) {
        var its = classes[priority] ?? Class()
        its.count += 1
        its.smallest = min(its.smallest, bytes)
        classes[priority] = its
    }

    /// Records the result of a search of all priorities down to `least`.
    mutating func found(_ other: WithheldWork, downTo least: Priority) {
        for priority in Priority.allCases where priority <= least { classes[priority] = other.classes[priority] }
    }

    /// The most urgent priority of which some work fits now.
    func fitting(_ allowed: Allowance) -> Priority? {
        Priority.allCases.first { priority in
            guard allowed.allows(priority), let its = classes[priority] else { return false }
            return allowed.sizes[priority].map { its.smallest <= $0 } ?? true
        }
    }
}
