import SyncCore

/// Links and power supply that stay as they are.
final class FixedSurroundings: LinkMonitor, PowerMonitor {
    private let table: LinkTable
    private let supplies: [PowerSupplyReading]

    init(hasRoute: Bool = true, batteryPercent: Int? = nil, link change: (inout LinkFacts) -> Void = { _ in }) {
        var link = LinkFacts(name: "eth0", index: 2)
        (link.isUp, link.hasCarrier, link.addresses, link.defaultMetric) = (true, true, ["192.0.2.7"], 100)
        change(&link)
        table = LinkTable(links: [link], routes: hasRoute ? [2] : [], hasLookedUp: true)
        supplies = [
            PowerSupplyReading(
                name: "BAT0",
                [
                    .type: .text("Battery"), .status: .text("Discharging"), .capacity: .text("\(batteryPercent ?? 100)"),
                    .present: .text("1"),
                ])
        ]
    }

    func watch(hubAddresses: [String], onChange: @escaping @Sendable (LinkTable) -> Void) { onChange(table) }
    func look(for hubAddresses: [String]) {}
    func watch(sysfsRoot: String, onReading: @escaping @Sendable ([PowerSupplyReading]?) -> Void) { onReading(supplies) }
    func stop() {}
}
