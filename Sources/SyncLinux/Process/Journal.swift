import CSyncLinux
import Glibc

/// systemd's journal, written by its native protocol: a datagram of fields, so that `journalctl AGENTD_LINK=wwan0` finds the lines about a
/// link (systemd.io/JOURNAL_NATIVE_PROTOCOL, systemd.journal-fields(7)).
///
/// libsystemd would be a large library for a stable protocol of a few lines.
package struct Journal: Sendable {
    package static let usualSocket = "/run/systemd/journal/socket"

    /// Size limit of a datagram, bytes; the rest is cut. The journal accepts larger ones only as files.
    private static let bytesMax = 48 << 10

    private let address: [UInt8]
    private let identifier: String

    package init(identifier: String, socket: String = Journal.usualSocket) {
        self.identifier = identifier
        address = Array(socket.utf8)
    }

    /// The journal, if it reads our standard error. A line there and a datagram here then appear in the same place.
    ///
    /// - Parameter stream: `JOURNAL_STREAM`, which is `DEVICE:INODE` of the journal's end. A descriptor that was redirected since then has
    ///   other numbers.
    package static func ofStandardError(identifier: String, stream: String?, socket: String = usualSocket) -> Journal? {
        var facts = stat()
        guard let stream, fstat(STDERR_FILENO, &facts) == 0, stream == "\(facts.st_dev):\(facts.st_ino)" else { return nil }
        return Journal(identifier: identifier, socket: socket)
    }

    package enum Outcome: Sendable, Hashable {
        case sent
        /// The journal did not accept this message now; the next one may pass.
        case isFull
        /// No process listens on the socket.
        case isGone
    }

    /// Sends one message without waiting.
    ///
    /// - Parameters:
    ///   - priority: A priority of syslog(3).
    ///   - fields: Facts about the message, under names of the agent such as `link`.
    package func send(priority: Int, message: String, fields: [(name: String, value: String)]) -> Outcome {
        var bytes: [UInt8] = []
        Self.add("MESSAGE", message, to: &bytes)
        Self.add("PRIORITY", "\(priority)", to: &bytes)
        Self.add("SYSLOG_IDENTIFIER", identifier, to: &bytes)
        let prefix = Self.fieldName(identifier) + "_"
        for field in fields where bytes.count + field.value.utf8.count < Self.bytesMax {
            Self.add(prefix + Self.fieldName(field.name), field.value, to: &bytes)
        }
        switch UnixDatagram.send(bytes, to: address)?.number {
        case nil: return .sent
        case EAGAIN, ENOBUFS, EMSGSIZE: return .isFull
        default: return .isGone
        }
    }

    /// Adds a field. A value with a line break is sent with its length, because its next lines would otherwise be separate fields.
    private static func add(_ name: String, _ value: String, to bytes: inout [UInt8]) {
        let value = Array(value.utf8.prefix(bytesMax))
        bytes += Array(name.utf8)
        if value.contains(UInt8(ascii: "\n")) {
            bytes.append(UInt8(ascii: "\n"))
            for shift in stride(from: UInt64(0), to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: UInt64(value.count) >> shift)) }
        } else {
            bytes.append(UInt8(ascii: "="))
        }
        bytes += value
        bytes.append(UInt8(ascii: "\n"))
    }

    /// Name of a field: capital letters, digits and underscores, at most 64 with the prefix. The journal accepts no other names.
    private static func fieldName(_ name: String) -> String {
        let letters = name.utf8.prefix(48).map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - 32
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): byte
            default: UInt8(ascii: "_")
            }
        }
        return String(decoding: letters, as: UTF8.self)
    }
}
