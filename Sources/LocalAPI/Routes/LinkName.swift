/// The name of a network interface, as far as it can be one: what the kernel's `dev_valid_name` takes, less what is not
/// visible ASCII. Whether there is such an interface is another question; a script may speak of one that comes later.
package struct LinkName: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    /// - Returns: `nil` unless `text` is 1 to 15 bytes (IFNAMSIZ - 1) of visible ASCII without `/` and `:`, and neither `.`
    ///   nor `..`.
    package init?(_ text: String) {
        let bytes = text.utf8
        let isVisible = bytes.allSatisfy {
            $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":")
        }
        guard !bytes.isEmpty, bytes.count <= 15, isVisible, text != ".", text != ".." else { return nil }
        self.text = text
    }

    package static let rule = "must be the name of an interface, such as wwan0: 1 to 15 characters without / : and space"

    package var description: String { text }
}
