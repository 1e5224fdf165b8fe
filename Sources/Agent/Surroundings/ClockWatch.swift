package import SyncCore

/// The sources of the time (PROTOCOL A11): the hub's answers, and before the first of them the kernel.
package struct ClockWatch: Hashable, Sendable {
    package enum News: Hashable, Sendable {
        /// The store gets this anchor. After a failure it is forgotten (``forget()``), and found again with the next answer.
        case anchor(ClockAnchor)
        /// The few answers of the hub disagreed with a clock that the kernel has kept synchronised since: the kernel is asked again.
        case lost
    }

    /// The last anchor that the store got.
    private var anchor: ClockAnchor?
    /// The last finding about the kernel; `nil` before the first.
    private var isSynchronised: Bool?

    package init() {}

    /// `true` as long as only the kernel knows the time.
    package var needsKernel: Bool { anchor == nil }

    /// - Parameter anchor: The anchor of the engine.
    package mutating func handle(_ anchor: ClockAnchor?) -> News? {
        guard let anchor else {
            guard self.anchor != nil else { return nil }
            (self.anchor, isSynchronised) = (nil, nil)
            return .lost
        }
        guard anchor.isNews(after: self.anchor) else { return nil }
        self.anchor = anchor
        return .anchor(anchor)
    }

    /// - Returns: `true` when the store must be told about the kernel.
    package mutating func kernelFound(isSynchronised found: Bool) -> Bool {
        guard needsKernel, found != isSynchronised else { return false }
        isSynchronised = found
        return true
    }

    /// Forgets an anchor that the store did not get.
    package mutating func forget() {
        anchor = nil
    }
}
