/// Readers of requests. An error names its place in the body and the expectation there. Unknown members are skipped, since a newer agent
/// may send more.
enum RequestReader {
    static func object(_ body: [UInt8]) throws(Problem) -> JSONObject {
        var limits = JSONReader.Limits()
        // Excessive depth and too long names must refuse their own mutation, not the whole batch. The remaining limit of the depth protects
        // the stack.
        limits.depth = Limits.storedDepth
        limits.nameBytes = .max
        let json: JSON
        do throws(JSONError) {
            json = try JSONReader.read(body, limits: limits)
        } catch {
            throw malformed("", "JSON, but \(error)")
        }
        guard case .object(let object) = json else { throw malformed("", "an object") }
        return object
    }

    /// The problem of an invalid request.
    static func malformed(_ pointer: String, _ expected: String) -> Problem {
        Problem(
            "malformed", status: 400, detail: "\(pointer.isEmpty ? "body" : pointer): expected \(expected)",
            errors: [.init(pointer, "expected \(expected)")])
    }

    /// The problem of one invalid mutation.
    static func invalid(_ pointer: String, _ expected: String) -> Problem {
        Problem(
            "validation", status: 422, detail: "\(pointer): expected \(expected)",
            errors: [.init(pointer, "expected \(expected)")])
    }

    /// A missing or null member is `nil`.
    static func present(_ json: JSON?) -> JSON? {
        // Optional.none by name: a bare nil would be read as JSON's own null here.
        json.flatMap { $0.isNull ? Optional.none : $0 }
    }

    static func number(
        _ json: JSON?, _ pointer: String, in range: ClosedRange<Int64>, _ refuse: (String, String) -> Problem
    ) throws(Problem) -> Int64? {
        guard let json = present(json) else { return nil }
        guard let value = json.int, range.contains(value) else {
            throw refuse(pointer, "a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    static func name<Kind>(
        _ json: JSON?, _ pointer: String, as kind: Identifier<Kind>.Type, _ refuse: (String, String) -> Problem
    ) throws(Problem) -> Identifier<Kind> {
        guard let name = json?.text.flatMap({ Identifier<Kind>($0) }) else {
            throw refuse(pointer, "1 to 64 characters of A-Z a-z 0-9 . _ : -")
        }
        return name
    }

    static let sequence: ClosedRange<Int64> = 0...(1 << 53)
}
