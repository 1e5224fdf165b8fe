import Foundation
import SyncLinux
import Testing

@Suite("Durable files")
struct DurableFilesTests {
    @Test(
        "A write takes its steps in the order that a power loss cannot hurt, and sets the mode exactly",
        arguments: [0o600, 0o644] as [UInt32])
    func order(mode: UInt32) async throws {
        try await withTemporaryDirectory { directory in
            let calls = FailingFiles()
            let files = DurableFiles(calls: calls)
            let content = Array("new content".utf8)
            try files.write(content, to: directory + "/file", mode: mode)
            #expect(try files.read(directory + "/file", maxBytes: 100) == content)

            let writing = calls.steps.prefix { $0 != .openFile }.filter { $0 != .writeTemporary }
            #expect(
                writing == [
                    .createTemporary, .setTemporaryMode, .syncTemporary, .closeTemporary, .rename, .openDirectory, .syncDirectory,
                    .closeDirectory,
                ])
            let firstSync = try #require(calls.steps.firstIndex(of: .syncTemporary))
            #expect(calls.steps.lastIndex(of: .writeTemporary).map { $0 < firstSync } == true)
            #expect(calls.openDescriptors == 0)
            let facts = try LinuxFileCalls().facts(at: directory + "/file", for: .inspectFile)
            #expect(facts.mode == mode)
            #expect(try names(in: directory) == ["file"])
        }
    }

    struct Failure: Sendable, CustomTestStringConvertible {
        var step: FileStep
        var errno: Int32
        var code: LinuxError.Code
        var isReplaced = false
        var testDescription: String { "\(step.rawValue), \(Errno(number: errno))" }
    }

    @Test(
        "Whichever step fails, the target holds the old content or the new one, and nothing else is left",
        arguments: [
            Failure(step: .createTemporary, errno: EACCES, code: .denied),
            Failure(step: .createTemporary, errno: EROFS, code: .readOnly),
            Failure(step: .createTemporary, errno: EMFILE, code: .exhausted),
            Failure(step: .createTemporary, errno: ENOSPC, code: .full),
            Failure(step: .setTemporaryMode, errno: EPERM, code: .denied),
            Failure(step: .writeTemporary, errno: ENOSPC, code: .full),
            Failure(step: .writeTemporary, errno: EDQUOT, code: .full),
            Failure(step: .writeTemporary, errno: EFBIG, code: .full),
            Failure(step: .writeTemporary, errno: EIO, code: .failed),
            Failure(step: .syncTemporary, errno: EIO, code: .failed),
            Failure(step: .syncTemporary, errno: ENOSPC, code: .full),
            Failure(step: .closeTemporary, errno: EIO, code: .failed),
            Failure(step: .closeTemporary, errno: EDQUOT, code: .full),
            Failure(step: .rename, errno: EIO, code: .failed),
            Failure(step: .rename, errno: EACCES, code: .denied),
            Failure(step: .openDirectory, errno: EMFILE, code: .notDurable, isReplaced: true),
            Failure(step: .syncDirectory, errno: EIO, code: .notDurable, isReplaced: true),
        ])
    func failure(_ row: Failure) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/file"
            let old = Array("old".utf8), new = Array("new content".utf8)
            let healthy = DurableFiles(calls: LinuxFileCalls())
            try healthy.write(old, to: path)
            let calls = FailingFiles(failing: row.step, errno: row.errno)
            let error = try #require(throws: LinuxError.self) { try DurableFiles(calls: calls).write(new, to: path) }
            #expect(error.code == row.code)
            #expect(error.doing == row.step.rawValue)
            #expect(error.path == path)
            #expect(error.errno == row.errno)
            #expect(try healthy.read(path, maxBytes: 100) == (row.isReplaced ? new : old))
            #expect(try names(in: directory) == ["file"])
            #expect(calls.openDescriptors == 0)
            // A failed fsync is never repeated.
            #expect(calls.steps.filter { $0 == .syncTemporary }.count <= 1)
            #expect(calls.steps.filter { $0 == .syncDirectory }.count <= 1)
        }
    }

    @Test("A directory that does not close after its fsync does not fail a write")
    func harmless() async throws {
        try await withTemporaryDirectory { directory in
            try DurableFiles(calls: FailingFiles(failing: .closeDirectory)).write([1], to: directory + "/file")
        }
    }

    @Test("Temporary files of interrupted writes of one path are removed, and nothing else")
    func leftovers() async throws {
        try await withTemporaryDirectory { directory in
            let ours = [".identity.json.0123456789abcdef.tmp", ".identity.json.fedcba9876543210.tmp"]
            let others = [
                "identity.json", ".identity.json.tmp", "identity.json.0123456789abcdef.tmp", ".identity.json.0123456789ABCDEF.tmp",
                ".identity.json.0123456789abcde.tmp", ".identity.json.00123456789abcdef.tmp", ".identity.json.0123456789abcdef.tmp~",
                ".0123456789abcdef.tmp", ".tmp",
                // Another writer may be about to rename these.
                ".token.0123456789abcdef.tmp", ".identity.json.old.0123456789abcdef.tmp", ".x.identity.json.0123456789abcdef.tmp",
            ]
            for name in ours + others { makeFile(directory + "/" + name) }
            let removed = try DurableFiles(calls: LinuxFileCalls()).removeLeftovers(of: directory + "/identity.json", owner: geteuid())
            #expect(removed == ours)
            #expect(try names(in: directory) == others.sorted())
        }
    }

    @Test("A link, a folder and a file of another user stay, whatever their names are")
    func leftoversOfOthers() async throws {
        try await withTemporaryDirectory { directory in
            let files = DurableFiles(calls: LinuxFileCalls())
            let (link, folder, file) = (".a.0000000000000001.tmp", ".a.0000000000000002.tmp", ".a.0000000000000003.tmp")
            symlink("/etc/passwd", directory + "/" + link)
            mkdir(directory + "/" + folder, 0o700)
            makeFile(directory + "/" + file)
            let asAnother = try files.removeLeftovers(of: directory + "/a", owner: geteuid() + 1)
            #expect(asAnother == [])
            #expect(try names(in: directory) == [link, folder, file])
            let asOwner = try files.removeLeftovers(of: directory + "/a", owner: geteuid())
            #expect(asOwner == [file])
            #expect(try names(in: directory) == [link, folder])
        }
    }

    @Test("A file left by a write that was killed before its rename is recognised as a leftover")
    func leftoverOfAKilledWriteIsRecognised() async throws {
        try await withTemporaryDirectory { directory in
            let name = String(repeating: "n", count: 250)
            let calls = FailingFiles(failing: .removeTemporary)
            // The rename fails because a directory is in its way, and the removal by order.
            try FileManager.default.createDirectory(atPath: directory + "/" + name, withIntermediateDirectories: false)
            makeFile(directory + "/\(name)/x", "")
            let error = try #require(throws: LinuxError.self) {
                try DurableFiles(calls: calls).write([1], to: directory + "/" + name)
            }
            #expect(error.doing == FileStep.rename.rawValue, "the first error is the one to report")
            #expect(try names(in: directory).count == 2)
            let files = DurableFiles(calls: LinuxFileCalls())
            let removed = try files.removeLeftovers(of: directory + "/" + name, owner: geteuid())
            #expect(removed.count == 1)
            #expect(try names(in: directory) == [name])
        }
    }

    struct Unreadable: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var code: LinuxError.Code
        var prepare: @Sendable (String) throws -> Void
    }

    @Test(
        "Only regular files of an accepted size are read, and nothing makes reading wait",
        arguments: [
            Unreadable(testDescription: "missing", code: .missing) { _ in },
            Unreadable(testDescription: "directory", code: .wrongKind) { mkdir($0, 0o700) },
            Unreadable(testDescription: "link to a file", code: .wrongKind) { path in
                makeFile(path + ".real")
                symlink(path + ".real", path)
            },
            Unreadable(testDescription: "link to nothing", code: .wrongKind) { symlink("/nonexistent", $0) },
            Unreadable(testDescription: "link to itself", code: .wrongKind) { symlink($0, $0) },
            Unreadable(testDescription: "FIFO without a writer", code: .wrongKind) { mkfifo($0, 0o600) },
            Unreadable(testDescription: "one byte too large", code: .tooLarge) {
                makeFile($0, String(repeating: "x", count: 101))
            },
            Unreadable(testDescription: "sparse and huge", code: .tooLarge) { path in
                makeFile(path, "")
                truncate(path, 1 << 40)
            },
        ])
    func unreadable(_ row: Unreadable) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/file"
            try row.prepare(path)
            let calls = FailingFiles()
            let error = try #require(throws: LinuxError.self) { try DurableFiles(calls: calls).read(path, maxBytes: 100) }
            #expect(error.code == row.code)
            #expect(error.path == path)
            #expect(calls.openDescriptors == 0)
        }
    }

    @Test("Files of every accepted size are read whole; so are those of /proc, which say that they are empty", arguments: [0, 1, 100])
    func reads(size: Int) async throws {
        try await withTemporaryDirectory { directory in
            let files = DurableFiles(calls: LinuxFileCalls())
            let content = (0..<size).map { UInt8($0) }
            try files.write(content, to: directory + "/file")
            #expect(try files.read(directory + "/file", maxBytes: 100) == content)
            #expect(try files.read("/proc/self/stat", maxBytes: 4096).starts(with: "\(getpid()) (".utf8))
            #expect(throws: LinuxError.self) { try files.read("/proc/self/stat", maxBytes: 10) }
        }
    }

    @Test("A link is replaced by a write, and what it points to stays as it is")
    func link() async throws {
        try await withTemporaryDirectory { directory in
            let files = DurableFiles(calls: LinuxFileCalls())
            try files.write([1], to: directory + "/real")
            symlink(directory + "/real", directory + "/link")
            try files.write([2], to: directory + "/link")
            #expect(try files.read(directory + "/real", maxBytes: 1) == [1])
            #expect(try files.read(directory + "/link", maxBytes: 1) == [2])
        }
    }

    @Test("A NUL in a path does not name another file")
    func nul() async throws {
        try await withTemporaryDirectory { directory in
            let files = DurableFiles(calls: LinuxFileCalls())
            #expect(throws: LinuxError.self) { try files.write([1], to: directory + "/file\0.txt") }
            let made = try names(in: directory)
            #expect(made.isEmpty)
        }
    }
}
