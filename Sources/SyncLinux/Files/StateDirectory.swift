import Glibc
import Synchronization

/// The directory with all state that must survive, held by one process at a time.
///
/// While an object of this type lives, an exclusive `flock` on the file `lock` in the directory keeps a second process away. Two writers
/// with one identity would make the hub see two devices as one. The lock ends with the process, even after a crash.
package final class StateDirectory: Sendable {
    package let path: String
    /// Warnings for the operator, as sentences: open to other users, content lost at a restart.
    package let warnings: [String]

    private let calls: any FileCalls
    private let held: Mutex<(facts: FileFacts, descriptor: Int32)?>

    /// Opens the directory and takes the lock. A missing directory is created (mode 0700) when its parent belongs to this user.
    ///
    /// - Parameter userID: The effective user of this process.
    /// - Throws: `.inUse` with the holder's process id; `.missing`, `.wrongKind`, `.wrongOwner`, `.exposed`; `.unsuitable` on FAT and
    ///   network file systems, which keep neither modes nor locks nor the order of writes; or the error of a system call. After an error
    ///   nothing is held.
    package static func open(
        _ path: String, calls: any FileCalls, userID: UInt32
    ) throws(LinuxError) -> StateDirectory {
        var warnings: [String] = []
        try createIfMissing(path, calls, userID)
        warnings += try inspect(path, calls, userID)
        warnings += try inspectFileSystem(path, calls)

        return StateDirectory(path, warnings: warnings, calls: calls, held: try hold(path, calls))
    }

    private static func hold(_ path: String, _ calls: any FileCalls) throws(LinuxError) -> (facts: FileFacts, descriptor: Int32) {
        let lockPath = path + "/lock"
        let descriptor = try openLock(lockPath, calls)
        do throws(LinuxError) {
            try lock(descriptor, lockPath, calls)
            let facts = try calls.step(.inspectLock, lockPath) { calls, step throws(Errno) in
                try calls.facts(of: descriptor, for: step)
            }
            return (facts, descriptor)
        } catch {
            // Closing gives up only the lock, which is not needed any more.
            _ = try? calls.close(descriptor, for: .closeFile)
            throw error
        }
    }

    /// Opens the file of the lock. A read-only disk has the file of the last run, and a lock on it keeps other processes away just as well.
    private static func openLock(_ path: String, _ calls: any FileCalls) throws(LinuxError) -> Int32 {
        try calls.step(.openLock, path) { calls, step throws(Errno) in
            do throws(Errno) {
                return try calls.open(path, flags: O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode: 0o600, for: step)
            } catch {
                guard error.number == EROFS else { throw error }
                return try calls.open(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK, mode: 0, for: step)
            }
        }
    }

    private init(_ path: String, warnings: [String], calls: any FileCalls, held: (facts: FileFacts, descriptor: Int32)) {
        self.path = path
        self.warnings = warnings
        self.calls = calls
        self.held = Mutex(held)
    }

    deinit {
        close()
    }

    /// Gives the lock back. Afterwards the object only answers questions about the path.
    package func close() {
        held.withLock { held in
            // The descriptor carries no data that matters, so a failing close loses nothing.
            if let open = held?.descriptor { _ = try? calls.close(open, for: .closeFile) }
            held = nil
        }
    }

    /// Takes the lock anew after its file was removed. A lock on a file without a name keeps no process away.
    ///
    /// - Throws: `.inUse` when another process was quicker, or the error of a system call. The old lock is still held then.
    package func holdAgain() throws(LinuxError) {
        let result: Result<Void, LinuxError> = held.withLock { held in
            guard let before = held, !isFound(before.facts) else { return .success(()) }
            do throws(LinuxError) {
                let anew = try Self.hold(path, calls)
                // The descriptor carries no data that matters, so a failing close loses nothing.
                _ = try? calls.close(before.descriptor, for: .closeFile)
                held = anew
                return .success(())
            } catch {
                return .failure(error)
            }
        }
        try result.get()
    }

    /// Refuses names in the directory that are symbolic links. SQLite would follow the link of a database and put its log beside the
    /// target. A copy, a move or a rescue of the directory would then miss that log.
    ///
    /// - Throws: `.wrongKind` for the first name that is a link.
    package func refuseLinks(_ names: [String]) throws(LinuxError) {
        for name in names {
            let place = "\(path)/\(name)"
            // A missing file is no link. A file that cannot be inspected fails later, when it is opened.
            guard let facts = try? calls.facts(at: place, for: .inspectState), facts.kind == .symbolicLink else { continue }
            throw LinuxError(
                .wrongKind, doing: FileStep.openFile.rawValue, path: place,
                expected: "a regular file, not a symbolic link; stop agentd and move the file that it leads to here, or set "
                    + "store.path to the folder of that file")
        }
    }

    package func freeSpace() throws(LinuxError) -> FileSystemSpace {
        try calls.step(.measureSpace, path) { calls, step throws(Errno) in try calls.space(at: path, for: step) }
    }

    /// Returns whether the file of the lock is still in the directory. It is `false` after the file or the directory was removed or
    /// replaced.
    package func isInPlace() -> Bool {
        held.withLock { held in held.map { isFound($0.facts) } ?? false }
    }

    /// Returns whether the file with our lock can be found by its name. Any failure means that it cannot.
    private func isFound(_ facts: FileFacts) -> Bool {
        // The kind of failure makes no difference: the file is not found.
        guard let now = try? calls.facts(at: path + "/lock", for: .inspectLock) else { return false }
        return now.device == facts.device && now.inode == facts.inode
    }

    // MARK: - Opening, step by step

    private static func createIfMissing(_ path: String, _ calls: any FileCalls, _ userID: UInt32) throws(LinuxError) {
        do throws(Errno) {
            _ = try calls.facts(at: path, for: .inspectState)
            return
        } catch {
            guard error.number == ENOENT else {
                throw LinuxError(
                    error.code, doing: FileStep.inspectState.rawValue, path: path, errno: error.number)
            }
        }
        let parent = Self.parent(of: path)
        let facts = try calls.step(.inspectParent, parent) { calls, step throws(Errno) in
            try calls.facts(at: parent, for: step)
        }
        guard facts.kind == .directory, facts.owner == userID else {
            throw LinuxError(
                .missing, doing: FileStep.makeState.rawValue, path: path,
                expected: "the directory to exist, or its parent to belong to user \(userID)")
        }
        try calls.step(.makeState, path) { calls, step throws(Errno) in
            try calls.makeDirectory(path, mode: 0o700, for: step)
        }
    }

    private static func inspect(
        _ path: String, _ calls: any FileCalls, _ userID: UInt32
    ) throws(LinuxError) -> [String] {
        var flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW
        let named = try calls.step(.inspectState, path) { calls, step throws(Errno) in
            try calls.facts(at: path, for: step)
        }
        if named.kind == .symbolicLink {
            // systemd's DynamicUser= makes /var/lib/NAME a link, owned by root, to /var/lib/private/NAME. A link of another user would let
            // that user choose where we write.
            guard named.owner == 0 else {
                throw LinuxError(
                    .wrongKind, doing: FileStep.inspectState.rawValue, path: path,
                    expected: "a directory, not a symbolic link of user \(named.owner)")
            }
            flags = O_RDONLY | O_DIRECTORY
        } else if named.kind != .directory {
            throw LinuxError(
                .wrongKind, doing: FileStep.inspectState.rawValue, path: path, expected: "a directory")
        }

        let descriptor = try calls.step(.openState, path) { [flags] calls, step throws(Errno) in
            try calls.open(path, flags: flags, mode: 0, for: step)
        }
        // The descriptor only serves to inspect the directory.
        defer { _ = try? calls.close(descriptor, for: .closeFile) }
        let facts = try calls.step(.inspectState, path) { calls, step throws(Errno) in
            try calls.facts(of: descriptor, for: step)
        }
        guard facts.owner == userID else {
            throw LinuxError(
                .wrongOwner, doing: FileStep.inspectState.rawValue, path: path,
                expected: "owner user \(userID), found user \(facts.owner)")
        }
        let mode = "0\(String(facts.mode, radix: 8))"
        guard facts.mode & 0o022 == 0 else {
            throw LinuxError(
                .exposed, doing: FileStep.inspectState.rawValue, path: path, expected: "mode 0700, found \(mode)")
        }
        return facts.mode & 0o055 == 0 ? [] : ["\(path) can be read by other users (mode \(mode)); 0700 is enough"]
    }

    private static func inspectFileSystem(_ path: String, _ calls: any FileCalls) throws(LinuxError) -> [String] {
        let magic = try calls.step(.inspectFileSystem, path) { calls, step throws(Errno) in
            try calls.fileSystemMagic(at: path, for: step)
        }
        switch FileSystemVerdict(magic: magic) {
        case .fit:
            return []
        case .volatile(let name):
            return ["\(path) is on \(name): files there may be gone after a restart"]
        case .unfit(let name):
            throw LinuxError(
                .unsuitable, doing: FileStep.inspectFileSystem.rawValue, path: path,
                expected: "a local file system with permissions and locks, found \(name)")
        }
    }

    private static func lock(_ descriptor: Int32, _ lockPath: String, _ calls: any FileCalls) throws(LinuxError) {
        let ours = try calls.step(.lock, lockPath) { calls, step throws(Errno) in
            try calls.lock(descriptor, for: step)
        }
        guard ours else {
            // The process id only makes the message better; without it the message is still true.
            let noted = (try? calls.read(descriptor, upTo: noteLength, for: .readOwner)) ?? []
            let digits = noted.prefix { (48...57).contains($0) }
            let holder = digits.isEmpty ? "another process" : "process \(String(decoding: digits, as: UTF8.self))"
            throw LinuxError(
                .inUse, doing: FileStep.lock.rawValue, path: lockPath,
                expected: "no other program in the same folder, but \(holder) holds it")
        }
        // The length is constant, so that no digit of an older, longer number remains.
        let number = String(getpid())
        let note = number + String(repeating: " ", count: max(0, noteLength - 1 - number.utf8.count)) + "\n"
        // The lock holds even when a full disk refuses the note.
        _ = try? calls.write(descriptor, Array(note.utf8)[...], for: .writeOwner)
    }

    private static let noteLength = 11

    private static func parent(of path: String) -> String {
        var bytes = Array(path.utf8)
        while bytes.count > 1, bytes.last == 47 { bytes.removeLast() }
        guard let slash = bytes.lastIndex(of: 47) else { return "." }
        return slash == 0 ? "/" : String(decoding: bytes[..<slash], as: UTF8.self)
    }
}

/// Suitability of a file system for state.
package enum FileSystemVerdict: Hashable, Sendable {
    case fit
    /// It may lose its content: memory, or the upper layer of a container.
    case volatile(name: String)
    case unfit(name: String)

    /// - Parameter magic: `f_type` of `statfs(2)`; numbers from `linux/magic.h` and the file systems' own sources.
    init(magic: UInt32) {
        switch magic {
        case 0x0102_1994: self = .volatile(name: "tmpfs")
        case 0x8584_58F6: self = .volatile(name: "ramfs")
        case 0x794C_7630: self = .volatile(name: "overlayfs")
        case 0x4D44: self = .unfit(name: "FAT")
        case 0x2011_BAB0: self = .unfit(name: "exFAT")
        case 0x6969: self = .unfit(name: "NFS")
        case 0x517B, 0xFE53_4D42: self = .unfit(name: "SMB")
        case 0xFF53_4D42: self = .unfit(name: "CIFS")
        case 0x0102_1997: self = .unfit(name: "9p")
        default: self = .fit
        }
    }
}
