package import SyncCore

/// The output of `agentctl why ID` for people: the sentence, its end, the changes that would help, and the facts behind the verdict.
package enum WhyScreen {
    package static func render(
        _ answer: WhyAnswer, width: Int = 80, now: Timestamp, offset: Duration = .zero
    ) -> [String] {
        let record = answer.record.map { "  \($0)" } ?? ""
        var lines = wrapped("\(answer.id)\(record)  \(answer.state)", width)
        lines += wrapped(answer.sentence, width)
        for other in answer.also { lines += wrapped("it waits as well because \(other)", width) }
        if let until = answer.until {
            let left = until > now ? " (in \(DurationText.readable(now.duration(to: until))))" : ""
            let isAllowed = answer.verdict == WhyAnswer.Verdict.allow.rawValue
            let word = isAllowed ? "at" : answer.also.isEmpty ? "until" : "not before"
            lines += wrapped("\(word) \(PlainText.clock(until, now: now, offset: offset))\(left)", width)
        }
        if let end = answer.expiresAt, end > now {
            let left = DurationText.readable(now.duration(to: end))
            lines += wrapped("expires at \(PlainText.clock(end, now: now, offset: offset)) (in \(left)), if it was not sent before", width)
        }
        if !answer.wouldChange.isEmpty {
            lines.append(PlainText.clip("it goes", to: width))
            for change in answer.wouldChange {
                for (index, line) in wrapped(change, max(1, width - 4)).enumerated() {
                    lines.append((index == 0 ? "  - " : "    ") + line)
                }
            }
        }
        if let command = answer.command { lines += wrapped("-> " + command, width) }
        if let situation = answer.situation { lines += wrapped("based on: " + words(situation), width) }
        return lines
    }

    /// The situation in words: `online via wwan0 (metered, roaming), battery 12 % (low), data budget used up to its reserve (1.2 MB left)`.
    static func words(_ situation: SituationNote) -> String {
        var parts = [reachability(situation.reachability)]
        if let uplink = situation.uplink {
            let cost = [situation.isMetered ? "metered" : nil, situation.isRoaming ? "roaming" : nil].compactMap { $0 }
            parts[0] += " via " + uplink + " (" + (cost.isEmpty ? "not metered" : cost.joined(separator: ", ")) + ")"
        }
        if let percent = situation.batteryPercent {
            parts.append("battery \(percent) % (\(situation.power))")
        } else {
            parts.append(situation.power == PowerLevel.ample.rawValue ? "power OK" : "power \(situation.power)")
        }
        parts.append(
            budget(situation.budget) + (situation.budgetLeft.map { " (\(SizeText.readable($0)) left)" } ?? ""))
        if situation.isPaused { parts.append("paused") }
        if situation.isBreakerOpen { parts.append("breaker open") }
        if !situation.isWindowOpen { parts.append("time window closed") }
        return parts.joined(separator: ", ")
    }

    private static func reachability(_ name: String) -> String {
        switch Reachability(rawValue: name) {
        case .offline: "no link"
        case .connecting: "no answer from the hub yet"
        case .captive: "another server in the hub's place"
        case .degraded: "no answer from the hub"
        case .auth: "rejected by the hub"
        case .online: "online"
        // A newer agent may have more of them.
        case nil: name
        }
    }

    private static func budget(_ name: String) -> String {
        switch BudgetLevel(rawValue: name) {
        case .open: "data budget OK"
        case .soft: "data budget 80 % used"
        case .reserve: "data budget used up to its reserve"
        case .spent: "data budget used up"
        case nil: "data budget \(name)"
        }
    }

    private static func wrapped(_ text: String, _ width: Int) -> [String] {
        PlainText.wrap(PlainText.safe(text), to: width, lines: 8)
    }
}
