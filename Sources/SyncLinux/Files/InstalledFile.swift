import CSyncLinux
import Glibc

/// Files that came with the program, found from where the program itself is.
package enum InstalledFile {
    /// Nothing that is installed is larger.
    private static let bytesMax = 1 << 20

    /// - Parameter path: Below the folder that holds the program's own one: `share/x` beside `bin/agentd`.
    /// - Returns: `nil` when there is no such file, or it is larger than 1 MB.
    package static func read(_ path: String) -> [UInt8]? {
        guard let program = realpath("/proc/self/exe", nil) else { return nil }
        defer { free(program) }
        let folders = String(cString: program).split(separator: "/").dropLast(2)
        return read(at: "/" + folders.joined(separator: "/") + "/" + path)
    }

    package static func read(at path: String) -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var facts = stat()
        guard fstat(file, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, facts.st_size <= bytesMax else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(facts.st_size))
        var count = 0
        while count < bytes.count {
            let more = bytes.withUnsafeMutableBytes { pread(file, $0.baseAddress?.advanced(by: count), $0.count - count, off_t(count)) }
            if more < 0, errno == EINTR { continue }
            guard more > 0 else { return nil }
            count += more
        }
        return bytes
    }
}
