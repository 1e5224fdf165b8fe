package import SyncCore

/// Which refused changes are asked for again, and with which correction: `agentctl mutations retry --where … --map …`.
package struct BulkRetry: Hashable, Sendable {
    /// Of the refusal, such as `validation`; `nil`: any.
    package var code: String?
    package var entity: EntityName?
    /// About the data of the change; all of them hold.
    package var conditions: [RecordFilter]
    /// Fields that are set in each, in place of what the change did with them.
    package var corrections: JSONObject

    package init(
        code: String? = nil, entity: EntityName? = nil, conditions: [RecordFilter] = [], corrections: JSONObject = [:]
    ) {
        self.code = code
        self.entity = entity
        self.conditions = conditions
        self.corrections = corrections
    }

    /// `status="open"`, `count=3`: a field, and the JSON that it gets.
    ///
    /// - Returns: `nil` for anything else.
    package static func correction(_ text: String) -> (field: String, value: JSON)? {
        guard let sign = text.firstIndex(of: "="), sign != text.startIndex else { return nil }
        // What is no JSON is told by the caller, who knows the whole argument.
        guard let value = try? JSONReader.read(String(text[text.index(after: sign)...])) else { return nil }
        return (String(text[..<sign]), value)
    }

    /// - Parameter item: With its data, as `GET /v1/mutations/ID` shows it.
    package func chooses(_ item: MutationItem) -> Bool {
        if let code, item.problem?.code != code { return false }
        if let entity, item.record.entity != entity { return false }
        guard !conditions.isEmpty else { return true }
        // A change whose data is damaged is chosen by no condition on it.
        guard let data = item.data.flatMap({ try? JSONReader.read($0) })?.object else { return false }
        return conditions.allSatisfy { $0.matches(data) }
    }

    /// - Parameter cascades: As ``RetryBody/cascades``.
    package func body(cascades: Bool) -> RetryBody {
        RetryBody(data: corrections.isEmpty ? nil : corrections, cascades: cascades)
    }

    /// One line of what would be asked for, or was.
    package func line(_ item: MutationItem, _ verb: String) -> String {
        let with = corrections.isEmpty ? "" : "  with \(JSON.object(corrections).json)"
        let why = item.problem.map { "  \($0.code): \($0.detail)" } ?? ""
        return PlainText.safe("\(verb) \(item.id)  \(item.action) \(item.record)\(why)\(with)")
    }
}
