// Checks of the agent's process and its configuration.
extension Doctor {
    static let agentChecks: [DoctorCheck] = [
        DoctorCheck("agent", why: "apps can hand over nothing while no agent runs") { facts in
            guard let agent = facts.agent else { return .unknown(noAgent) }
            if agent.isRunning { return .ok("it answers") }
            if let holder = agent.holder {
                return .bad(
                    "\(holder) holds the state folder, but does not answer at this socket",
                    fix: "agentctl --socket PATH doctor, or: systemctl restart agentd")
            }
            return .bad("no agent runs on this state", fix: "systemctl start agentd; why it stopped: journalctl -u agentd -n 50")
        },
        DoctorCheck("deaths", why: "an agent that dies again and again syncs nothing, whatever kills it") { facts in
            guard let agent = facts.agent, let deaths = agent.deaths else { return .unknown(noAgent) }
            if agent.isSafeMode {
                return .bad(
                    "it died \(deaths) times in a row and holds the sync back",
                    fix: PresentCause.safeModeCommand)
            }
            if deaths > 0 {
                let often = deaths == 1 ? "once" : "\(deaths) times in a row"
                return .warn("it died \(often) before this start", fix: "journalctl -u agentd -p err -n 50")
            }
            return .ok("the run before this one ended cleanly")
        },
        DoctorCheck("supervision", why: "without a service manager nothing restarts an agent that dies or hangs") { facts in
            guard let supervised = facts.system?.isSupervised else { return .unknown(noAgent) }
            guard supervised else {
                return .warn("nothing restarts agentd if it dies", fix: "systemctl enable --now agentd")
            }
            if facts.system?.hasWatchdog == false {
                return .note(
                    "it is restarted when it dies, but not when it hangs", fix: "set WatchdogSec=60 in the unit: systemctl edit agentd")
            }
            return .ok("restarted when it dies or hangs")
        },
        DoctorCheck("open_files", why: "each connection of an app and each database file takes a descriptor") { facts in
            guard let limit = facts.system?.openFilesMax else { return .unknown(noAgent) }
            if limit < openFilesMin {
                return .warn(
                    "at most \(limit) files may be open; 64 connections and the agent's own need \(openFilesMin)",
                    fix: "set LimitNOFILE=1024 in the unit: systemctl edit agentd")
            }
            return .ok("\(limit) files may be open")
        },
        DoctorCheck("alarms", why: "alarms about data, hub or identity wait for a person") { facts in
            guard let agent = facts.agent, agent.isRunning else { return .unknown(noAgent) }
            guard let first = agent.alarms.sorted(by: { $0.key < $1.key }).first else {
                guard !agent.pastAlarms.isEmpty else { return .ok("none") }
                return .note(
                    "over, and not acknowledged: \(agent.pastAlarms.joined(separator: ", "))",
                    fix: "agentctl status shows them; then: agentctl acknowledge")
            }
            let more = agent.alarms.count > 1 ? " (and \(agent.alarms.count - 1) more)" : ""
            return .warn(
                "\(first.key): \(first.value)\(more)",
                fix: "agentctl status; the page Troubleshooting of the manual tells what each code asks for")
        },
        DoctorCheck("refusals", why: "an app that is refused may be losing work that it cannot hand over") { facts in
            guard let agent = facts.agent, agent.isRunning else { return .unknown(noAgent) }
            let codes = ["forbidden", "entity-not-allowed", "rate", "queue-full", "disk-full"].filter { agent.refusals[$0, default: 0] > 0 }
            guard !codes.isEmpty else { return .ok("no app was turned away since the start") }
            let list = codes.map { "\($0) \(agent.refusals[$0, default: 0])" }.joined(separator: ", ")
            return .note("apps were turned away: \(list)", fix: "look at access, rate and quota in the configuration: agentctl config show")
        },
    ]

    /// Least number of open files: 64 connections; 24 for database, log, files, netlink, timers and curl; the rest in reserve.
    static let openFilesMin: Int64 = 128

    static let configurationChecks: [DoctorCheck] = [
        DoctorCheck("configuration", why: "the agent uses other settings than the files have") { facts in
            guard let configuration = facts.configuration else { return .unknown("not read") }
            if configuration.isLastGood {
                return .bad(
                    "the files are not accepted, and the last good copy is in force: \(configuration.error ?? "")",
                    fix: "mend that line, then: agentctl config check && agentctl config reload")
            }
            if let error = configuration.error, configuration.isErrorOfHub {
                return .bad(
                    "the hub's settings are not accepted, and the earlier ones stay in force: \(error)",
                    fix: "if this agentd is older than the hub, update it; otherwise, at the hub: agenthub entities check FILE")
            }
            if let error = configuration.error {
                return .bad("not accepted: \(error)", fix: "mend that line, then: agentctl config check && agentctl config reload")
            }
            return .ok("\(configuration.file) is good and in force")
        },
        DoctorCheck("configuration_trial", why: "a new hub, token or link rule that does not reach the hub is taken back") { facts in
            guard let configuration = facts.configuration else { return .unknown("not read") }
            guard let trial = configuration.trial else { return .ok("nothing is on trial, nothing was taken back") }
            return .warn(trial, fix: "agentctl status; correct the file, then: agentctl config reload")
        },
        DoctorCheck("restart_needed", why: "some keys take effect at a start only") { facts in
            guard let configuration = facts.configuration, facts.agent?.isRunning == true else { return .unknown(noAgent) }
            if configuration.restartNeeded.isEmpty { return .ok("nothing waits for a restart") }
            return .warn("waiting for a restart: \(configuration.restartNeeded.joined(separator: ", "))", fix: "systemctl restart agentd")
        },
        DoctorCheck("configuration_files", why: "a program that can write the configuration can send the data elsewhere") { facts in
            guard let system = facts.system else { return .unknown("not looked at") }
            guard let first = system.configurationFaults.first else { return .ok("only their owner can write them") }
            return .bad(first, fix: "chown root:root and chmod go-w that file and its folder")
        },
        DoctorCheck("hub_url", why: "over plain HTTP the data and the token can be read and changed on their way") { facts in
            guard let configuration = facts.configuration, !configuration.hubURL.isEmpty else {
                return .unknown("no hub is configured")
            }
            if configuration.isHubPlain {
                return .note(
                    "\(configuration.hubURL) is not encrypted; that is allowed on this machine only",
                    fix: "set hub.url to an https address before it leaves this machine")
            }
            return .ok(configuration.hubURL)
        },
        DoctorCheck("strategies", why: "where two sides change one record, a rule decides whose work stays; here it is the default") {
            facts in
            guard let configuration = facts.configuration else { return .unknown("not read") }
            if !configuration.undocumented.isEmpty {
                return .warn(
                    "no strategy is declared for \(configuration.undocumented.joined(separator: ", ")); the later change wins, "
                        + "field by field",
                    fix: "give entities.NAME.strategy, or its fields, in the configuration")
            }
            if !configuration.unknownEntities.isEmpty {
                return .note(
                    "not configured, and treated as records: \(configuration.unknownEntities.joined(separator: ", "))",
                    fix: "name them under entities, or set strict_entities: true to refuse other entities")
            }
            return .ok("every entity has one")
        },
        DoctorCheck("device", why: "the hub knows this machine by this name, and a copied card shows the same one") { facts in
            guard let configuration = facts.configuration else { return .unknown("not read") }
            if configuration.hasDevice { return .ok("hub.device is set") }
            return .ok("derived from the machine id")
        },
    ]
}
