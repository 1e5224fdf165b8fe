import Foundation
import Glibc
import ProcessStand
import Synchronization

/// A started program. It is collected by a thread of its own, so that its end is seen at once, also after `kill -9`.
final class Child: Sendable {
    let pid: pid_t
    private let state = Mutex(State())

    private struct State {
        var status: Int32?
        var onEnd: [@Sendable (Int32) -> Void] = []
    }

    /// - Parameters:
    ///   - log: Gets standard error, and standard output unless `output` is given.
    ///   - output: The writing end for standard output; closed here.
    ///   - input: The reading end for standard input, which is empty otherwise; closed here.
    init(
        _ arguments: [String], environment: [String: String] = [:], log: String, output: Int32? = nil, input: Int32? = nil
    ) throws {
        defer { for end in [output, input] { if let end { close(end) } } }
        pid = try Spawn.start(arguments, environment: environment, log: log, output: output, input: input)
        let thread = Thread { [self] in collect() }
        thread.start()
    }

    var isRunning: Bool { state.withLock { $0.status == nil } }

    /// Calls `action` with the wait status when the program has ended; at once if it has.
    func onEnd(_ action: @escaping @Sendable (Int32) -> Void) {
        let status = state.withLock { state in
            if state.status == nil { state.onEnd.append(action) }
            return state.status
        }
        if let status { action(status) }
    }

    /// The exit status; 128 and the signal's number after a signal, as a shell says it.
    @discardableResult
    func end() async -> Int32 {
        await withCheckedContinuation { continuation in
            onEnd { status in
                let signal = status & 0x7f
                continuation.resume(returning: signal == 0 ? (status >> 8) & 0xff : 128 + signal)
            }
        }
    }

    /// Sends the signal and waits for the end.
    @discardableResult
    func stop(_ signal: Int32 = SIGTERM) async -> Int32 {
        // The lock keeps the number ours: it is given back only by `collect`.
        state.withLock { if $0.status == nil { kill(pid, signal) } }
        return await end()
    }

    private func collect() {
        // Seen, but not yet collected: until `status` is set the kernel must not give the number to another process.
        var information = siginfo_t()
        while waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        let (status, actions) = state.withLock { state in
            var status: Int32 = 0
            while waitpid(pid, &status, 0) < 0, errno == EINTR {}
            state.status = status
            defer { state.onEnd = [] }
            return (status, state.onEnd)
        }
        for action in actions { action(status) }
    }
}

/// The output of a program that was run to its end.
struct Output: Sendable {
    var status: Int32
    var text: String
    /// Standard error.
    var talk: String
}

extension Child {
    /// Runs a program to its end.
    static func run(_ arguments: [String], environment: [String: String] = [:], in folder: String) async throws
        -> Output
    {
        let log = "\(folder)/talk-\(UUID().uuidString)"
        defer { unlink(log) }
        let pipe = try LinePipe()
        let child = try Child(arguments, environment: environment, log: log, output: pipe.writingEnd)
        let text = await pipe.rest()
        let status = await child.end()
        let talk = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        return Output(status: status, text: text, talk: talk)
    }
}

/// A pipe for a program's standard output. A thread reads it, so that no executor waits in `read`.
final class LinePipe: Sendable {
    /// For the program. The reader sees the end when the last copy of this is closed.
    let writingEnd: Int32
    private let readingEnd: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw StandError("pipe: \(String(cString: strerror(errno)))") }
        // No other program may hold the writing end, or the reader never sees the end.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        readingEnd = ends[0]
        writingEnd = ends[1]
    }

    deinit {
        close(readingEnd)
    }

    /// The next line without its end; `nil` at the end of the output.
    func line() async -> String? {
        await onThread { descriptor in
            var line: [UInt8] = []
            var byte: UInt8 = 0
            while Glibc.read(descriptor, &byte, 1) == 1 {
                if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
                line.append(byte)
            }
            return nil
        }
    }

    /// Everything up to the end.
    func rest() async -> String {
        await onThread { descriptor in
            var all: [UInt8] = []
            var piece = [UInt8](repeating: 0, count: 64 << 10)
            while true {
                let count = Glibc.read(descriptor, &piece, piece.count)
                if count <= 0 { return String(decoding: all, as: UTF8.self) }
                all += piece.prefix(count)
            }
        } ?? ""
    }

    private func onThread(_ body: @escaping @Sendable (Int32) -> String?) async -> String? {
        await withCheckedContinuation { continuation in
            let thread = Thread { [self] in continuation.resume(returning: body(readingEnd)) }
            thread.start()
        }
    }
}
