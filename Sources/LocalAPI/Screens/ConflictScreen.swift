package import SyncCore

/// The output of `agentctl conflicts` for people: the disputed fields, both sides next to each other with author and time, and the command
/// to type.
package enum ConflictScreen {
    package static func list(_ items: [ConflictItem], width: Int = 80) -> [String] {
        if items.isEmpty { return [PlainText.clip("no conflicts", to: width)] }
        var table = TextTable([
            .init("CONFLICT"), .init("RECORD", widthMin: 12), .init("FIELD", widthMin: 6), .init("LOCAL", widthMin: 8),
            .init("REMOTE", widthMin: 8), .init("STATE"),
        ])
        for item in items { table.add(cells(item)) }
        return table.lines(width: width)
    }

    /// One line for scripts and logs.
    package static func line(_ item: ConflictItem) -> String {
        PlainText.safe(cells(item).joined(separator: "  "))
    }

    private static func cells(_ item: ConflictItem) -> [String] {
        let first = item.fields.first
        let more = item.fields.count > 1 ? " +\(item.fields.count - 1)" : ""
        return [
            item.id.description, item.record.description, (first?.name ?? "") + more,
            first.map { value($0.local) } ?? "", first.map { value($0.remote) } ?? "", item.state,
        ]
    }

    package static func render(
        _ item: ConflictItem, width: Int = 80, now: Timestamp, offset: Duration = .zero
    ) -> [String] {
        let opened = item.openedAt.map { ", since " + PlainText.clock($0, now: now, offset: offset) } ?? ""
        var lines = wrapped("\(item.id)  \(item.record)  \(words(item.kind))  \(item.state)\(opened)", width)
        let most = max(rowsMin, rowsMax / max(1, item.fields.count))
        for field in item.fields { lines += side(field, of: item.id, rows: most, width, now, offset) }
        if let into = item.into { lines += wrapped("decided by mutation \(into)", width) }
        for entry in item.history ?? [] {
            if let line = history(entry, now, offset) { lines += wrapped("  " + line, width) }
        }
        guard ConflictState(rawValue: item.state)?.isOpen == true else { return lines }
        let version = "--expect \(item.remoteVersion)"
        lines += wrapped("-> agentctl conflicts resolve \(item.id) --local|--remote \(version)", width)
        if item.kind == ConflictKind.field.name, let field = item.fields.first {
            lines += wrapped("   or by field: --field \(field.name)=local|remote  --value \(field.name)=JSON", width)
        }
        return lines
    }

    /// One field with its complete values, one after the other over the full width.
    package static func field(
        _ field: ConflictItem.Field, width: Int = 80, now: Timestamp, offset: Duration = .zero
    ) -> [String] {
        let sides = [
            ("BASE", field.base.map { text($0) } ?? "-", ""), ("LOCAL", value(field.local), who(field.local, now, offset)),
            ("REMOTE", value(field.remote), who(field.remote, now, offset)),
        ]
        return [PlainText.clip(PlainText.safe(field.name), to: width)]
            + sides.flatMap { name, value, who in
                [PlainText.clip(PlainText.safe(who.isEmpty ? name : "\(name)  \(who)"), to: width)]
                    + wrapped(value, to: max(1, width - 2)).map { PlainText.clip("  " + $0, to: width) }
            }
    }

    /// Number of lines that the values of all fields may take together before each is cut to ``rowsMin``. A person must read the values to
    /// decide, but a hundred long fields must not hide the last line with the command to type.
    private static let rowsMax = 60
    private static let rowsMin = 6

    /// One field: a line of names, then three columns of values, wrapped so that they stay side by side. A note says what was left out of a
    /// very long one, and how to see it.
    private static func side(
        _ field: ConflictItem.Field, of id: ConflictID, rows most: Int, _ width: Int, _ now: Timestamp, _ offset: Duration
    ) -> [String] {
        let column = max(8, (width - 6) / 3)
        func cells(_ texts: [String]) -> String {
            var line = texts.map { TextTable.padded($0, to: column) }.joined(separator: "  ")
            while line.last == " " { line.removeLast() }
            return PlainText.clip("  " + line, to: width)
        }
        func rows(_ texts: [String]) -> (shown: [String], left: Int) {
            let columns = texts.map { wrapped($0, to: column) }
            let count = columns.map(\.count).max() ?? 0
            let shown = (0..<min(count, most)).map { row in cells(columns.map { row < $0.count ? $0[row] : "" }) }
            return (shown, count - shown.count)
        }
        let values = rows([field.base.map { text($0) } ?? "-", value(field.local), value(field.remote)])
        var lines = [PlainText.clip(PlainText.safe(field.name), to: width), cells(["BASE", "LOCAL", "REMOTE"])] + values.shown
        if values.left > 0 {
            let left = "  … \(PlainText.count(values.left, "line")) more: agentctl conflicts show \(id) --field \(field.name)"
            lines += wrapped(left, width)
        }
        let people = rows(["", who(field.local, now, offset), who(field.remote, now, offset)]).shown
        return lines + people.filter { !$0.allSatisfy { $0 == " " } }
    }

    private static func who(_ side: ConflictItem.Side, _ now: Timestamp, _ offset: Duration) -> String {
        let at = side.at.map { PlainText.clock($0, now: now, offset: offset) }
        return [side.author, side.device, at].compactMap { $0 }.joined(separator: ", ")
    }

    /// A complete value: its own lines stay lines.
    private static func wrapped(_ text: String, to width: Int) -> [String] {
        text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).flatMap {
            PlainText.wrap(PlainText.safe(String($0)), to: width, lines: .max)
        }
    }

    /// Text without quotes; other values as JSON.
    static func text(_ value: JSON) -> String {
        value.text ?? value.json
    }

    static func value(_ side: ConflictItem.Side) -> String {
        side.isDeleted ? "(deleted)" : side.value.map { text($0) } ?? "-"
    }

    /// The line for the status screen: `finding: local "fail" (ines) / remote "pass" (tom)`.
    package static func line(_ field: ConflictItem.Field) -> String {
        func side(_ side: ConflictItem.Side) -> String {
            value(side) + ((side.author ?? side.device).map { " (\($0))" } ?? "")
        }
        return "\(field.name): local \(side(field.local)) / remote \(side(field.remote))"
    }

    private static func words(_ kind: String) -> String {
        switch ConflictKind(name: kind) {
        case .field?: "both sides changed it"
        case .deleteUpdate?: "deleted here, changed there"
        case .updateDelete?: "changed here, deleted there"
        case nil: kind
        }
    }

    private static func history(_ entry: JSON, _ now: Timestamp, _ offset: Duration) -> String? {
        let reader = AnswerReader(entry)
        guard let event = reader.text("event") else { return nil }
        let at = reader.time("at").map { PlainText.clock($0, now: now, offset: offset) } ?? ""
        var parts = ["\(at)  \(event.split(separator: "_").joined(separator: " "))"]
        if let version = reader.int("remote_version") { parts.append("version \(version)") }
        if let choice = reader.object["choice"]?.object {
            parts.append(choice.members.map { "\($0.name.text): \($0.value.text ?? $0.value.json)" }.joined(separator: ", "))
        }
        if let who = reader.text("author") ?? reader.int("uid").map({ "uid \($0)" }) { parts.append(who) }
        if let comment = reader.text("comment") { parts.append("\"\(comment)\"") }
        return parts.joined(separator: "  ")
    }

    private static func wrapped(_ text: String, _ width: Int) -> [String] {
        PlainText.wrap(PlainText.safe(text), to: width, lines: 4)
    }
}
