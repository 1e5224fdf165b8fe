import CSyncLinux
import Glibc

/// File calls to the operating system.
package struct LinuxFileCalls: FileCalls {
    package init() {}

    package func open(_ path: String, flags: Int32, mode: UInt32, for step: FileStep) throws(Errno) -> Int32 {
        try checked(path)
        return try repeated { Glibc.open(path, flags | O_CLOEXEC, mode) }
    }

    package func read(_ descriptor: Int32, upTo count: Int, for step: FileStep) throws(Errno) -> [UInt8] {
        var failure: Errno?
        let bytes = [UInt8](unsafeUninitializedCapacity: max(0, count)) { buffer, filled in
            do throws(Errno) {
                filled = try repeated { Glibc.read(descriptor, buffer.baseAddress, buffer.count) }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return bytes
    }

    package func write(_ descriptor: Int32, _ bytes: ArraySlice<UInt8>, for step: FileStep) throws(Errno) -> Int {
        let taken: Result<Int, Errno> = bytes.withUnsafeBytes { buffer in
            do throws(Errno) {
                return .success(try repeated { Glibc.write(descriptor, buffer.baseAddress, buffer.count) })
            } catch {
                return .failure(error)
            }
        }
        let count = try taken.get()
        // POSIX allows a write that writes nothing and reports no error. A loop around it would never end.
        guard count > 0 || bytes.isEmpty else { throw Errno(number: EIO) }
        return count
    }

    package func setMode(_ descriptor: Int32, _ mode: UInt32, for step: FileStep) throws(Errno) {
        _ = try repeated { fchmod(descriptor, mode) }
    }

    package func sync(_ descriptor: Int32, for step: FileStep) throws(Errno) {
        // EINTR is repeated here too: it means that the wait was interrupted, not that writing failed.
        _ = try repeated { fsync(descriptor) }
    }

    package func close(_ descriptor: Int32, for step: FileStep) throws(Errno) {
        // The call is never repeated: Linux has freed the descriptor whatever it returns (close(2)).
        if Glibc.close(descriptor) != 0, errno != EINTR { throw .current }
    }

    package func rename(_ path: String, to target: String, for step: FileStep) throws(Errno) {
        try checked(path)
        try checked(target)
        _ = try repeated { Glibc.rename(path, target) }
    }

    package func remove(_ path: String, for step: FileStep) throws(Errno) {
        try checked(path)
        _ = try repeated { unlink(path) }
    }

    package func makeDirectory(_ path: String, mode: UInt32, for step: FileStep) throws(Errno) {
        try checked(path)
        _ = try repeated { mkdir(path, mode) }
    }

    package func names(in path: String, for step: FileStep) throws(Errno) -> [String] {
        try checked(path)
        guard let directory = opendir(path) else { throw .current }
        defer { closedir(directory) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else {
                if errno != 0 { throw .current }
                return names
            }
            // The kernel ends the name with a NUL inside of d_name.
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: pointer.pointee)) {
                    String(cString: $0)
                }
            }
            if name != ".", name != ".." { names.append(name) }
        }
    }

    package func facts(of descriptor: Int32, for step: FileStep) throws(Errno) -> FileFacts {
        var status = stat()
        _ = try repeated { fstat(descriptor, &status) }
        return FileFacts(status)
    }

    package func facts(at path: String, for step: FileStep) throws(Errno) -> FileFacts {
        try checked(path)
        var status = stat()
        _ = try repeated { lstat(path, &status) }
        return FileFacts(status)
    }

    package func lock(_ descriptor: Int32, for step: FileStep) throws(Errno) -> Bool {
        do throws(Errno) {
            _ = try repeated { flock(descriptor, LOCK_EX | LOCK_NB) }
            return true
        } catch {
            if error.number == EWOULDBLOCK { return false }
            throw error
        }
    }

    package func fileSystemMagic(at path: String, for step: FileStep) throws(Errno) -> UInt32 {
        try checked(path)
        var magic: UInt32 = 0
        let result = csl_file_system_magic(path, &magic)
        if result != 0 { throw Errno(number: result) }
        return magic
    }

    package func space(at path: String, for step: FileStep) throws(Errno) -> FileSystemSpace {
        try checked(path)
        var status = statvfs()
        _ = try repeated { statvfs(path, &status) }
        func bytes(_ blocks: fsblkcnt_t) -> Int64 {
            let (product, overflow) = UInt64(blocks).multipliedReportingOverflow(by: UInt64(status.f_frsize))
            return overflow ? .max : Int64(clamping: product)
        }
        let countsInodes = status.f_files > 0
        return FileSystemSpace(
            freeBytes: bytes(status.f_bavail), totalBytes: bytes(status.f_blocks),
            freeInodes: countsInodes ? Int64(clamping: status.f_favail) : nil,
            totalInodes: countsInodes ? Int64(clamping: status.f_files) : nil)
    }

    /// A Swift string may hold a NUL, which would end the path early and name another file.
    private func checked(_ path: String) throws(Errno) {
        if path.utf8.contains(0) { throw Errno(number: EINVAL) }
    }

    private func repeated<Number: SignedInteger>(_ call: () -> Number) throws(Errno) -> Number {
        while true {
            let result = call()
            if result >= 0 { return result }
            if errno != EINTR { throw .current }
        }
    }
}

extension FileFacts {
    fileprivate init(_ status: stat) {
        let kind: Kind =
            switch status.st_mode & S_IFMT {
            case S_IFREG: .regular
            case S_IFDIR: .directory
            case S_IFLNK: .symbolicLink
            default: .other
            }
        self.init(
            kind: kind, mode: UInt32(status.st_mode) & 0o7777, owner: status.st_uid, size: Int64(status.st_size),
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    }
}
