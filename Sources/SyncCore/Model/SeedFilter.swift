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

    /// Returns whether every field has its value: as text, as the digits of a number, as `true` or `false`, or as an element of a list.
    package func matches(_ document: JSONObject, for device: DeviceID) -> Bool {
        values.allSatisfy { field, value in
            let wanted = value == Self.device ? device.text : value
            return switch document[field] {
            case .array(let elements)?: elements.contains { Self.is($0, wanted) }
            case let held?: Self.is(held, wanted)
            case nil: false
            }
        }
    }

    private static func `is`(_ json: JSON, _ wanted: String) -> Bool {
        switch json {
        case .string(let held): held.means(wanted)
        case .number(let held): held.source == wanted
        case .bool(let held): (held ? "true" : "false") == wanted
        case .null, .array, .object: false
        }
    }
}
