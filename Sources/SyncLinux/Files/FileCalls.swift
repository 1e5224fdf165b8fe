import Glibc

/// Every call on files that this target makes, each with the step it belongs to.
///
/// Conformers: ``LinuxFileCalls`` and, in tests, one that lets precisely one step fail. Calls are repeated after `EINTR`;
/// nothing else is retried. Paths are used as given; a path with a NUL byte fails with `EINVAL`.
package protocol FileCalls: Sendable {
    /// `open(2)`; `O_CLOEXEC` is always added.
    func open(_ path: String, flags: Int32, mode: UInt32, for step: FileStep) throws(Errno) -> Int32
    /// Reads at most `count` bytes from the descriptor's position; empty at the end of the file.
    func read(_ descriptor: Int32, upTo count: Int, for step: FileStep) throws(Errno) -> [UInt8]
    /// - Returns: Number of bytes that were written, at least 1.
    func write(_ descriptor: Int32, _ bytes: ArraySlice<UInt8>, for step: FileStep) throws(Errno) -> Int
    func setMode(_ descriptor: Int32, _ mode: UInt32, for step: FileStep) throws(Errno)
    func sync(_ descriptor: Int32, for step: FileStep) throws(Errno)
    func close(_ descriptor: Int32, for step: FileStep) throws(Errno)
    func rename(_ path: String, to target: String, for step: FileStep) throws(Errno)
    func remove(_ path: String, for step: FileStep) throws(Errno)
    func makeDirectory(_ path: String, mode: UInt32, for step: FileStep) throws(Errno)
    /// Names in a directory, without `.` and `..`, in no order.
    func names(in path: String, for step: FileStep) throws(Errno) -> [String]
    func facts(of descriptor: Int32, for step: FileStep) throws(Errno) -> FileFacts
    /// Facts of the file at a path. For a symbolic link they are those of the link itself.
    func facts(at path: String, for step: FileStep) throws(Errno) -> FileFacts
    /// An exclusive `flock(2)` that lasts until the descriptor is closed.
    /// - Returns: `false` when another process holds one.
    func lock(_ descriptor: Int32, for step: FileStep) throws(Errno) -> Bool
    /// Magic number of the file system, from `statfs(2)`.
    func fileSystemMagic(at path: String, for step: FileStep) throws(Errno) -> UInt32
    func space(at path: String, for step: FileStep) throws(Errno) -> FileSystemSpace
}

/// Names the one place that makes a call. The words appear in error messages to the operator.
package enum FileStep: String, Sendable, CaseIterable {
    // Steps of DurableFiles, in the order in which a write makes them.
    case createTemporary = "create a temporary file beside"
    case setTemporaryMode = "set the mode of the new"
    case writeTemporary = "write the new"
    case syncTemporary = "fsync the new"
    case closeTemporary = "close after fsync of the new"
    case rename = "rename after fsync to"
    case openDirectory = "open the directory after the rename of"
    case syncDirectory = "fsync the directory after the rename of"
    case closeDirectory = "close the directory after its fsync for"
    case removeTemporary = "remove the temporary file of"
    case openFile = "open"
    case inspectFile = "inspect"
    case readFile = "read"
    case closeFile = "close"
    case listDirectory = "list"
    case removeLeftover = "remove the leftover"
    // Steps of StateDirectory.
    case inspectState = "inspect the state directory"
    case inspectParent = "inspect the parent of the state directory"
    case makeState = "create the state directory"
    case openState = "open the state directory"
    case inspectFileSystem = "inspect the file system of the state directory"
    case openLock = "open the lock file"
    case lock = "lock"
    case writeOwner = "write our process id to the lock file"
    case readOwner = "read who holds"
    case inspectLock = "inspect the lock file"
    case measureSpace = "measure the free space of"
}

package struct FileFacts: Sendable, Hashable {
    package enum Kind: Sendable, Hashable { case regular, directory, symbolicLink, other }

    package var kind: Kind
    /// The twelve lowest bits of the mode: permissions, sticky, set-id.
    package var mode: UInt32
    package var owner: UInt32
    package var size: Int64
    package var device: UInt64
    package var inode: UInt64
}

/// Room that an unprivileged process may still use on a file system.
package struct FileSystemSpace: Sendable, Hashable {
    package var freeBytes: Int64
    package var totalBytes: Int64
    /// `nil` where inodes are not counted (btrfs).
    package var freeInodes: Int64?
    package var totalInodes: Int64?
}

extension FileCalls {
    /// Runs one call and puts the step and the path into its error.
    func step<Value>(
        _ step: FileStep, _ path: String, _ call: (any FileCalls, FileStep) throws(Errno) -> Value
    ) throws(LinuxError) -> Value {
        do throws(Errno) {
            return try call(self, step)
        } catch {
            throw LinuxError(error.code, doing: step.rawValue, path: path, errno: error.number)
        }
    }
}
