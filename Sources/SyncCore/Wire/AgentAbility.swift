/// An ability of the sender of a request beyond the first version of the protocol (PROTOCOL A1, `Sync-Can`).
///
/// An agent names all of its abilities with each request that reads. A hub skips names that it does not know, and an agent that names none
/// is older than the header.
package enum AgentAbility: String, CaseIterable, Hashable, Sendable {
    /// The agent removes every record that leaves its share, however many leave at once. Agents without it take more than 50 for an
    /// accident of the hub, and keep them.
    case revocations

    /// The abilities of this program.
    package static let all = Set(allCases)

    /// - Parameter text: Names with commas between; unknown ones are skipped, and so is everything behind the 32nd.
    package static func read(_ text: String) -> Set<AgentAbility> {
        Set(text.utf8.split(separator: UInt8(ascii: ",")).prefix(32).compactMap { AgentAbility(rawValue: Substring($0).trimmingSpaces) })
    }

    /// - Returns: `nil` when there is none to tell.
    package static func text(_ abilities: Set<AgentAbility>) -> String? {
        abilities.isEmpty ? nil : abilities.map(\.rawValue).sorted().joined(separator: ", ")
    }
}
