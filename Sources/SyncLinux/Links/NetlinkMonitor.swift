import CSyncLinux
import Glibc
package import SyncCore
import SyncThreads
import Synchronization

/// Watches the interfaces by rtnetlink (rtnetlink(7)), without privileges and without wake-ups while nothing changes.
///
/// An event only causes a new reading. Earlier events may have been lost, and the kernel does not report some changes (with the last
/// address of an interface its default route disappears without an event). After each burst of events everything is read again, compared
/// with the last reported table, and reported if it differs.
///
/// Readings are paced: eight at once, then one per second, so that a flapping driver or a routing daemon costs very little.
package final class NetlinkMonitor: LinkMonitor {
    package struct Settings: Sendable {
        /// Root of sysfs: `/sys`, or a folder of a test.
        package var sysfsRoot = "/sys"
        /// Prefix of the paths of lease files; empty in the installed system.
        package var leaseRoot = ""
        /// Size of the kernel's event queue, bytes. A queue that is too small only costs a reading.
        package var receiveBytes: Int32 = 128 << 10
        /// Delay of one further reading of the leases after addresses changed, because a DHCP client writes its file a moment after it set
        /// the address. `nil`: no further reading.
        package var leaseDelay: Duration? = .seconds(3)

        package init() {}
    }

    /// Counts since the monitor began, for metrics.
    package struct Counts: Hashable, Sendable {
        /// Readings of the whole table.
        package var readings = 0
        /// Overflows of the kernel's event queue.
        package var overruns = 0
        /// Messages that were dropped because they were not from the kernel, or not whole.
        package var dropped = 0
    }

    private let mailbox: Mailbox<NetlinkLoop.Command>
    private let counted: Counted
    private let thread: OwnThread

    /// - Parameter report: Called on the monitor's thread when links could not be read. The monitor retries after a second, and reports the
    ///   same error once.
    /// - Throws: When there is no netlink (a seccomp filter, for example) or no thread. Then only probes can show the state of the network.
    package init(
        _ settings: Settings = Settings(), report: @escaping @Sendable (LinuxError) -> Void
    ) throws(LinuxError) {
        let mailbox = try Mailbox<NetlinkLoop.Command>()
        let counted = Counted()
        let loop = try NetlinkLoop(settings, mailbox: mailbox, counted: counted, report: report)
        thread = try OwnThread.start("links") { loop.run() }
        self.mailbox = mailbox
        self.counted = counted
    }

    deinit {
        mailbox.post(.stop)
    }

    package var counts: Counts { counted.value.withLock { $0 } }

    package func watch(hubAddresses: [String], onChange: @escaping @Sendable (LinkTable) -> Void) {
        mailbox.post(.watch(hubAddresses, onChange))
    }

    package func look(for hubAddresses: [String]) {
        mailbox.post(.look(hubAddresses))
    }

    /// Waits for the thread: no call of `onChange` begins or runs after this. Later calls do nothing. A call from within `onChange` returns
    /// at once.
    package func stop() {
        mailbox.post(.stop)
        thread.join()
    }
}

private final class Counted: Sendable {
    let value = Mutex(NetlinkMonitor.Counts())
}

/// The state of the monitor's thread, which is used by that thread alone.
///
/// `@unchecked Sendable`: one thread makes it and hands it to the other before that one runs.
private final class NetlinkLoop: @unchecked Sendable {
    enum Command: Sendable {
        case watch([String], @Sendable (LinkTable) -> Void)
        case look([String])
        case stop
    }

    private let mailbox: Mailbox<Command>
    private let events: NetlinkSocket
    private let reader: LinkTableReader
    private let counted: Counted
    private let report: @Sendable (LinuxError) -> Void

    private var hubAddresses: [String] = []
    private var onChange: (@Sendable (LinkTable) -> Void)?
    private var told: LinkTable?
    private var reported: LinuxError?
    /// `true` when something may have changed since the last reading; ``owesRoutes`` says the same of default routes.
    private var isOwed = false
    private var owesRoutes = true
    private var pace = RereadPace(now: SystemClocks.instant())
    /// Time of the further reading of the leases.
    private var leasesAt: Instant?
    private let leaseDelay: Duration?

    /// Limit of events that are removed from the queue before one reading; the rest waits for the next.
    private static let drainLimit = 4_096

    init(
        _ settings: NetlinkMonitor.Settings, mailbox: Mailbox<Command>, counted: Counted,
        report: @escaping @Sendable (LinuxError) -> Void
    ) throws(LinuxError) {
        let groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE
        self.mailbox = mailbox
        self.counted = counted
        self.report = report
        leaseDelay = settings.leaseDelay
        events = try NetlinkSocket(
            protocol: NETLINK_ROUTE, groups: UInt32(groups), receiveBytes: settings.receiveBytes)
        reader = try LinkTableReader(sysfsRoot: settings.sysfsRoot, leases: LeaseFiles(root: settings.leaseRoot))
    }

    func run() {
        while true {
            let ready = csl_wait_readable(mailbox.descriptor, events.descriptor, timeout())
            for command in mailbox.take() {
                switch command {
                case .watch(let addresses, let onChange):
                    (hubAddresses, self.onChange, told, isOwed) = (addresses, onChange, nil, true)
                case .look(let addresses):
                    if addresses != hubAddresses { (hubAddresses, isOwed) = (addresses, true) }
                case .stop: return
                }
            }
            if ready & 2 != 0 { drain() }
            let now = SystemClocks.instant()
            if let due = leasesAt, due <= now { (leasesAt, isOwed) = (nil, true) }
            if isOwed, onChange != nil, pace.take(now: now) == nil { look(now: now) }
        }
    }

    /// Timeout for poll(2), milliseconds, rounded up; -1 while nothing is planned.
    private func timeout() -> Int32 {
        let now = SystemClocks.instant()
        var wait = leasesAt.map { now.duration(to: $0) }
        if isOwed, onChange != nil { wait = min(wait ?? .seconds(1), pace.wait(now: now)) }
        return wait.map { Int32(clamping: max(0, $0.nanoseconds + 999_999) / 1_000_000) } ?? -1
    }

    private func drain() {
        for _ in 0..<Self.drainLimit {
            do throws(LinuxError) {
                switch try events.receive() {
                case .nothing: return
                case .unusable: counted.value.withLock { $0.dropped += 1 }
                case .overrun:
                    (isOwed, owesRoutes) = (true, true)
                    counted.value.withLock { $0.overruns += 1 }
                case .datagram(let bytes, _): markOwed(after: NetlinkMessage.all(in: bytes))
                }
            } catch {
                (isOwed, owesRoutes) = (true, true)
                reportIfNew(error)
                return
            }
        }
    }

    /// Marks a reading as owed after events. Their content decides only whether the routes are read, too.
    private func markOwed(after found: (messages: [NetlinkMessage], isWhole: Bool)) {
        isOwed = true
        if !found.isWhole { counted.value.withLock { $0.dropped += 1 } }
        // Deleting an address removes routes without an event, so only events of routes themselves can be told apart: most of them are not
        // about a default route.
        if !found.isWhole || found.messages.contains(where: { RouteMessage($0).map { $0.prefixLength == 0 } ?? true }) {
            owesRoutes = true
        }
    }

    private func look(now: Instant) {
        counted.value.withLock { $0.readings += 1 }
        do throws(LinuxError) {
            guard let table = try reader.read(hubAddresses: hubAddresses, readsRoutes: owesRoutes) else { return }
            (isOwed, owesRoutes, reported) = (false, false, nil)
            guard table != told else { return }
            if table.links.map(\.addresses) != told?.links.map(\.addresses) {
                leasesAt = leaseDelay.map { now.advanced(by: $0) }
            }
            told = table
            onChange?(table)
        } catch {
            // The reading is still due; the pace decides when to retry.
            pace.empty(now: now)
            reportIfNew(error)
        }
    }

    private func reportIfNew(_ error: LinuxError) {
        guard error != reported else { return }
        reported = error
        report(error)
    }
}

/// A pace of eight readings at once, then one per second.
package struct RereadPace: Equatable {
    private static let burst: Duration = .seconds(8)
    private static let cost: Duration = .seconds(1)
    /// Time at which the credit would have been 0. The credit is the time since then, up to `burst`.
    private var zeroAt: Instant

    package init(now: Instant) {
        zeroAt = now.advanced(by: .zero - Self.burst)
    }

    /// Time until a reading may be made.
    package func wait(now: Instant) -> Duration {
        max(.zero, now.duration(to: zeroAt.advanced(by: Self.cost)))
    }

    /// - Returns: `nil` when a reading may be made, which is then counted; otherwise the time to wait.
    package mutating func take(now: Instant) -> Duration? {
        let wait = wait(now: now)
        guard wait == .zero else { return wait }
        zeroAt = max(zeroAt, now.advanced(by: .zero - Self.burst)).advanced(by: Self.cost)
        return nil
    }

    /// Uses up the credit: the next reading is a second away.
    package mutating func empty(now: Instant) {
        zeroAt = now
    }
}
