import Foundation
import SyncCore
import SyncLinux
import Testing

@Suite("Questions of the doctor to the system")
struct SystemExaminerTests {
    private static func examiner(_ root: String, user: UInt32 = getuid()) -> SystemExaminer {
        SystemExaminer(
            proc: root + "/proc", sys: root + "/sys", userID: user,
            secrets: SecretFiles(calls: LinuxFileCalls(), userID: user, credentialsDirectory: nil))
    }

    private static func folder(_ path: String, mode: UInt32 = 0o700) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        chmod(path, mode)
    }

    @Test("Files as they should be give no fault, and what is wrong with one is said without a byte of it")
    func files() async throws {
        try await withTemporaryDirectory { root in
            try Self.folder(root + "/state")
            try Self.folder(root + "/etc", mode: 0o755)
            makeFile(root + "/etc/agentd.yaml", "{}", mode: 0o644)
            makeFile(root + "/token", "est_canary", mode: 0o600)
            var questions = DoctorQuestions(stateFolder: root + "/state", configurationFiles: [root + "/etc/agentd.yaml"])
            questions.tokenFile = root + "/token"
            let good = Self.examiner(root).examine(questions)
            #expect(good.stateFault == nil && good.configurationFaults.isEmpty && good.token.fault == nil)
            #expect((good.space?.totalBytes ?? 0) > 0)

            chmod(root + "/state", 0o755)
            chmod(root + "/etc/agentd.yaml", 0o666)
            chmod(root + "/token", 0o644)
            try Self.folder(root + "/state/quarantine/r-1")
            let bad = Self.examiner(root).examine(questions)
            #expect(bad.stateFault?.contains("0755") == true)
            #expect(bad.configurationFaults.first?.contains("agentd.yaml can be written by others (mode 0666)") == true)
            #expect(bad.token.fault?.contains("0644") == true)
            #expect(!"\(bad)".contains("canary"))
            #expect(bad.quarantined == 1)
        }
    }

    @Test("A token that is named nowhere is a fault, unless a certificate is shown")
    func noToken() async throws {
        try await withTemporaryDirectory { root in
            var questions = DoctorQuestions(stateFolder: root, configurationFiles: [])
            #expect(Self.examiner(root).examine(questions).token.fault?.contains("hub.token_file") == true)
            questions.isTokenOptional = true
            #expect(Self.examiner(root).examine(questions).token.fault == nil)
        }
    }

    @Test("The flash below the state folder tells its age and what is written to it; a partition is a part of its disk")
    func flash() async throws {
        try await withTemporaryDirectory { root in
            var facts = stat()
            #expect(stat(root, &facts) == 0)
            let device = facts.st_dev
            let major = (device >> 8) & 0xfff | (device >> 32) & ~0xfff, minor = device & 0xff | (device >> 12) & ~0xff
            let disk = root + "/sys/devices/mmc0/block/mmcblk0"
            try Self.folder(disk + "/mmcblk0p2")
            try Self.folder(disk + "/device")
            try Self.folder(root + "/sys/dev/block")
            makeFile(disk + "/mmcblk0p2/partition", "2\n")
            makeFile(disk + "/device/life_time", "0x02 0x0b\n")
            makeFile(disk + "/device/pre_eol_info", "0x03\n")
            makeFile(disk + "/stat", "  100 0 800 1 200 0 4096 9 0 1 1 0 0 0 0\n")
            #expect(symlink(disk + "/mmcblk0p2", "\(root)/sys/dev/block/\(major):\(minor)") == 0)
            let flash = Self.examiner(root).examine(DoctorQuestions(stateFolder: root, configurationFiles: [])).flash
            #expect(flash.device == "mmcblk0")
            #expect(flash.lifeUsed == 11)
            #expect(flash.preEndOfLife == 3)
            #expect(flash.writtenBytes == 2_097_152)
            #expect((flash.machineUptime ?? .zero) > .zero)
        }
    }

    @Test("Nonsense in sysfs is no number", arguments: ["", "0x", "0x0c 0x00", "abc", "0x01" + String(repeating: "9", count: 100)])
    func nonsense(_ text: String) async throws {
        try await withTemporaryDirectory { root in
            var facts = stat()
            #expect(stat(root, &facts) == 0)
            let device = facts.st_dev
            let major = (device >> 8) & 0xfff | (device >> 32) & ~0xfff, minor = device & 0xff | (device >> 12) & ~0xff
            let disk = "\(root)/sys/dev/block/\(major):\(minor)"
            try Self.folder(disk + "/device")
            makeFile(disk + "/device/life_time", text)
            makeFile(disk + "/device/pre_eol_info", text)
            makeFile(disk + "/stat", text)
            let flash = Self.examiner(root).examine(DoctorQuestions(stateFolder: root, configurationFiles: [])).flash
            #expect(flash.lifeUsed == nil && flash.preEndOfLife == nil && flash.writtenBytes == nil)
        }
    }

    @Test("The stricter of the two reverse path filters is in force, and a name cannot lead elsewhere")
    func reversePathFilters() async throws {
        try await withTemporaryDirectory { root in
            for (name, value) in [("all", "1"), ("eth0", "0"), ("wwan0", "2")] {
                try Self.folder("\(root)/proc/sys/net/ipv4/conf/\(name)")
                makeFile("\(root)/proc/sys/net/ipv4/conf/\(name)/rp_filter", value + "\n")
            }
            var questions = DoctorQuestions(stateFolder: root, configurationFiles: [])
            questions.interfaces = ["eth0", "wwan0", "../conf/eth0"]
            #expect(Self.examiner(root).examine(questions).reversePathFilters == ["eth0": 1, "wwan0": 2])
        }
    }

    @Test(
        "The first certificate of a file to end counts; what is none is a fault",
        .enabled(if: OpenSSL.path != nil, "needs the openssl command"))
    func certificates() async throws {
        try await withTemporaryDirectory { root in
            for (name, days) in [("a", "400"), ("b", "40")] {
                _ = try OpenSSL.run(
                    [
                        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=\(name)",
                        "-days", days, "-keyout", "\(root)/\(name).key", "-out", "\(root)/\(name).pem",
                    ], in: root)
            }
            let both =
                try String(contentsOfFile: root + "/a.pem", encoding: .utf8) + String(contentsOfFile: root + "/b.pem", encoding: .utf8)
            makeFile(root + "/both.pem", both)
            makeFile(root + "/none.pem", "no certificate")
            var questions = DoctorQuestions(stateFolder: root, configurationFiles: [])
            questions.authoritiesFile = root + "/both.pem"
            questions.clientCertificateFile = root + "/none.pem"
            let system = Self.examiner(root).examine(questions)
            let left = SystemClocks().now().wall.duration(to: try #require(system.authorities?.endsAt))
            #expect(left > .seconds(39 * 86_400) && left < .seconds(41 * 86_400))
            #expect(system.clientCertificate?.fault?.contains("no certificate") == true)
        }
    }

    @Test("The examiner reports the watchdog that the service manager announced, even after its variables left the environment")
    func examinerReportsTheAnnouncedWatchdog() throws {
        for (seconds, isWatched) in [("60000000", true), (nil, false)] as [(String?, Bool)] {
            let notifier = try ReadinessNotifier(socket: "/run/systemd/notify", watchdogMicroseconds: seconds, watchdogProcess: nil)
            var system = DoctorFacts.System(stateFolder: "/")
            SystemExaminer.addProcess(to: &system, notifier)
            #expect(system.isSupervised == true && system.hasWatchdog == isWatched)
        }
    }
}
