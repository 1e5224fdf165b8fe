/// A name of 1 to 64 characters out of `A-Z a-z 0-9 . _ : -`. It can be used in a path, a log line and a file name without escapes.
///
/// `Kind` only distinguishes the kinds of names, so that `EntityName` and `RecordID` cannot be mixed up.
package struct Identifier<Kind>: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let text: String

    /// - Returns: `nil` when `text` is not such a name.
    package init?(_ text: String) {
        guard isIdentifier(text) else { return nil }
        self.text = text
    }

    /// Makes a name that this program made itself or has checked before (rows of its own database).
    package init(trusted text: String) {
        self.text = text
    }

    package var description: String { text }

    package static func < (left: Identifier, right: Identifier) -> Bool {
        precedesInBytes(left.text, right.text)
    }
}

private func isIdentifier(_ text: String) -> Bool {
    var text = text
    return text.withUTF8 { bytes in
        !bytes.isEmpty && bytes.count <= 64
            && bytes.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: ":"),
                    UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}

package enum EntityKindTag: Sendable {}
package enum RecordKindTag: Sendable {}
package enum MutationKindTag: Sendable {}
package enum ReplicaKindTag: Sendable {}
package enum DeviceKindTag: Sendable {}
package enum GroupKindTag: Sendable {}
package enum AppKindTag: Sendable {}

/// A type of record, as the configuration names it.
package typealias EntityName = Identifier<EntityKindTag>
package typealias RecordID = Identifier<RecordKindTag>
/// The idempotency key of a mutation, made once at enqueue; also its id in the local API.
package typealias MutationKey = Identifier<MutationKindTag>
/// Name of one history of a database; it is renewed after any recovery that may have lost data.
package typealias ReplicaID = Identifier<ReplicaKindTag>
package typealias DeviceID = Identifier<DeviceKindTag>
/// Name of an atomic list; the hub applies all of its mutations or none.
package typealias GroupID = Identifier<GroupKindTag>
/// The requesting app, as the access rules name it.
package typealias AppName = Identifier<AppKindTag>

/// One record: entity and id together.
package struct RecordName: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var entity: EntityName
    package var id: RecordID

    package init(_ entity: EntityName, _ id: RecordID) {
        self.entity = entity
        self.id = id
    }

    package var description: String { "\(entity)/\(id)" }

    package static func < (left: RecordName, right: RecordName) -> Bool {
        (left.entity, left.id) < (right.entity, right.id)
    }
}

/// UUID version 7 (RFC 9562, 5.7): 48 bits of milliseconds, then random; sorts by the time it was made.
package enum UUIDv7 {
    package static func make(at wall: Timestamp, using random: inout some RandomNumberGenerator) -> String {
        let milliseconds = UInt64(clamping: wall.milliseconds) & 0xFFFF_FFFF_FFFF
        let high = milliseconds << 16 | 0x7000 | (random.next() & 0x0FFF)
        let low = 0x8000_0000_0000_0000 | (random.next() >> 2)
        return text(high: high, low: low)
    }

    /// Makes a UUID that carries a small number in its lowest 44 bits, so that a row is found by it without an index. The other 30 random
    /// bits and the time distinguish two histories of one device that use the same number.
    package static func make(
        at wall: Timestamp, carrying number: Int64, using random: inout some RandomNumberGenerator
    ) -> String {
        let milliseconds = UInt64(clamping: wall.milliseconds) & 0xFFFF_FFFF_FFFF
        let bits = random.next()
        let high = milliseconds << 16 | 0x7000 | (bits & 0x0FFF)
        let low = 0x8000_0000_0000_0000 | (bits >> 46) << 44 | (UInt64(clamping: number) & carriedMax)
        return text(high: high, low: low)
    }

    /// - Returns: The number that ``make(at:carrying:using:)`` put in; an arbitrary number for any other UUID; `nil` when the text is no
    ///   UUID.
    package static func carried(in text: String) -> Int64? {
        guard text.utf8.count == 36 else { return nil }
        var value: UInt64 = 0
        for byte in text.utf8.suffix(17) where byte != UInt8(ascii: "-") {
            guard let digit = hexDigit(byte) else { return nil }
            value = value << 4 | UInt64(digit)
        }
        return Int64(value & carriedMax)
    }

    private static let carriedMax: UInt64 = 1 << 44 - 1

    private static func text(high: UInt64, low: UInt64) -> String {
        String(unsafeUninitializedCapacity: 36) { buffer in
            var index = 0
            for nibble in 0..<32 {
                if nibble == 8 || nibble == 12 || nibble == 16 || nibble == 20 {
                    buffer[index] = UInt8(ascii: "-")
                    index += 1
                }
                let word = nibble < 16 ? high : low
                let digit = UInt8(truncatingIfNeeded: word >> UInt64((15 - nibble % 16) * 4)) & 15
                buffer[index] = digit < 10 ? digit + 48 : digit + 87
                index += 1
            }
            return index
        }
    }
}
