import Foundation
import Glibc
import SyncLinux
import Testing

@Suite("Readiness notifier")
struct ReadinessNotifierTests {
    @Test("Messages arrive in one datagram, as sd_notify(3) writes them", arguments: [false, true])
    func messages(isAbstract: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let manager = try DatagramSocket(isAbstract ? "@" + directory : directory + "/notify")
            let notifier = try ReadinessNotifier(socket: manager.name, watchdogMicroseconds: nil, watchdogProcess: nil)

            try notifier.send(.ready, .status("3 waiting"))
            #expect(manager.receive() == "READY=1\nSTATUS=3 waiting")
            try notifier.send(.stopping)
            #expect(manager.receive() == "STOPPING=1")
            try notifier.send(.watchdog)
            #expect(manager.receive() == "WATCHDOG=1")

            let before = monotonicMicroseconds()
            try notifier.send(.reloading)
            let lines = manager.receive().split(separator: "\n")
            #expect(lines.first == "RELOADING=1")
            let moment = try #require(lines.last.flatMap { Int64($0.dropFirst("MONOTONIC_USEC=".count)) })
            #expect((before...monotonicMicroseconds()).contains(moment))
        }
    }

    @Test("A status cannot say anything but a status")
    func injection() async throws {
        try await withTemporaryDirectory { directory in
            let manager = try DatagramSocket(directory + "/notify")
            let notifier = try ReadinessNotifier(socket: manager.name, watchdogMicroseconds: nil, watchdogProcess: nil)
            try notifier.send(.status("a\nMAINPID=1\r\u{1B}[31m"))
            #expect(manager.receive() == "STATUS=a MAINPID=1  [31m")
            try notifier.send(.status(String(repeating: "x", count: 100_000)))
            #expect(manager.receive().utf8.count == 512 + "STATUS=".utf8.count)
        }
    }

    @Test("Without a listener, or a reader, sending fails and does not wait")
    func unheard() async throws {
        try await withTemporaryDirectory { directory in
            let gone = try ReadinessNotifier(socket: directory + "/none", watchdogMicroseconds: nil, watchdogProcess: nil)
            let error = try #require(throws: LinuxError.self) { try gone.send(.ready) }
            #expect(error.code == .missing)
            #expect(error.path == directory + "/none")

            let manager = try DatagramSocket(directory + "/notify")
            let notifier = try ReadinessNotifier(socket: manager.name, watchdogMicroseconds: nil, watchdogProcess: nil)
            // A Unix socket queues a few hundred datagrams at most; the loop ends with the error that says so.
            let full = try #require(throws: LinuxError.self) { while true { try notifier.send(.watchdog) } }
            #expect(full.code == .exhausted)
            #expect(full.isRetryable)
        }
    }

    @Test(
        "An address that is none is refused",
        arguments: ["", "relative/path", "@", "/", "vsock:2:1234", "/" + String(repeating: "x", count: 107), "/a\0b"])
    func badAddress(_ address: String) {
        let error = #expect(throws: LinuxError.self) {
            try ReadinessNotifier(socket: address, watchdogMicroseconds: nil, watchdogProcess: nil)
        }
        #expect(error?.code == .malformed)
    }

    @Test(
        "The watchdog's time is taken when it is a positive number and meant for this process",
        arguments: [
            ("30000000", nil, Duration.seconds(30)), ("30000000", "me", .seconds(30)), ("30000000", "1", nil),
            ("0", nil, nil), ("-5", nil, nil), ("abc", nil, nil), ("99999999999999999999", nil, nil), (nil, nil, nil), ("1", "x", nil),
        ] as [(String?, String?, Duration?)])
    func watchdog(_ row: (microseconds: String?, process: String?, timeout: Duration?)) throws {
        let notifier = try ReadinessNotifier(
            socket: "/x", watchdogMicroseconds: row.microseconds,
            watchdogProcess: row.process == "me" ? "\(getpid())" : row.process)
        #expect(notifier.watchdogTimeout == row.timeout)
    }

    @Test("The environment is read once and then says nothing any more")
    func environment() throws {
        setenv("NOTIFY_SOCKET", "@sync-linux-test", 1)
        setenv("WATCHDOG_USEC", "2000000", 1)
        setenv("WATCHDOG_PID", "\(getpid())", 1)
        let notifier = try #require(try ReadinessNotifier.fromEnvironment())
        #expect(notifier.watchdogTimeout == .seconds(2))
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] { #expect(getenv(name) == nil) }
        #expect(try ReadinessNotifier.fromEnvironment() == nil)
    }

    private func monotonicMicroseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
    }
}
