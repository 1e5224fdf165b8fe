import Foundation
import SyncLinux
import Synchronization

/// The system's files, except that one step fails, once or always; and a record of all steps in their order.
final class FailingFiles: FileCalls {
    let failing: FileStep?
    let errno: Int32
    /// The type of the file system (`f_type` of statfs(2)), and the facts of its files as the test changes them.
    let magic: UInt32?
    let change: @Sendable (FileFacts, FileStep) -> FileFacts
    private let real = LinuxFileCalls()
    private let taken = Mutex<[FileStep]>([])
    private let openCount = Mutex(0)

    init(
        failing: FileStep? = nil, errno: Int32 = EIO, magic: UInt32? = nil,
        change: @escaping @Sendable (FileFacts, FileStep) -> FileFacts = { facts, _ in facts }
    ) {
        self.failing = failing
        self.errno = errno
        self.magic = magic
        self.change = change
    }

    var steps: [FileStep] { taken.withLock { $0 } }
    /// Descriptors that were opened and not closed.
    var openDescriptors: Int { openCount.withLock { $0 } }

    private func enter(_ step: FileStep) throws(Errno) {
        taken.withLock { $0.append(step) }
        if step == failing { throw Errno(number: errno) }
    }

    func open(_ path: String, flags: Int32, mode: UInt32, for step: FileStep) throws(Errno) -> Int32 {
        try enter(step)
        let descriptor = try real.open(path, flags: flags, mode: mode, for: step)
        openCount.withLock { $0 += 1 }
        return descriptor
    }

    func read(_ descriptor: Int32, upTo count: Int, for step: FileStep) throws(Errno) -> [UInt8] {
        try enter(step)
        return try real.read(descriptor, upTo: count, for: step)
    }

    /// A little at a time, as a signal or a full disk makes it.
    func write(_ descriptor: Int32, _ bytes: ArraySlice<UInt8>, for step: FileStep) throws(Errno) -> Int {
        try enter(step)
        return try real.write(descriptor, bytes.prefix(max(1, bytes.count / 2)), for: step)
    }

    func setMode(_ descriptor: Int32, _ mode: UInt32, for step: FileStep) throws(Errno) {
        try enter(step)
        try real.setMode(descriptor, mode, for: step)
    }

    func sync(_ descriptor: Int32, for step: FileStep) throws(Errno) {
        try enter(step)
        try real.sync(descriptor, for: step)
    }

    /// Closes in any case, as Linux does.
    func close(_ descriptor: Int32, for step: FileStep) throws(Errno) {
        openCount.withLock { $0 -= 1 }
        try real.close(descriptor, for: step)
        try enter(step)
    }

    func rename(_ path: String, to target: String, for step: FileStep) throws(Errno) {
        try enter(step)
        try real.rename(path, to: target, for: step)
    }

    func remove(_ path: String, for step: FileStep) throws(Errno) {
        try enter(step)
        try real.remove(path, for: step)
    }

    func makeDirectory(_ path: String, mode: UInt32, for step: FileStep) throws(Errno) {
        try enter(step)
        try real.makeDirectory(path, mode: mode, for: step)
    }

    func names(in path: String, for step: FileStep) throws(Errno) -> [String] {
        try enter(step)
        return try real.names(in: path, for: step)
    }

    func facts(of descriptor: Int32, for step: FileStep) throws(Errno) -> FileFacts {
        try enter(step)
        return change(try real.facts(of: descriptor, for: step), step)
    }

    func facts(at path: String, for step: FileStep) throws(Errno) -> FileFacts {
        try enter(step)
        return change(try real.facts(at: path, for: step), step)
    }

    func lock(_ descriptor: Int32, for step: FileStep) throws(Errno) -> Bool {
        try enter(step)
        return try real.lock(descriptor, for: step)
    }

    func fileSystemMagic(at path: String, for step: FileStep) throws(Errno) -> UInt32 {
        try enter(step)
        if let magic { return magic }
        return try real.fileSystemMagic(at: path, for: step)
    }

    func space(at path: String, for step: FileStep) throws(Errno) -> FileSystemSpace {
        try enter(step)
        return try real.space(at: path, for: step)
    }
}
