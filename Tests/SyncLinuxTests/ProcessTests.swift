import Foundation
import Glibc
import SyncLinux
import Synchronization
import Testing

/// Signals, limits and the environment belong to the whole process, so these run one after another.
@Suite("Process", .serialized)
struct ProcessTests {
    @Test("Each signal is heard on a thread of its own, once it comes")
    func signals() async throws {
        let heard = Mutex<[SignalSource.Signal]>([])
        let gates = [SignalSource.Signal.hangUp: Gate(), .interrupt: Gate(), .terminate: Gate()]
        let source = try SignalSource { signal in
            heard.withLock { $0.append(signal) }
            gates[signal]?.open()
        }
        for (number, signal) in [(SIGHUP, SignalSource.Signal.hangUp), (SIGINT, .interrupt), (SIGTERM, .terminate)] {
            kill(getpid(), number)
            await gates[signal]?.pass()
        }
        #expect(heard.withLock { $0 } == [.hangUp, .interrupt, .terminate])
        source.close()
        // A process that closes it is about to end: a further signal is not delivered and does not change that end.
        defer { for number in [SIGHUP, SIGINT, SIGTERM] { signal(number, SIG_DFL) } }
        for number in [SIGHUP, SIGINT, SIGTERM] {
            try #require(handler(of: number) == .other)
            kill(getpid(), number)
        }
        #expect(heard.withLock { $0.count } == 3)

        // A second one starts afresh.
        let again = Gate()
        let second = try SignalSource { _ in again.open() }
        kill(getpid(), SIGHUP)
        await again.pass()
        second.close()
    }

    @Test("A signal that was blocked from the start is heard once the listener is there, and a flood of one hides no other")
    func blocked() throws {
        // The test does not suspend, because blocked signals belong to this thread.
        HangUp.block()
        // To this thread, which has it blocked: to the process it might meet another thread, which has not.
        pthread_kill(pthread_self(), SIGHUP)
        var pending = sigset_t()
        sigpending(&pending)
        #expect(sigismember(&pending, SIGHUP) == 1)
        let heard = Mutex<[SignalSource.Signal: Int]>([:])
        let terminated = DispatchSemaphore(value: 0)
        let source = try SignalSource { signal in
            heard.withLock { $0[signal, default: 0] += 1 }
            if signal == .terminate { terminated.signal() }
        }
        // More than the pipe holds.
        for _ in 0..<70_000 { kill(getpid(), SIGHUP) }
        kill(getpid(), SIGTERM)
        terminated.wait()
        #expect(heard.withLock { $0[.hangUp] ?? 0 } >= 1 && heard.withLock { $0[.terminate] } == 1)
        source.close()
        // Signals that are pending for this thread are dropped without their default action.
        HangUp.unblock()
        for number in [SIGHUP, SIGINT, SIGTERM] { signal(number, SIG_DFL) }
    }

    @Test("A write to a closed pipe or beyond the size limit is an error, not the end")
    func ignored() throws {
        ignoreDeadlySignals()
        #expect(handler(of: SIGPIPE) == .ignore)
        #expect(handler(of: SIGXFSZ) == .ignore)
        var ends: [Int32] = [-1, -1]
        pipe(&ends)
        close(ends[0])
        var byte: UInt8 = 1
        #expect(write(ends[1], &byte, 1) == -1)
        #expect(errno == EPIPE)
        close(ends[1])
    }

    @Test("A hardened process leaves no core and hides its memory")
    func hardened() throws {
        try hardenProcess()
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        #expect(limit.rlim_cur == 0)
        #expect(limit.rlim_max == 0)
        // The kernel gives the files in /proc of such a process to root, and no other user can read its memory.
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        #expect(status.contains("Pid:\t\(getpid())"))
        #expect(try LinuxFileCalls().facts(at: "/proc/\(getpid())/mem", for: .inspectFile).owner == 0)
    }

    private enum Handler { case `default`, ignore, other }

    private func handler(of signal: Int32) -> Handler {
        var action = sigaction()
        sigaction(signal, nil, &action)
        let address = unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
        return address == 0 ? .default : address == 1 ? .ignore : .other
    }
}
