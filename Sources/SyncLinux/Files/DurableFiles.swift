import Glibc

/// Writes whole files so that a power loss leaves the old content or the new one, never a mix.
///
/// The order of a write: temporary file beside the target, content, `fsync`, `rename`, `fsync` of the directory. A crash
/// before the rename leaves the target untouched and a temporary file, which ``removeLeftovers(of:owner:)`` removes at the
/// next start. A failed `fsync` is never repeated: the kernel has dropped the pages by then, and a second call would report
/// success for data that is not there.
package struct DurableFiles: Sendable {
    private let calls: any FileCalls

    package init(calls: any FileCalls) {
        self.calls = calls
    }

    /// Replaces or creates `path`. A symbolic link there is replaced itself; its target stays unchanged.
    ///
    /// - Parameter mode: Mode of the file, set exactly; the umask does not count.
    /// - Throws: The target is unchanged, except for `.notDurable`: then it has the new content, but a power loss may still
    ///   bring the old one back.
    package func write(_ bytes: [UInt8], to path: String, mode: UInt32 = 0o600) throws(LinuxError) {
        let (directory, name) = Self.split(path)
        let temporary = "\(directory)/\(Self.temporaryName(of: name))"
        let descriptor = try calls.step(.createTemporary, path) { calls, step throws(Errno) in
            try calls.open(temporary, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600, for: step)
        }
        do throws(LinuxError) {
            try fill(descriptor, with: bytes, mode: mode, path: path)
            try calls.step(.rename, path) { calls, step throws(Errno) in
                try calls.rename(temporary, to: path, for: step)
            }
        } catch {
            // The caller needs the first error. A temporary file that stays is removed at the next start.
            _ = try? calls.remove(temporary, for: .removeTemporary)
            throw error
        }
        do throws(LinuxError) {
            try syncDirectory(directory, for: path)
        } catch {
            throw LinuxError(.notDurable, doing: error.doing, path: path, errno: error.errno)
        }
    }

    /// Reads the whole content of a regular file. It refuses symbolic links, FIFOs, devices and directories.
    ///
    /// - Parameter maxBytes: Larger files are refused without being read. Files of `/proc` and `/sys`, which report another
    ///   size than they have, are read too.
    package func read(_ path: String, maxBytes: Int) throws(LinuxError) -> [UInt8] {
        try readWithFacts(path, maxBytes: maxBytes).bytes
    }

    /// Content and facts of the very same file, even when another file takes its name meanwhile.
    func readWithFacts(
        _ path: String, maxBytes: Int, check: (FileFacts) throws(LinuxError) -> Void = { _ in }
    ) throws(LinuxError) -> (bytes: [UInt8], facts: FileFacts) {
        // O_NONBLOCK: opening a FIFO that has no writer would block for ever. The flag has no effect on regular files.
        let descriptor: Int32
        do throws(LinuxError) {
            descriptor = try calls.step(.openFile, path) { calls, step throws(Errno) in
                try calls.open(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode: 0, for: step)
            }
        } catch {
            guard error.code == .wrongKind else { throw error }
            throw LinuxError(.wrongKind, doing: error.doing, path: path, expected: Self.regular, errno: error.errno)
        }
        // The descriptor was only read from, so a failing close loses nothing.
        defer { _ = try? calls.close(descriptor, for: .closeFile) }

        let facts = try calls.step(.inspectFile, path) { calls, step throws(Errno) in
            try calls.facts(of: descriptor, for: step)
        }
        guard facts.kind == .regular else {
            throw LinuxError(.wrongKind, doing: FileStep.inspectFile.rawValue, path: path, expected: Self.regular)
        }
        try check(facts)
        let tooLarge = LinuxError(
            .tooLarge, doing: FileStep.readFile.rawValue, path: path, expected: "at most \(maxBytes) bytes")
        if facts.size > Int64(maxBytes) { throw tooLarge }

        var bytes: [UInt8] = []
        while true {
            // One byte more than allowed is requested, to notice a file that has grown since it was inspected.
            let room = min(maxBytes - bytes.count + 1, 64 << 10)
            let piece = try calls.step(.readFile, path) { calls, step throws(Errno) in
                try calls.read(descriptor, upTo: room, for: step)
            }
            if piece.isEmpty { return (bytes, facts) }
            bytes += piece
            if bytes.count > maxBytes { throw tooLarge }
        }
    }

    /// Removes the temporary files that interrupted calls of ``write(_:to:mode:)`` left beside `path`. The caller must be the only writer
    /// of that path. Files with other names stay, and so do links, folders and files of other users.
    ///
    /// - Parameter owner: The effective user of this process.
    /// - Returns: The names that were removed, sorted.
    @discardableResult
    package func removeLeftovers(of path: String, owner: UInt32) throws(LinuxError) -> [String] {
        let (directory, name) = Self.split(path)
        let names = try calls.step(.listDirectory, directory) { calls, step throws(Errno) in
            try calls.names(in: directory, for: step)
        }
        var removed: [String] = []
        for leftover in names.sorted() where Self.isTemporaryName(leftover, of: name) {
            let place = "\(directory)/\(leftover)"
            let facts = try calls.step(.inspectFile, place) { calls, step throws(Errno) in
                try calls.facts(at: place, for: step)
            }
            guard facts.kind == .regular, facts.owner == owner else { continue }
            try calls.step(.removeLeftover, place) { calls, step throws(Errno) in
                try calls.remove(place, for: step)
            }
            removed.append(leftover)
        }
        return removed
    }

    // MARK: - The steps of a write

    private func fill(_ descriptor: Int32, with bytes: [UInt8], mode: UInt32, path: String) throws(LinuxError) {
        do throws(LinuxError) {
            try calls.step(.setTemporaryMode, path) { calls, step throws(Errno) in
                try calls.setMode(descriptor, mode, for: step)
            }
            var rest = bytes[...]
            while !rest.isEmpty {
                let taken = try calls.step(.writeTemporary, path) { [rest] calls, step throws(Errno) in
                    try calls.write(descriptor, rest, for: step)
                }
                rest = rest.dropFirst(taken)
            }
            try calls.step(.syncTemporary, path) { calls, step throws(Errno) in
                try calls.sync(descriptor, for: step)
            }
        } catch {
            // The file is about to be removed. The error to report is the one that led here.
            _ = try? calls.close(descriptor, for: .closeTemporary)
            throw error
        }
        // Some file systems report a failed write only here.
        try calls.step(.closeTemporary, path) { calls, step throws(Errno) in
            try calls.close(descriptor, for: step)
        }
    }

    private func syncDirectory(_ directory: String, for path: String) throws(LinuxError) {
        let descriptor = try calls.step(.openDirectory, path) { calls, step throws(Errno) in
            try calls.open(directory, flags: O_RDONLY | O_DIRECTORY, mode: 0, for: step)
        }
        // The fsync decides; closing a directory reports nothing of use.
        defer { _ = try? calls.close(descriptor, for: .closeDirectory) }
        try calls.step(.syncDirectory, path) { calls, step throws(Errno) in
            try calls.sync(descriptor, for: step)
        }
    }

    // MARK: - Names

    private static let regular = "a regular file, not a symbolic link"

    /// `.NAME.<16 hex digits>.tmp`: hidden, in the same directory (a rename does not cross file systems), unmistakable.
    private static func temporaryName(of name: String) -> String {
        let digits = String(UInt64.random(in: .min ... .max), radix: 16)
        return prefix(of: name) + String(repeating: "0", count: 16 - digits.count) + digits + ".tmp"
    }

    private static func prefix(of name: String) -> String {
        // The longest name that Linux takes is 255 bytes; the target's own name may use most of that.
        ".\(String(decoding: name.utf8.prefix(200), as: UTF8.self))."
    }

    private static func isTemporaryName(_ found: String, of name: String) -> Bool {
        let start = prefix(of: name).utf8
        guard found.utf8.starts(with: start) else { return false }
        let rest = Array(found.utf8.dropFirst(start.count))
        return rest.count == 20 && rest.suffix(4).elementsEqual(".tmp".utf8)
            && rest.prefix(16).allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }

    /// Splits a path into directory and name: `/a/b` gives `/a` and `b`, and `b` gives `.` and `b`.
    private static func split(_ path: String) -> (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let directory = String(path[..<slash])
        return (directory.isEmpty ? "/" : directory, String(path[path.index(after: slash)...]))
    }
}
