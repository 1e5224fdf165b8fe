import Foundation
import Glibc

/// A file system of its own under a folder, small enough to be filled; gone with ``remove()``.
final class SmallDisk {
    let path: String
    private let image: String?

    /// The obstacle to these tests on this machine, in a word; `nil`: none.
    static let obstacle: String? = {
        guard geteuid() == 0 else { return "only root mounts" }
        let folder = "/tmp/edge-mount.\(getpid())"
        mkdir(folder, 0o700)
        defer { rmdir(folder) }
        guard run(["mount", "-t", "tmpfs", "none", folder]) else { return "mounting is not allowed here" }
        _ = run(["umount", folder])
        return nil
    }()

    /// The obstacle to mounting an ext4 in a file.
    static let obstacleOfExt4: String? = {
        if let obstacle { return obstacle }
        let probe = "/tmp/edge-ext4.\(getpid())"
        mkdir(probe, 0o700)
        defer { rmdir(probe) }
        guard let disk = try? SmallDisk(ext4: probe) else { return "e2fsprogs or loop devices are missing" }
        disk.remove()
        return nil
    }()

    /// Makes a file system in memory.
    init(_ path: String, bytes: Int, inodes: Int) throws {
        self.path = path
        image = nil
        mkdir(path, 0o700)
        guard Self.run(["mount", "-t", "tmpfs", "-o", "size=\(bytes),nr_inodes=\(inodes),mode=0700", "none", path]) else {
            throw StandError("cannot mount a tmpfs on \(path)")
        }
    }

    /// On a file, as a flash card would be: errors make it read-only.
    init(ext4 path: String) throws {
        self.path = path
        let image = path + ".image"
        self.image = image
        mkdir(path, 0o700)
        let file = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(file) }
        guard ftruncate(file, 48 << 20) == 0, Self.run(["mkfs.ext4", "-q", "-F", image]) else { throw StandError("cannot make \(image)") }
        try mountImage()
        chmod(path, 0o700)
    }

    private func mountImage() throws {
        guard let image, Self.run(["mount", "-o", "loop,errors=remount-ro", image, path]) else {
            throw StandError("cannot mount on \(path)")
        }
    }

    func remove() {
        _ = Self.run(["umount", "-l", path])
        if let image { unlink(image) }
    }

    /// Fills it to the last byte, with one file.
    func fill() {
        let file = open(path + "/filler", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(file) }
        for size in [1 << 20, 4_096, 1] {
            let piece = [UInt8](repeating: 0xEE, count: size)
            while write(file, piece, size) == size {}
        }
    }

    func empty() {
        unlink(path + "/filler")
    }

    /// Takes the last inode.
    func fillInodes() {
        var number = 0
        while true {
            let file = open("\(path)/i\(number)", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
            if file < 0 { break }
            close(file)
            number += 1
        }
    }

    func emptyInodes() {
        var number = 0
        while unlink("\(path)/i\(number)") == 0 { number += 1 }
    }

    /// Does what the kernel does when ext4 meets an error: the file system is read-only from now on, also for open files.
    func breakDown() throws {
        guard Self.run(["mount", "-o", "remount,abort", path]) else { throw StandError("cannot let \(path) break down") }
    }

    /// Remounts the file system, as the switch of a card does, even while files are open for reading.
    func remount(isReadOnly: Bool) throws {
        guard Self.run(["mount", "-o", isReadOnly ? "remount,ro" : "remount,rw", path]) else {
            throw StandError("cannot mount \(path) \(isReadOnly ? "read-only" : "for writing")")
        }
    }

    /// The kernel may hold the files of a process that has just ended for a moment more.
    private func unmount() throws {
        for _ in 0..<100 where Self.run(["umount", path]) { return }
        throw StandError("\(path) is in use")
    }

    /// Taken out and put in again.
    func mountAgain() throws {
        try unmount()
        try mountImage()
    }

    /// Takes the disk out and puts it in again, with one bit changed in between wherever its content has these bytes.
    ///
    /// - Parameter place: Index of the byte of them whose lowest bit is changed.
    /// - Returns: The number of changed places.
    func flip(_ bytes: String, at place: Int) throws -> Int {
        guard let image else { throw StandError("\(path) has no image") }
        try unmount()
        var content = try Data(contentsOf: URL(fileURLWithPath: image), options: .alwaysMapped)
        var places: [Int] = []
        var from = content.startIndex
        while let found = content.range(of: Data(bytes.utf8), in: from..<content.endIndex) {
            places.append(found.lowerBound + place)
            from = found.upperBound
        }
        content = Data()
        let file = open(image, O_RDWR | O_CLOEXEC)
        defer { close(file) }
        for place in places {
            var byte: UInt8 = 0
            guard pread(file, &byte, 1, off_t(place)) == 1 else { throw StandError("cannot read \(image)") }
            byte ^= 1
            guard pwrite(file, &byte, 1, off_t(place)) == 1 else { throw StandError("cannot write \(image)") }
        }
        fsync(file)
        try mountImage()
        return places.count
    }

    private static func run(_ command: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        process.environment = ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}
