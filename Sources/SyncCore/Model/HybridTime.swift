/// A hybrid logical clock stamp: 48 bits of milliseconds, 16 bits of counter, 8 hexadecimal digits of the node.
///
/// It orders `lww` contests only; versions decide whether there is a contest. The text is `%012x-%04x-<node8>`, which sorts as the stamps
/// do (Kulkarni and Demirbas, "Logical Physical Clocks").
package struct HybridTime: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var milliseconds: UInt64
    package var counter: UInt16
    package var node: String

    package init(milliseconds: UInt64, counter: UInt16, node: String) {
        self.milliseconds = milliseconds & 0xFFFF_FFFF_FFFF
        self.counter = counter
        self.node = node
    }

    /// - Returns: `nil` unless the text is 12 and 4 hexadecimal digits and a node of 1 to 8 of them.
    package init?(_ text: String) {
        var text = text
        let stamp = text.withUTF8 { bytes -> HybridTime? in
            guard (19...26).contains(bytes.count), bytes[12] == UInt8(ascii: "-"), bytes[17] == UInt8(ascii: "-"),
                let time = HybridTime.number(bytes[..<12]), let count = HybridTime.number(bytes[13..<17]),
                HybridTime.number(bytes[18...]) != nil
            else { return nil }
            return HybridTime(milliseconds: time, counter: UInt16(count), node: String(decoding: bytes[18...], as: UTF8.self))
        }
        guard let stamp else { return nil }
        self = stamp
    }

    /// - Parameter digits: No more than 16.
    /// - Returns: `nil` unless all of them are hexadecimal digits.
    private static func number(_ digits: Slice<UnsafeBufferPointer<UInt8>>) -> UInt64? {
        var number: UInt64 = 0
        for byte in digits {
            guard let digit = hexDigit(byte) else { return nil }
            number = number << 4 | UInt64(digit)
        }
        return number
    }

    package static func < (left: HybridTime, right: HybridTime) -> Bool {
        if left.milliseconds != right.milliseconds { return left.milliseconds < right.milliseconds }
        if left.counter != right.counter { return left.counter < right.counter }
        return precedesInBytes(left.node, right.node)
    }

    package var description: String {
        var node = node
        return node.withUTF8 { node in
            String(unsafeUninitializedCapacity: 18 + node.count) { text in
                HybridTime.write(milliseconds, digits: 12, to: text, at: 0)
                text[12] = UInt8(ascii: "-")
                HybridTime.write(UInt64(counter), digits: 4, to: text, at: 13)
                text[17] = UInt8(ascii: "-")
                for (index, byte) in node.enumerated() { text[18 + index] = byte }
                return 18 + node.count
            }
        }
    }

    /// - Precondition: `value` has no more than `digits` hexadecimal digits.
    private static func write(_ value: UInt64, digits: Int, to text: UnsafeMutableBufferPointer<UInt8>, at start: Int) {
        for index in 0..<digits {
            let digit = UInt8(truncatingIfNeeded: value >> UInt64((digits - 1 - index) * 4)) & 15
            text[start + index] = digit < 10 ? digit + 48 : digit + 87
        }
    }
}

/// The clock that makes ``HybridTime`` stamps. Its last stamp is stored in the transaction of the mutation that it stamped, so it does not
/// go back when the wall clock is slow after a reboot. `ClockRule.swift` has the rules for times that cannot be right.
package struct HybridClock: Hashable, Sendable {
    /// Invariant: `last.milliseconds` is below the end of ``Timestamp/plausible`` plus ``aheadMax``, so that ``packed`` fits.
    package private(set) var last: HybridTime

    /// Largest distance of a stamp ahead of the trusted time: one faulty device or answer must not drag a fleet along.
    package static let aheadMax: Duration = .seconds(300)

    /// - Parameter last: The last stamp; one later than any plausible time was made by a wrong clock and is not continued.
    package init(last: HybridTime) {
        self.last =
            Timestamp(milliseconds: Int64(last.milliseconds)) < Timestamp.plausible.upperBound.advanced(by: Self.aheadMax)
            ? last : HybridTime(milliseconds: 0, counter: 0, node: last.node)
    }

    /// Milliseconds << 16 | counter, for the database; never negative.
    package var packed: Int64 { Int64(last.milliseconds) << 16 | Int64(last.counter) }

    /// - Parameter packed: A value in the form of ``packed``.
    package init(packed: Int64, node: String) {
        let bits = UInt64(clamping: packed)
        self.init(last: HybridTime(milliseconds: bits >> 16, counter: UInt16(truncatingIfNeeded: bits), node: node))
    }

    /// The next stamp by a trusted time. It is later than the last one, unless that was made by a wrong clock.
    ///
    /// - Parameter now: Wall time. A time outside ``Timestamp/plausible`` does not prove that the last stamp is wrong, and it never moves
    ///   the clock beyond the end of that range.
    package mutating func tick(now: Timestamp) -> HybridTime {
        let wall = Self.milliseconds(now)
        let isWrong = now.isPlausible && Self.isAhead(last, of: now)
        if wall > last.milliseconds || isWrong {
            last = HybridTime(milliseconds: wall, counter: 0, node: last.node)
            return last
        }
        return tick()
    }

    /// The next stamp without a trusted time: it continues the last one by its counter.
    package mutating func tick() -> HybridTime {
        if last.counter < .max {
            last.counter += 1
        } else {
            last = HybridTime(milliseconds: last.milliseconds + 1, counter: 0, node: last.node)
            // No real sequence of calls reaches this; it keeps the invariant all the same.
            self = HybridClock(last: last)
        }
        return last
    }

    /// Takes a stamp of another device into account, so that the next own stamp is later than every stamp that was seen.
    ///
    /// - Parameter now: Trusted wall time; a stamp more than ``aheadMax`` later moves the clock only that far.
    package mutating func observe(_ remote: HybridTime, now: Timestamp) {
        let seen = min(remote.milliseconds, Self.milliseconds(now.advanced(by: Self.aheadMax)))
        if seen > last.milliseconds {
            last = HybridTime(
                milliseconds: seen, counter: seen == remote.milliseconds ? remote.counter : 0, node: last.node)
        } else if seen == last.milliseconds, remote.milliseconds == seen {
            last.counter = max(last.counter, remote.counter)
        }
    }

    /// Returns whether a stamp lies further ahead of a trusted time than any correct clock could have put it.
    package static func isAhead(_ stamp: HybridTime, of now: Timestamp) -> Bool {
        stamp.milliseconds > milliseconds(now.advanced(by: aheadMax))
    }

    private static func milliseconds(_ time: Timestamp) -> UInt64 {
        UInt64(clamping: min(time, Timestamp.plausible.upperBound.advanced(by: .milliseconds(-1))).milliseconds)
    }

    /// The node part of a device's stamps: the first 8 hexadecimal digits of the SHA-256 of its id.
    package static func node(of device: DeviceID) -> String {
        hexText(Array(SHA256.hash(Array(device.text.utf8)).prefix(4)))
    }
}
