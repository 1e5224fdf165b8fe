/// The state while a tree is read into values: the present key, and all errors so far.
package struct Reading: Sendable {
    package private(set) var errors: [ConfigurationError] = []
    /// Errors of new settings only: earlier versions have accepted them, and where they are in force they stay.
    package private(set) var objections: [ConfigurationError] = []
    /// `true` when missing keys and contradictions are checked. `false` while one file of several is read for itself: the rest may be in
    /// another.
    package let isWhole: Bool

    private var path = ""

    package init(isWhole: Bool) {
        self.isWhole = isWhole
    }

    /// Dotted path of the value that is being read.
    package var key: String { path }

    package mutating func inside<Result>(key: String, _ body: (inout Reading) -> Result) -> Result {
        inside(path.isEmpty ? keyText(key) : path + "." + keyText(key), body)
    }

    package mutating func inside<Result>(element index: Int, _ body: (inout Reading) -> Result) -> Result {
        inside(path + "[\(index)]", body)
    }

    private mutating func inside<Result>(_ deeper: String, _ body: (inout Reading) -> Result) -> Result {
        let outer = path
        path = deeper
        defer { path = outer }
        return body(&self)
    }

    /// Reports that the value at the present key is invalid.
    ///
    /// - Parameter hidesValue: The value may be a secret that was put in the wrong place.
    package mutating func refuse(_ node: YAMLNode, expected: String, nearest: String? = nil, hidesValue: Bool = false) {
        if node.isRefused { return }
        if node.isNull {
            return report(node.position, problem: "has no value", expected: expected + ", or no such line")
        }
        if hidesValue { return report(node.position, problem: "the value is not accepted", expected: expected) }
        var shown = node.shown
        // The whole file is one text. It may be a file of another kind, such as that of a token.
        if path.isEmpty, case .scalar = node.content { shown = "a text" }
        errors.append(
            ConfigurationError(
                at: node.position, key: path, value: shown, problem: "is not accepted", expected: expected, nearest: nearest))
    }

    /// Reports an error of the present key, or of a key below it.
    package mutating func report(
        _ position: YAMLPosition, below: String? = nil, problem: String, expected: String? = nil, nearest: String? = nil
    ) {
        errors.append(
            ConfigurationError(
                at: position, key: key(below), problem: problem, expected: expected, nearest: nearest))
    }

    /// Reports an error of new settings (``objections``), at the present key or below it.
    package mutating func object(
        _ position: YAMLPosition, below: String? = nil, problem: String, expected: String? = nil, nearest: String? = nil
    ) {
        objections.append(ConfigurationError(at: position, key: key(below), problem: problem, expected: expected, nearest: nearest))
    }

    private func key(_ below: String?) -> String {
        guard let below else { return path }
        return path.isEmpty ? below : path + "." + below
    }
}
