package import SyncCore

extension AgentConfiguration {
    /// The part of the configuration that the policy uses.
    package var policySettings: PolicySettings {
        var settings = PolicySettings()
        settings.allowsCritical = power.allowsCritical
        settings.lowEndsAtPercent = min(power.lowPercent + power.marginPercent, 100)
        settings.saverEndsAtPercent = min(power.saverPercent + power.marginPercent, 100)
        settings.meteredMaxAge = metered.maxAge
        settings.mediaMaxAge = metered.filesMaxAge
        settings.windowsHoldAll = sync.windowsHold == .all
        settings.pullInterval = sync.pullInterval
        settings.meteredPullInterval = sync.meteredPullInterval
        return settings
    }

    package var powerThresholds: PowerThresholds {
        var thresholds = PowerThresholds()
        thresholds.low = power.lowPercent
        thresholds.saver = power.saverPercent
        thresholds.margin = power.marginPercent
        return thresholds
    }

    package var windowSchedule: WindowSchedule { WindowSchedule(sync.windows) }

    /// The budget of a link: the operator's, otherwise the default of a metered link, otherwise none.
    package func budget(of interface: String, isMetered: Bool) -> LinkBudget? {
        linkRule(for: interface)?.budget ?? (isMetered ? .meteredDefault : nil)
    }
}
