import Glibc
package import SyncCore

/// Reads the leases that DHCP clients keep. A file that is missing, unreadable or too large gives no hint. The agent runs as an
/// unprivileged user, and only the hint is lost.
package final class LeaseFiles {
    private let root: String
    private let calls: any FileCalls
    /// Lease files of NetworkManager and dhclient, whose names are not known beforehand. They are listed once per reading.
    private var listed: [String] = []

    /// networkd's files have some dozen lines. dhclient appends to its file and rewrites it now and then.
    private static let maxBytes = 256 << 10
    private static let maxFiles = 256

    /// - Parameter root: Prefix of every path; empty in the installed system.
    package init(root: String = "", calls: any FileCalls = LinuxFileCalls()) {
        self.root = root
        self.calls = calls
    }

    /// Lists the folders again, because they may hold other files now.
    package func refresh() {
        listed = []
        for folder in ["/var/lib/NetworkManager", "/var/lib/dhcp", "/var/lib/dhclient"] {
            // The client is not installed, or this user may not read the folder.
            guard let names = try? calls.names(in: root + folder, for: .listDirectory) else { continue }
            let leases = names.filter { $0.hasSuffix(".lease") || $0.hasSuffix(".leases") }.sorted()
            listed += leases.prefix(Self.maxFiles).map { "\(folder)/\($0)" }
        }
    }

    package func hints(for name: String, index: Int32) -> LeaseHints {
        var found: [LeaseHints] = []
        for path in ["/run/systemd/netif/leases/\(index)", "/run/systemd/netif/links/\(index)"] {
            if let bytes = read(path) { found.append(LeaseText.keyed(bytes)) }
        }
        for path in listed {
            // NetworkManager: internal-UUID-NAME.lease, dhclient-UUID-NAME.lease. dhclient: dhclient.NAME.leases, or one file
            // for all interfaces.
            let file = path.split(separator: "/").last.map(String.init) ?? ""
            let isNamed = file.hasSuffix("-\(name).lease") || file == "dhclient.\(name).leases"
            guard isNamed || file == "dhclient.leases", let bytes = read(path) else { continue }
            if let hints = LeaseText.blocks(bytes, interface: name) {
                found.append(hints)
            } else if isNamed {
                found.append(LeaseText.keyed(bytes))
            }
        }
        // An old file of an unused client may give fewer hints, and at worst costs patience.
        var hints = LeaseHints()
        hints.isMetered = found.contains(where: \.isMetered)
        hints.portalURI = found.lazy.compactMap(\.portalURI).first
        return hints
    }

    private func read(_ path: String) -> [UInt8]? {
        // `try?`: a file that cannot be read gives no hint, as said above.
        try? DurableFiles(calls: calls).read(root + path, maxBytes: Self.maxBytes)
    }
}
