/// Selects the records of an entity that a device needs before all others, such as "assigned to me". A new device gets them right after the
/// reference data, and everything else after that (PROTOCOL A8).
///
/// The product owner writes it as `{ assignee: $device, status: open }`; the hub, which knows the documents, applies it.
package struct SeedFilter: Hashable, Sendable {
    /// Stands for the id of the requesting device.
    package static let device = "$device"

    /// Required values by field. Empty: no record comes before the others.
    package var values: [String: String]

    package init(_ values: [String: String] = [:]) {
        self.values = values
    }

    package var isEmpty: Bool { values.isEmpty }

    /// A text that the JSON of every matching document contains: a value of letters, digits and `-`, `_`, `.`, `:`, which JSON never
    /// escapes. The id of the device comes first, because fewest documents have it; then the longest.
    ///
    /// - Returns: `nil` when no value is made of such characters only.
    package func text(for device: DeviceID) -> String? {
        let wanted = values.values.map { $0 == Self.device ? device.text : $0 }.filter { value in
            !value.isEmpty && value.utf8.allSatisfy { UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 | 32 || Self.plain.contains($0) }
        }
        if wanted.contains(device.text) { return device.text }
        return wanted.max { ($0.utf8.count, $0) < ($1.utf8.count, $1) }
    }

    private static let plain = Set("0123456789-_.:".utf8)

    /// Returns whether every field has its value: as text, as the digits of a number, as `true` or `false`, or as an element of a list.
    package func matches(_ document: JSONObject, for device: DeviceID) -> Bool {
        values.allSatisfy { field, value in
            let wanted = value == Self.device ? device.text : value
            return switch document[field] {
            case let held?: held.shows(wanted)
            case nil: false
            }
        }
    }
}

extension JSON {
    /// Returns whether the value is this one as text, as the digits of a number or as `true` or `false`, or has it as an element of a list.
    func shows(_ wanted: String) -> Bool {
        if case .array(let elements) = self { return elements.contains { $0.isScalar(wanted) } }
        return isScalar(wanted)
    }

    private func isScalar(_ wanted: String) -> Bool {
        switch self {
        case .string(let held): held.means(wanted)
        case .number(let held): held.source == wanted
        case .bool(let held): (held ? "true" : "false") == wanted
        case .null, .array, .object: false
        }
    }
}
