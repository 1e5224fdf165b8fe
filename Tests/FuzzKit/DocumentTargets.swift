import SyncCore

extension FuzzTarget {
    /// Changes of one document near every limit, each made of a few bytes: what passes is read by every reader, and what is
    /// refused is refused for what it makes of the document. The hub and the agent fold the same.
    static let document = FuzzTarget("document", lengthMax: 512) { bytes in
        var rest = bytes[...]
        var document: JSONObject?
        var record: VersionedRecord?
        var commit: Int64 = 0
        while !rest.isEmpty {
            var content = MutationContent(document == nil ? .create : .update)
            for _ in 0..<(choice(&rest, of: 4) ?? 0) { content.data[name(&rest)] = value(&rest, levels: 0) }
            for _ in 0..<(choice(&rest, of: 4) ?? 0) {
                let kind = FieldOperation.Kind.allCases[choice(&rest, of: FieldOperation.Kind.allCases.count) ?? 0]
                let isNumber = [.increment, .max, .min].contains(kind)
                content.operations.append(FieldOperation(name(&rest), kind, isNumber ? number(&rest) : value(&rest, levels: 0)))
            }
            if choice(&rest, of: 4) == 0 { content.unset = [name(&rest)] }
            let written = Fold.apply(MutationContent(.create, data: content.data, unset: content.unset), to: document) ?? [:]
            if Fold.firstMisfit(of: content.operations, on: written) != nil { continue }
            guard let result = Fold.apply(content, to: document) else { throw Broken("a change of a document makes none") }
            if let problem = DocumentLimits.fault(of: content, in: result, over: document) {
                try claim(problem.status == 422 && problem.errors.count == 1, "refused without a place: \(problem)")
                continue
            }
            let json = JSON.object(result)
            try claim((try JSONReader.read(json.bytes, limits: .stored)) == json, "what was stored is another document when it is read")
            let answer: JSON = ["streams": [["records": [["id": "r", "data": json]]]]]
            try claim((try JSONReader.read(answer.bytes, limits: .answer)) == answer, "what is sent is another document when it is read")
            // A document within the limits stays within those of input, so that an older agent reads it too.
            try claim((try JSONReader.read(json.bytes)) == json, "an older agent reads another document")
            commit += 1
            let change = HubMerge.Change(
                device: DeviceID(trusted: "gw-1"), key: MutationKey(trusted: "k-\(commit)"),
                mutation: IncomingMutation(
                    record: RecordName(EntityName(trusted: "e"), RecordID(trusted: "r")), content: content, baseVersion: commit - 1,
                    hlc: HybridTime(milliseconds: UInt64(commit), counter: 0, node: "0000000a")))
            let outcome = HubMerge.apply(
                change, to: record, rules: EntityRules(), commit: commit, now: Timestamp(milliseconds: 1_000))
            guard case .accepted(let accepted) = outcome else { throw Broken("the hub does not accept it: \(outcome)") }
            record = accepted.record ?? record
            try claim(record?.data == result, "the hub has \(record?.data?.json ?? "nothing") instead of \(result.json)")
            document = result
        }
    }

    private static func name(_ rest: inout ArraySlice<UInt8>) -> String {
        let length = [1, 2, 42, 43, 128, 129, 255, 256, 257][choice(&rest, of: 9) ?? 0]
        return String(repeating: ["a", "\u{1}", "\"", "é", "\\"][choice(&rest, of: 5) ?? 0], count: length)
    }

    private static func number(_ rest: inout ArraySlice<UInt8>) -> JSON {
        let sources = ["0", "-0", "1.10", "9223372036854775808", "-9223372036854775808", "1e308", "1e-400"]
        return (try? JSONReader.read(sources[choice(&rest, of: sources.count) ?? 0])) ?? 0  // each of them is a number
    }

    private static func value(_ rest: inout ArraySlice<UInt8>, levels: Int) -> JSON {
        switch choice(&rest, of: 8) ?? 0 {
        case 0: return .null
        case 1: return .string(name(&rest))
        case 2: return number(&rest)
        case 3 where levels < 32: return [value(&rest, levels: levels + 1)]
        case 4 where levels < 32: return .object([name(&rest): value(&rest, levels: levels + 1)]).withoutLongNames
        case 5: return ["id": number(&rest), "v": true]
        default:
            let depth = [1, 29, 30, 31, 32][choice(&rest, of: 5) ?? 0] - levels
            return depth <= 0 ? true : (0..<depth).reduce(JSON.bool(true)) { value, _ in [value] }
        }
    }
}

extension JSON {
    /// Inner names are checked when a change is read; here they are within their limit.
    fileprivate var withoutLongNames: JSON {
        guard let object else { return self }
        return object.members.allSatisfy { $0.name.source.utf8.count <= Limits.nameBytes } ? self : .null
    }
}
