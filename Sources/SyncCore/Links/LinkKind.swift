/// The kind of an interface, as far as its use and its cost depend on it.
package enum LinkKind: String, Hashable, Sendable, CaseIterable {
    case ethernet, wlan
    /// A mobile network modem.
    case wwan
    case ppp
    /// WireGuard, tun, GRE and similar ones: another link carries it.
    case tunnel
    /// A network over Bluetooth, in practice a phone that shares its connection.
    case bluetooth
    /// A phone that shares its connection over USB.
    case usbTether = "usb_tether"
    case loopback
    /// Joins other interfaces to one: bridge, bond, team.
    case bridge, bond
    /// A part of another interface: VLAN, macvlan, ipvlan.
    case vlan
    /// Exists in this machine only: dummy, ifb, veth and others.
    case virtual
    case other

    init(_ facts: LinkFacts) {
        self = Self.byInfoKind(facts) ?? Self.byDevice(facts) ?? Self.byHardwareType(facts)
    }

    /// `true` when it exists, or may exist, in this machine only. Such a link leads out only if a route says so: a container has only a
    /// veth, and a bridge may be a machine's only port or Docker's own.
    package var isLocal: Bool {
        switch self {
        case .loopback, .virtual, .bridge: true
        case .ethernet, .wlan, .wwan, .ppp, .tunnel, .bluetooth, .usbTether, .bond, .vlan, .other: false
        }
    }

    // MARK: Evidence, the most certain first

    /// The kind by `IFLA_INFO_KIND`, the kernel's own name for an interface that it made.
    private static func byInfoKind(_ facts: LinkFacts) -> LinkKind? {
        switch facts.infoKind {
        case "bridge"?: .bridge
        case "bond"?, "team"?: .bond
        case "vlan"?, "macvlan"?, "macvtap"?, "ipvlan"?, "ipvtap"?: .vlan
        case "rmnet"?, "wwan"?: .wwan
        case "wireguard"?, "tun"?, "ipip"?, "sit"?, "gre"?, "gretap"?, "ip6gre"?, "ip6gretap"?, "ip6tnl"?, "vti"?, "vti6"?,
            "xfrm"?, "vxlan"?, "geneve"?, "gtp"?, "erspan"?, "ip6erspan"?, "ovpn"?:
            .tunnel
        case "dummy"?, "ifb"?, "veth"?, "nlmon"?, "vrf"?, "netkit"?, "vcan"?, "vxcan"?, "netdevsim"?: .virtual
        case "ppp"?: .ppp
        default: nil
        }
    }

    /// The kind by `DEVTYPE` and the driver.
    private static func byDevice(_ facts: LinkFacts) -> LinkKind? {
        switch facts.deviceType {
        case "wlan"?: return .wlan
        case "wwan"?: return .wwan
        case "bluetooth"?: return .bluetooth
        case "bridge"?: return .bridge
        case "bond"?: return .bond
        case "vlan"?: return .vlan
        case "ppp"?: return .ppp
        case "wireguard"?, "vxlan"?, "geneve"?, "gre"?: return .tunnel
        default: break
        }
        guard let driver = facts.driver else { return nil }
        if wwanDrivers.contains(driver) { return .wwan }
        if tetherDrivers.contains(driver) { return .usbTether }
        // A phone and an Ethernet adapter may use exactly the same classes. The kernel has the same problem when it chooses between the
        // names usbN and ethN (drivers/net/usb/usbnet.c), and checks the same bit.
        if sharedDrivers.contains(driver), facts.hasMadeUpAddress { return .usbTether }
        return nil
    }

    /// The kind by `ARPHRD_*` of if_arp.h.
    private static func byHardwareType(_ facts: LinkFacts) -> LinkKind {
        switch facts.hardwareType {
        case 1: .ethernet
        case 512: .ppp
        case 772: .loopback
        // ARPHRD_TUNNEL, TUNNEL6, SIT, IPGRE, IP6GRE.
        case 768, 769, 776, 778, 823: .tunnel
        // ARPHRD_RAWIP, and ARPHRD_NONE when it is no tunnel: modems without an Ethernet interface.
        case 519, 0xFFFE: .wwan
        case 801...803: .wlan
        default: .other
        }
    }

    static let wwanDrivers: Set<String> = [
        "qmi_wwan", "qmi_wwan_q", "cdc_mbim", "sierra_net", "huawei_cdc_ncm", "mhi_net", "mhi_wwan_mbim", "iosm", "t7xx",
        "GobiNet",
    ]
    private static let tetherDrivers: Set<String> = ["rndis_host", "ipheth"]
    private static let sharedDrivers: Set<String> = ["cdc_ether", "cdc_ncm", "cdc_eem", "cdc_subset"]
}
