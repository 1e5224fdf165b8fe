import Foundation
import Glibc
import SyncCore
import SyncLinux
import Testing

@Suite("DHCP leases")
struct LeaseTests {
    /// "ANDROID_METERED" in hexadecimal.
    static let metered = "414e44524f49445f4d455445524544"

    static let networkd = """
        # This is private data. Do not parse.
        ADDRESS=192.168.43.117
        ROUTER=192.168.43.1
        LIFETIME=3600
        VENDOR_SPECIFIC=\(metered)
        CLIENTID=ff9f6e8524

        """

    static let dhclient = """
        default-duid "\\000\\001";
        lease {
          interface "wlan0";
          fixed-address 10.0.0.5;
          option vendor-encapsulated-options 41:4e:44:52:4f:49:44:5f:4d:45:54:45:52:45:44;
          expire 2 2026/11/21 10:00:00;
        }
        lease {
          interface "eth0";
          option vendor-encapsulated-options "ANDROID_METERED";
          option default-url "https://portal.example/api";
        }
        lease {
          interface "eth0";
          option subnet-mask 255.255.255.0;
        }

        """

    @Test("networkd's file tells by option 43 that a phone shares its connection")
    func keyed() {
        #expect(LeaseText.keyed(Array(Self.networkd.utf8)).isMetered)
        #expect(!LeaseText.keyed(Array("VENDOR_SPECIFIC=0102\nADDRESS=1.2.3.4\n".utf8)).isMetered)
        #expect(LeaseText.keyed(Array("VENDOR_SPECIFIC=01ff\(Self.metered)00\n".utf8)).isMetered)
        #expect(!LeaseText.keyed(Array("CLIENTID=\(Self.metered)\n".utf8)).isMetered)
    }

    @Test("The portal's address comes from option 114, if it is one that RFC 8910 allows")
    func portal() {
        func portal(_ line: String) -> String? { LeaseText.keyed(Array((line + "\n").utf8)).portalURI }
        #expect(portal("CAPTIVE_PORTAL=https://portal.example/api") == "https://portal.example/api")
        #expect(portal("CAPTIVE_PORTAL=http://portal.example/api") == nil)
        #expect(portal("CAPTIVE_PORTAL=urn:ietf:params:capport:unrestricted") == nil)
        #expect(portal("OPTION_114=68747470733a2f2f612f") == "https://a/")
        #expect(portal("CAPTIVE_PORTAL=https://a\u{1b}/") == nil)
    }

    @Test("The last lease of the interface in dhclient's file counts")
    func blocks() {
        let bytes = Array(Self.dhclient.utf8)
        #expect(LeaseText.blocks(bytes, interface: "wlan0")?.isMetered == true)
        #expect(LeaseText.blocks(bytes, interface: "eth0") == LeaseHints())
        #expect(LeaseText.blocks(bytes, interface: "eth1") == nil)
        // The write of the newest was cut: the one before counts.
        let cut = Self.dhclient.components(separatedBy: "option subnet-mask")[0]
        let hints = LeaseText.blocks(Array(cut.utf8), interface: "eth0")
        #expect(hints?.isMetered == true)
        #expect(hints?.portalURI == "https://portal.example/api")
    }

    @Test("Damaged and hostile files are read without harm", arguments: 1...3)
    func hostile(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for original in [Self.networkd, Self.dhclient] {
            for _ in 0..<1_500 {
                var bytes = Array(original.utf8)
                for _ in 0..<8 { bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random) }
                bytes = Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random)))
                for hints in [LeaseText.keyed(bytes), LeaseText.blocks(bytes, interface: "eth0")] {
                    if let portal = hints?.portalURI { #expect(CaptivePortal.isPortalURL(portal)) }
                }
            }
        }
    }

    @Test("Files are found where each client puts them; missing, huge, linked and foreign ones say nothing")
    func files() async throws {
        try await withTemporaryDirectory { root in
            let leases = LeaseFiles(root: root)
            leases.refresh()
            #expect(leases.hints(for: "eth0", index: 2) == LeaseHints())

            try makeFolder("\(root)/run/systemd/netif/leases")
            try makeFolder("\(root)/run/systemd/netif/links")
            try makeFolder("\(root)/var/lib/NetworkManager")
            try makeFolder("\(root)/var/lib/dhcp")
            makeFile("\(root)/run/systemd/netif/leases/2", Self.networkd)
            makeFile("\(root)/run/systemd/netif/links/2", "CAPTIVE_PORTAL=https://portal.example/\n")
            makeFile("\(root)/var/lib/dhcp/dhclient.leases", Self.dhclient)
            makeFile("\(root)/var/lib/NetworkManager/internal-6a1b-usb0.lease", Self.networkd)
            makeFile("\(root)/var/lib/dhcp/dhclient.wwan0.leases", Self.networkd + String(repeating: "#", count: 300_000))
            makeFile("\(root)/secret", Self.networkd)
            symlink("\(root)/secret", "\(root)/run/systemd/netif/leases/9")
            mkfifo("\(root)/run/systemd/netif/leases/10", 0o600)
            leases.refresh()
            #expect(leases.hints(for: "eth0", index: 2).isMetered)
            #expect(leases.hints(for: "eth0", index: 2).portalURI == "https://portal.example/")
            #expect(leases.hints(for: "wlan0", index: 3).isMetered)
            #expect(leases.hints(for: "usb0", index: 4).isMetered)
            #expect(!leases.hints(for: "sb0", index: 4).isMetered)
            #expect(!leases.hints(for: "wwan0", index: 5).isMetered)
            #expect(!leases.hints(for: "x", index: 9).isMetered)
            #expect(!leases.hints(for: "x", index: 10).isMetered)
        }
    }
}

@Suite("Facts of sysfs about links")
struct SysfsLinksTests {
    @Test("DEVTYPE and driver are read once for the life of an interface, and again for another of the same index")
    func reading() async throws {
        try await withTemporaryDirectory { root in
            try makeFolder("\(root)/class/net/wwan0/device")
            makeFile("\(root)/class/net/wwan0/uevent", "INTERFACE=wwan0\nDEVTYPE=wwan\nIFINDEX=4\n")
            symlink("../../../../bus/usb/drivers/cdc_mbim", "\(root)/class/net/wwan0/device/driver")
            try makeFolder("\(root)/class/net/eth0")
            makeFile("\(root)/class/net/eth0/uevent", "INTERFACE=eth0\nDEVTYPE=\n")
            let sysfs = SysfsLinks(root: root)
            let modem = sysfs.completed(LinkFacts(name: "wwan0", index: 4))
            #expect(modem.deviceType == "wwan")
            #expect(modem.driver == "cdc_mbim")
            unlink("\(root)/class/net/wwan0/uevent")
            #expect(sysfs.completed(LinkFacts(name: "wwan0", index: 4)).deviceType == "wwan")
            let other = sysfs.completed(LinkFacts(name: "eth0", index: 4))
            #expect(other.deviceType == nil)
            #expect(other.driver == nil)
            sysfs.forget(except: [4])
            #expect(sysfs.completed(LinkFacts(name: "gone0", index: 5)).deviceType == nil)
        }
    }

    @Test("A modem is a device of a modem's driver, wherever its interface is; without sysfs it is unknown")
    func modem() async throws {
        try await withTemporaryDirectory { root in
            let sysfs = SysfsLinks(root: root)
            #expect(sysfs.hasModem() == nil)
            try makeFolder("\(root)/class/net")
            #expect(sysfs.hasModem() == false)
            // A driver that is loaded and drives nothing: its folder has files of the kernel's own.
            try makeFolder("\(root)/bus/usb/drivers/qmi_wwan")
            makeFile("\(root)/bus/usb/drivers/qmi_wwan/bind", "")
            #expect(sysfs.hasModem() == false)
            symlink("../../../../devices/usb1/1-1:1.4", "\(root)/bus/usb/drivers/qmi_wwan/1-1:1.4")
            #expect(sysfs.hasModem() == true)
            unlink("\(root)/bus/usb/drivers/qmi_wwan/1-1:1.4")
            try makeFolder("\(root)/class/wwan/wwan0")
            #expect(sysfs.hasModem() == true)
        }
    }
}

private func makeFolder(_ path: String) throws {
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
}
