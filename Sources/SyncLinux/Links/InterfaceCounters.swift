package import SyncCore

/// What the kernel counts of each interface (proc(5), `/proc/net/dev`), with the frames of the link itself.
package enum InterfaceCounters {
    /// Bytes since the interface was made; `nil`: there is none of that name in this network namespace.
    package static func carried(by link: String) -> UsageReservation.Bytes? {
        // Where it cannot be read nobody knows, which costs no more than precision.
        guard let bytes = try? DurableFiles(calls: LinuxFileCalls()).read("/proc/self/net/dev", maxBytes: 1 << 20) else { return nil }
        return carried(by: link, in: String(decoding: bytes, as: UTF8.self))
    }

    ///     eth0: 55356970    1348    0    0    0     0          0         0    73336     959 …
    ///
    /// received bytes stand first, sent ones ninth.
    package static func carried(by link: String, in table: String) -> UsageReservation.Bytes? {
        for line in table.split(separator: "\n") {
            // A name may have a colon in it, a number never.
            guard let colon = line.lastIndex(of: ":"), line[..<colon].drop(while: { $0 == " " }) == link else { continue }
            let counts = line[line.index(after: colon)...].split(separator: " ").map { Int64($0) }
            guard counts.count >= 9, let down = counts[0], let up = counts[8] else { return nil }
            return .init(up: up, down: down)
        }
        return nil
    }
}
