package import SyncCore

/// Selects the refused changes to retry, with their correction: `agentctl mutations retry --where … --map …`.
package struct BulkRetry: Hashable, Sendable {
    /// Code of the refusal, such as `validation`; `nil`: any.
    package var code: String?
    package var entity: EntityName?
    /// Conditions on the data of the change; all of them must hold.
    package var conditions: [RecordFilter]
    /// Fields that are set in each change, in place of its own values.
    package var corrections: JSONObject

    package init(
        code: String? = nil, entity: EntityName? = nil, conditions: [RecordFilter] = [], corrections: JSONObject = [:]
    ) {
        self.code = code
        self.entity = entity
        self.conditions = conditions
        self.corrections = corrections
    }

    /// Reads a correction such as `status="open"` or `count=3`: a field and its JSON value.
    ///
    /// - Returns: `nil` for any other text.
    package static func correction(_ text: String) -> (field: String, value: JSON)? {
        guard let sign = text.firstIndex(of: "="), sign != text.startIndex else { return nil }
        // The caller, who knows the whole argument, reports invalid JSON.
        guard let value = try? JSONReader.read(String(text[text.index(after: sign)...])) else { return nil }
        return (String(text[..<sign]), value)
    }

    /// - Parameter item: The mutation with its data, as `GET /v1/mutations/ID` shows it.
    package func chooses(_ item: MutationItem) -> Bool {
        if let code, item.problem?.code != code { return false }
        if let entity, item.record.entity != entity { return false }
        guard !conditions.isEmpty else { return true }
        // A change with damaged data meets no condition on it.
        guard let data = item.data.flatMap({ try? JSONReader.read($0) })?.object else { return false }
        return conditions.allSatisfy { $0.matches(data) }
    }

    /// - Parameter cascades: See ``RetryBody/cascades``.
    package func body(cascades: Bool) -> RetryBody {
        RetryBody(data: corrections.isEmpty ? nil : corrections, cascades: cascades)
    }

    /// One line about a change that is or would be retried.
    package func line(_ item: MutationItem, _ verb: String) -> String {
        let with = corrections.isEmpty ? "" : "  with \(JSON.object(corrections).json)"
        let why = item.problem.map { "  \($0.code): \($0.detail)" } ?? ""
        return PlainText.safe("\(verb) \(item.id)  \(item.action) \(item.record)\(why)\(with)")
    }
}
