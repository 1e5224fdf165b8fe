import Foundation
import Glibc
import SyncCore
import SyncLinux
import Testing

@Suite("Files of blobs")
struct BlobFilesTests {
    private let folder: BlobTestFolder
    private let files: BlobFiles

    init() throws {
        folder = try BlobTestFolder()
        files = try BlobFiles(folder.path + "/blobs")
    }

    private static func digest(_ bytes: [UInt8]) -> BlobDigest { BlobDigest(bytes: SHA256.hash(bytes))! }

    @Test(
        "A file gets its final name when it is whole, and its digest equals that of the core's own SHA-256",
        arguments: [1, 63, 64, 65, 300_000])
    func wholeFileGetsItsFinalName(_ count: Int) throws {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let file = try files.open(incoming: "a", at: 0)
        for start in stride(from: 0, to: count, by: 7_000) { try file.append(Array(bytes[start..<min(count, start + 7_000)])) }
        #expect(try files.kept() == [])
        let digest = file.digest()
        #expect(digest == Self.digest(bytes))
        try file.keep(as: digest)
        #expect(try files.kept() == [digest])
        #expect(try files.incoming().isEmpty)
        #expect(try files.size(of: digest) == Int64(count))
        let reader = try files.read(digest)
        #expect(try reader.read(at: 0, count: count + 10) == bytes)
        #expect(try reader.read(at: Int64(count), count: 10) == [])
        try files.remove(digest)
        try files.remove(digest)
        #expect(try files.size(of: digest) == nil)
    }

    @Test("A folder that cannot be made at first, or is removed later, is made when something comes in")
    func madeLater() throws {
        let path = folder.path + "/later"
        try Data("no folder".utf8).write(to: URL(fileURLWithPath: path))
        let files = BlobFiles(at: path)
        #expect { try files.open(incoming: "a", at: 0) } throws: { "\($0)".contains("it is no folder") }
        #expect(throws: BlobError.self) { try files.kept() }
        try FileManager.default.removeItem(atPath: path)
        for name in ["a", "b"] {
            let file = try files.open(incoming: name, at: 0)
            try file.append(Array(name.utf8))
            try file.keep(as: file.digest())
            #expect(try files.kept().count == 1)
            try FileManager.default.removeItem(atPath: path)
        }
    }

    @Test("The id of a folder is that of the first process that gives it one, until it is replaced; a folder that is not there has none")
    func folderID() throws {
        let (one, two) = (try #require(FolderID("00112233445566aa")), try #require(FolderID("ffeeddccbbaa9988")))
        #expect(try files.folderID() == nil)
        #expect(try BlobFiles(at: folder.path + "/none/blobs").folderID() == nil)
        try files.setFolderID(one, replacing: false)
        try files.setFolderID(two, replacing: false)
        #expect(try BlobFiles(at: folder.path + "/blobs").folderID() == one)
        try files.setFolderID(two, replacing: true)
        #expect(try files.folderID() == two)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/blobs").sorted() == ["files.id", "incoming"])
        var facts = stat()
        #expect(stat(folder.path + "/blobs/files.id", &facts) == 0 && facts.st_mode & 0o777 == 0o600)
        #expect(try files.kept() == [] && files.incoming().isEmpty)
        try Data("none of them\n".utf8).write(to: URL(fileURLWithPath: folder.path + "/blobs/files.id"))
        #expect { try files.folderID() } throws: { ($0 as? BlobError)?.code == .damaged }
    }

    @Test("A file that is taken up again goes on at the offset that was said, whatever lies beyond it")
    func resume() throws {
        let bytes = (0..<1_000).map { UInt8(truncatingIfNeeded: $0) }
        do {
            let file = try files.open(incoming: "a", at: 0)
            try file.append(Array(bytes[..<600]) + [9, 9, 9])
            try file.sync()
        }
        let again = try files.open(incoming: "a", at: 600)
        try again.append(Array(bytes[600...]))
        #expect(again.digest() == Self.digest(bytes))
        #expect(again.offset == 1_000)
    }

    @Test("Two processes never write to one file, and none to one that has its final name")
    func fenced() throws {
        let others = try BlobFiles(folder.path + "/blobs")
        let first = try files.open(incoming: "a", at: 0)
        try first.append([1, 2, 3])
        #expect { try others.open(incoming: "a", at: 0) } throws: { "\($0)".contains("lock") }
        try first.sync()
        let second = try others.open(incoming: "a", at: 3)
        #expect { try first.append([4]) } throws: { "\($0)".contains("lock") }
        try second.append([4, 5])
        try second.sync()
        #expect { try first.append([4]) } throws: { "\($0)".contains("has changed it") }
        let digest = second.digest()
        try second.keep(as: digest)
        let late = try #require(try? files.read(digest))
        #expect { try first.append([9]) } throws: { $0 is BlobError }
        #expect(try late.read(at: 0, count: 10) == [1, 2, 3, 4, 5])
    }

    @Test("Fewer bytes than were said are damage, not a shorter file")
    func damaged() throws {
        do {
            let file = try files.open(incoming: "a", at: 0)
            try file.append([1, 2, 3])
        }
        #expect { try files.open(incoming: "a", at: 4) } throws: { ($0 as? BlobError)?.code == .damaged }
    }

    @Test(
        "Names that could lead elsewhere are refused",
        arguments: ["", ".", "..", "../x", "a/b", "a\u{0}b", String(repeating: "a", count: 65)])
    func names(_ name: String) {
        #expect(throws: BlobError.self) { try files.open(incoming: name, at: 0) }
    }

    @Test("A link in place of an incoming file is not followed")
    func link() throws {
        try "secret".write(toFile: folder.path + "/elsewhere", atomically: false, encoding: .utf8)
        symlink(folder.path + "/elsewhere", folder.path + "/blobs/incoming/a")
        #expect(throws: BlobError.self) { try files.open(incoming: "a", at: 0) }
        #expect(try String(contentsOfFile: folder.path + "/elsewhere", encoding: .utf8) == "secret")
    }

    @Test("Only a regular file is copied; a FIFO, a folder and a device are refused at once", arguments: ["fifo", "folder", "device"])
    func kinds(_ kind: String) throws {
        let path = folder.path + "/source"
        switch kind {
        case "fifo": mkfifo(path, 0o600)
        case "folder": mkdir(path, 0o700)
        default: symlink("/dev/zero", path)
        }
        let descriptor = open(path, O_RDONLY | O_NONBLOCK)
        #expect(descriptor >= 0)
        let file = try files.openFile(incoming: "a", at: 0)
        #expect { try file.copy(BlobSource(descriptor: descriptor) { close($0) }, atMost: 1 << 20) } throws: {
            ($0 as? BlobError)?.code == .refused
        }
    }

    @Test("A FIFO or folder in the place of a kept file counts as damage and blocks nothing", arguments: ["fifo", "folder"])
    func otherKindsOfFilesCountAsDamage(_ kind: String) throws {
        let file = try files.open(incoming: "a", at: 0)
        try file.append([1, 2, 3])
        let digest = file.digest()
        try file.keep(as: digest)
        let path = try #require(FileManager.default.subpaths(atPath: folder.path + "/blobs")?.first { $0.hasSuffix(digest.hex) })
        unlink(folder.path + "/blobs/" + path)
        if kind == "fifo" { mkfifo(folder.path + "/blobs/" + path, 0o600) } else { mkdir(folder.path + "/blobs/" + path, 0o700) }
        #expect { _ = try files.read(digest) } throws: { ($0 as? BlobError)?.code == .damaged }
    }

    @Test("A sparse terabyte is too large before a byte of it is read")
    func sparse() throws {
        let path = folder.path + "/sparse"
        let descriptor = open(path, O_RDWR | O_CREAT, 0o600)
        #expect(ftruncate(descriptor, 1 << 40) == 0)
        let file = try files.openFile(incoming: "a", at: 0)
        #expect { try file.copy(BlobSource(descriptor: descriptor) { close($0) }, atMost: 2_000_000_000) } throws: {
            ($0 as? BlobError)?.code == .tooLarge
        }
        #expect(file.offset == 0)
    }

    @Test("A file that was handed over is copied whole, and changes of it afterwards change nothing here")
    func copies() throws {
        let bytes = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let path = folder.path + "/photo"
        #expect(FileManager.default.createFile(atPath: path, contents: Data(bytes)))
        let file = try files.openFile(incoming: "a", at: 0)
        try file.copy(BlobSource(descriptor: open(path, O_RDONLY)) { close($0) }, atMost: 1 << 20)
        try Data([0]).write(to: URL(fileURLWithPath: path))
        #expect(file.digest() == Self.digest(bytes))
        try file.keep(as: file.digest())
        #expect(try files.read(Self.digest(bytes)).read(at: 0, count: 1 << 20) == bytes)
    }

    struct Path: Sendable {
        var what: String
        var path: String
        var isTaken: Bool
        var below: [String] = ["drop"]
    }

    @Test(
        "A path is opened only below the folders that are configured, through no link, for its owner",
        arguments: [
            Path(what: "a file", path: "drop/a.jpg", isTaken: true),
            Path(what: "in a folder below", path: "drop/sub/b.jpg", isTaken: true),
            Path(what: "beside it", path: "other/c.jpg", isTaken: false),
            Path(what: "upwards", path: "drop/../other/c.jpg", isTaken: false),
            Path(what: "a link", path: "drop/link.jpg", isTaken: false),
            Path(what: "through a link", path: "drop/linked/c.jpg", isTaken: false),
            Path(what: "not there", path: "drop/none.jpg", isTaken: false),
            Path(what: "the folder itself", path: "drop", isTaken: false),
            Path(what: "a folder whose name only begins alike", path: "dropped/d.jpg", isTaken: false),
            Path(what: "no folder is configured", path: "drop/a.jpg", isTaken: false, below: []),
        ])
    func paths(_ example: Path) throws {
        for name in ["drop/sub", "other", "dropped"] {
            try FileManager.default.createDirectory(atPath: folder.path + "/" + name, withIntermediateDirectories: true)
        }
        for name in ["drop/a.jpg", "drop/sub/b.jpg", "other/c.jpg", "dropped/d.jpg"] {
            try "x".write(toFile: folder.path + "/" + name, atomically: false, encoding: .utf8)
        }
        symlink(folder.path + "/other/c.jpg", folder.path + "/drop/link.jpg")
        symlink(folder.path + "/other", folder.path + "/drop/linked")
        let below = example.below.map { folder.path + "/" + $0 }
        let isTaken = (try? files.source(path: folder.path + "/" + example.path, below: below, ownedBy: geteuid())) != nil
        #expect(isTaken == example.isTaken, "\(example.what)")
        // Root may name any file there; other users only their own files.
        let stranger = try? files.source(path: folder.path + "/drop/a.jpg", below: below, ownedBy: 4_242)
        #expect(stranger == nil)
    }

    @Test("Files in the folder under other names are no blobs")
    func strangers() throws {
        let path = folder.path + "/blobs"
        mkdir(path + "/ab", 0o700)
        for name in ["ab/notes.txt", "ab/" + String(repeating: "a", count: 63), "ab/" + String(repeating: "c", count: 64)] {
            try "x".write(toFile: path + "/" + name, atomically: false, encoding: .utf8)
        }
        #expect(try files.kept() == [])
    }
}

/// A folder that goes with the test.
private final class BlobTestFolder: Sendable {
    let path: String

    init() throws {
        path = "/tmp/blob-files-\(UUID().uuidString.prefix(13))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
