import Foundation
import Glibc
import SyncCore
import SyncLinux
import Testing

@Suite("Clocks and identity")
struct IdentityTests {
    @Test("The monotonic clock counts from boot with suspend, and the wall clock is the system's")
    func clocks() throws {
        let clocks = SystemClocks()
        var boot = timespec(), wall = timespec()
        clock_gettime(CLOCK_BOOTTIME, &boot)
        clock_gettime(CLOCK_REALTIME, &wall)
        let first = clocks.now(), second = clocks.now()
        #expect(first.instant.nanoseconds >= Int64(boot.tv_sec) * 1_000_000_000 + Int64(boot.tv_nsec))
        #expect(second.instant >= first.instant)
        #expect(first.wall.milliseconds >= Int64(wall.tv_sec) * 1_000 + Int64(wall.tv_nsec) / 1_000_000)
        // Both were read at about the same moment: no unit is mistaken for another.
        #expect(first.instant.nanoseconds - Int64(boot.tv_sec) * 1_000_000_000 < 60_000_000_000)
        #expect(first.wall.milliseconds - Int64(wall.tv_sec) * 1_000 < 60_000)
    }

    @Test(
        "The boot id is the kernel's, and anything else in its place is refused",
        arguments: [
            ("7174ecad-ec5c-461d-92b6-891c3d0fef02\n", true), ("7174ecad-ec5c-461d-92b6-891c3d0fef02", true),
            ("7174ECAD-ec5c-461d-92b6-891c3d0fef02\n", false), ("7174ecadec5c461d92b6891c3d0fef02\n", false),
            ("7174ecad-ec5c-461d-92b6-891c3d0fef0g\n", false), ("", false), ("\n", false),
            ("7174ecad-ec5c-461d-92b6-891c3d0fef02\n\n", false),
        ])
    func bootID(_ row: (content: String, isValid: Bool)) async throws {
        let identity = MachineIdentity(calls: LinuxFileCalls())
        #expect(try identity.bootID().count == 36)
        try await withTemporaryDirectory { directory in
            makeFile(directory + "/id", row.content)
            if row.isValid {
                #expect(try identity.bootID(path: directory + "/id") == "7174ecad-ec5c-461d-92b6-891c3d0fef02")
            } else {
                let error = try #require(throws: LinuxError.self) { try identity.bootID(path: directory + "/id") }
                #expect(error.code == .malformed)
            }
        }
    }

    @Test(
        "A machine id is taken when it is one",
        arguments: [
            ("3d1219c7c4c5404aaa1f6d2a48adfda4\n", true), ("uninitialized\n", false), ("", false),
            ("00000000000000000000000000000000\n", false), ("3D1219C7C4C5404AAA1F6D2A48ADFDA4\n", false),
            ("3d1219c7c4c5404aaa1f6d2a48adfda4a\n", false),
        ])
    func machineID(_ row: (content: String, isValid: Bool)) async throws {
        try await withTemporaryDirectory { directory in
            let identity = MachineIdentity(calls: LinuxFileCalls())
            makeFile(directory + "/id", row.content)
            if row.isValid {
                #expect(try identity.machineID(path: directory + "/id") == "3d1219c7c4c5404aaa1f6d2a48adfda4")
            } else {
                let error = try #require(throws: LinuxError.self) { try identity.machineID(path: directory + "/id") }
                #expect(error.code == .malformed)
                #expect(error.expected?.contains("systemd-machine-id-setup") == true)
            }
        }
    }

    @Test("Two seeds are not the same")
    func seed() {
        #expect(systemRandomSeed() != systemRandomSeed())
    }
}
