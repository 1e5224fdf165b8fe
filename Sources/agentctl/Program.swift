import Glibc
import SyncCore

/// Runs another program of this machine to its end.
enum Program {
    struct Absent: Error {
        var errno: Int32
    }

    /// - Returns: The exit status (128 plus the signal's number after a signal), and its complaint.
    static func run(_ name: String, _ arguments: [String]) throws(CommandFailure) -> (status: Int32, complaint: String) {
        do throws(Absent) {
            let result = try run([name], arguments, hears: STDERR_FILENO)
            return (result.status, line(of: result.bytes))
        } catch {
            throw CommandFailure.failed("program", "\(name) could not be started: \(String(cString: strerror(error.errno)))")
        }
    }

    /// - Parameters:
    ///   - paths: Candidates; the first one that can be started is used.
    ///   - hears: The descriptor of the program whose bytes are returned.
    static func run(_ paths: [String], _ arguments: [String], hears descriptor: Int32) throws(Absent) -> (status: Int32, bytes: [UInt8]) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Absent(errno: errno) }
        // The program gets the writing end only under that number.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], descriptor)
        // A caller that reads standard error prints results of its own.
        if descriptor != STDOUT_FILENO { posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) }
        defer {
            posix_spawn_file_actions_destroy(&actions)
            close(ends[0])
        }
        let name = paths.last.flatMap { $0.split(separator: "/").last }.map(String.init) ?? ""
        var pointers: [UnsafeMutablePointer<CChar>?] = ([name] + arguments).map { strdup($0) }
        pointers.append(nil)
        defer { for pointer in pointers { free(pointer) } }
        var child: pid_t = 0
        var error: Int32 = ENOENT
        for path in paths where error != 0 { error = posix_spawnp(&child, path, &actions, nil, pointers, environ) }
        // Our copy of the writing end must be closed, or reading never ends.
        close(ends[1])
        guard error == 0 else { throw Absent(errno: error) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = read(ends[0], &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            bytes += piece.prefix(count)
        }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        let signal = status & 0x7f
        return (signal == 0 ? (status >> 8) & 0xff : 128 + signal, bytes)
    }

    /// The output in one line.
    static func line(of bytes: [UInt8]) -> String {
        String(decoding: bytes, as: UTF8.self).split(separator: "\n").prefix(3).joined(separator: "; ")
    }
}
