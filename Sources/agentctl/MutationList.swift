import ArgumentParser
import LocalAPI
import SyncCore

/// Shows mutations.
enum MutationList {
    static func check(limit: Int, after: Int64?) throws {
        guard (1...MutationListQuery.limitMax).contains(limit) else {
            throw ValidationError("--limit must be from 1 to \(MutationListQuery.limitMax).")
        }
        if let after, after < 0 { throw ValidationError("--after must not be negative.") }
    }

    static func show(_ reply: Reply<MutationListPage>, nothing: String = "no changes", asJSON: Bool) {
        if asJSON { return Output.json(reply.body) }
        let view = View()
        let lines =
            view.isTerminal
            ? MutationScreen.list(reply.value.items, nothing: nothing, width: view.width, now: view.now, offset: view.offset)
            : reply.value.items.map(MutationScreen.line)
        Output.list(lines, nothing: nothing)
        if let next = reply.value.next { Output.note("there is more: --after \(next)") }
    }

    /// Shows one mutation with all known facts.
    static func show(_ reply: Reply<MutationItem>, asJSON: Bool) {
        if asJSON { return Output.json(reply.body) }
        let item = reply.value
        var rows = [
            ("id", item.id), ("seq", String(item.seq)), ("record", item.record.description), ("action", item.action),
            ("state", item.state), ("priority", item.priority), ("attempts", String(item.attempts)),
        ]
        if let at = item.createdAt { rows.append(("created", at.description)) }
        if let at = item.nextAttemptAt { rows.append(("next attempt", at.description)) }
        if let deferral = item.deferral {
            rows.append(("waits for", deferral.reason + (deferral.until.map { ", until \($0)" } ?? "")))
        }
        if let app = item.app { rows.append(("app", app)) }
        if let author = item.author { rows.append(("author", author)) }
        if let into = item.into { rows.append(("merged into", into)) }
        if let old = item.supersedes { rows.append(("supersedes", old)) }
        if let problem = item.problem {
            rows.append(("problem", "\(problem.code): \(problem.detail)"))
            for fault in problem.errors { rows.append(("", "\(fault.pointer) \(fault.detail)")) }
        }
        for step in item.history ?? [] { rows.append(("", "\(step.at) \(step.state) \(step.detail ?? "")")) }
        for (name, value) in rows {
            Output.line(name + String(repeating: " ", count: max(1, 14 - name.count)) + PlainText.safe(value))
        }
        for (name, text) in [("data", item.data), ("unset", item.unset), ("ops", item.operations)] {
            if let text { Output.line(name + " " + RecordList.pretty(text)) }
        }
    }
}
