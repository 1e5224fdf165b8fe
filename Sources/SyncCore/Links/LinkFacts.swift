/// A network interface as the kernel shows it, with the facts of sysfs and lease files about its kind and cost. Conclusions are drawn
/// elsewhere.
package struct LinkFacts: Hashable, Sendable {
    /// Name, such as `eth0`; at most 15 bytes (IFNAMSIZ).
    package var name: String
    package var index: Int32
    /// `IFF_UP`: it is switched on.
    package var isUp = false
    /// `IFF_LOWER_UP` and not dormant, with the operational state up or unknown. The state stays unknown for tun, many modems and `lo`
    /// (Documentation/networking/operstates.rst).
    package var hasCarrier = false
    /// `ARPHRD_*` of if_arp.h.
    package var hardwareType: UInt16 = 1
    /// `IFLA_INFO_KIND`: `bridge`, `veth`, `wireguard`, …; `nil` for most hardware.
    package var infoKind: String?
    /// The interface that it is a port of (bridge, bond); 0 when there is none.
    package var masterIndex: Int32 = 0
    /// The interface that it sends through, in this network namespace (`IFLA_LINK` of a VLAN or macvlan); 0 when there is none.
    package var lowerIndex: Int32 = 0
    /// Its hardware address is locally administered (second-lowest bit of the first byte): it is random, as on a phone that shares its
    /// connection over USB, and not a manufacturer's.
    package var hasMadeUpAddress = false
    /// `DEVTYPE` of its uevent file: `wlan`, `wwan`, `bridge`; plain Ethernet has none.
    package var deviceType: String?
    /// Name of the driver's module, from the `device/driver` link.
    package var driver: String?
    /// Usable addresses, global or unique local ones, as text.
    package var addresses: [String] = []
    /// Metric of its best default route in any table; the kernel prefers the lowest. `nil`: there is none.
    package var defaultMetric: UInt32?
    /// The facts of its DHCP lease, where a lease file has them.
    package var lease = LeaseHints()

    package init(name: String, index: Int32) {
        self.name = name
        self.index = index
    }
}

/// Facts of a DHCP lease.
package struct LeaseHints: Hashable, Sendable {
    /// Option 43 contains `ANDROID_METERED`: a phone shares its connection.
    package var isMetered = false
    /// RFC 8910 captive portal URI (DHCPv4 option 114).
    package var portalURI: String?

    package init() {}
}

/// All interfaces at one moment, and those that the kernel would use for packets to the hub.
package struct LinkTable: Hashable, Sendable {
    package var links: [LinkFacts]
    /// `oif` of the route lookup for each address of the hub that has a route; the first address is tried first. Empty: there is no route
    /// to the hub, or no lookup was made.
    package var routes: [Int32]
    /// The hub's addresses were known and looked up. Before that (its name is not resolved yet) a default route is sufficient.
    package var hasLookedUp: Bool
    /// A modem or a phone is connected to the machine, in whatever network namespace its interface is; `nil`: not known.
    package var hasModem: Bool?

    package init(links: [LinkFacts] = [], routes: [Int32] = [], hasLookedUp: Bool = false, hasModem: Bool? = nil) {
        self.links = links
        self.routes = routes
        self.hasModem = hasModem
        self.hasLookedUp = hasLookedUp || !routes.isEmpty
    }
}

/// Watches the interfaces. Conformers: `NetlinkMonitor` (SyncLinux), `SimLinks` (tests).
package protocol LinkMonitor: Sendable {
    /// Calls `onChange` with the whole table at once and after each change. The calls come from a separate thread, one at a time, and never
    /// twice with the same table.
    ///
    /// - Parameter hubAddresses: Numeric addresses of the hub, best first, whose routes are looked up.
    func watch(hubAddresses: [String], onChange: @escaping @Sendable (LinkTable) -> Void)
    /// Sets new addresses of the hub; the routes are looked up again.
    func look(for hubAddresses: [String])
    func stop()
}
