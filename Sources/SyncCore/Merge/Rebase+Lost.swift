extension Rebase {
    /// The values of a mutation that lost at the hub. The hub names only the fields whose stored value differs from the sent one.
    ///
    /// A value that was added up is part of the record, and a discarded one is not. To find the difference, the rules decide the contest
    /// once more, with the record as the later side.
    ///
    /// - Parameter record: The record right after the mutation.
    package static func lost(of local: Local, merged: [String], in record: JSONObject, rules: EntityRules) -> [Loss] {
        let content = local.content
        let removed = Set(content.unset.map { JSONString($0) })
        // Operations by field in their order, those on members by their full name.
        let operations = Dictionary(grouping: content.operations) { JSONString($0.top) }
            .mapValues { Dictionary(grouping: $0) { JSONString($0.field) } }
        var lost: [Loss] = []
        for field in merged {
            if [HubMerge.wholeRecord, HubMerge.restOfRecord].contains(field) {
                let side: Loss.Side = field == HubMerge.wholeRecord ? .local : .remote
                lost.append(.init(field: field, side: side, value: Optional.none, strategy: rules.strategy(of: field)))
                continue
            }
            let isRemoved = removed.contains(JSONString(field))
            let isWritten = isRemoved || content.data[field] != nil
            let mine = isRemoved ? nil : content.data[field]
            if isWritten, mine != record[field] {
                let known: FieldContest.Known =
                    content.action == .create ? .value(content.base[field]) : content.base[field].map { .value($0) } ?? .unknown
                let contest = FieldContest(rules, field, localIsLater: false, signature: local.signature, known: known)
                lost += contest.decide(local: mine, remote: record[field]).lost.filter { $0.side == .local }
            }
            for operations in (operations[JSONString(field)]?.values).map({ $0.sorted { $0[0].field < $1[0].field } }) ?? [] {
                lost += Self.lost(of: operations, in: record, rules)
            }
        }
        return lost
    }

    /// - Parameter operations: Operations that are all on one field, or all on one member.
    private static func lost(of operations: [FieldOperation], in record: JSONObject, _ rules: EntityRules) -> [Loss] {
        guard let field = operations.first?.field else { return [] }
        var lost: [Loss] = []
        let present = SetIndex(operations[0].target(in: record))
        var last: [JSON: Int] = [:]
        for (index, operation) in operations.enumerated() { last[SetElement.key(operation.value)] = index }
        for (index, operation) in operations.enumerated() {
            let key = SetElement.key(operation.value)
            // A later operation of the same mutation on the element replaces this one.
            guard last[key] == index, let there = present.first(key),
                operation.kind == .remove || operation.kind == .add && there != operation.value
            else { continue }
            // A plain `nil` could mean JSON null here.
            let value = operation.kind == .add ? operation.value : Optional.none
            let place = SetElement.place(of: key, in: field)
            lost.append(.init(field: place, side: .local, value: value, strategy: rules.strategy(of: field)))
        }
        return lost
    }
}
