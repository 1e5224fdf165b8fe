import CSyncLinux
import Glibc

/// One message of a netlink datagram.
///
/// | offset | size | field of `struct nlmsghdr` (linux/netlink.h) |
/// |---|---|---|
/// | 0 | 4 | length, header included |
/// | 4 | 2 | type |
/// | 6 | 2 | flags |
/// | 8 | 4 | sequence, as in the request |
/// | 12 | 4 | port of the addressee |
///
/// All numbers are in the machine's byte order, and each message is padded to 4 bytes.
package struct NetlinkMessage: Equatable, Sendable {
    package static let headerSize = 16

    package var type: UInt16
    package var flags: UInt16
    package var sequence: UInt32
    /// The bytes after the header.
    package var payload: ArraySlice<UInt8>

    /// All whole messages at the beginning of a datagram. It accepts any bytes: parsing ends at the first message with an impossible
    /// length, and never reads beyond the datagram.
    ///
    /// - Returns: The messages; `isWhole` is `false` when bytes were left over that are no message.
    package static func all(in datagram: ArraySlice<UInt8>) -> (messages: [NetlinkMessage], isWhole: Bool) {
        var messages: [NetlinkMessage] = []
        var rest = datagram
        while !rest.isEmpty {
            guard let length = rest.integer(at: 0, as: UInt32.self), let type = rest.integer(at: 4, as: UInt16.self),
                let flags = rest.integer(at: 6, as: UInt16.self), let sequence = rest.integer(at: 8, as: UInt32.self),
                length >= headerSize, length <= rest.count
            else { return (messages, false) }
            let payload = rest.dropFirst(headerSize).prefix(Int(length) - headerSize)
            messages.append(NetlinkMessage(type: type, flags: flags, sequence: sequence, payload: payload))
            rest = rest.dropFirst((Int(length) + 3) & ~3)
        }
        return (messages, true)
    }

    /// The error of `NLMSG_ERROR` and `NLMSG_DONE`, which begin with 0 or a negative errno. `nil` when the number is missing.
    package var errorNumber: Int32? {
        payload.integer(at: 0, as: Int32.self).map { $0 > 0 || $0 == .min ? EIO : -$0 }
    }
}

/// The attributes of a message, or nested in another attribute.
///
/// | offset | size | field of `struct nlattr` |
/// |---|---|---|
/// | 0 | 2 | length, these four bytes included |
/// | 2 | 2 | type; the two highest bits are flags |
///
/// Attributes are padded to 4 bytes. Of a repeated type the last one counts, as in the kernel.
struct NetlinkAttributes {
    private var values: [UInt16: ArraySlice<UInt8>] = [:]

    /// It accepts any bytes: parsing ends at the first attribute with an impossible length.
    init(_ bytes: ArraySlice<UInt8>) {
        var rest = bytes
        while let length = rest.integer(at: 0, as: UInt16.self), let type = rest.integer(at: 2, as: UInt16.self),
            length >= 4, Int(length) <= rest.count
        {
            values[type & 0x3FFF] = rest.dropFirst(4).prefix(Int(length) - 4)
            rest = rest.dropFirst((Int(length) + 3) & ~3)
        }
    }

    func bytes(_ type: Int) -> ArraySlice<UInt8>? {
        values[UInt16(truncatingIfNeeded: type)]
    }

    func integer<Number: FixedWidthInteger>(_ type: Int, as number: Number.Type) -> Number? {
        bytes(type)?.integer(at: 0, as: number)
    }

    /// Text up to the first NUL. Bytes that are not UTF-8 appear as U+FFFD.
    func text(_ type: Int) -> String? {
        bytes(type).map { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    func nested(_ type: Int) -> NetlinkAttributes? {
        bytes(type).map { NetlinkAttributes($0) }
    }
}

extension ArraySlice<UInt8> {
    /// An integer in the machine's byte order; `nil` when it does not lie within the slice.
    func integer<Number: FixedWidthInteger>(at offset: Int, as number: Number.Type) -> Number? {
        let size = MemoryLayout<Number>.size
        guard offset >= 0, count >= size, offset <= count - size else { return nil }
        return withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: number) }
    }
}

extension [UInt8] {
    mutating func append(native number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number) { append(contentsOf: $0) }
    }
}
