package import SyncCore

/// The output of `agentctl audit` for people: time, author, action, target and details.
package enum AuditScreen {
    package static func list(
        _ items: [AuditAnswer.Item], width: Int = 80, now: Timestamp, offset: Duration = .zero
    ) -> [String] {
        if items.isEmpty { return [PlainText.clip("no decisions", to: width)] }
        var table = TextTable([
            .init("N", .right), .init("WHEN"), .init("WHO"), .init("WHAT"), .init("ABOUT", widthMin: 12),
        ])
        for item in items {
            table.add([
                String(item.number), PlainText.clock(item.at, now: now, offset: offset), "uid \(item.uid)", item.verb, item.target,
            ])
        }
        return table.lines(width: width, notes: items.map { $0.detail.flatMap(words) }, title: "SAID")
    }

    /// One line for scripts and logs.
    package static func line(_ item: AuditAnswer.Item) -> String {
        let target = item.target.isEmpty ? "" : " " + item.target
        let detail = item.detail.map { "  " + $0 } ?? ""
        return PlainText.safe("\(item.number)  \(item.at)  uid \(item.uid)  \(item.verb)\(target)\(detail)")
    }

    /// Details in words: `{"scope":"all","reason":""}` becomes `scope: all`; empty members are left out.
    private static func words(_ detail: String) -> String? {
        // Details that are no JSON are shown unchanged.
        guard let object = (try? JSONReader.read(detail, limits: .answer))?.object else { return detail }
        let parts = object.members.compactMap { member -> String? in
            let text = member.value.text ?? member.value.json
            return ["", "null", "[]"].contains(text) ? nil : "\(member.name.text): \(text)"
        }
        return parts.isEmpty ? nil : parts.joined(separator: ", ")
    }
}
