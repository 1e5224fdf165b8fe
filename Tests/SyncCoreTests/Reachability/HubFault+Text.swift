import SyncCore

/// Where a test looks at the words alone.
extension HubFault: ExpressibleByStringLiteral {
    public init(stringLiteral text: String) { self.init(.timedOut, text) }
}
