import SyncCore

/// Links as tests need them.
extension LinkFacts {
    /// Up, with carrier, an address and a default route, unless said otherwise.
    static func sample(
        _ name: String = "eth0", index: Int32 = 2, hardwareType: UInt16 = 1, infoKind: String? = nil,
        deviceType: String? = nil, driver: String? = nil, addresses: [String] = ["192.0.2.7"], metric: UInt32? = 100
    ) -> LinkFacts {
        var facts = LinkFacts(name: name, index: index)
        (facts.isUp, facts.hasCarrier, facts.hardwareType) = (true, true, hardwareType)
        (facts.infoKind, facts.deviceType, facts.driver) = (infoKind, deviceType, driver)
        (facts.addresses, facts.defaultMetric) = (addresses, metric)
        return facts
    }

    func with(_ change: (inout LinkFacts) -> Void) -> LinkFacts {
        var facts = self
        change(&facts)
        return facts
    }
}

extension LinkRule {
    static func sample(_ pattern: String, metered: Bool? = nil, prefer: Int = 0) -> LinkRule {
        var rule = LinkRule(match: InterfacePattern(pattern) ?? .all)
        (rule.metered, rule.prefer) = (metered, prefer)
        return rule
    }
}

extension Instant {
    static func seconds(_ seconds: Double) -> Instant { Instant(nanoseconds: Int64(seconds * 1_000_000_000)) }
}
