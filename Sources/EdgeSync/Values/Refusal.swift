extension EdgeSyncError {
    /// The refusal in an answer whose status is not a success.
    static func refusal(status: Int, body: [UInt8], retryAfter: String?) -> EdgeSyncError {
        // A body that is no JSON comes from another program. The status is all that is known then.
        let value = (try? JSONParser.parse(body)) ?? .null
        if let error = problem(value, status: status, retryAfter: retryAfter) { return error }
        return EdgeSyncError(
            .refused, code: Code(rawValue: "status-\(status)"), "the agent answered with the status \(status)", status: status,
            retryAfter: seconds(retryAfter), members: value.object ?? [:])
    }

    /// A problem document (RFC 9457); `nil` if the value is none.
    static func problem(_ value: JSONValue, status: Int? = nil, retryAfter: String? = nil) -> EdgeSyncError? {
        guard let type = value["type"]?.string, let object = value.object else { return nil }
        let code = Code(rawValue: String(type[(type.lastIndex(of: ":").map { type.index(after: $0) } ?? type.startIndex)...]))
        let detail = value["detail"]?.string ?? value["title"]?.string ?? "the agent answered with the code \(code)"
        var members = object
        for name in ["type", "title", "status", "detail", "errors", "retry_after"] { members[name] = nil }
        let command = members["list"]?.string ?? members["command"]?.string
        var nextStep = code.nextStep
        if code == .notFound, let command { nextStep = "see what is there: \(command)" }
        if code == .queueFull, let setting = members["setting"]?.string, let step = nextStep {
            nextStep = "\(step), or raise \(setting)"
        }
        return EdgeSyncError(
            .refused, code: code, detail, status: status ?? value["status"]?.integer.map { Int($0) },
            fields: FieldError.list(value["errors"]),
            retryAfter: value["retry_after"]?.integer.flatMap(seconds) ?? seconds(retryAfter),
            nextStep: nextStep, command: command, members: members)
    }

    /// The delay of `Retry-After`. The agent never sends the form with a date.
    private static func seconds(_ text: String?) -> Duration? { text.flatMap { Int64($0) }.flatMap(seconds) }

    private static func seconds(_ number: Int64) -> Duration? {
        (0...1_000_000_000).contains(number) ? .seconds(number) : nil
    }
}

extension EdgeSyncError.FieldError {
    static func list(_ value: JSONValue?) -> [Self] {
        (value?.array ?? []).map { Self(pointer: $0["pointer"]?.string ?? "", detail: $0["detail"]?.string ?? "") }
    }
}
