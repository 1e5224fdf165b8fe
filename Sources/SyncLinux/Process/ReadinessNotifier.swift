import CSyncLinux
import Glibc

/// Reports the state of the process to the service manager, by the protocol of sd_notify(3): one datagram of `KEY=value` lines.
///
/// libsystemd would be a large library for a stable protocol of a few lines; the man page itself shows how to do without.
package struct ReadinessNotifier: Sendable {
    package enum Message: Sendable, Hashable {
        /// The start or a reload is complete.
        case ready
        /// A reload begins. The time lets systemd tell this reload from an earlier one (`Type=notify-reload`).
        case reloading
        case stopping
        /// One sentence for `systemctl status`.
        case status(String)
        /// The process is alive; see ``watchdogTimeout``.
        case watchdog
    }

    /// The service manager kills the process when no `.watchdog` comes for this long; `nil` without a watchdog. Half of it is a good
    /// interval.
    package let watchdogTimeout: Duration?

    private let address: [UInt8]

    /// - Parameters:
    ///   - socket: Value of `NOTIFY_SOCKET`: an absolute path, or `@` and a name in the abstract namespace.
    ///   - watchdogMicroseconds: Value of `WATCHDOG_USEC`. Any value but a positive number means that there is no watchdog.
    ///   - watchdogProcess: Value of `WATCHDOG_PID`. The watchdog is not for this process when it names another one.
    /// - Throws: `.malformed` for a socket address that is neither of the two, or too long.
    package init(socket: String, watchdogMicroseconds: String?, watchdogProcess: String?) throws(LinuxError) {
        var bytes = Array(socket.utf8)
        let abstract = bytes.first == UInt8(ascii: "@")
        guard abstract || bytes.first == UInt8(ascii: "/"), bytes.count > 1, bytes.count < UnixDatagram.maxPath,
            !bytes.contains(0)
        else {
            throw LinuxError(
                .malformed, doing: "read NOTIFY_SOCKET", path: socket,
                expected: "an absolute path or @name, shorter than \(UnixDatagram.maxPath) bytes")
        }
        if abstract { bytes[0] = 0 }
        address = bytes

        let ours = watchdogProcess.map { Int32($0) == getpid() } ?? true
        let timeout = watchdogMicroseconds.flatMap { Int64($0) } ?? 0
        watchdogTimeout = ours && timeout > 0 ? .microseconds(timeout) : nil
    }

    /// The notifier for the variables of the environment; `nil` when no service manager that listens has started the process.
    ///
    /// The three variables are then removed, so that no child can send messages in the name of this process. Call it before there are other
    /// threads: changing the environment while another thread reads it is not safe.
    package static func fromEnvironment() throws(LinuxError) -> ReadinessNotifier? {
        let names = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
        let values = names.map { name in getenv(name).map { String(cString: $0) } }
        for name in names { unsetenv(name) }
        guard let socket = values[0], !socket.isEmpty else { return nil }
        return try ReadinessNotifier(socket: socket, watchdogMicroseconds: values[1], watchdogProcess: values[2])
    }

    /// Sends all messages in one datagram. It waits at most a second for a full socket. It does not wait at all for status and watchdog
    /// messages alone, because the next of these follows soon.
    package func send(_ messages: Message...) throws(LinuxError) {
        let text = messages.map { $0.lines(now: Self.monotonicMicroseconds()) }.joined(separator: "\n")
        let isPatient = messages.contains { $0.mustArrive }
        if let error = UnixDatagram.send(Array(text.utf8), to: address, wait: isPatient ? .seconds(1) : nil) {
            throw failure(error)
        }
    }

    private func failure(_ error: Errno) -> LinuxError {
        let name = String(decoding: address.first == 0 ? [64] + address.dropFirst() : address, as: UTF8.self)
        return LinuxError(error.code, doing: "notify the service manager at", path: name, errno: error.number)
    }

    /// Time of the clock of systemd's `MONOTONIC_USEC`, which stands still during suspend.
    private static func monotonicMicroseconds() -> Int64 {
        SystemClocks.nanoseconds(of: CLOCK_MONOTONIC) / 1_000
    }
}

extension ReadinessNotifier.Message {
    fileprivate var mustArrive: Bool {
        switch self {
        case .ready, .reloading, .stopping: true
        case .status, .watchdog: false
        }
    }

    fileprivate func lines(now: Int64) -> String {
        switch self {
        case .ready: "READY=1"
        case .reloading: "RELOADING=1\nMONOTONIC_USEC=\(now)"
        case .stopping: "STOPPING=1"
        case .watchdog: "WATCHDOG=1"
        case .status(let sentence): "STATUS=" + Self.oneLine(sentence)
        }
    }

    /// The sentence in one line, cut to the length that `systemctl status` shows. A line break would begin another assignment
    /// ("MAINPID=1").
    private static func oneLine(_ sentence: String) -> String {
        let bytes = sentence.utf8.prefix(512).map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: " ") : $0 }
        return String(decoding: bytes, as: UTF8.self)
    }
}
