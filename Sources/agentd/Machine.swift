import Agent
import SyncCore
import SyncLinux

/// The names of one run: this boot, this device, and the seed of everything random.
struct Machine {
    let bootID: String
    let device: DeviceID
    let seed: UInt64

    init(_ configuration: AgentConfiguration) throws {
        let identity = MachineIdentity(calls: LinuxFileCalls())
        bootID = try identity.bootID()
        device = try configuration.hub.device ?? Self.derivedDevice(identity)
        seed = systemRandomSeed()
    }

    private static func derivedDevice(_ machine: MachineIdentity) throws -> DeviceID {
        let id = try machine.machineID()
        guard let device = DeviceID.derived(fromMachineID: id) else {
            throw LinuxError(
                .malformed, doing: "derive the device id", path: "/etc/machine-id",
                expected: "32 hexadecimal digits, or hub.device in the configuration")
        }
        return device
    }
}
