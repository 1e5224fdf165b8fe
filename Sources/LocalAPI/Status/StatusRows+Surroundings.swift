import SyncCore

// The environment of the sync: power, links and the policy's verdicts about them. Each row is shown only when it has content: a device on
// mains with one unmetered link has none of them.
extension StatusRows {
    var power: StatusRow? {
        guard let power = document.power else { return nil }
        let isSaving = power.level != PowerLevel.ample.rawValue
        guard power.source == "battery" || isSaving || power.warning != nil else { return nil }
        var text = power.source == "battery" ? "battery" : power.source
        if let percent = power.percent { text += " \(percent) %" }
        text += power.isDischarging ? ", discharging" : ""
        switch PowerLevel(rawValue: power.level) {
        case .ample?: break
        case .saver?: text += "; saver: large files wait"
        case .low?: text += "; low: the sync waits"
        case .exhausted?: text += "; exhausted: nothing is sent"
        // A level of a newer agent is shown unchanged.
        case nil: text += "; " + power.level
        }
        let texts = [text, power.warning].compactMap { $0 }
        return StatusRow("POWER", texts, isSaving || power.warning != nil ? .warning : .plain)
    }

    // MARK: Links

    private static let linksMax = 3

    /// The uplink first, then links that could carry the sync, then the rest.
    var links: StatusRow? {
        let connectivity = document.connectivity
        let links = connectivity.links.filter { !["loopback", "virtual"].contains($0.kind) }
        let isPlain = links.count <= 1 && links.allSatisfy { !$0.isMetered && !$0.isRoaming && $0.budget.isEmpty }
        guard !isPlain else { return nil }
        let idle = ["absent", "down", "carrier"]
        let sorted =
            links.filter { $0.name == connectivity.uplink }
            + links.filter { $0.name != connectivity.uplink && !idle.contains($0.state) }
            + links.filter { $0.name != connectivity.uplink && idle.contains($0.state) }
        let isMore = sorted.count > Self.linksMax
        let shown = sorted.prefix(isMore ? Self.linksMax - 1 : Self.linksMax)
        let names = min(15, shown.map { PlainText.columns($0.name) }.max() ?? 0)
        var texts = shown.map { TextTable.padded(PlainText.safe($0.name), to: names) + "  " + line($0) }
        if isMore { texts.append("and \(sorted.count - shown.count) more: agentctl links") }
        let isUsedUp = sorted.first { $0.name == connectivity.uplink }?.budget.isUsedUp == true
        return StatusRow("LINKS", texts, isUsedUp ? .warning : .plain)
    }

    private func line(_ link: LinkItem) -> String {
        var parts = [LinksScreen.state(link) + (link.roundTrip.map { ", \($0.milliseconds) ms" } ?? "")]
        if let day = link.budget.day { parts.append("today " + LinksScreen.use(day)) }
        if let month = link.budget.month { parts.append("month " + LinksScreen.use(month)) }
        // The row of the state shows the cost of the uplink.
        if link.name != document.connectivity.uplink, let cost = cost(link) { parts.append(cost) }
        return parts.joined(separator: "  ")
    }

    /// Cost in words, such as `wwan, metered, roaming`; `nil` for a link that costs nothing.
    func cost(_ link: LinkItem) -> String? {
        guard link.isMetered || link.isRoaming else { return nil }
        return [link.kind, link.isMetered ? "metered" : nil, link.isRoaming ? "roaming" : nil].compactMap { $0 }
            .joined(separator: ", ")
    }

    // MARK: Policy

    /// A text such as `metered: only critical goes; normal waits until 21:40:00Z`. Facts of the rows of the state and the sync are left
    /// out, and so are ends that the row of the outbox shows.
    var policy: StatusRow? {
        let said: Set<String> = ["offline", "captive", "degraded", "auth", "paused", "backoff", "breaker"]
        let explained = Set(document.outbox.deferred.map(\.reason))
        var reasons: [String] = []
        var ends: [(until: Timestamp, names: [String])] = []
        var allowed: [String] = []
        for verdict in document.verdicts {
            switch verdict.verdict {
            case .allow: allowed.append(verdict.name)
            case .deferred(let reason, _) where said.contains(reason): return nil
            case .deferred(let reason, let until):
                if !reasons.contains(reason) { reasons.append(reason) }
                guard let until, !explained.contains(reason) else { continue }
                if let index = ends.firstIndex(where: { $0.until == until }) {
                    ends[index].names.append(verdict.name)
                } else {
                    ends.append((until, [verdict.name]))
                }
            }
        }
        guard !reasons.isEmpty else { return nil }
        let why = reasons.map { String($0.map { $0 == "_" ? " " : $0 }) }.joined(separator: ", ")
        let goes = allowed.isEmpty ? "nothing" : "only " + allowed.joined(separator: ", ")
        let waits = ends.map { end in
            "; " + end.names.joined(separator: ", ") + (end.names.count == 1 ? " waits" : " wait") + " until "
                + clock(end.until)
        }
        return StatusRow(
            "POLICY", [why + ": " + goes + (allowed.count > 1 ? " go" : " goes") + waits.joined()], .warning, wrapsTo: 2)
    }
}
