import SyncCore

/// The output of `agentctl power` for people: the power supply, its effect on the sync, and the readings.
package enum PowerScreen {
    package static func render(_ answer: PowerAnswer, width: Int = 80) -> [String] {
        let state = answer.state
        var text = state.source
        if let percent = state.percent { text += (state.source == "battery" ? "" : ", battery") + " \(percent) %" }
        if state.isDischarging { text += ", discharging" }
        var lines = wrapped(text + "; " + meaning(state.level), width)
        if let warning = state.warning { lines += wrapped("warning: " + warning, width) }
        guard !answer.supplies.isEmpty else { return lines + wrapped("no power supply found", width) }
        var table = TextTable([
            .init("SUPPLY", widthMin: 12), .init("TYPE", widthMin: 8), .init("STATUS", widthMin: 8), .init("%", .right),
            .init("COUNTS"),
        ])
        for supply in answer.supplies {
            table.add([
                supply.name, supply.type ?? "unreadable", supply.status ?? "",
                supply.percent.map { String($0) } ?? "", supply.ignoredBecause == nil ? "yes" : "no",
            ])
        }
        lines += table.lines(width: width)
        for supply in answer.supplies {
            if let reason = supply.ignoredBecause { lines += wrapped("  \(supply.name) does not count: \(reason)", width) }
        }
        return lines
    }

    /// A level of a newer agent is shown unchanged.
    private static func meaning(_ level: String) -> String {
        switch PowerLevel(rawValue: level) {
        case .ample?: "ample: nothing is held back"
        case .saver?: "saver: large files wait"
        case .low?: "low: the sync waits until it charges"
        case .exhausted?: "exhausted: nothing is sent until it charges"
        case nil: level
        }
    }

    private static func wrapped(_ text: String, _ width: Int) -> [String] {
        PlainText.wrap(PlainText.safe(text), to: width, lines: 4)
    }
}
