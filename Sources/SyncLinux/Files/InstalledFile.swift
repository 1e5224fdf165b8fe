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
        // A distributor may have put a link here.
        guard let place = realpath(path, nil) else { return nil }
        defer { free(place) }
        // Whatever the reason is, the caller says that the file is not there, and where it was expected.
        return try? DurableFiles(calls: LinuxFileCalls()).read(String(cString: place), maxBytes: bytesMax)
    }
}
