extension DeviceID {
    /// The device id of a machine without a configured one. It is stable, and it is not the machine id, which systemd asks to keep
    /// confidential (machine-id(5)).
    ///
    /// - Parameter machineID: The first line of `/etc/machine-id`, 32 hexadecimal digits.
    /// - Returns: `gw-` and 16 hexadecimal digits, or `nil` when the text is no machine id (`uninitialized` during first boot).
    package static func derived(fromMachineID machineID: String) -> DeviceID? {
        let digits = Array(machineID.utf8)
        let isHex = digits.allSatisfy { ($0 >= 48 && $0 <= 57) || ($0 >= 97 && $0 <= 102) }
        guard digits.count == 32, isHex, digits.contains(where: { $0 != 48 }) else { return nil }
        let digest = SHA256.authenticate(Array("edge-sync-agent device".utf8), key: digits)
        return DeviceID("gw-" + hexText(Array(digest.prefix(8))))
    }
}
