import SyncCore

/// Reads the query parameters of one route one by one, and refuses the rest.
///
/// Unknown parameters are an error, because ignoring a misspelt filter would show everything.
struct ParameterReader {
    private var rest: [RequestTarget.Parameter]
    private var allowed: [String] = []

    init(_ parameters: [RequestTarget.Parameter]) {
        rest = parameters
    }

    /// - Throws: 400 when the parameter is given twice.
    mutating func text(_ name: String) throws(Problem) -> String? {
        let found = all(name)
        guard found.count <= 1 else { throw refusal(name, "may be given once") }
        return found.first
    }

    mutating func all(_ name: String) -> [String] {
        allowed.append(name)
        let found = rest.filter { $0.name == name }.map(\.value)
        rest.removeAll { $0.name == name }
        return found
    }

    mutating func integer(_ name: String, in range: ClosedRange<Int64>) throws(Problem) -> Int64? {
        guard let text = try text(name) else { return nil }
        let isPlain = text.utf8.allSatisfy { $0 >= 48 && $0 <= 57 }
        guard isPlain, let value = Int64(text), range.contains(value) else {
            throw refusal(name, "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    mutating func flag(_ name: String) throws(Problem) -> Bool? {
        switch try text(name) {
        case nil: return nil
        case "true"?: return true
        case "false"?: return false
        default: throw refusal(name, "must be true or false")
        }
    }

    mutating func identifier<Kind>(_ name: String, as kind: Identifier<Kind>.Type) throws(Problem) -> Identifier<Kind>? {
        guard let text = try text(name) else { return nil }
        guard let identifier = Identifier<Kind>(text) else { throw refusal(name, RouteParser.identifierRule) }
        return identifier
    }

    /// Reads words separated by commas, each one of `words`.
    mutating func words<Word: Hashable>(
        _ name: String, _ words: [(String, Word)]
    ) throws(Problem) -> [Word]? {
        guard let text = try text(name) else { return nil }
        var found: [Word] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let word = words.first(where: { $0.0 == part })?.1 else {
                throw refusal(name, "must be one of " + words.map(\.0).joined(separator: ", "))
            }
            if !found.contains(word) { found.append(word) }
        }
        return found
    }

    /// - Throws: 400 `malformed` with the first unknown parameter and the nearest one of the route.
    func finish() throws(Problem) {
        guard let unknown = rest.first else { return }
        let near = nearestName(to: unknown.name, among: allowed).map { "; did you mean \($0)?" } ?? ""
        let known = allowed.isEmpty ? "this route takes none" : "known are " + allowed.joined(separator: ", ")
        throw LocalProblem.malformed.problem(
            "unknown query parameter \(RouteParser.shown(unknown.name))" + near,
            errors: [Problem.Pointer("", known)], members: ["parameter": .string(unknown.name)])
    }

    func refusal(_ name: String, _ rule: String) -> Problem {
        LocalProblem.malformed.problem("the query parameter \(name) \(rule)", members: ["parameter": .string(name)])
    }
}
