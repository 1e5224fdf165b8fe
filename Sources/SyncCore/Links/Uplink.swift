/// The link that carries the sync, as the policy sees it.
package struct Uplink: Hashable, Sendable {
    package var name: String
    package var isMetered: Bool
    package var isRoaming: Bool
    /// Rate limit of the agent, bytes per second; `nil`: no limit.
    package var bytesPerSecond: Int?
    /// A rule prefers this link to the kernel's choice, so traffic must be bound to it by name.
    package var isPinned = false

    package init(name: String, isMetered: Bool = false, isRoaming: Bool = false, bytesPerSecond: Int? = nil) {
        self.name = name
        self.isMetered = isMetered
        self.isRoaming = isRoaming
        self.bytesPerSecond = bytesPerSecond
    }
}

extension Uplink {
    /// The value for ``HTTPRequest/interface`` of the sync's own requests.
    package var boundInterface: String? { isPinned ? name : nil }
}
