package import SyncCore

/// Counters of the kernel for each interface (proc(5), `/proc/net/dev`), with the frames of the link itself.
package enum InterfaceCounters {
    /// Bytes since the interface was made; `nil` when this network namespace has no interface of that name.
    package static func carried(by link: String) -> UsageReservation.Bytes? {
        // Where the file cannot be read the count is unknown, which costs only precision.
        guard let bytes = try? DurableFiles(calls: LinuxFileCalls()).read("/proc/self/net/dev", maxBytes: 1 << 20) else { return nil }
        return carried(by: link, in: String(decoding: bytes, as: UTF8.self))
    }

    /// Parses one table. The first number of a line is the received bytes, the ninth the sent bytes.
    ///
    ///     eth0: 55356970    1348    0    0    0     0          0         0    73336     959 …
    package static func carried(by link: String, in table: String) -> UsageReservation.Bytes? {
        for line in table.split(separator: "\n") {
            // A name may have a colon in it, a number never does.
            guard let colon = line.lastIndex(of: ":"), line[..<colon].drop(while: { $0 == " " }) == link else { continue }
            let counts = line[line.index(after: colon)...].split(separator: " ").map { Int64($0) }
            guard counts.count >= 9, let down = counts[0], let up = counts[8] else { return nil }
            return .init(up: up, down: down)
        }
        return nil
    }
}
