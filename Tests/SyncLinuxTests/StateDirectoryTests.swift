import Foundation
import SyncLinux
import Testing

@Suite("State directory")
struct StateDirectoryTests {
    @Test("A database that is a symbolic link is refused with what to do; a file and an absent one are not")
    func links() async throws {
        try await withTemporaryDirectory { path in
            let state = try StateDirectory.open(path, calls: LinuxFileCalls(), userID: getuid())
            try state.refuseLinks(["agent.db", "agent.db-wal"])
            #expect(FileManager.default.createFile(atPath: path + "/agent.db", contents: nil))
            try state.refuseLinks(["agent.db", "agent.db-wal"])
            #expect(symlink(path + "/agent.db", path + "/agent.db-wal") == 0)
            let error = try #require(throws: LinuxError.self) { try state.refuseLinks(["agent.db", "agent.db-wal"]) }
            #expect(error.code == .wrongKind && "\(error)".contains("agent.db-wal") && "\(error)".contains("store.path"), "\(error)")
            // A link that leads nowhere is refused, too: SQLite would make the file there.
            #expect(unlink(path + "/agent.db") == 0 && symlink("/nowhere/agent.db", path + "/agent.db") == 0)
            #expect(throws: LinuxError.self) { try state.refuseLinks(["agent.db"]) }
        }
    }

    @Test("A directory that is missing is made for us alone when its parent is ours, and is ours for as long as we hold it")
    func creates() async throws {
        try await withTemporaryDirectory { parent in
            let path = parent + "/state"
            let state = try StateDirectory.open(path, calls: LinuxFileCalls(), userID: getuid())
            let facts = try LinuxFileCalls().facts(at: path, for: .inspectState)
            #expect(facts.kind == .directory)
            #expect(facts.mode == 0o700)
            #expect(state.isInPlace())

            // flock belongs to the open file, so a second opening meets it in the same process too.
            let error = try #require(throws: LinuxError.self) {
                try StateDirectory.open(path, calls: LinuxFileCalls(), userID: getuid())
            }
            #expect(error.code == .inUse)
            #expect(error.path == path + "/lock")
            #expect(error.description.contains("no other program in the same folder, but process \(getpid()) holds it"))

            state.close()
            let second = try StateDirectory.open(path, calls: LinuxFileCalls(), userID: getuid())
            #expect(second.isInPlace())
        }
    }

    @Test("A lock whose holder has ended is taken, whatever its content")
    func staleLock() async throws {
        try await withTemporaryDirectory { directory in
            makeFile(directory + "/lock", "4294967295 is dead\n")
            do {
                _ = try StateDirectory.open(directory, calls: LinuxFileCalls(), userID: getuid())
            }
            let state = try StateDirectory.open(directory, calls: LinuxFileCalls(), userID: getuid())
            let note = try String(contentsOfFile: directory + "/lock", encoding: .utf8)
            #expect(note.hasPrefix("\(getpid()) "))
            state.close()
        }
    }

    struct Refusal: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var code: LinuxError.Code
        var words: String
        var prepare: @Sendable (String) -> Void = { mkdir($0, 0o700) }
        var magic: UInt32? = 0xEF53
        /// Owner of the directory; ours when `nil`.
        var owner: UInt32?
    }

    @Test(
        "A directory that another user could misuse, or that does not keep files, is refused",
        arguments: [
            Refusal(testDescription: "a file", code: .wrongKind, words: "a directory", prepare: { makeFile($0, "") }),
            Refusal(testDescription: "another user's", code: .wrongOwner, words: "found user 4242", owner: 4242),
            Refusal(
                testDescription: "writable by the group", code: .exposed, words: "mode 0700, found 0770",
                prepare: {
                    mkdir($0, 0o700); chmod($0, 0o770)
                }),
            Refusal(
                testDescription: "writable by all", code: .exposed, words: "found 0702",
                prepare: {
                    mkdir($0, 0o700); chmod($0, 0o702)
                }),
            Refusal(
                testDescription: "missing, below another user's", code: .missing, words: "or its parent to belong to user",
                prepare: { _ in }, owner: 4242),
            Refusal(
                testDescription: "link of another user", code: .wrongKind, words: "not a symbolic link of user 4242",
                prepare: { symlink("/tmp", $0) }, owner: 4242),
            Refusal(testDescription: "FAT", code: .unsuitable, words: "found FAT", magic: 0x4D44),
            Refusal(testDescription: "exFAT", code: .unsuitable, words: "found exFAT", magic: 0x2011_BAB0),
            Refusal(testDescription: "NFS", code: .unsuitable, words: "found NFS", magic: 0x6969),
            Refusal(testDescription: "SMB", code: .unsuitable, words: "found SMB", magic: 0xFE53_4D42),
            Refusal(testDescription: "CIFS", code: .unsuitable, words: "found CIFS", magic: 0xFF53_4D42),
            Refusal(testDescription: "9p", code: .unsuitable, words: "found 9p", magic: 0x0102_1997),
        ])
    func refuses(_ row: Refusal) async throws {
        try await withTemporaryDirectory { parent in
            let path = parent + "/state"
            row.prepare(path)
            let calls = FailingFiles(magic: row.magic) { facts, _ in
                var facts = facts
                facts.owner = row.owner ?? facts.owner
                return facts
            }
            let error = try #require(throws: LinuxError.self) {
                try StateDirectory.open(path, calls: calls, userID: getuid())
            }
            #expect(error.code == row.code)
            #expect(error.description.contains(row.words), "\(error)")
            #expect(calls.openDescriptors == 0)
            #expect(!FileManager.default.fileExists(atPath: path + "/lock"))
        }
    }

    @Test(
        "A state folder on a volatile file system, or that others can read, is locked all the same, with a warning",
        arguments: [
            (UInt32(0x0102_1994), UInt16(0o700), ["is on tmpfs"]), (0x794C_7630, 0o700, ["is on overlayfs"]),
            (0x8584_58F6, 0o700, ["is on ramfs"]), (0xEF53, 0o755, ["mode 0755"]), (0x0102_1994, 0o750, ["mode 0750", "tmpfs"]),
            (0xEF53, 0o700, []), (0x9123_683E, 0o700, []),
        ])
    func unsafeFolderIsLockedWithAWarning(_ row: (magic: UInt32, mode: UInt16, words: [String])) async throws {
        try await withTemporaryDirectory { directory in
            chmod(directory, mode_t(row.mode))
            let state = try StateDirectory.open(directory, calls: FailingFiles(magic: row.magic), userID: getuid())
            #expect(state.warnings.count == row.words.count)
            for (warning, word) in zip(state.warnings, row.words) {
                #expect(warning.contains(word))
                #expect(warning.contains(directory))
            }
        }
    }

    @Test("A link of root's is followed, as systemd makes one for a dynamic user")
    func rootsLink() async throws {
        try await withTemporaryDirectory { parent in
            mkdir(parent + "/private", 0o700)
            symlink(parent + "/private", parent + "/state")
            let user = getuid()
            let calls = FailingFiles(magic: 0xEF53) { facts, _ in
                var facts = facts
                facts.owner = facts.kind == .symbolicLink ? 0 : user
                return facts
            }
            let state = try StateDirectory.open(parent + "/state", calls: calls, userID: user)
            #expect(FileManager.default.fileExists(atPath: parent + "/private/lock"))
            state.close()
        }
    }

    @Test(
        "Whichever step of opening fails, nothing stays open or locked",
        arguments: [
            FileStep.inspectState, .openState, .inspectFileSystem, .openLock, .lock, .inspectLock,
        ])
    func failure(_ step: FileStep) async throws {
        try await withTemporaryDirectory { directory in
            let calls = FailingFiles(failing: step)
            let error = try #require(throws: LinuxError.self) {
                try StateDirectory.open(directory, calls: calls, userID: getuid())
            }
            #expect(error.code == .failed)
            #expect(error.doing == step.rawValue)
            #expect(calls.openDescriptors == 0)
            _ = try StateDirectory.open(directory, calls: LinuxFileCalls(), userID: getuid())
        }
    }

    @Test("On a full disk the lock holds without a note in it")
    func fullDisk() async throws {
        try await withTemporaryDirectory { directory in
            let state = try StateDirectory.open(
                directory, calls: FailingFiles(failing: .writeOwner, errno: ENOSPC), userID: getuid())
            let error = try #require(throws: LinuxError.self) {
                try StateDirectory.open(directory, calls: LinuxFileCalls(), userID: getuid())
            }
            #expect(error.description.contains("another process holds it"))
            state.close()
        }
    }

    @Test("A directory that was removed or replaced is noticed")
    func removed() async throws {
        try await withTemporaryDirectory { parent in
            let path = parent + "/state"
            let state = try StateDirectory.open(path, calls: LinuxFileCalls(), userID: getuid())
            #expect(state.isInPlace())
            try FileManager.default.moveItem(atPath: path, toPath: parent + "/away")
            #expect(!state.isInPlace())
            let other = try StateDirectory.open(path, calls: LinuxFileCalls(), userID: getuid())
            #expect(!state.isInPlace())
            #expect(other.isInPlace())
        }
    }

    @Test("Free space is what we may use, and never more than there is")
    func space() async throws {
        try await withTemporaryDirectory { directory in
            let state = try StateDirectory.open(directory, calls: LinuxFileCalls(), userID: getuid())
            let space = try state.freeSpace()
            #expect(space.totalBytes > 0)
            #expect((0...space.totalBytes).contains(space.freeBytes))
            if let free = space.freeInodes, let total = space.totalInodes { #expect((1...total).contains(free)) }
            let failing = try StateDirectory.open(
                directory + "/other", calls: FailingFiles(failing: .measureSpace), userID: getuid())
            #expect(throws: LinuxError.self) { try failing.freeSpace() }
        }
    }
}
