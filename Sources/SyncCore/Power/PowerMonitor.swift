/// Watches the power supplies. Conformers: `SysfsPowerMonitor` (SyncLinux), and test doubles.
package protocol PowerMonitor: Sendable {
    /// Calls `onReading` with the present supplies at once, after each sign of a change, and now and then while there is a battery. The
    /// calls come from a separate thread, one at a time. `nil`: the supplies cannot be read.
    func watch(sysfsRoot: String, onReading: @escaping @Sendable ([PowerSupplyReading]?) -> Void)
    func stop()
}
