/// Watches the power supplies. Conformers: `SysfsPowerMonitor` (SyncLinux), and what tests hand in.
package protocol PowerMonitor: Sendable {
    /// Calls `onReading` with what is there at once, after each sign of a change, and now and then while there is a battery;
    /// from a thread of its own, never two at a time. `nil`: it cannot be read.
    func watch(sysfsRoot: String, onReading: @escaping @Sendable ([PowerSupplyReading]?) -> Void)
    func stop()
}
