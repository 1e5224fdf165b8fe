/// Names of this machine and of this start of it.
package struct MachineIdentity: Sendable {
    private let files: DurableFiles

    package init(calls: any FileCalls) {
        files = DurableFiles(calls: calls)
    }

    /// The kernel's random UUID of this boot: `7174ecad-ec5c-461d-92b6-891c3d0fef02`.
    package func bootID(path: String = "/proc/sys/kernel/random/boot_id") throws(LinuxError) -> String {
        let text = try line(path)
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.map(\.count) == [8, 4, 4, 4, 12], parts.joined().allSatisfy(isLowerHex) else {
            throw LinuxError(.malformed, doing: "read the boot id", path: path, expected: "a UUID in lower case")
        }
        return text
    }

    /// Machine id of 32 lower-case hex digits (machine-id(5)). It is confidential: pass it only to
    /// `DeviceID.derived(fromMachineID:)`.
    package func machineID(path: String = "/etc/machine-id") throws(LinuxError) -> String {
        let text = try line(path)
        guard text.utf8.count == 32, text.utf8.allSatisfy(isLowerHex), text.utf8.contains(where: { $0 != 48 }) else {
            // An image that has never booted holds "uninitialized" or nothing.
            throw LinuxError(
                .malformed, doing: "read the machine id", path: path,
                expected: "32 hexadecimal digits in lower case; systemd-machine-id-setup(1) makes them")
        }
        return text
    }

    private func line(_ path: String) throws(LinuxError) -> String {
        var bytes = try files.read(path, maxBytes: 128)
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// A seed from `getrandom(2)`, through the standard library. It blocks only while a machine that has just started has no entropy at all.
package func systemRandomSeed() -> UInt64 {
    var system = SystemRandomNumberGenerator()
    return system.next()
}

private func isLowerHex(_ byte: UInt8) -> Bool {
    (48...57).contains(byte) || (97...102).contains(byte)
}
