import Glibc

/// Reads secrets (tokens and keys). Each has a separate file and never stands in the configuration itself.
///
/// A secret is refused when other users may have read or written it. There is one exception: systemd hands credentials to a service
/// in a directory of their own (`CREDENTIALS_DIRECTORY`, systemd.exec(5)). Where the file system has ACLs, such a file
/// belongs to root and shows mode 0440, because the group bits then show the ACL's mask and not the group's rights.
package struct SecretFiles: Sendable {
    /// Size limit of a secret file. It exceeds every token and PEM chain and stays harmless for memory.
    package static let maxBytes = 64 << 10

    private let files: DurableFiles
    private let userID: UInt32
    private let credentialsDirectory: String?

    /// - Parameters:
    ///   - userID: The effective user of this process; files of this user and of root are accepted.
    ///   - credentialsDirectory: The value of `CREDENTIALS_DIRECTORY`, or `nil` when not started by systemd with credentials.
    package init(calls: any FileCalls, userID: UInt32, credentialsDirectory: String?) {
        files = DurableFiles(calls: calls)
        self.userID = userID
        self.credentialsDirectory = credentialsDirectory
    }

    /// A reader for this process, with its user and the credentials directory of its environment.
    package static func ofThisProcess() -> SecretFiles {
        SecretFiles(
            calls: LinuxFileCalls(), userID: geteuid(),
            credentialsDirectory: getenv("CREDENTIALS_DIRECTORY").map { String(cString: $0) })
    }

    /// Reads the secret without one trailing newline (`\n` or `\r\n`).
    ///
    /// - Throws: `.missing`, `.denied`, `.wrongKind` (symbolic link, directory, device), `.wrongOwner`, `.exposed`,
    ///   `.empty`, `.tooLarge`, `.failed`. The error never holds a byte of the content.
    package func read(_ path: String) throws(LinuxError) -> [UInt8] {
        var (bytes, _) = try files.readWithFacts(path, maxBytes: Self.maxBytes) { facts throws(LinuxError) in
            try check(facts, path)
        }
        if bytes.last == UInt8(ascii: "\n") {
            bytes.removeLast()
            if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        }
        if bytes.isEmpty {
            throw LinuxError(.empty, doing: Self.doing, path: path, expected: "a secret in it")
        }
        return bytes
    }

    /// A bearer token, which goes into a header field: one line of visible ASCII without spaces (RFC 6750, section 2.1).
    ///
    /// - Throws: The errors of ``read(_:)``, and `.malformed`.
    package func readToken(_ path: String) throws(LinuxError) -> String {
        let bytes = try read(path)
        guard bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw LinuxError(
                .malformed, doing: Self.doing, path: path, expected: "one line of visible ASCII without spaces")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Reads `USER:PASSWORD` from one line (RFC 7617). A user name has no colon, and neither part has control characters.
    ///
    /// - Throws: The errors of ``read(_:)``, and `.malformed`.
    package func readCredentials(_ path: String) throws(LinuxError) -> (user: String, password: String) {
        let bytes = try read(path)
        let isText = bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F } && String(validating: bytes, as: UTF8.self) != nil
        guard isText, let colon = bytes.firstIndex(of: UInt8(ascii: ":")), colon > 0 else {
            throw LinuxError(.malformed, doing: Self.doing, path: path, expected: "USER:PASSWORD in one line")
        }
        return (String(decoding: bytes[..<colon], as: UTF8.self), String(decoding: bytes[(colon + 1)...], as: UTF8.self))
    }

    /// Path at which the service manager has put a credential; `nil` when it has handed over none of that name.
    package func credential(_ name: String) -> String? {
        guard let credentialsDirectory, !credentialsDirectory.isEmpty else { return nil }
        let path = credentialsDirectory + "/" + name
        return access(path, F_OK) == 0 ? path : nil
    }

    private func check(_ facts: FileFacts, _ path: String) throws(LinuxError) {
        guard facts.owner == userID || facts.owner == 0 else {
            throw LinuxError(
                .wrongOwner, doing: Self.doing, path: path,
                expected: userID == 0 ? "owner root" : "owner root or user \(userID), found user \(facts.owner)")
        }
        let tolerated: UInt32 = isCredential(path) && facts.owner == 0 ? 0o040 : 0
        guard facts.mode & 0o077 & ~tolerated == 0 else {
            throw LinuxError(
                .exposed, doing: Self.doing, path: path,
                expected: "mode 0600 or 0400, found 0\(String(facts.mode, radix: 8))")
        }
    }

    private func isCredential(_ path: String) -> Bool {
        guard let credentialsDirectory, !credentialsDirectory.isEmpty else { return false }
        let prefix = Array(credentialsDirectory.utf8) + (credentialsDirectory.utf8.last == 47 ? [] : [47])
        let rest = Array(path.utf8)
        // A further slash could lead out of the directory again ("/run/credentials/agentd/../../home/x").
        return rest.starts(with: prefix) && !rest.dropFirst(prefix.count).contains(47)
    }

    private static let doing = "read the secret"
}
