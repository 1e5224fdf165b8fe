import BenchKit
import CBenchFloors
import FoundationEssentials
import Glibc

/// A small disk for the measurement: a file with an ext4 on it, behind a loop device, whose sectors are counted. A process's own count
/// (`/proc/PID/io`) differs from the bytes that reach the flash: it lacks the journal of the file system.
final class OwnDisk {
    let path: String
    private let device: String
    private let image: String

    /// - Returns: `nil` when it cannot be created here: it requires root and loop devices.
    init?(in folder: String, megabytes: Int) {
        image = "\(folder)/disk.img"
        path = "\(folder)/disk"
        guard geteuid() == 0, mkdir(path, 0o700) == 0 else { return nil }
        let file = open(image, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard file >= 0 else { return nil }
        defer { close(file) }
        guard ftruncate(file, off_t(megabytes) << 20) == 0,
            // Prevents later background work, which would be counted.
            OwnDisk.run("mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 \(image)", folder) != nil,
            let name = OwnDisk.run("losetup --find --show --direct-io=on \(image) || losetup --find --show \(image)", folder),
            name.hasPrefix("/dev/loop")
        else { return nil }
        device = name
        guard OwnDisk.run("mount -o noatime \(device) \(path)", folder) != nil else {
            _ = OwnDisk.run("losetup --detach \(device)", folder)
            return nil
        }
    }

    /// Bytes in sectors of 512 that were written, by the seventh number of `/sys/block/NAME/stat`.
    var writtenBytes: Double {
        sync()
        let name = device.split(separator: "/").last.map(String.init) ?? ""
        let text =
            FileManager.default.contents(atPath: "/sys/block/\(name)/stat").map { String(decoding: $0, as: UTF8.self) } ?? ""
        let numbers = text.split(separator: " ").compactMap { Double($0) }
        return numbers.count > 6 ? numbers[6] * 512 : 0
    }

    func remove() {
        let folder = path.split(separator: "/").dropLast().reduce(into: "") { $0 += "/" + $1 }
        _ = OwnDisk.run("umount \(path); losetup --detach \(device); rm -f \(image)", folder)
    }

    /// - Returns: The last line that the commands print; `nil` when they fail.
    private static func run(_ commands: String, _ folder: String) -> String? {
        let output = "\(folder)/disk.out"
        let script = "PATH=$PATH:/usr/sbin:/sbin; { \(commands); } >\(output)"
        // The caller does not distinguish a failed start from a failure.
        guard let pid = try? start(["/bin/sh", "-c", script], log: "\(folder)/disk.log"), bench_stop(pid, 0, 60_000) == 0 else {
            return nil
        }
        let text = FileManager.default.contents(atPath: output).map { String(decoding: $0, as: UTF8.self) } ?? ""
        return text.split(separator: "\n").last.map(String.init) ?? ""
    }
}
