import CBenchFloors
import Glibc

/// The folder of one measurement. Everything is written below it, so that floor and agent share its file system.
package struct Workplace {
    package let path: String
    package let fileSystem: FileSystem

    /// Creates a folder below `parent` that only this user may enter, and has it removed after a signal as well.
    ///
    /// - Throws: When `parent` cannot be written, or is in memory, where `fdatasync` means nothing.
    package init(under parent: String) throws {
        fileSystem = FileSystem(of: parent)
        guard fileSystem.isDurable else {
            throw BenchError("\(parent) is in memory (\(fileSystem.name)): choose a folder on a disk with --dir")
        }
        var template = Array("\(parent)/agentbench.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw BenchError("cannot make a folder in \(parent): \(String(cString: strerror(errno)))")
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let folder = path
        try checked("signals") { bench_remove_on_signal(folder, $0) }
    }

    /// A new empty folder; an old one of that name is removed.
    package func folder(_ name: String) throws -> String {
        let folder = "\(path)/\(name)"
        bench_remove_tree(folder)
        guard mkdir(folder, 0o700) == 0 else {
            throw BenchError("mkdir \(folder): \(String(cString: strerror(errno)))")
        }
        return folder
    }

    package func remove() {
        bench_remove_tree(path)
    }
}

/// The type of the file system of a folder, by the magic number of statfs(2).
package struct FileSystem {
    package let name: String
    package let isDurable: Bool

    /// From `linux/magic.h`. Others are named by their number.
    private static let names: [Int64: String] = [
        0xef53: "ext4", 0x9123_683e: "btrfs", 0x5846_5342: "xfs", 0xf2f5_2010: "f2fs", 0x794c_7630: "overlayfs",
        0x2fc1_2fc1: "zfs", 0x6969: "nfs", 0x0102_1994: "tmpfs", 0x8584_58f6: "ramfs",
    ]

    init(of path: String) {
        let magic = bench_file_system(path)
        name = FileSystem.names[magic] ?? "0x" + String(magic, radix: 16)
        isDurable = name != "tmpfs" && name != "ramfs"
    }
}
