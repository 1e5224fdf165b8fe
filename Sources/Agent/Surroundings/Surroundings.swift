import LocalAPI
import SyncCore
import SyncHTTP

/// The agent's knowledge of its environment: links, reachability, power, and the bytes of each link. Each part is a value that decides by
/// itself; this type keeps them together for the actor that passes events to them.
struct Surroundings {
    var connectivity: Connectivity
    var connectivityWake: LoopTimer?

    var power = PowerMeter()
    var supplies: [PowerSupplyReading]?

    var book: BudgetBook
    var usage = UsageBatch()
    var usageWake: LoopTimer?
    var reservation = UsageReservation()

    /// Timer of the next moment at which a window, a budget or a clock changes something.
    var reviewWake: LoopTimer?

    var unmeteredSeenAt: Timestamp?
    var unmeteredSavedAt: Instant?
    var oldestNormalAt: Timestamp?

    /// The conditions that the engine got last.
    var told: Conditions
    /// The outcome of the last probe that was answered or given up.
    var lastProbe: LinkItem.Probe?
    /// Runs of the operator's programs since the start, by link.
    var recoveries: [String: LinkItem.Recovery] = [:]
    var reachability = ReachabilityNews()
    var clock = ClockWatch()

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

    /// The probe of the configured address, or the hub's own.
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

    /// The budget of a link: that of its rule, otherwise the default of a metered link.
    func budget(of uplink: Uplink) -> LinkBudget? {
        budget(of: uplink.name, isMetered: uplink.isMetered)
    }
}
