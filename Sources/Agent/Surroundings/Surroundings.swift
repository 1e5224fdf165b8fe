import LocalAPI
import SyncCore
import SyncHTTP

/// What the agent knows about the world around its work: links, reachability, power, and the bytes that went over each link.
/// Each of them decides by itself, as a value; here they are kept together for the actor that feeds them.
struct Surroundings {
    var connectivity: Connectivity
    var connectivityWake: LoopTimer?

    var power = PowerMeter()
    var supplies: [PowerSupplyReading]?

    var book: BudgetBook
    var usage = UsageBatch()
    var usageWake: LoopTimer?
    var reservation = UsageReservation()

    /// The next moment at which a window, a budget or a clock changes something.
    var reviewWake: LoopTimer?

    /// The next look at the token's file.
    var tokenWake: LoopTimer?

    var unmeteredSeenAt: Timestamp?
    var unmeteredSavedAt: Instant?
    var oldestNormalAt: Timestamp?

    /// What the engine was told last.
    var told: Conditions
    var cause: String?
    /// What the machine found, for the change of reachability that follows from it.
    var fault: HubFault?
    /// The outcome of the last probe that was answered or given up.
    var lastProbe: LinkItem.Probe?
    /// Runs of the operator's programs since the start, by link.
    var recoveries: [String: LinkItem.Recovery] = [:]
    /// Cycles that the watchdog had to begin.
    var stalls: Int64 = 0

    init(_ configuration: AgentConfiguration, hasLinks: Bool, random: SeededRandom, at now: Moment) {
        connectivity = Connectivity(
            rules: configuration.links, settings: configuration.reachabilitySettings, random: random)
        book = BudgetBook(at: now)
        told = hasLinks ? .offline : .plain
    }
}

extension AgentConfiguration {
    var reachabilitySettings: ReachabilityMachine.Settings {
        var settings = ReachabilityMachine.Settings()
        settings.idleInterval = probe.interval
        return settings
    }

    /// The probe: the configured address, else the hub's own.
    var probeClient: ProbeClient {
        let tls = tlsIdentity
        var client = probe.url.map { ProbeClient(url: $0.text, tls: tls) } ?? ProbeClient(hubURL: hub.url.text, tls: tls)
        if probe.url == nil, let restSettings {
            client = ProbeClient(backend: restSettings.mapping.baseURL + restSettings.mapping.probe, tls: restSettings.tls)
        }
        client.proxy = proxy
        client.totalTimeout = probe.timeout
        client.connectTimeout = min(.seconds(3), probe.timeout)
        return client
    }

    /// The budget of a link: its rule's, else the usual one of a metered link.
    func budget(of uplink: Uplink) -> LinkBudget? {
        budget(of: uplink.name, isMetered: uplink.isMetered)
    }
}
