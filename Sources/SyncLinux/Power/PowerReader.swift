import Glibc
package import SyncCore

/// Reads `class/power_supply` of sysfs.
///
/// All content comes from drivers and firmware, and in tests from any source. Names, sizes and numbers are limited, and a value that cannot
/// be read is reported as absent or failed, never as an error that ends the agent.
package struct PowerReader: Sendable {
    /// Limit of folders that are read; a laptop dock with all its ports has about ten.
    package static let maxSupplies = 64
    /// Size limit of a value, bytes. sysfs gives at most a page, and the values of interest are short.
    package static let maxBytes = 256

    private let root: String

    /// - Parameter sysfsRoot: `/sys`, or another folder with the same layout.
    package init(sysfsRoot: String) {
        root = sysfsRoot
    }

    /// - Returns: Supplies in the order of their names. `nil` when the folder is there and cannot be listed; empty when there
    ///   is none, as on most servers.
    package func read() -> [PowerSupplyReading]? {
        let folder = root + "/class/power_supply"
        guard let names = names(in: folder) else { return nil }
        let ports = typeCPorts()
        return names.map { name in
            let path = folder + "/" + name
            var values: [PowerSupplyReading.Attribute: PowerSupplyReading.Value] = [:]
            for attribute in PowerSupplyReading.Attribute.allCases { values[attribute] = value(path + "/" + attribute.rawValue) }
            return PowerSupplyReading(name: name, values, isTypeCSource: isSource(path, ports))
        }
    }

    private func names(in folder: String) -> [String]? {
        guard let directory = opendir(folder) else { return errno == ENOENT || errno == ENOTDIR ? [] : nil }
        defer { closedir(directory) }
        var names: [String] = []
        while names.count < Self.maxSupplies, let entry = readdir(directory) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names.sorted()
    }

    private func value(_ path: String) -> PowerSupplyReading.Value {
        // Opened without blocking: in a folder that another program made it could be a pipe.
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard file >= 0 else { return Self.outcome(errno) }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: Self.maxBytes)
        var count = Glibc.read(file, &bytes, bytes.count)
        while count < 0 && errno == EINTR { count = Glibc.read(file, &bytes, bytes.count) }
        guard count >= 0 else { return Self.outcome(errno) }
        // A longer value is none of those that sysfs documents here.
        guard count < Self.maxBytes else { return .absent }
        var text = bytes.prefix(count)
        while let last = text.last, last == 0x0A || last == 0x20 { text.removeLast() }
        guard !text.isEmpty, text.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) else { return .absent }
        return .text(String(decoding: text, as: UTF8.self))
    }

    /// Result for an errno. ENODATA, EINVAL and the like mean that this gauge never has the value; the errors below mean "not now".
    private static func outcome(_ error: Int32) -> PowerSupplyReading.Value {
        switch error {
        case ENODEV, EAGAIN, ETIMEDOUT, EIO, EBUSY, ENXIO: .failed
        default: .absent
        }
    }

    // MARK: - USB Type-C

    private struct Port {
        var path: String
        var role: String
    }

    /// Ports with their present role, which `class/typec/port0/power_role` marks: `[source] sink`
    /// (Documentation/ABI/testing/sysfs-class-typec).
    private func typeCPorts() -> [Port] {
        let folder = root + "/class/typec"
        return (names(in: folder) ?? []).compactMap { name in
            guard case .text(let role) = value(folder + "/" + name + "/power_role"), let path = real(folder + "/" + name)
            else { return nil }
            return Port(path: path, role: role)
        }
    }

    /// `true` when the machine powers another device through this supply. The supply and its ports are children of one device, as systemd
    /// finds them (battery-util). When there are several ports, one that receives power is enough for `false`.
    private func isSource(_ supply: String, _ ports: [Port]) -> Bool {
        guard let device = real(supply + "/device") else { return false }
        let roles = ports.filter { $0.path.hasPrefix(device + "/") }.map(\.role)
        let gives = roles.contains { $0.contains("[source]") || $0 == "source" }
        return gives && !roles.contains { $0.contains("[sink]") || $0 == "sink" }
    }

    private func real(_ path: String) -> String? {
        guard let found = realpath(path, nil) else { return nil }
        defer { free(found) }
        return String(cString: found)
    }
}
