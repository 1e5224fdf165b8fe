package import CBenchFloors
import FoundationEssentials
import Glibc

/// The program of that name beside this one.
package func neighbour(_ name: String) throws -> String {
    var buffer = [CChar](repeating: 0, count: 4_096)
    let length = readlink("/proc/self/exe", &buffer, buffer.count - 1)
    guard length > 0 else { throw BenchError("cannot find out where this program is: name \(name) with --\(name)") }
    let own = String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let path = own.split(separator: "/").dropLast().reduce(into: "") { $0 += "/" + $1 } + "/" + name
    guard access(path, X_OK) == 0 else { throw BenchError("\(path) does not exist: build it, or name it with --\(name)") }
    return path
}

package func start(_ arguments: [String], environment: [String] = [], log: String) throws -> pid_t {
    try start(arguments, environment: environment, log: log, outputPointer: nil)
}

/// - Parameter output: Set to the reading end of the program's standard output.
package func start(_ arguments: [String], environment: [String] = [], log: String, output: inout Int32) throws -> pid_t {
    try start(arguments, environment: environment, log: log, outputPointer: &output)
}

private func start(
    _ arguments: [String], environment: [String], log: String, outputPointer: UnsafeMutablePointer<Int32>?
) throws -> pid_t {
    var pid: pid_t = 0
    let argumentCopies = arguments.map { strdup($0) }
    let environmentCopies = environment.map { strdup($0) }
    defer { (argumentCopies + environmentCopies).forEach { free($0) } }
    let argumentList = argumentCopies.map { UnsafePointer($0) } + [nil]
    let environmentList = environmentCopies.map { UnsafePointer($0) } + [nil]
    try checked(arguments.first ?? "program") {
        bench_start(argumentList, environmentList, log, &pid, outputPointer, $0)
    }
    return pid
}

/// The next line of a child's output.
package func readLine(_ descriptor: Int32, of pid: pid_t, doing: String) throws -> String {
    var line = [CChar](repeating: 0, count: 4_096)
    try checked(doing) { bench_read_line(descriptor, pid, 30_000, &line, line.count, $0) }
    return String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// Writes a file that only this user may read.
package func write(_ text: String, to path: String) throws {
    let descriptor = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0o600)
    let bytes = Array(text.utf8)
    defer { close(descriptor) }
    guard descriptor >= 0, write(descriptor, bytes, bytes.count) == bytes.count else {
        throw BenchError("write \(path): \(String(cString: strerror(errno)))")
    }
}

/// The last lines of a log, for an error message.
package func tail(of path: String, lines: Int = 15) -> String {
    let text = (FileManager.default.contents(atPath: path)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return text.split(separator: "\n").suffix(lines).map { "  " + $0 }.joined(separator: "\n")
}
