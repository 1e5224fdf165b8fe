import CSyncLinux
import Glibc
import Synchronization

/// Commands for a thread that waits in `poll`: a queue and an eventfd beside it.
final class Mailbox<Command: Sendable>: Sendable {
    /// Readable while commands wait.
    let descriptor: Int32
    private let commands = Mutex<[Command]>([])

    init() throws(LinuxError) {
        let result = csl_event_open()
        guard result >= 0 else {
            throw LinuxError(Errno(number: -result).code, doing: "make an eventfd", errno: -result)
        }
        descriptor = result
    }

    deinit {
        close(descriptor)
    }

    func post(_ command: Command) {
        commands.withLock { $0.append(command) }
        csl_event_raise(descriptor)
    }

    /// All commands in order. Does not wait.
    func take() -> [Command] {
        csl_event_clear(descriptor)
        return commands.withLock { commands in
            defer { commands = [] }
            return commands
        }
    }
}
