import CSyncLinux
import Glibc
import SyncCore

/// Reads the whole table of links from the kernel, sysfs and lease files. Used by one thread.
final class LinkTableReader {
    /// The socket is replaced after an error, because the rest of an answer that was given up would precede the next answer.
    private var socket: NetlinkSocket?
    private let sysfs: SysfsLinks
    private let leases: LeaseFiles
    /// Best metric of a default route by interface. It is kept between readings: a routing daemon may hold a million routes, and only these
    /// matter.
    private var defaultMetrics: [Int32: UInt32]?

    init(sysfsRoot: String, leases: LeaseFiles) throws(LinuxError) {
        // The socket is opened at once, so that a lack of permission shows at the start.
        socket = try Self.open()
        sysfs = SysfsLinks(root: sysfsRoot)
        self.leases = leases
    }

    /// - Parameters:
    ///   - hubAddresses: Numeric addresses; other texts are ignored.
    ///   - readsRoutes: `false` when no default route has changed since the last reading.
    /// - Returns: The table; `nil` when the lists changed while they were read, five times in a row.
    func read(hubAddresses: [String], readsRoutes: Bool) throws(LinuxError) -> LinkTable? {
        if readsRoutes { defaultMetrics = nil }
        do throws(LinuxError) {
            return try read(hubAddresses)
        } catch {
            socket = nil
            throw error
        }
    }

    private func read(_ hubAddresses: [String]) throws(LinuxError) -> LinkTable? {
        for _ in 0..<5 {
            guard var links = try readLinks(), let addresses = try readAddresses(), let metrics = try readDefaultMetrics()
            else { continue }
            sysfs.forget(except: links.keys)
            leases.refresh()
            for index in links.keys {
                links[index]?.addresses = (addresses[index] ?? []).sorted()
                links[index]?.defaultMetric = metrics[index]
                if let facts = links[index] { links[index] = sysfs.completed(facts) }
                if let facts = links[index], !facts.addresses.isEmpty {
                    links[index]?.lease = leases.hints(for: facts.name, index: index)
                }
            }
            let hub = hubAddresses.compactMap { NumericAddress($0) }
            var routes: [Int32] = []
            for address in hub {
                if let index = try lookUp(address), links[index] != nil { routes.append(index) }
            }
            return LinkTable(
                links: links.values.sorted { $0.index < $1.index }, routes: routes, hasLookedUp: !hub.isEmpty, hasModem: sysfs.hasModem())
        }
        return nil
    }

    private static func open() throws(LinuxError) -> NetlinkSocket {
        try NetlinkSocket(protocol: NETLINK_ROUTE, groups: 0)
    }

    private func request(
        _ type: Int, flags: Int32 = 0, body: [UInt8], each: (NetlinkMessage) -> Void
    ) throws(LinuxError) -> Bool {
        // `??` cannot be used, because its right side throws any error.
        let current = if let socket { socket } else { try Self.open() }
        socket = current
        return try current.request(type, flags: flags, body: body, each: each)
    }

    private func readLinks() throws(LinuxError) -> [Int32: LinkFacts]? {
        var links: [Int32: LinkFacts] = [:]
        // The body is struct ifinfomsg, and IFLA_EXT_MASK with RTEXT_FILTER_SKIP_STATS (1 << 3), because counters are most of the bytes.
        var body = [UInt8](repeating: 0, count: 16)
        body.append(native: UInt16(8))
        body.append(native: UInt16(IFLA_EXT_MASK))
        body.append(native: UInt32(1 << 3))
        let isConsistent = try request(Int(RTM_GETLINK), flags: NLM_F_DUMP, body: body) { message in
            if let link = LinkMessage(message) { links[link.facts.index] = link.facts }
        }
        return isConsistent ? links : nil
    }

    private func readAddresses() throws(LinuxError) -> [Int32: [String]]? {
        var addresses: [Int32: [String]] = [:]
        let body = [UInt8](repeating: 0, count: 8)  // struct ifaddrmsg
        let isConsistent = try request(Int(RTM_GETADDR), flags: NLM_F_DUMP, body: body) { message in
            if let found = AddressMessage(message) { addresses[found.index, default: []].append(found.address) }
        }
        return isConsistent ? addresses : nil
    }

    private func readDefaultMetrics() throws(LinuxError) -> [Int32: UInt32]? {
        if let defaultMetrics { return defaultMetrics }
        var metrics: [Int32: UInt32] = [:]
        let body = [UInt8](repeating: 0, count: 12)  // struct rtmsg
        let isConsistent = try request(Int(RTM_GETROUTE), flags: NLM_F_DUMP, body: body) { message in
            guard let route = RouteMessage(message), route.prefixLength == 0, route.leadsSomewhere else { return }
            for index in route.interfaces { metrics[index] = min(metrics[index] ?? .max, route.metric) }
        }
        defaultMetrics = isConsistent ? metrics : nil
        return defaultMetrics
    }

    /// The interface that the kernel would use for a packet to `address`, by all its rules and tables.
    private func lookUp(_ address: NumericAddress) throws(LinuxError) -> Int32? {
        var body = [UInt8](repeating: 0, count: 12)  // struct rtmsg
        body[0] = UInt8(address.family)
        body[1] = UInt8(address.bytes.count * 8)
        body.append(native: UInt16(4 + address.bytes.count))
        body.append(native: UInt16(RTA_DST.rawValue))
        body += address.bytes
        var found: Int32?
        do throws(LinuxError) {
            _ = try request(Int(RTM_GETROUTE), body: body) { message in
                if let route = RouteMessage(message), route.leadsSomewhere { found = route.interfaces.first }
            }
        } catch {
            // "Unreachable" in its several forms is an answer; any other error is a fault of the socket.
            let answers = [ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EAGAIN, ENODEV, EAFNOSUPPORT, EOPNOTSUPP, ENETDOWN]
            guard let number = error.errno, answers.contains(number) else { throw error }
        }
        return found
    }
}
