// Checks of files, disk, flash and clock.
extension Doctor {
    static let systemChecks: [DoctorCheck] = [
        DoctorCheck("state_folder", why: "everything that was accepted and not sent lies there") { facts in
            guard let system = facts.system else { return .unknown("not looked at") }
            guard let fault = system.stateFault else { return .ok("\(system.stateFolder) is private to agentd") }
            return .bad(fault, fix: "chown agentd:agentd \(system.stateFolder) && chmod 700 \(system.stateFolder)")
        },
        DoctorCheck("file_system", why: "files there must survive a power cut") { facts in
            guard let system = facts.system else { return .unknown("not looked at") }
            if system.space?.isReadOnly == true {
                return .bad(
                    "the file system of \(system.stateFolder) is mounted read-only",
                    fix: "dmesg | tail; then: mount -o remount,rw, or replace the card")
            }
            if let name = system.unfitFileSystem {
                return .bad(
                    "\(system.stateFolder) is on \(name), which does not keep it",
                    fix: "put store.path on a local disk (ext4, f2fs, btrfs, xfs)")
            }
            return .ok("it survives power loss")
        },
        DoctorCheck("disk", why: "with a full disk nothing more is accepted") { facts in
            guard let space = facts.system?.space else { return .unknown("not looked at") }
            let floor = facts.store?.minFreeBytes ?? 64_000_000
            let free = "\(SizeText.readable(space.freeBytes)) of \(SizeText.readable(space.totalBytes)) free"
            if space.freeBytes < floor {
                return .bad(
                    "\(free), less than store.min_free (\(SizeText.readable(floor)))",
                    fix: "journalctl --vacuum-size=50M; apt-get clean; du -xh / | sort -h | tail")
            }
            if space.freeBytes < floor.saturatingMultiply(2) {
                return .warn(
                    "\(free), close to store.min_free (\(SizeText.readable(floor)))",
                    fix: "journalctl --vacuum-size=50M; apt-get clean; du -xh / | sort -h | tail")
            }
            return .ok(free)
        },
        DoctorCheck("inodes", why: "without a free inode no file can be made, however much space is left") { facts in
            guard let space = facts.system?.space else { return .unknown("not looked at") }
            guard space.totalInodes > 0 else { return .ok("this file system makes them as it needs them") }
            let left = DoctorWords.percent(space.freeInodes, of: space.totalInodes)
            let text = "\(space.freeInodes) of \(space.totalInodes) free"
            let fix = "find / -xdev -printf '%h\\n' | sort | uniq -c | sort -n | tail"
            if space.freeInodes < 100 { return .bad(text, fix: fix) }
            return left < 5 ? .warn(text, fix: fix) : .ok(text)
        },
        DoctorCheck("flash", why: "a worn card loses acknowledged writes, and then refuses all writes") { facts in
            guard let flash = facts.system?.flash else { return .unknown("not looked at") }
            let name = flash.device ?? "the device"
            let fix = "replace \(name); what writes: iotop -oPa, and log.level, durability: relaxed for telemetry"
            let used = flash.lifeUsed.map {
                $0 > 10 ? "all of its rated life is used" : "\(($0 - 1) * 10) to \($0 * 10) % of its rated life is used"
            }
            if let spare = flash.preEndOfLife, spare >= 3 { return .bad("\(name): nine tenths of its spare blocks are used", fix: fix) }
            if let life = flash.lifeUsed, life > 10, let used { return .bad("\(name): \(used)", fix: fix) }
            if let spare = flash.preEndOfLife, spare == 2 { return .warn("\(name): four fifths of its spare blocks are used", fix: fix) }
            if let life = flash.lifeUsed, life >= 9, let used { return .warn("\(name): \(used)", fix: fix) }
            var parts = [used].compactMap { $0 }
            if let perDay = flash.writtenPerDay {
                parts.append("\(SizeText.readable(perDay)) a day are written to it")
                if flash.isCard, perDay > cardBytesPerDay { return .warn("\(name): \(parts.joined(separator: "; "))", fix: fix) }
            }
            return parts.isEmpty ? .unknown("\(name) reports no wear data") : .ok("\(name): \(parts.joined(separator: "; "))")
        },
        DoctorCheck("quarantine", why: "a database that was set aside may still hold what could not be read") { facts in
            guard let system = facts.system else { return .unknown("not looked at") }
            guard system.quarantined > 0 else { return .ok("nothing was set aside") }
            return .note(
                "\(system.quarantined) damaged databases are kept in \(system.stateFolder)/quarantine",
                fix: "look into them or copy them away, then remove them")
        },
        DoctorCheck("clock", why: "certificates, time windows and budgets go by it, and the later change wins by it") { facts in
            if let offset = facts.hub?.clockOffset {
                let magnitude = offset < .zero ? Duration.zero - offset : offset
                let text = "\(DurationText.rough(magnitude)) \(offset < .zero ? "ahead of" : "behind") the hub's"
                if magnitude > HybridClock.aheadMax {
                    return .bad("this machine's clock is \(text)", fix: "timedatectl set-ntp true; timedatectl timesync-status")
                }
                return .ok("within \(DurationText.rough(magnitude + .seconds(1))) of the hub's")
            }
            guard let system = facts.system, let synchronised = system.isClockSynchronised else { return .unknown("not looked at") }
            if synchronised { return .ok("kept right by the system") }
            return .warn("the clock is not synchronized: \(facts.now)", fix: "timedatectl set-ntp true; timedatectl timesync-status")
        },
        DoctorCheck("socket", why: "apps reach the agent there, and no other program should") { facts in
            guard let system = facts.system, facts.agent?.isRunning == true else { return .unknown(noAgent) }
            guard let fault = system.socketFault else { return .ok("its owner and its group may use it") }
            return .warn(fault, fix: "look at socket.mode and socket.group in the configuration, then: systemctl restart agentd")
        },
    ]

    /// A card of 32 GB with 3,000 erase cycles lasts ten years at this rate, with a write amplification of 5.
    static let cardBytesPerDay: Int64 = 5_000_000_000
}

extension DoctorFacts.Flash {
    /// Bytes written per day; `nil` until the machine has run for an hour, because its start is not representative.
    var writtenPerDay: Int64? {
        guard let writtenBytes, let seconds = machineUptime?.components.seconds, seconds >= 3_600 else { return nil }
        // The product may be larger than an integer can hold.
        return Int64(min(max(0, Double(writtenBytes) / Double(seconds) * 86_400), 9e18))
    }

    /// `true` when the device is an SD card or eMMC.
    var isCard: Bool { device?.hasPrefix("mmcblk") ?? false }
}

// Checks of the database.
extension Doctor {
    static let storeChecks: [DoctorCheck] = [
        DoctorCheck("database", why: "it holds accepted changes that were not sent, and the local copy of the records") { facts in
            guard let store = facts.store else { return .unknown("there is none, or it was not looked at") }
            if let fault = store.fault { return .bad(fault, fix: "journalctl -u agentd -p err -n 20; a newer agentd may have written it") }
            if store.isReadOnly { return .bad("it takes no writes", fix: "journalctl -u agentd -p err -n 20; dmesg | tail") }
            if store.integrity != "ok" {
                return .bad(
                    "its check complains: \(store.integrity)",
                    fix: "systemctl restart agentd: readable rows go into a new database, the old one is kept")
            }
            if let recovery = store.recovery { return .note(recovery, fix: "nothing more; look at the disk if it happens again") }
            return .ok("whole, \(SizeText.readable(store.bytes))")
        },
        DoctorCheck("durability", why: "with less than synchronous=FULL a power cut loses the last acknowledged changes") { facts in
            guard let synchronous = facts.store?.synchronous else { return .unknown(noAgent) }
            if synchronous == "full" { return .ok("synchronous \(synchronous)") }
            return .bad("synchronous \(synchronous)", fix: "install the released agentd again: it never sets anything else")
        },
        DoctorCheck("database_size", why: "at store.max_size new work is refused") { facts in
            guard let store = facts.store else { return .unknown("not looked at") }
            let used = DoctorWords.percent(store.bytes, of: store.maxBytes)
            let text = "\(SizeText.readable(store.bytes)) of \(SizeText.readable(store.maxBytes))"
            let fix = "raise store.max_size, shorten entities.NAME.retention, or let the sync empty it: agentctl status"
            if used >= 100 { return .bad(text, fix: fix) }
            return used >= 80 ? .warn(text, fix: fix) : .ok(text)
        },
        DoctorCheck("log_size", why: "a log that cannot be folded back grows without end, as long as an old read is open") { facts in
            guard let store = facts.store else { return .unknown("not looked at") }
            let text = "the write-ahead log has \(SizeText.readable(store.walBytes))"
            if store.walBytes > walMax { return .warn(text, fix: "systemctl restart agentd; then look for long reads of apps") }
            return .ok(text)
        },
        DoctorCheck("sqlite_version", why: "before 3.51.3 two writers at the same instant could damage a database") { facts in
            guard let store = facts.store else { return .unknown("not looked at") }
            if isBefore(store.sqlite, [3, 51, 3]) {
                return .note(
                    "sqlite \(store.sqlite) predates the WAL-reset fix; only one process and connection writes here, which protects",
                    fix: "nothing now; take the distribution's update when there is one")
            }
            return .ok("sqlite \(store.sqlite)")
        },
    ]

    /// Largest normal size of the WAL, bytes. `journal_size_limit` is 16 MiB; four times that is no normal variation.
    static let walMax: Int64 = 64 << 20

    /// Compares versions such as `3.40.1` number by number; a part that is no number counts as 0.
    static func isBefore(_ version: String, _ other: [Int]) -> Bool {
        let parts = version.split(separator: ".").map { Int($0) ?? 0 }
        for index in other.indices {
            let part = index < parts.count ? parts[index] : 0
            if part != other[index] { return part < other[index] }
        }
        return false
    }
}
