package import SyncCore

/// The output of `agentctl links` for people: a line for each link, and below it the facts that do not fit into a table.
package enum LinksScreen {
    package static func render(
        _ answer: LinksAnswer, width: Int = 80, now: Timestamp, offset: Duration = .zero
    ) -> [String] {
        if answer.items.isEmpty {
            return [PlainText.clip("no network interface that could carry the sync", to: width)]
        }
        var table = TextTable([
            .init(""), .init("LINK"), .init("KIND", widthMin: 6), .init("STATE", widthMin: 8), .init("COST"),
            .init("TODAY", .right), .init("MONTH", .right),
        ])
        for link in answer.items {
            table.add([
                link.name == answer.uplink ? "*" : "", link.name, link.kind ?? "", state(link), cost(link),
                link.budget.day.map(use) ?? "", link.budget.month.map(use) ?? "",
            ])
        }
        var lines = table.lines(width: width)
        for link in answer.items {
            for note in notes(link, now, offset) {
                lines.append(PlainText.clip(PlainText.safe("  \(link.name): \(note)"), to: width))
            }
        }
        let last = answer.uplink.map { "* carries the sync (\($0))" } ?? "no link carries the sync"
        lines.append(PlainText.clip(PlainText.safe(last), to: width))
        guard let cause = answer.cause else { return lines }
        let told = cause.lines { PlainText.clock($0, now: now, offset: offset) }
        return lines + told.flatMap { PlainText.wrap(PlainText.safe($0), to: width, lines: 3) }
    }

    private static func notes(_ link: LinkItem, _ now: Timestamp, _ offset: Duration) -> [String] {
        func clock(_ time: Timestamp) -> String { PlainText.clock(time, now: now, offset: offset) }
        var notes: [String] = []
        let cost = (link.isMetered ? "metered" : "not metered") + (link.isRoaming ? ", roaming" : "")
        if let evidence = link.meteredBy { notes.append("\(cost) (by \(evidence))") }
        if !link.addresses.isEmpty { notes.append(link.addresses.joined(separator: ", ")) }
        if let expiresAt = link.expiresAt { notes.append("the hint in force runs out at " + clock(expiresAt)) }
        if let rate = link.bytesPerSecond { notes.append("at most \(SizeText.readable(rate)) a second") }
        let roundTrip = link.roundTrip.map { "round trip \($0.milliseconds) ms" }
        let probe = link.lastProbe.map { "last probe \($0.result), \(clock($0.at))" }
        if roundTrip != nil || probe != nil {
            notes.append([probe, roundTrip].compactMap { $0 }.joined(separator: ", "))
        }
        if let recovery = link.recovery {
            let times = recovery.runs == 1 ? "once" : "\(recovery.runs) times"
            notes.append("recover program run \(times), last \(clock(recovery.at)): \(recovery.result)")
        }
        for (name, use) in [("today's", link.budget.day), ("the month's", link.budget.month)] {
            guard let use, use.isUsedUp else { continue }
            let words = use.level == BudgetLevel.reserve.rawValue ? "kept for critical work now" : "used up"
            notes.append("\(name) budget is \(words)" + (use.resetsAt.map { ", until " + clock($0) } ?? ""))
        }
        return notes
    }

    /// The most expensive property; the line below the table has all of them.
    private static func cost(_ link: LinkItem) -> String {
        link.isRoaming ? "roaming" : link.isMetered ? "metered" : "free"
    }

    /// The state in words. `down` alone does not name the cause; most often it is a missing carrier.
    static func state(_ link: LinkItem) -> String {
        link.state == "down" && link.hasCarrier == false ? "no carrier" : link.state
    }

    /// The use of a budget: `3.1/20 MB`, `900 KB/20 MB`.
    static func use(_ use: BudgetUse) -> String {
        let used = SizeText.readable(use.used), limit = SizeText.readable(use.limit)
        let unit = limit.split(separator: " ").last ?? ""
        return (used.hasSuffix(" " + unit) ? String(used.dropLast(unit.count + 1)) : used) + "/" + limit
    }

    /// The message after a hint was set or removed.
    package static func hint(_ answer: LinkHintAnswer, now: Timestamp, offset: Duration = .zero) -> String {
        var parts: [String] = []
        switch answer.isMetered {
        case true?: parts.append("metered" + (answer.meteredBy.map { " (\($0))" } ?? ""))
        case false?: parts.append("not metered" + (answer.meteredBy.map { " (\($0))" } ?? ""))
        case nil: parts.append("metered: not known yet")
        }
        if let isRoaming = answer.isRoaming { parts.append(isRoaming ? "roaming" : "home") }
        parts.append(
            answer.expiresAt.map { "hint until " + PlainText.clock($0, now: now, offset: offset) } ?? "no hint in force")
        return PlainText.safe("\(answer.name): " + parts.joined(separator: ", "))
    }
}
