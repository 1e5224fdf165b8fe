import CSyncLinux
import Glibc
import SyncCore
import SyncThreads
import Synchronization

/// Listens to the kernel's broadcast about changes of devices, by default of power supplies. An event is only a reason to read sysfs again,
/// and its content is not trusted. Many gauges send no events, so regular readings are still needed.
///
/// It needs no privileges. It has one thread, which sleeps until an event comes.
package final class UeventMonitor: Sendable {
    private let mailbox: Mailbox<Void>
    private let thread: OwnThread

    /// - Parameters:
    ///   - subsystems: Subsystems of interest; events of others are dropped.
    ///   - interval: Read before each wait: the time without an event after which `onChange` is called all the same; `nil`: never.
    ///   - onChange: Called on the monitor's thread: at the start, then once for each burst of events, also when some were lost.
    package convenience init(
        subsystems: Set<String> = ["power_supply"], interval: @escaping @Sendable () -> Duration? = { nil },
        onChange: @escaping @Sendable () -> Void
    ) throws(LinuxError) {
        let socket = try NetlinkSocket(protocol: NETLINK_KOBJECT_UEVENT, groups: Uevent.kernelGroup)
        try self.init(socket, subsystems, interval: interval, onChange: onChange)
    }

    /// Makes a monitor for a system without the kernel's broadcast: `onChange` is called at the start and then every `interval`.
    package convenience init(every interval: Duration, onChange: @escaping @Sendable () -> Void) throws(LinuxError) {
        try self.init(nil, [], interval: { interval }, onChange: onChange)
    }

    private init(
        _ socket: NetlinkSocket?, _ subsystems: Set<String>, interval: @escaping @Sendable () -> Duration?,
        onChange: @escaping @Sendable () -> Void
    ) throws(LinuxError) {
        let mailbox = try Mailbox<Void>()
        let loop = UeventLoop(
            socket: socket, mailbox: mailbox, subsystems: subsystems, interval: interval, onChange: onChange)
        thread = try OwnThread.start("uevents") { loop.run() }
        self.mailbox = mailbox
    }

    deinit {
        mailbox.post(())
    }

    /// Waits for the thread: no call of `onChange` begins or runs after this.
    package func stop() {
        mailbox.post(())
        thread.join()
    }
}

/// `@unchecked Sendable`: one thread makes it and hands it to the other before that one runs.
private final class UeventLoop: @unchecked Sendable {
    /// Socket for the broadcast; `nil` for a monitor that only keeps the interval.
    private let socket: NetlinkSocket?
    private let mailbox: Mailbox<Void>
    private let subsystems: Set<String>
    private let interval: @Sendable () -> Duration?
    private let onChange: @Sendable () -> Void

    init(
        socket: NetlinkSocket?, mailbox: Mailbox<Void>, subsystems: Set<String>,
        interval: @escaping @Sendable () -> Duration?, onChange: @escaping @Sendable () -> Void
    ) {
        self.socket = socket
        self.mailbox = mailbox
        self.subsystems = subsystems
        self.interval = interval
        self.onChange = onChange
    }

    func run() {
        onChange()
        while true {
            let patience = interval().map { Int32(clamping: max(1, $0.milliseconds)) } ?? -1
            let ready = csl_wait_readable(mailbox.descriptor, socket?.descriptor ?? -1, patience)
            if !mailbox.take().isEmpty { return }
            if ready == 0 || (ready & 2 != 0 && drain()) { onChange() }
        }
    }

    /// - Returns: `true` when an event of interest came or was lost.
    private func drain() -> Bool {
        guard let socket else { return false }
        var isOfInterest = false
        // A storm of hotplug events is read in pieces, so that a stop is noticed.
        for _ in 0..<1_024 {
            // A bound socket has no other error than a full queue. To stop listening would gain nothing.
            guard let received = try? socket.receive() else { return true }
            switch received {
            case .nothing: return isOfInterest
            case .unusable: continue
            case .overrun: isOfInterest = true
            case .datagram(let bytes, let group):
                guard group == Uevent.kernelGroup, let event = Uevent(bytes) else { continue }
                if subsystems.contains(event.subsystem) { isOfInterest = true }
            }
        }
        return isOfInterest
    }
}

/// One message of the kernel's (lib/kobject_uevent.c): `ACTION@DEVPATH`, NUL, then lines `KEY=VALUE`, each ended by NUL.
package struct Uevent: Equatable {
    /// Group 1 has the kernel's messages. udev forwards its own form of them on group 2.
    package static let kernelGroup: UInt32 = 1

    package var action: String
    package var subsystem: String

    /// It accepts any bytes: they are a message with both members or none. The first of a repeated key counts.
    package init?(_ bytes: ArraySlice<UInt8>) {
        let lines = bytes.split(separator: 0, omittingEmptySubsequences: true)
        guard let head = lines.first, head.contains(UInt8(ascii: "@")) else { return nil }
        func value(_ key: String) -> String? {
            let start = Array("\(key)=".utf8)
            guard let line = lines.dropFirst().first(where: { $0.starts(with: start) }) else { return nil }
            return String(decoding: line.dropFirst(start.count), as: UTF8.self)
        }
        guard let action = value("ACTION"), let subsystem = value("SUBSYSTEM"), !action.isEmpty, !subsystem.isEmpty,
            head.starts(with: Array("\(action)@".utf8))
        else { return nil }
        self.action = action
        self.subsystem = subsystem
    }
}
