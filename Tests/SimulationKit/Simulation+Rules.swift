import HubServer
import SyncCore

// Compares the hub with a model of the rules that shares no code with it (``RuleModel``), after each commit.
extension Simulation {
    /// Checks the verdicts of an answer that leaves the hub.
    ///
    /// - Parameter headBefore: The newest commit before the request came.
    func checkRules(_ push: IncomingPush, _ answer: PushResponse, from agent: SimAgent, headBefore: Int64) throws(Broken) {
        var lost: [RecordName: [RuleModel.Lost]] = [:]
        var changed: Set<RecordName> = []
        let atFirst = oracle.rules
        var index = 0
        while index < push.items.count {
            var end = index + 1
            if let group = push.items[index].group {
                while end < push.items.count, push.items[end].group == group { end += 1 }
            }
            let before = oracle.rules
            var isWhole = true
            // The hub judges the members behind a forbidden one without it, and the model, which knows no rights, with it.
            var isForbidden = false
            var ofUnit: [(RecordName, [RuleModel.Lost])] = []
            var last: [RecordName: JSONObject] = [:]
            for (item, result) in zip(push.items[index..<end], answer.results[index..<end]) {
                switch result.verdict {
                case .accepted, .duplicate(.accepted, _): break
                case .duplicate, .conflict, .rejected, .retry: isWhole = false
                }
                if isForbidden { continue }
                if case .rejected(let problem, _) = result.verdict { isForbidden = problem.code == Problem.forbidden }
                guard let one = try checkRule(item, result, agent, headBefore) else { continue }
                ofUnit.append(one)
                if let document = oracle.rules.document(one.0) { last[one.0] = document }
            }
            if isWhole {
                for (name, losses) in ofUnit {
                    changed.insert(name)
                    lost[name, default: []] += losses
                }
                recordShares(ofUnit.map(\.0), last)
            } else {
                // A list with one refused member changes nothing.
                oracle.rules = before
            }
            index = end
        }
        // A record that a change leaves as it is stays unwritten.
        try recordFiles(of: changed.filter { oracle.rules.states[$0] != atFirst.states[$0] }, agent.device)
        for name in changed.sorted() { try compareWithRules(name, lost[name] ?? []) }
    }

    /// Notes the changes of a unit, because they count for the rights of the next one.
    ///
    /// - Parameter last: The last documents that records had within the unit.
    private func recordShares(_ names: [RecordName], _ last: [RecordName: JSONObject]) {
        for name in names {
            let document = oracle.rules.document(name)
            oracle.shares.recordDocument(name, document, after: last[name], at: hubTime)
        }
    }

    /// - Returns: The record and the losses to report, if the model accepts the change.
    private func checkRule(
        _ item: IncomingItem, _ result: PushResult, _ agent: SimAgent, _ headBefore: Int64
    ) throws(Broken) -> (RecordName, [RuleModel.Lost])? {
        guard case .success(var mutation) = item.content,
            let rules = hubRules[mutation.record.entity], rules.kind == .record
        else { return nil }
        // A base version above the head belongs to another history.
        if mutation.baseVersion > headBefore { mutation.baseVersion = -1 }
        try checkRight(item, result.verdict, mutation, rules, agent)
        if try checkContradiction(item, result.verdict, mutation, rules, agent) { return nil }
        let said: RuleModel.Verdict
        var commit = Int64.max
        switch result.verdict {
        case .accepted(let version, _, _, let merged):
            commit = version
            said = .accepted(merged: Set(merged), lost: [])
        case .conflict(let fields, _): said = .conflict(Set(fields))
        case .rejected(let problem, _) where Self.codesOfRules.contains(problem.code): said = .rejected(problem.code)
        // The verdict was decided before any rule, or because of another member of the list.
        case .rejected, .retry, .duplicate:
            guard item.group != nil, !isKnown(result.verdict) else { return nil }
            said = .accepted(merged: [], lost: [])
            _ = oracle.rules.apply(
                RuleModel.Change(mutation, key: item.key, by: agent.device, commit: commit, at: hubTime), rules)
            return nil
        }
        let expected = oracle.rules.apply(
            RuleModel.Change(mutation, key: item.key, by: agent.device, commit: commit, at: hubTime), rules)
        // Limits on the depth and size of a document are not part of the rules.
        if case .rejected("validation") = said, mutation.content.operations.contains(where: { $0.field == "deep" }) {
            if case .accepted = expected { count("limits before rules") }
            return nil
        }
        var losses: [RuleModel.Lost] = []
        var bare = expected
        if case .accepted(let merged, let lost) = expected {
            losses = lost
            // The arrival of a file has no author, so a deletion loses nothing by it.
            if mutation.content.action == .delete { losses.removeAll { isArrival($0) } }
            bare = .accepted(merged: shown(merged, of: mutation.record), lost: [])
        }
        guard bare == said else {
            throw Broken(
                "the rules decide",
                "\(name(of: item.key)) of \(mutation.record) (\(mutation.content.action.rawValue) by \(agent.device), base \(mutation.baseVersion)) is \(said), expected \(bare)"
            )
        }
        guard case .accepted = expected else { return nil }
        return (mutation.record, losses)
    }

    private func isArrival(_ lost: RuleModel.Lost) -> Bool {
        scenario.hasFiles && lost.field == SimFile.field && lost.value?.contains("\"uploaded\"") == true
    }

    private static let codesOfRules: Set<String> = ["deleted", "validation"]

    private func isKnown(_ verdict: PushResult.Verdict) -> Bool {
        if case .duplicate = verdict { true } else { false }
    }

    func compareWithRules(_ name: RecordName, _ lost: [RuleModel.Lost]) throws(Broken) {
        let hub = hub.hub
        let held = try Broken.none { try hub.record(name) }
        let (has, expected) = (PlainValue.text(held?.data), PlainValue.text(oracle.rules.document(name)))
        guard has == expected else { throw Broken("a record is what the rules make of it", "\(name) is \(has), expected \(expected)") }
        if lost.isEmpty { return }
        let rows = try Broken.none { try hub.lostValues(name.entity, name.id, limit: lost.count + 32) }
        var told = rows.map { RuleModel.Lost(field: $0.value.field, value: $0.value.value.map { PlainValue.text($0) }) }
        for one in lost {
            guard let place = told.firstIndex(of: one) else {
                throw Broken("what loses is told", "\(name) has lost \(one) of \(lost), told is \(told)")
            }
            told.remove(at: place)
            count("lost values told")
        }
    }
}
