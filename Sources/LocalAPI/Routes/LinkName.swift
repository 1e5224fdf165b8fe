import SyncCore

/// A possible name of a network interface (``LinkHints/canBeName(_:)``). The interface need not exist: a script may name one that comes
/// later.
package struct LinkName: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    package init?(_ text: String) {
        guard LinkHints.canBeName(text) else { return nil }
        self.text = text
    }

    package static let rule = "must be the name of an interface, such as wwan0: 1 to 15 characters without / : and space"

    package var description: String { text }
}
