package import SyncCore
import Synchronization

/// Reads `class/power_supply` when the kernel reports a change, and every minute while there is a battery, because many gauges report
/// nothing (PROTOCOL E2). A machine without a battery is not woken up for this.
package final class SysfsPowerMonitor: PowerMonitor {
    /// Interval of readings while there is a battery.
    package static let interval: Duration = .seconds(60)

    private let monitor = Mutex<UeventMonitor?>(nil)
    private let report: @Sendable (LinuxError) -> Void

    /// - Parameter report: Called when there is no netlink. The supplies are then read every minute, with or without a battery.
    package init(report: @escaping @Sendable (LinuxError) -> Void) {
        self.report = report
    }

    package func watch(sysfsRoot: String, onReading: @escaping @Sendable ([PowerSupplyReading]?) -> Void) {
        stop()
        let reader = PowerReader(sysfsRoot: sysfsRoot)
        let hasBattery = Flag()
        do throws(LinuxError) {
            let began = try UeventMonitor(interval: { hasBattery.isSet ? Self.interval : nil }) {
                let readings = reader.read()
                // A supply that cannot be read now may be a battery.
                hasBattery.isSet = readings?.contains(where: \.isBattery) ?? true
                onReading(readings)
            }
            monitor.withLock { $0 = began }
        } catch {
            report(error)
            watchByTime(reader, onReading)
        }
    }

    /// Reads by time alone. A battery empties without events of the kernel too, and one may be inserted at any time.
    private func watchByTime(_ reader: PowerReader, _ onReading: @escaping @Sendable ([PowerSupplyReading]?) -> Void) {
        do throws(LinuxError) {
            let began = try UeventMonitor(every: Self.interval) { onReading(reader.read()) }
            monitor.withLock { $0 = began }
        } catch {
            report(error)
            onReading(reader.read())
        }
    }

    package func stop() {
        let old = monitor.withLock { monitor in
            defer { monitor = nil }
            return monitor
        }
        old?.stop()
    }
}

private final class Flag: Sendable {
    private let value = Mutex(false)

    var isSet: Bool {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}
