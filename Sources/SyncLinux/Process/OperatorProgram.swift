import CSyncLinux
import Glibc
import SyncCore
import SyncThreads

/// Runs a program that the operator has named. Only its exit status counts: its standard input and output are `/dev/null`.
package enum OperatorProgram {
    package enum End: Hashable, Sendable, CustomStringConvertible {
        case exited(Int)
        case killed(signal: Int)
        /// The program exceeded the limit, and was killed with all processes of its process group.
        case tooLong(Duration)
        case notStarted(String)

        package var isGood: Bool { self == .exited(0) }

        package var description: String {
            switch self {
            case .exited(let status): "exit status \(status)"
            case .killed(let signal): "killed by signal \(signal)"
            case .tooLong(let limit): "killed, because it took longer than \(limit)"
            case .notStarted(let why): "not started: \(why)"
            }
        }
    }

    /// - Parameters:
    ///   - path: Absolute path of the program.
    ///   - argument: The only argument.
    ///   - onEnd: Called once, on a separate thread, or at once when there is none.
    package static func run(
        _ path: String, argument: String, limit: Duration, onEnd: @escaping @Sendable (End) -> Void
    ) {
        do throws(LinuxError) {
            // No other thread joins this one: it ends with the program.
            _ = try OwnThread.start("program") { onEnd(runToEnd(path, argument, limit)) }
        } catch {
            onEnd(.notStarted("\(error)"))
        }
    }

    private static func runToEnd(_ path: String, _ argument: String, _ limit: Duration) -> End {
        var process: pid_t = 0
        let result = csl_start_program(path, argument, &process)
        guard result == 0 else { return .notStarted(String(cString: strerror(result))) }
        var status: Int32 = 0
        let isEnded = csl_wait_for_child(process, Int32(clamping: limit.milliseconds), &status)
        if isEnded == 0 {
            kill(-process, SIGKILL)
            _ = csl_wait_for_child(process, 1_000, &status)
            return .tooLong(limit)
        }
        guard isEnded == 1 else { return .notStarted(String(cString: strerror(-isEnded))) }
        // The macros of wait(2), such as WIFEXITED, are not visible to Swift.
        let signal = Int(status & 0x7F)
        return signal == 0 ? .exited(Int(status >> 8 & 0xFF)) : .killed(signal: signal)
    }
}
