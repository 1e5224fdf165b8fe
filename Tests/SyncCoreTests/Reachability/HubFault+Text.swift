import SyncCore

/// For tests that look at the text of a fault alone.
extension HubFault: ExpressibleByStringLiteral {
    public init(stringLiteral text: String) { self.init(.timedOut, text) }
}
