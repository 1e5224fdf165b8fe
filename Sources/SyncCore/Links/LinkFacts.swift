/// A network interface as the kernel shows it, with what sysfs and lease files say about its kind and cost. Facts only;
/// what follows from them is decided elsewhere.
package struct LinkFacts: Hashable, Sendable {
    /// `eth0`; at most 15 bytes (IFNAMSIZ).
    package var name: String
    package var index: Int32
    /// `IFF_UP`: somebody switched it on.
    package var isUp = false
    /// `IFF_LOWER_UP` and not dormant, and its operational state is up or unknown (tun, many modems and `lo` stay unknown:
    /// Documentation/networking/operstates.rst).
    package var hasCarrier = false
    /// `ARPHRD_*` of if_arp.h.
    package var hardwareType: UInt16 = 1
    /// `IFLA_INFO_KIND`: `bridge`, `veth`, `wireguard`, …; `nil` for most hardware.
    package var infoKind: String?
    /// The interface it is a port of (bridge, bond); 0 when none.
    package var masterIndex: Int32 = 0
    /// The interface that it sends through, in this network namespace (`IFLA_LINK` of a VLAN or macvlan); 0 when none.
    package var lowerIndex: Int32 = 0
    /// Its hardware address was made up (second-lowest bit of the first byte): random, as a phone that shares its connection
    /// over USB has it, not a manufacturer's.
    package var hasMadeUpAddress = false
    /// `DEVTYPE` of its uevent file: `wlan`, `wwan`, `bridge`; plain Ethernet has none.
    package var deviceType: String?
    /// Name of the driver's module, from the `device/driver` link.
    package var driver: String?
    /// Usable addresses: global or unique local ones, in text form.
    package var addresses: [String] = []
    /// Metric of its best default route in any table, the lowest is preferred by the kernel; `nil`: it has none.
    package var defaultMetric: UInt32?
    /// What its DHCP lease says, where a lease file has it.
    package var lease = LeaseHints()

    package init(name: String, index: Int32) {
        self.name = name
        self.index = index
    }
}

/// From a DHCP lease.
package struct LeaseHints: Hashable, Sendable {
    /// Option 43 contains `ANDROID_METERED`: a phone shares its connection.
    package var isMetered = false
    /// RFC 8910 captive portal URI (DHCPv4 option 114).
    package var portalURI: String?

    package init() {}
}

/// All interfaces at one moment, and which of them the kernel would send the hub's packets through.
package struct LinkTable: Hashable, Sendable {
    package var links: [LinkFacts]
    /// `oif` of the route lookup for each address of the hub that has a route; the first is the one that is tried first.
    /// Empty: no route to the hub, or nothing was looked up.
    package var routes: [Int32]
    /// The hub's addresses were known and looked up. Before that (its name is not resolved yet) a default route has to do.
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
    /// Calls `onChange` with the whole table at once and after each change, from a thread of its own, never two at a time,
    /// never twice with the same table.
    ///
    /// - Parameter hubAddresses: Numeric addresses of the hub, best first, whose routes are looked up.
    func watch(hubAddresses: [String], onChange: @escaping @Sendable (LinkTable) -> Void)
    /// The hub has other addresses now; the routes are looked up again.
    func look(for hubAddresses: [String])
    func stop()
}
