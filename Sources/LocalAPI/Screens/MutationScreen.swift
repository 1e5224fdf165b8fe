package import SyncCore

/// The output of `agentctl mutations` and `agentctl rejected` for people: a table of changes, the reasons why some of them wait or were
/// refused, and the possible actions.
package enum MutationScreen {
    /// A table of changes. Ids are for copying, so they are never cut.
    ///
    /// - Parameter nothing: The text for an empty list.
    package static func list(
        _ items: [MutationItem], nothing: String = "no changes", width: Int = 80, now: Timestamp, offset: Duration = .zero
    ) -> [String] {
        if items.isEmpty { return [PlainText.clip(nothing, to: width)] }
        var table = TextTable([
            .init("SEQ", .right), .init("ID"), .init("STATE"), .init("ACTION", dispensable: 1), .init("RECORD", widthMin: 12),
            .init("PRIORITY", dispensable: 3), .init("ATTEMPTS", .right, dispensable: 2),
        ])
        for item in items {
            table.add([
                String(item.seq), item.id, item.state, item.action, item.record.description, item.priority,
                item.attempts > 0 ? String(item.attempts) : "",
            ])
        }
        return table.lines(width: width, notes: items.map { note($0, now, offset) }, title: "WHY")
    }

    private static func note(_ item: MutationItem, _ now: Timestamp, _ offset: Duration) -> String? {
        if let problem = item.problem { return "\(problem.code): \(problem.detail)" }
        guard let deferral = item.deferral else { return nil }
        let until = deferral.until.map { ", until " + PlainText.clock($0, now: now, offset: offset) } ?? ""
        return "waits: " + (SyncCore.Deferral.Reason(rawValue: deferral.reason)?.sentence ?? deferral.reason) + until
    }

    /// One line for scripts and logs, with everything that the table shows.
    package static func line(_ item: MutationItem) -> String {
        var text = "\(item.seq)  \(item.id)  \(item.state)  \(item.action) \(item.record)  \(item.priority)"
        if item.attempts > 0 { text += "  attempts \(item.attempts)" }
        if let deferral = item.deferral { text += "  waits: \(deferral.reason)" }
        if let problem = item.problem { text += "  \(problem.code): \(problem.detail)" }
        return PlainText.safe(text)
    }

    /// The possible actions on a change that waits for a person. An action that would be refused is not offered.
    ///
    /// - Returns: Empty when it does not wait for a person.
    package static func choices(_ item: MutationItem) -> [String] {
        guard let state = MutationState(name: item.state), MutationListQuery.needingAttention.contains(state) else { return [] }
        let acknowledge = "drop it: agentctl rejected acknowledge \(item.id)"
        // The rest of an atomic list is retried with it. The item does not say whether there is a list, but the reason may.
        let cascade = item.problem?.code == Problem.groupRejected ? " --cascade" : " [--cascade]"
        if item.problem?.code == Problem.revoked {
            return [
                "its record left the share of this device; when a new grant has brought it back:",
                "  agentctl mutations retry \(item.id)" + cascade, acknowledge,
            ].map(PlainText.safe)
        }
        // A change of a record that is gone is refused here as well, as long as it is gone.
        guard item.problem?.code == "deleted", item.action != NewMutation.Action.delete.rawValue else {
            return ["again: agentctl mutations retry \(item.id)\(cascade) [--data JSON]   " + acknowledge]
        }
        return [
            "its record is deleted; to bring it back, with all its fields:",
            "  agentctl enqueue \(item.record.entity) \(item.record.id) --data JSON", acknowledge,
        ].map(PlainText.safe)
    }
}
