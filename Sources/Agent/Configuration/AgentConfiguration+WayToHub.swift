package import SyncCore
import SyncYAML

// The way to the hub: the part of the configuration that can cut a device off.
extension AgentConfiguration {
    /// A digest of these settings without the device's name, which needs a restart and does not affect the way.
    var wayToHub: ConfigurationTrial.Name {
        let format = AgentConfiguration.format(accounts: Accounts(ownUser: 0, user: { _ in nil }, group: { _ in nil }))
        let all = format.write(self).object ?? [:]
        var way: JSONObject = [:]
        for key in Self.wayKeys { way[key] = all[key] }
        if var hub = way["hub"]?.object {
            hub["device"] = nil
            way["hub"] = .object(hub)
        }
        return hexText(Array(SHA256.hash(Array(way.json.utf8)).prefix(16)))
    }

    private static let wayKeys = ["hub", "links", "probe"]

    /// The same configuration with the way to the hub of another one.
    func taking(theWayOf other: AgentConfiguration) -> AgentConfiguration {
        var configuration = self
        configuration.hub = other.hub
        configuration.hub.device = hub.device
        configuration.links = other.links
        configuration.probe = other.probe
        return configuration
    }
}

/// Storage of a trial.
package struct TrialKeeper: Sendable {
    package var record: @Sendable () -> JSON?
    package var keepRecord: @Sendable (JSON) -> Void
    /// The configuration over which the hub was reached last; `nil`: none, or it cannot be read.
    package var proven: @Sendable () -> AgentConfiguration?
    package var keepProven: @Sendable (AgentConfiguration) -> Void

    package init(
        record: @escaping @Sendable () -> JSON?, keepRecord: @escaping @Sendable (JSON) -> Void,
        proven: @escaping @Sendable () -> AgentConfiguration?, keepProven: @escaping @Sendable (AgentConfiguration) -> Void
    ) {
        self.record = record
        self.keepRecord = keepRecord
        self.proven = proven
        self.keepProven = keepProven
    }
}
