import SyncCore
import SyncYAML

/// The changes of a reload.
package struct ConfigurationChange: Hashable, Sendable {
    /// Dotted keys whose value differs. A key that exists on one side only (an added or removed entity) stands for all below it.
    package var changed: [String]
    /// Keys of `changed` that take effect after a restart.
    package var needsRestart: [String]
    /// The configuration in force from now on: the new one, with the old values where a restart is needed.
    package var inForce: AgentConfiguration

    package init(from old: AgentConfiguration, to new: AgentConfiguration) {
        let format = AgentConfiguration.format(accounts: Accounts(ownUser: 0, user: { _ in nil }, group: { _ in nil }))
        changed = ConfigurationChange.differences(format.write(old), format.write(new), key: "")
        needsRestart = changed.filter { key in
            ConfigurationChange.fixedKeys.contains { key == $0 || key.hasPrefix($0 + ".") }
        }
        inForce = new
        inForce.hub.device = old.hub.device
        inForce.store.path = old.store.path
        inForce.socket = old.socket
        // Another server's history is handled at a start; until then the old way to it counts.
        if old.adapter != new.adapter { (inForce.adapter, inForce.rest, inForce.hub) = (old.adapter, old.rest, old.hub) }
    }

    /// Keys that need a restart. The database belongs to one device and one folder, and the socket is bound once: a change in a running
    /// agent would leave apps and hub with a different one than they know.
    private static let fixedKeys = ["hub.device", "store.path", "socket", "adapter"]

    private static func differences(_ old: JSON, _ new: JSON, key: String) -> [String] {
        guard case .object(let left) = old, case .object(let right) = new else { return old == new ? [] : [key] }
        let added = right.members.filter { left[$0.name.text] == nil }
        return (left.members + added).flatMap { member in
            let name = member.name.text
            let deeper = key.isEmpty ? keyText(name) : key + "." + keyText(name)
            guard let before = left[name], let after = right[name] else { return [deeper] }
            return differences(before, after, key: deeper)
        }
    }
}
