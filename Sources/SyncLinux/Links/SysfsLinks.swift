import CSyncLinux
import Glibc
package import SyncCore

/// Facts of sysfs about interfaces (Documentation/ABI/testing/sysfs-class-net): the `DEVTYPE` line of `class/net/NAME/uevent` and the
/// driver behind the link `class/net/NAME/device/driver`. Both are fixed for the life of an interface, so each is read once.
package final class SysfsLinks {
    private let root: String
    private var known: [Int32: Known] = [:]

    private struct Known {
        var name: String
        var deviceType: String?
        var driver: String?
    }

    /// Size limit of an uevent file, which has a few short lines.
    private static let maxBytes = 4_096

    package init(root: String) {
        self.root = root
    }

    package func completed(_ facts: LinkFacts) -> LinkFacts {
        // A renamed interface is the same one, but its index may also belong to another one now. So the name decides.
        if known[facts.index]?.name != facts.name { known[facts.index] = look(at: facts.name) }
        var facts = facts
        facts.deviceType = known[facts.index]?.deviceType
        facts.driver = known[facts.index]?.driver
        return facts
    }

    package func forget(except indices: some Collection<Int32>) {
        let present = Set(indices)
        known = known.filter { present.contains($0.key) }
    }

    /// Drivers of modems and phones. A driver's folder has one link for each interface of a device, such as `1-1:1.4`.
    private static let modemDrivers = [
        "qmi_wwan", "cdc_mbim", "sierra_net", "huawei_cdc_ncm", "option", "qcserial", "cdc_wdm", "rndis_host", "ipheth",
    ]

    /// `true` when a modem or a phone is connected. A container sees the devices too, while it does not see the interfaces.
    ///
    /// - Returns: `nil` when there is no sysfs.
    package func hasModem() -> Bool? {
        guard Self.names(in: "\(root)/class") != nil else { return nil }
        if Self.names(in: "\(root)/class/wwan")?.isEmpty == false { return true }
        return Self.modemDrivers.contains { driver in
            Self.names(in: "\(root)/bus/usb/drivers/\(driver)")?.contains { $0.contains(":") } == true
        }
    }

    /// - Returns: `nil` when there is no such folder.
    private static func names(in path: String) -> [String]? {
        guard let folder = opendir(path) else { return nil }
        defer { closedir(folder) }
        var names: [String] = []
        while names.count < 256, let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    private func look(at name: String) -> Known {
        let folder = "\(root)/class/net/\(name)"
        var found = Known(name: name)
        // There is no sysfs in this container, or the interface is gone again. Then the kernel's own facts must suffice.
        if let bytes = try? DurableFiles(calls: LinuxFileCalls()).read("\(folder)/uevent", maxBytes: Self.maxBytes) {
            found.deviceType = Self.deviceType(in: bytes)
        }
        found.driver = Self.lastComponent(ofLinkAt: "\(folder)/device/driver")
        return found
    }

    package static func deviceType(in uevent: [UInt8]) -> String? {
        for line in uevent.split(separator: UInt8(ascii: "\n")) {
            let text = String(decoding: line, as: UTF8.self)
            if text.hasPrefix("DEVTYPE="), text.utf8.count > 8, text.utf8.count <= 64 { return String(text.dropFirst(8)) }
        }
        return nil
    }

    private static func lastComponent(ofLinkAt path: String) -> String? {
        var room = [UInt8](repeating: 0, count: 4_096)
        let count = room.withUnsafeMutableBytes { buffer in
            buffer.withMemoryRebound(to: CChar.self) { readlink(path, $0.baseAddress!, $0.count) }
        }
        guard count > 0, count < room.count else { return nil }
        let name = room[..<count].split(separator: UInt8(ascii: "/")).last.map { String(decoding: $0, as: UTF8.self) }
        return name.flatMap { $0.utf8.count <= 64 ? $0 : nil }
    }
}
