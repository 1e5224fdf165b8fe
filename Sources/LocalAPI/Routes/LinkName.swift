import SyncCore

/// The name of a network interface, as far as it can be one (``LinkHints/canBeName(_:)``). Whether there is such an
/// interface is another question; a script may speak of one that comes later.
package struct LinkName: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    package init?(_ text: String) {
        guard LinkHints.canBeName(text) else { return nil }
        self.text = text
    }

    package static let rule = "must be the name of an interface, such as wwan0: 1 to 15 characters without / : and space"

    package var description: String { text }
}
