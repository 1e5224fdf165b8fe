import Foundation
import SyncLinux
import Testing

@Suite("Secret files")
struct SecretFilesTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var content = "s3cret"
        var mode: UInt16 = 0o600
        var owner: UInt32 = 990
        var isCredential = false
        /// `nil`: it is read.
        var code: LinuxError.Code?
        var read = "s3cret"
        /// The value that the error must name as found or expected.
        var words = ""
    }

    @Test(
        "A secret is read when only its owner may know it, and the refusal says what is wrong without saying the secret",
        arguments: [
            Row(testDescription: "ours, 0600"),
            Row(testDescription: "ours, 0400", mode: 0o400),
            Row(testDescription: "root's", owner: 0),
            Row(testDescription: "one newline is trimmed", content: "s3cret\n"),
            Row(testDescription: "one newline of the other kind", content: "s3cret\r\n"),
            Row(testDescription: "one newline only", content: "s3cret\n\n", read: "s3cret\n"),
            Row(testDescription: "spaces stay", content: " s3cret \n", read: " s3cret "),
            Row(testDescription: "readable by the group", mode: 0o640, code: .exposed, words: "mode 0600 or 0400, found 0640"),
            Row(testDescription: "readable by all", mode: 0o604, code: .exposed, words: "found 0604"),
            Row(testDescription: "writable by the group", mode: 0o620, code: .exposed, words: "found 0620"),
            Row(testDescription: "executable by all", mode: 0o701, code: .exposed, words: "found 0701"),
            Row(testDescription: "another user's", owner: 1234, code: .wrongOwner, words: "owner root or user 990, found user 1234"),
            Row(testDescription: "empty", content: "", code: .empty),
            Row(testDescription: "a newline alone", content: "\n", code: .empty),
            Row(testDescription: "too large", content: String(repeating: "x", count: 65_537), code: .tooLarge, words: "65536"),
            Row(testDescription: "systemd's with an ACL", mode: 0o440, owner: 0, isCredential: true),
            Row(testDescription: "systemd's without ACLs", mode: 0o400, isCredential: true),
            Row(testDescription: "like systemd's, elsewhere", mode: 0o440, owner: 0, code: .exposed),
            Row(testDescription: "systemd's, but not root's", mode: 0o440, isCredential: true, code: .exposed),
            Row(testDescription: "systemd's, open to all", mode: 0o444, owner: 0, isCredential: true, code: .exposed),
        ])
    func rules(_ row: Row) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/token"
            makeFile(path, row.content)
            chmod(path, mode_t(row.mode))
            let calls = FailingFiles { facts, _ in
                var facts = facts
                facts.owner = row.owner
                return facts
            }
            let secrets = SecretFiles(calls: calls, userID: 990, credentialsDirectory: row.isCredential ? directory : "/run/other")
            guard let code = row.code else {
                #expect(try secrets.read(path) == Array(row.read.utf8))
                return
            }
            let error = try #require(throws: LinuxError.self) { try secrets.read(path) }
            #expect(error.code == code)
            #expect(error.path == path)
            if !row.words.isEmpty { #expect(error.description.contains(row.words)) }
            #expect(!error.description.contains("s3cret"))
            // A secret that is refused for its rights is not even read.
            if code == .exposed || code == .wrongOwner { #expect(!calls.steps.contains(.readFile)) }
        }
    }

    @Test(
        "A secret behind a link, in a directory or nowhere is refused",
        arguments: [
            ("link", LinuxError.Code.wrongKind), ("directory", .wrongKind), ("missing", .missing),
        ])
    func kinds(_ row: (name: String, code: LinuxError.Code)) async throws {
        try await withTemporaryDirectory { directory in
            makeFile(directory + "/real")
            symlink(directory + "/real", directory + "/link")
            mkdir(directory + "/directory", 0o700)
            let secrets = SecretFiles(calls: LinuxFileCalls(), userID: getuid(), credentialsDirectory: nil)
            let error = try #require(throws: LinuxError.self) { try secrets.read(directory + "/" + row.name) }
            #expect(error.code == row.code)
        }
    }

    @Test(
        "The directory of credentials does not vouch for what is reached through it",
        arguments: ["/../elsewhere/token", "x/token", "/sub/token"])
    func outside(_ rest: String) async throws {
        try await withTemporaryDirectory { parent in
            for name in ["credentials", "credentials/sub", "elsewhere", "credentialsx"] { mkdir("\(parent)/\(name)", 0o700) }
            let path = parent + "/credentials" + rest
            makeFile(path, "s3cret")
            chmod(path, 0o440)
            let calls = FailingFiles { facts, _ in
                var facts = facts
                facts.owner = 0
                return facts
            }
            let secrets = SecretFiles(calls: calls, userID: 990, credentialsDirectory: parent + "/credentials")
            let error = try #require(throws: LinuxError.self) { try secrets.read(path) }
            #expect(error.code == .exposed)
        }
    }

    @Test(
        "A token is one line of visible ASCII, because it becomes a header field",
        arguments: [
            ("abc.DEF-123_~+/=\n", true), ("two lines\nX-Evil: 1\n", false), ("a b", false), ("tab\t", false), ("é", false),
            ("a\0b", false), ("abc\n\n", false),
        ])
    func token(_ row: (content: String, isToken: Bool)) async throws {
        try await withTemporaryDirectory { directory in
            makeFile(directory + "/token", row.content)
            chmod(directory + "/token", 0o600)
            let secrets = SecretFiles(calls: LinuxFileCalls(), userID: getuid(), credentialsDirectory: nil)
            if row.isToken {
                #expect(try secrets.readToken(directory + "/token") == row.content.trimmingCharacters(in: .newlines))
            } else {
                let error = try #require(throws: LinuxError.self) { try secrets.readToken(directory + "/token") }
                #expect(error.code == .malformed)
            }
        }
    }
}
