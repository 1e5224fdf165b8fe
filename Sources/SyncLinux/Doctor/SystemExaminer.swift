import CSyncLinux
import Glibc
package import SyncCore
import SyncThreads

/// Collects the facts about this machine that the doctor needs. It only reads, and its answer never holds a byte of a secret.
///
/// It reads the disk and may block for long on a bad one. Do not call it on a thread that other work needs.
package struct SystemExaminer: Sendable {
    private let proc: String
    private let sys: String
    private let userID: UInt32
    private let secrets: SecretFiles
    private let files = DurableFiles(calls: LinuxFileCalls())

    /// - Parameter userID: Owner that the state and the secrets must have.
    package init(proc: String = "/proc", sys: String = "/sys", userID: UInt32, secrets: SecretFiles) {
        self.proc = proc
        self.sys = sys
        self.userID = userID
        self.secrets = secrets
    }

    package func examine(_ questions: DoctorQuestions) -> DoctorFacts.System {
        var system = DoctorFacts.System(stateFolder: questions.stateFolder)
        system.space = space(questions.stateFolder)
        system.stateFault = stateFault(questions.stateFolder)
        system.unfitFileSystem = unfitFileSystem(questions.stateFolder)
        system.flash = flash(under: questions.stateFolder)
        system.configurationFaults = questions.configurationFiles.flatMap(configurationFaults)
        system.token = token(questions)
        system.clientKey = questions.clientKeyFile.map { secret($0) { path throws(LinuxError) in _ = try secrets.read(path) } }
        system.clientCertificate = questions.clientCertificateFile.map(certificate)
        system.proxyCredentials = questions.proxyCredentialsFile.map {
            secret($0) { path throws(LinuxError) in _ = try secrets.readCredentials(path) }
        }
        system.authorities = questions.authoritiesFile.map(certificate)
        for name in questions.interfaces { system.reversePathFilters[name] = reversePathFilter(name) }
        system.isClockSynchronised = SystemClocks.isSynchronised
        system.quarantined = children(questions.stateFolder + "/quarantine")
        system.socketFault = questions.socketPath.flatMap(socketFault)
        return system
    }

    /// Adds the facts about this very process. A program that examines an agent from outside does not call it.
    ///
    /// - Parameter notifier: The notifier that took the variables of the service manager out of the environment.
    package static func addProcess(to system: inout DoctorFacts.System, _ notifier: ReadinessNotifier?) {
        system.isSupervised = notifier != nil || getenv("INVOCATION_ID") != nil
        system.hasWatchdog = notifier?.watchdogTimeout != nil
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 { system.openFilesMax = Int64(clamping: limit.rlim_cur) }
    }

    // MARK: Disk

    private func space(_ path: String) -> DoctorFacts.Space? {
        var facts = statvfs()
        guard statvfs(path, &facts) == 0 else { return nil }
        let unit = Int64(clamping: facts.f_frsize)
        return DoctorFacts.Space(
            freeBytes: Int64(clamping: facts.f_bavail).saturatingMultiply(unit),
            totalBytes: Int64(clamping: facts.f_blocks).saturatingMultiply(unit), freeInodes: Int64(clamping: facts.f_favail),
            totalInodes: Int64(clamping: facts.f_files), isReadOnly: facts.f_flag & UInt(ST_RDONLY) != 0)
    }

    private func unfitFileSystem(_ path: String) -> String? {
        var magic: UInt32 = 0
        guard csl_file_system_magic(path, &magic) == 0 else { return nil }
        switch FileSystemVerdict(magic: magic) {
        case .fit: return nil
        case .volatile(let name), .unfit(let name): return name
        }
    }

    private func stateFault(_ path: String) -> String? {
        switch facts(path) {
        case .failure(let error): return "\(path): \(error)"
        case .success(let facts):
            guard facts.st_mode & S_IFMT == S_IFDIR else { return "\(path) is no folder" }
            // A check that root makes from outside says nothing about the owner.
            if userID != 0, facts.st_uid != userID { return "\(path) belongs to user \(facts.st_uid), the agent is \(userID)" }
            guard facts.st_mode & 0o077 == 0 else { return "\(path) is open to others (mode \(octal(facts.st_mode)))" }
            return nil
        }
    }

    private func children(_ folder: String) -> Int {
        // `try?`: a folder that is missing or cannot be read has no files to count.
        let names = try? LinuxFileCalls().names(in: folder, for: .listDirectory)
        return names?.filter { !$0.hasPrefix(".") }.count ?? 0
    }

    // MARK: Flash

    private func flash(under path: String) -> DoctorFacts.Flash {
        var flash = DoctorFacts.Flash()
        guard case .success(let facts) = facts(path), let disk = disk(of: facts.st_dev) else { return flash }
        flash.device = disk.split(separator: "/").last.map(String.init)
        // The file holds `0x01 0x02`, one number for each kind of cells (JEDEC 84-B50, EXT_CSD 268 and 269).
        flash.lifeUsed = numbers(disk + "/device/life_time").filter { (1...11).contains($0) }.max()
        flash.preEndOfLife = numbers(disk + "/device/pre_eol_info").first.flatMap { (1...3).contains($0) ? $0 : nil }
        // The seventh field is the number of sectors of 512 bytes written (Documentation/admin-guide/iostats.rst).
        let counts = text(disk + "/stat")?.split(whereSeparator: { $0 == " " || $0 == "\n" }) ?? []
        if counts.count >= 7, let sectors = Int64(counts[6]) { flash.writtenBytes = sectors.saturatingMultiply(512) }
        flash.machineUptime = Instant(nanoseconds: 0).duration(to: SystemClocks.instant())
        return flash
    }

    /// The folder in sysfs of the whole disk for a device number, which may belong to one of its partitions.
    private func disk(of device: dev_t) -> String? {
        // The kernel packs the numbers as gnu_dev_major(3) describes.
        let major = (device >> 8) & 0xfff | (device >> 32) & ~0xfff, minor = device & 0xff | (device >> 12) & ~0xff
        guard let real = realpath("\(sys)/dev/block/\(major):\(minor)", nil) else { return nil }
        defer { free(real) }
        let path = String(cString: real)
        guard access(path + "/partition", F_OK) == 0, let slash = path.lastIndex(of: "/") else { return path }
        return String(path[..<slash])
    }

    /// Hexadecimal numbers of a file, each with `0x` in front.
    private func numbers(_ path: String) -> [Int] {
        (text(path) ?? "").split(whereSeparator: { $0 == " " || $0 == "\n" })
            .compactMap { $0.hasPrefix("0x") ? Int($0.dropFirst(2), radix: 16) : nil }
    }

    private func text(_ path: String) -> String? {
        // `try?`: machines differ in which of these files they have; a missing file is left out of the answer.
        (try? files.read(path, maxBytes: 4_096)).map { String(decoding: $0, as: UTF8.self) }
    }

    // MARK: Files

    private func configurationFaults(_ path: String) -> [String] {
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        return [path, folder.isEmpty ? "/" : folder].compactMap { place in
            guard case .success(let facts) = facts(place) else { return nil }
            // In a folder like /tmp only the owner of a file can replace it.
            let isSticky = facts.st_mode & S_IFMT == S_IFDIR && facts.st_mode & 0o1000 != 0
            if facts.st_mode & 0o022 != 0, !isSticky { return "\(place) can be written by others (mode \(octal(facts.st_mode)))" }
            if facts.st_uid != 0, facts.st_uid != userID, userID != 0 {
                return "\(place) belongs to user \(facts.st_uid), neither root nor the agent"
            }
            return nil
        }
    }

    private func token(_ questions: DoctorQuestions) -> DoctorFacts.Secret {
        guard let path = questions.tokenFile else {
            return DoctorFacts.Secret(
                fault: questions.isTokenOptional ? nil : "no token: neither hub.token_file nor the credential hub-token is there")
        }
        return secret(path) { path throws(LinuxError) in _ = try secrets.readToken(path) }
    }

    private func secret(_ path: String, _ read: (String) throws(LinuxError) -> Void) -> DoctorFacts.Secret {
        do throws(LinuxError) {
            try read(path)
            return DoctorFacts.Secret(path: path)
        } catch {
            return DoctorFacts.Secret(path: path, fault: error.description)
        }
    }

    private func certificate(_ path: String) -> DoctorFacts.Certificate {
        var seconds: Int64 = 0
        if csl_certificates_end(path, &seconds) {
            return DoctorFacts.Certificate(path: path, endsAt: Timestamp(milliseconds: seconds.saturatingMultiply(1_000)))
        }
        switch facts(path) {
        case .failure(let error): return DoctorFacts.Certificate(path: path, fault: "\(path): \(error)")
        case .success: return DoctorFacts.Certificate(path: path, fault: "\(path) holds no certificate in PEM")
        }
    }

    private func socketFault(_ path: String) -> String? {
        switch facts(path) {
        case .failure(let error): return "\(path): \(error)"
        case .success(let facts):
            guard facts.st_mode & S_IFMT == S_IFSOCK else { return "\(path) is no socket" }
            return facts.st_mode & 0o007 == 0 ? nil : "every user of this machine may use \(path) (mode \(octal(facts.st_mode)))"
        }
    }

    // MARK: Network

    private func reversePathFilter(_ name: String) -> Int? {
        // A name with a slash in it would be another file.
        guard !name.utf8.contains(47), name != "..", name != "." else { return nil }
        func value(_ name: String) -> Int? {
            text("\(proc)/sys/net/ipv4/conf/\(name)/rp_filter").flatMap { Int($0.filter { $0 != "\n" }) }
        }
        let found = [value("all"), value(name)].compactMap { $0 }
        return found.max()
    }

    // MARK: System calls

    private func facts(_ path: String) -> Result<stat, Errno> {
        var facts = stat()
        return stat(path, &facts) == 0 ? .success(facts) : .failure(.current)
    }

    private func octal(_ mode: mode_t) -> String { "0" + String(mode & 0o7777, radix: 8) }
}

extension SystemExaminer {
    package static var ofThisProcess: SystemExaminer { SystemExaminer(userID: geteuid(), secrets: .ofThisProcess()) }

    /// Examines the machine on a separate thread, which ends after the answer.
    package func examine(
        _ questions: DoctorQuestions, _ notifier: ReadinessNotifier?, _ answer: @escaping @Sendable (DoctorFacts.System?) -> Void
    ) {
        do throws(LinuxError) {
            _ = try OwnThread.start("doctor") {
                var system = examine(questions)
                Self.addProcess(to: &system, notifier)
                answer(system)
            }
        } catch {
            answer(nil)
        }
    }
}
