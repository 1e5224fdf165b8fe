import SyncCore
import Testing

/// Facts of a machine on which all is well.
enum Healthy {
    static let now = Timestamp(milliseconds: 1_795_216_800_000)

    static var facts: DoctorFacts {
        var facts = DoctorFacts(now: now)
        var agent = DoctorFacts.Agent(isRunning: true)
        agent.deaths = 0
        facts.agent = agent
        var configuration = DoctorFacts.Configuration(file: "/etc/agentd/agentd.yaml")
        configuration.hubURL = "https://hub.example.com"
        facts.configuration = configuration
        facts.system = system
        var hub = DoctorFacts.Hub(reachability: .online)
        hub.isResolved = true
        hub.certificateEndsAt = now.advanced(by: .seconds(60 * 86_400))
        hub.syncVersion = 1
        hub.tokenEndsAt = now.advanced(by: .seconds(60 * 86_400))
        hub.clockOffset = .milliseconds(412)
        facts.hub = hub
        facts.links = .init(
            all: [
                .init(name: "lo", kind: .loopback, cost: LinkCost(isMetered: false, evidence: .kind), isUsable: true),
                .init(name: "wwan0", kind: .wwan, cost: LinkCost(isMetered: true, evidence: .devtype), isUsable: true),
            ], uplink: "wwan0")
        facts.links?.budgets = [Budget(limit: 20_000_000, used: 3_000_000)]
        facts.power = .init(state: PowerState(source: .mains), level: .ample, supplies: 1)
        var store = DoctorFacts.Store(
            bytes: 4_000_000, maxBytes: 512_000_000, walBytes: 200_000, minFreeBytes: 64_000_000, sqlite: "3.53.0")
        store.synchronous = "full"
        facts.store = store
        var work = DoctorFacts.Work(
            open: 17, limit: 100_000, since: now.advanced(by: .seconds(-86_400 * 30)), pullInterval: .seconds(60))
        work.oldest = .seconds(41)
        work.lastSuccess = now.advanced(by: .seconds(-38))
        facts.work = work
        return facts
    }

    private static var system: DoctorFacts.System {
        var system = DoctorFacts.System(stateFolder: "/var/lib/agentd")
        system.space = .init(
            freeBytes: 8_000_000_000, totalBytes: 32_000_000_000, freeInodes: 900_000, totalInodes: 1_000_000, isReadOnly: false)
        system.token = .init(path: "/etc/agentd/token")
        system.clientCertificate = .init(path: "/etc/agentd/client.pem", endsAt: now.advanced(by: .seconds(90 * 86_400)))
        system.clientKey = .init(path: "/etc/agentd/client.key")
        system.authorities = .init(path: "/etc/agentd/ca.pem", endsAt: now.advanced(by: .seconds(900 * 86_400)))
        system.flash.device = "mmcblk0"
        system.flash.lifeUsed = 2
        system.flash.preEndOfLife = 1
        system.flash.writtenBytes = 1_000_000_000
        system.flash.machineUptime = .seconds(86_400)
        system.reversePathFilters = ["wwan0": 2, "eth0": 2]
        system.openFilesMax = 1_024
        system.isSupervised = true
        system.hasWatchdog = true
        system.isClockSynchronised = true
        return system
    }
}

@Suite("The doctor")
struct DoctorTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var check: String
        var severity: DoctorFinding.Severity
        var name: String
        var change: @Sendable (inout DoctorFacts) -> Void

        init(_ check: String, _ severity: DoctorFinding.Severity, _ name: String, _ change: @escaping @Sendable (inout DoctorFacts) -> Void)
        {
            self.check = check
            self.severity = severity
            self.name = name
            self.change = change
        }

        var testDescription: String { "\(check): \(name)" }
    }

    private static func days(_ count: Int64) -> Duration { .seconds(count * 86_400) }

    static let cases: [Case] = [
        Case("agent", .bad, "none runs") { $0.agent = DoctorFacts.Agent(isRunning: false) },
        Case("agent", .bad, "one runs and does not answer") {
            $0.agent = DoctorFacts.Agent(isRunning: false)
            $0.agent?.holder = "process 17"
        },
        Case("deaths", .warn, "it died once") { $0.agent?.deaths = 1 },
        Case("deaths", .bad, "safe mode") {
            $0.agent?.deaths = 5
            $0.agent?.isSafeMode = true
        },
        Case("supervision", .warn, "started by hand") { $0.system?.isSupervised = false },
        Case("supervision", .note, "no watchdog") { $0.system?.hasWatchdog = false },
        Case("open_files", .warn, "a low limit") { $0.system?.openFilesMax = 127 },
        Case("open_files", .ok, "just enough") { $0.system?.openFilesMax = 128 },
        Case("alarms", .warn, "one") { $0.agent?.alarms = ["lost_tail": "3 mutations are missing"] },
        Case("refusals", .note, "an app had too many connections") { $0.agent?.refusals = ["rate": 3, "malformed": 9] },
        Case("refusals", .ok, "an app's own mistakes") { $0.agent?.refusals = ["malformed": 9] },
        Case("configuration", .bad, "not accepted") { $0.configuration?.error = "agentd.yaml:3:1: sync.pull_intervall: unknown key" },
        Case("configuration", .bad, "settings of a newer hub") {
            $0.configuration?.error = "server:1:263: entities.audits.schema: is not accepted"
            $0.configuration?.isErrorOfHub = true
        },
        Case("configuration", .bad, "the last good copy") { $0.configuration?.isLastGood = true },
        Case("configuration_trial", .warn, "taken back") { $0.configuration?.trial = "hub.url was taken back" },
        Case("restart_needed", .warn, "a new state folder") { $0.configuration?.restartNeeded = ["store.path"] },
        Case("configuration_files", .bad, "writable by all") {
            $0.system?.configurationFaults = ["/etc/agentd can be written by others (mode 0777)"]
        },
        Case("hub_url", .note, "plain on this machine") { $0.configuration?.isHubPlain = true },
        Case("strategies", .warn, "one entity has none") { $0.configuration?.undocumented = ["audits"] },
        Case("strategies", .note, "an entity without configuration") { $0.configuration?.unknownEntities = ["visits"] },
        Case("device", .ok, "derived") { $0.configuration?.hasDevice = false },
        Case("state_folder", .bad, "open to others") { $0.system?.stateFault = "/var/lib/agentd is open to others (mode 0755)" },
        Case("file_system", .bad, "memory") { $0.system?.unfitFileSystem = "tmpfs" },
        Case("file_system", .bad, "read-only") { $0.system?.space?.isReadOnly = true },
        Case("disk", .bad, "below the floor") { $0.system?.space?.freeBytes = 63_999_999 },
        Case("disk", .warn, "close to the floor") { $0.system?.space?.freeBytes = 64_000_000 },
        Case("disk", .ok, "twice the floor") { $0.system?.space?.freeBytes = 128_000_000 },
        Case("inodes", .bad, "none left") { $0.system?.space?.freeInodes = 99 },
        Case("inodes", .warn, "few left") { $0.system?.space?.freeInodes = 49_999 },
        Case("inodes", .ok, "not counted here") {
            $0.system?.space?.freeInodes = 0
            $0.system?.space?.totalInodes = 0
        },
        Case("flash", .warn, "80 to 90 % used") { $0.system?.flash.lifeUsed = 9 },
        Case("flash", .bad, "all of its life used") { $0.system?.flash.lifeUsed = 11 },
        Case("flash", .warn, "spare blocks low") { $0.system?.flash.preEndOfLife = 2 },
        Case("flash", .bad, "spare blocks used up") { $0.system?.flash.preEndOfLife = 3 },
        Case("flash", .warn, "6 GB a day on a card") { $0.system?.flash.writtenBytes = 6_000_000_000 },
        Case("flash", .ok, "6 GB a day on a disk") {
            $0.system?.flash.device = "nvme0n1"
            $0.system?.flash.writtenBytes = 6_000_000_000
        },
        Case("flash", .ok, "6 GB while it was starting are no measure") {
            $0.system?.flash.writtenBytes = 6_000_000_000
            $0.system?.flash.machineUptime = .seconds(3_599)
        },
        Case("flash", .unknown, "it reports no wear data") { $0.system?.flash = DoctorFacts.Flash() },
        Case("quarantine", .note, "one is kept") { $0.system?.quarantined = 1 },
        Case("clock", .bad, "ten minutes behind the hub") { $0.hub?.clockOffset = .seconds(600) },
        Case("clock", .bad, "ten minutes ahead of the hub") { $0.hub?.clockOffset = .seconds(-600) },
        Case("clock", .ok, "five minutes are tolerated") { $0.hub?.clockOffset = .seconds(300) },
        Case("clock", .warn, "the clock is not synchronized") {
            $0.hub?.clockOffset = nil
            $0.system?.isClockSynchronised = false
        },
        Case("socket", .warn, "open to all") { $0.system?.socketFault = "every user of this machine may use it (mode 0666)" },
        Case("database", .bad, "its check complains") { $0.store?.integrity = "row 3 missing from index" },
        Case("database", .bad, "a newer agentd wrote it") { $0.store?.fault = "schema 99" },
        Case("database", .bad, "no writes") { $0.store?.isReadOnly = true },
        Case("database", .note, "repaired") { $0.store?.recovery = "a commit failed" },
        Case("durability", .bad, "synchronous normal") { $0.store?.synchronous = "normal" },
        Case("durability", .unknown, "no process writes") { $0.store?.synchronous = nil },
        Case("database_size", .warn, "80 %") { $0.store?.bytes = 409_600_000 },
        Case("database_size", .bad, "full") { $0.store?.bytes = 512_000_000 },
        Case("log_size", .warn, "a long log") { $0.store?.walBytes = 65 << 20 },
        Case("sqlite_version", .note, "Debian 12") { $0.store?.sqlite = "3.40.1" },
        Case("sqlite_version", .note, "one before the fix") { $0.store?.sqlite = "3.51.2" },
        Case("sqlite_version", .ok, "the fix") { $0.store?.sqlite = "3.51.3" },
        Case("link", .bad, "no uplink") { $0.links?.uplink = nil },
        Case("dns", .bad, "no address") { $0.hub?.isResolved = false },
        Case("dns", .ok, "an address is configured") {
            $0.hub?.isResolved = nil
            $0.hub?.isAddress = true
        },
        Case("dns", .bad, "no address of the proxy") {
            $0.hub?.place.proxyHost = "proxy.test"
            $0.hub?.isResolved = false
        },
        Case("proxy", .bad, "its credentials are not there") {
            $0.hub?.place.proxy = "http://proxy.test:3128"
            $0.system?.proxyCredentials = .init(path: "/etc/agentd/proxy", fault: "is not there")
        },
        Case("proxy", .bad, "it wants credentials") {
            $0.hub?.place.proxy = "http://proxy.test:3128"
            $0.hub?.fault = HubFault(.unreachable, HTTPProxy.Demand.credentials.rawValue)
        },
        Case("proxy", .ok, "set, without credentials") { $0.hub?.place.proxy = "http://proxy.test:3128" },
        Case("tls", .bad, "a wrong name") { $0.hub?.fault = HubFault(.untrusted, "no alternative certificate subject name matches") },
        Case("tls", .bad, "by the date") { $0.hub?.fault = HubFault(.untrustedDate, "certificate is not yet valid") },
        Case("tls", .bad, "the hub wants a certificate") { $0.hub?.fault = HubFault(.clientCertificate, "alert certificate required") },
        Case("tls", .ok, "not used") {
            $0.hub?.usesTLS = false
            $0.hub?.syncVersion = nil
        },
        Case("tls_expiry", .warn, "20 days") { $0.hub?.certificateEndsAt = Healthy.now.advanced(by: days(20)) },
        Case("tls_expiry", .bad, "4 days") { $0.hub?.certificateEndsAt = Healthy.now.advanced(by: days(4)) },
        Case("tls_expiry", .bad, "yesterday") { $0.hub?.certificateEndsAt = Healthy.now.advanced(by: days(-1)) },
        Case("tls_expiry", .unknown, "no handshake yet") { $0.hub?.certificateEndsAt = nil },
        Case("client_certificate", .warn, "20 days") { $0.system?.clientCertificate?.endsAt = Healthy.now.advanced(by: days(20)) },
        Case("client_certificate", .bad, "its key is open to others") { $0.system?.clientKey?.fault = "expected mode 0600" },
        Case("client_certificate", .ok, "none") { $0.system?.clientCertificate = nil },
        Case("authorities", .bad, "no certificate in it") {
            $0.system?.authorities?.fault = "/etc/agentd/ca.pem holds no certificate in PEM"
        },
        Case("authorities", .ok, "the system's") { $0.system?.authorities = nil },
        Case("hub", .bad, "offline") { $0.hub?.reachability = .offline },
        Case("hub", .bad, "a portal") { $0.hub?.reachability = .captive },
        Case("hub", .bad, "away") { $0.hub?.reachability = .degraded },
        Case("hub", .bad, "refused") { $0.hub?.reachability = .auth },
        Case("hub", .unknown, "being tried") { $0.hub?.reachability = .connecting },
        Case("hub_version", .bad, "a newer one only") { $0.hub?.foreignVersions = [2, 3] },
        Case("hub_version", .unknown, "no answer yet") { $0.hub?.syncVersion = nil },
        Case("token", .bad, "open to others") { $0.system?.token.fault = "expected mode 0600 or 0400, found 0644" },
        Case("token", .bad, "refused") { $0.hub?.fault = HubFault(.refused, "the token is not known") },
        Case("token", .bad, "ended") {
            $0.hub?.fault = HubFault(
                .refused, "the token of this device ended at 2026-11-01; an operator can let the device in: agenthub token readmit gw-1")
        },
        Case("token_expiry", .warn, "20 days") { $0.hub?.tokenEndsAt = Healthy.now.advanced(by: days(20)) },
        Case("token_expiry", .ok, "20 days, and young") {
            $0.hub?.tokenEndsAt = Healthy.now.advanced(by: days(20))
            $0.hub?.tokenRefreshAt = Healthy.now.advanced(by: days(14))
        },
        Case("token_expiry", .bad, "4 days, and not refreshed") {
            $0.hub?.tokenEndsAt = Healthy.now.advanced(by: days(4))
            $0.hub?.tokenRefreshAt = Healthy.now.advanced(by: days(-1))
        },
        Case("token_expiry", .ok, "it does not end") { $0.hub?.tokenEndsAt = nil },
        Case("scopes", .warn, "the hub has some, and this device none") {
            $0.hub?.share = DeviceShare(scopes: [.init("site", [])], roles: ["inspector"])
        },
        Case("scopes", .ok, "some") { $0.hub?.share = DeviceShare(scopes: [.init("site", ["s-3"])]) },
        Case("scopes", .unknown, "no answer yet") { $0.hub?.syncVersion = nil },
        Case("metered", .note, "guessed") {
            $0.links?.all = [.init(name: "wlan0", kind: .wlan, cost: LinkCost(isMetered: false, evidence: .kind), isUsable: true)]
            $0.links?.uplink = "wlan0"
        },
        Case("metered", .ok, "a cable needs no saying") {
            $0.links?.all = [.init(name: "eth0", kind: .ethernet, cost: LinkCost(isMetered: false, evidence: .kind), isUsable: true)]
            $0.links?.uplink = "eth0"
        },
        Case("rp_filter", .warn, "strict with two links") {
            $0.links?.all.append(.init(name: "eth0", kind: .ethernet, cost: LinkCost(isMetered: false, evidence: .kind), isUsable: true))
            $0.system?.reversePathFilters["eth0"] = 1
        },
        Case("rp_filter", .ok, "strict with one link") { $0.system?.reversePathFilters["wwan0"] = 1 },
        Case("power", .note, "saver") { $0.power = .init(state: PowerState(source: .battery, percent: 25), level: .saver, supplies: 1) },
        Case("power", .warn, "low") { $0.power = .init(state: PowerState(source: .battery, percent: 10), level: .low, supplies: 1) },
        Case("power", .warn, "a gauge that fails") {
            $0.power = .init(state: PowerState(source: .unknown, warning: "the gauge cannot be read"), level: .ample, supplies: 1)
        },
        Case("budget", .note, "80 %") { $0.links?.budgets = [Budget(limit: 100, used: 80)] },
        Case("budget", .warn, "used up") { $0.links?.budgets = [Budget(limit: 1_000, used: 1), Budget(limit: 100, used: 100)] },
        Case("counters", .bad, "they do not add up") { $0.work?.isBalanced = false },
        Case("queue", .warn, "80 %") { $0.work?.open = 80_000 },
        Case("queue", .bad, "full") { $0.work?.open = 100_000 },
        Case("backlog", .warn, "two days") { $0.work?.oldest = days(2) },
        Case("backlog", .bad, "eight days") { $0.work?.oldest = days(8) },
        Case("backlog", .ok, "nothing waits") { $0.work?.oldest = nil },
        Case("last_sync", .warn, "two days ago") { $0.work?.lastSuccess = Healthy.now.advanced(by: days(-2)) },
        Case("last_sync", .ok, "two days ago, pulled weekly") {
            $0.work?.lastSuccess = Healthy.now.advanced(by: days(-2))
            $0.work?.pullInterval = days(7)
        },
        Case("last_sync", .ok, "never, but it is new") {
            $0.work?.lastSuccess = nil
            $0.work?.since = Healthy.now.advanced(by: .seconds(-3_600))
        },
        Case("last_sync", .warn, "never") { $0.work?.lastSuccess = nil },
        Case("pause", .warn, "paused") { $0.work?.pause = .init(until: nil, reason: "harvest", uid: 0) },
        Case("pause", .ok, "a pause that is over") {
            $0.work?.pause = .init(until: Healthy.now.advanced(by: .seconds(-1)), reason: "", uid: 0)
        },
        Case("decisions", .warn, "a rejection") { $0.work?.rejected = 1 },
        Case("decisions", .warn, "a conflict") { $0.work?.conflicted = 1 },
        Case("backend_writes", .warn, "a backend that forgets what it was sent") {
            $0.configuration?.weaknesses = [RestWeakness(EntityName(trusted: "audits"), .creationParked)]
        },
        Case("backend_writes", .ok, "a backend with conditions and keys") { $0.configuration?.weaknesses = [] },
        Case("backend_lists", .note, "a backend that lists by time") {
            $0.configuration?.weaknesses = [RestWeakness(EntityName(trusted: "audits"), .listedByTime)]
        },
        Case("hub_version", .ok, "a backend has no version of our protocol") {
            $0.configuration?.weaknesses = []
            $0.hub?.syncVersion = nil
        },
    ]

    @Test("Each check finds what it is there for, and nothing else changes by it", arguments: cases)
    func finds(_ example: Case) throws {
        var facts = Healthy.facts
        example.change(&facts)
        let findings = Doctor.examine(facts)
        let finding = try #require(findings.first { $0.id == example.check })
        #expect(finding.severity == example.severity, "\(finding.detail)")
        #expect(!finding.detail.isEmpty && !finding.why.isEmpty)
        switch finding.severity {
        case .ok, .unknown: #expect(finding.fix == nil)
        case .note, .warn, .bad: #expect(finding.fix?.isEmpty == false)
        }
    }

    // Fault: a device with refused changes alone was sent to its conflicts first.
    @Test(
        "The fix of open decisions names the lists that have some",
        arguments: [
            (1, 0, 0, "agentctl rejected list"), (0, 1, 0, "agentctl rejected list"), (0, 0, 1, "agentctl conflicts list"),
            (1, 1, 1, "agentctl conflicts list; agentctl rejected list"),
        ] as [(Int64, Int64, Int64, String)])
    func decisions(_ rejected: Int64, _ parked: Int64, _ conflicted: Int64, _ fix: String) {
        var facts = Healthy.facts
        facts.work?.rejected = rejected
        facts.work?.parked = parked
        facts.work?.conflicted = conflicted
        #expect(Doctor.examine(facts).first { $0.id == "decisions" }?.fix == fix)
    }

    @Test("On a healthy machine every check is made and is fine")
    func healthy() {
        for finding in Doctor.examine(Healthy.facts) { #expect(finding.severity == .ok, "\(finding.id): \(finding.detail)") }
    }

    @Test("Every check has a row that is not ok, and a name of its own; there are at least 25")
    func complete() {
        let names = Doctor.checks.map(\.id)
        #expect(Set(names).count == names.count)
        #expect(names.count >= 25)
        let notOK = Set(Self.cases.filter { $0.severity != .ok }.map(\.check))
        // A derived name is as good as a given one; the row only tells which it is.
        #expect(Set(names).subtracting(notOK) == ["device"])
    }

    @Test("Without any fact nothing is judged")
    func nothingKnown() {
        for finding in Doctor.examine(DoctorFacts(now: Healthy.now)) { #expect(finding.severity == .unknown, "\(finding.id)") }
    }

    @Test("The short form names the gravest first and leaves out what is not known")
    func short() {
        var facts = Healthy.facts
        facts.store?.sqlite = "3.40.1"
        facts.work?.rejected = 1
        facts.links?.uplink = nil
        facts.power = nil
        let findings = Doctor.examine(facts)
        let summary = DoctorSummary(findings)
        #expect(summary.failed.map(\.id) == ["link", "decisions", "sqlite_version"])
        let unknown = findings.filter { $0.severity == .unknown }.count
        #expect(summary.total == findings.count - unknown)
        #expect(summary.ok == summary.total - 3)
    }
}
