package import SyncCore

/// Selects the refused changes to retry, with their correction: `agentctl mutations retry --where … --map …`.
package struct BulkRetry: Hashable, Sendable {
    /// Code of the refusal, such as `validation`; `nil`: any.
    package var code: String?
    package var entity: EntityName?
    /// Conditions on the data of the change; all of them must hold.
    package var conditions: [RecordFilter]
    /// Steps that give the data of each change another shape.
    package var steps: FieldSteps?
    /// Fields that are set in each change after the steps, in place of its own values.
    package var corrections: JSONObject

    package init(
        code: String? = nil, entity: EntityName? = nil, conditions: [RecordFilter] = [], steps: FieldSteps? = nil,
        corrections: JSONObject = [:]
    ) {
        self.code = code
        self.entity = entity
        self.conditions = conditions
        self.steps = steps
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

    /// The body of the request that retries the change.
    ///
    /// - Parameter cascades: See ``RetryBody/cascades``.
    /// - Returns: `nil` if there are steps and none applies: the hub would refuse the change again.
    /// - Throws: A step cannot be applied to this change.
    package func body(for item: MutationItem, cascades: Bool) throws(FieldSteps.Failure) -> RetryBody? {
        let shaped = try steps?.correction(of: item) ?? FieldSteps.Correction()
        if steps != nil, corrections.isEmpty, shaped.isEmpty { return nil }
        var data = shaped.data
        for member in corrections.members { data[member.name.text] = member.value }
        return RetryBody(
            data: data.isEmpty ? nil : data, without: shaped.without.filter { corrections[$0] == nil }, cascades: cascades)
    }

    /// One line about a change that is or would be retried.
    package func line(_ item: MutationItem, _ body: RetryBody, _ verb: String) -> String {
        let with = body.data.map { "  with \(JSON.object($0).json)" } ?? ""
        let without = body.without.isEmpty ? "" : "  without \(body.without.joined(separator: ", "))"
        let why = item.problem.map { "  \($0.code): \($0.detail)" } ?? ""
        return PlainText.safe("\(verb) \(item.id)  \(item.action) \(item.record)\(why)\(with)\(without)")
    }
}
