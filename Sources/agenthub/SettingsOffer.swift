import HubServer
import SyncCore

/// The settings of entities that a hub hands out, compared with those that a device reported. An agent keeps its own if the hub's have a
/// key that it does not know.
struct SettingsOffer {
    /// Version of the configuration that agents are to have (PROTOCOL A12).
    private let version: Int64
    /// The time since when it counts.
    let since: Timestamp

    /// Time that a device has to take the settings over once it is here. It does so with its next pull.
    private static let patience: Duration = .seconds(3_600)

    init(version: Int64, since: Timestamp) {
        self.version = version
        self.since = since
    }

    /// `nil`: no settings were ever applied, or this program cannot read them.
    init?(_ inspector: HubInspector) throws(Failure) {
        let newest: EntityGeneration?
        do throws(HubError) { newest = try inspector.entities() } catch { throw Failure(error) }
        guard let newest, case .success(let entities) = EntitiesFile.reader(newest.text, "generation \(newest.number)") else { return nil }
        self.init(version: entities.config.version, since: newest.appliedAt)
    }

    /// `nil`: the device never reported by which settings it works.
    func isInForce(at device: HubDevice) -> Bool? {
        device.config.map { $0 == version }
    }

    /// The device was here long enough after the change, and works by other settings.
    func isRefused(by device: HubDevice) -> Bool {
        guard isInForce(at: device) == false, let seen = device.lastSeen else { return false }
        return since.duration(to: seen) >= Self.patience
    }

    func words(about device: HubDevice) -> String {
        switch isInForce(at: device) {
        case true?: "the hub's, in force"
        case false?: "not the hub's of \(since) -> agentctl doctor on the device"
        case nil: "unknown: its agent has not reported them"
        }
    }
}
