package import SyncCore

/// Messages in which one number after the other is replaced by one that breaks arithmetic: the ends of 32, 47, 53, 63 and 64 bits,
/// and what only floating point can hold. Times and stamps are numbers, too, also where they are written as text.
package enum HostileNumbers {
    package static let numbers = [
        "-9223372036854775808", "-1", "0", "1", "2147483648", "140737488355328", "9007199254740992", "9223372036854775807",
        "9223372036854775808", "18446744073709551616", "1e308", "-1e308", "1e-308",
    ]
    package static let times = ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"]
    package static let stamps = ["000000000000-0000-00000000", "7fffffffffff-ffff-9f2c11ab", "ffffffffffff-ffff-ffffffff"]
    package static let dates = ["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Monday, 01-Jan-01 00:00:00 GMT"]

    /// One message and where it differs from the original.
    package struct Variant: Sendable {
        package var place: String
        package var value: String
        package var json: JSON
    }

    /// Every number, time and stamp of `json` replaced by every hostile one, one at a time.
    package static func variants(of json: JSON, at place: String = "") -> [Variant] {
        switch json {
        case .null, .bool: return []
        case .number: return numbers.compactMap { text in number(text).map { Variant(place: place, value: text, json: $0) } }
        case .string(let text): return texts(like: text.text).map { Variant(place: place, value: $0, json: .string($0)) }
        case .array(let elements):
            return elements.indices.flatMap { index in
                variants(of: elements[index], at: "\(place)/\(index)").map { variant in
                    var copy = elements
                    copy[index] = variant.json
                    return Variant(place: variant.place, value: variant.value, json: .array(copy))
                }
            }
        case .object(let object):
            return object.members.flatMap { member in
                variants(of: member.value, at: "\(place)/\(member.name.text)").map { variant in
                    var copy = object
                    copy[member.name.text] = variant.json
                    return Variant(place: variant.place, value: variant.value, json: .object(copy))
                }
            }
        }
    }

    /// Hostile texts of the kind that `text` is: a number, a time, a stamp or a date; none for anything else.
    package static func texts(like text: String) -> [String] {
        if Int64(text) != nil { return numbers }
        if RFC3339.timestamp(text) != nil { return times }
        if HybridTime(text) != nil { return stamps }
        if HTTPDate.timestamp(text) != nil { return dates }
        return []
    }

    package static func number(_ text: String) -> JSON? {
        switch text {
        case "1e308": JSONNumber(1e308).map { .number($0) }
        case "-1e308": JSONNumber(-1e308).map { .number($0) }
        // No shortcut for the rest: the reader must take them as they are written.
        default: try? JSONReader.read(text)
        }
    }
}
