/// What goes along while a tree is read into values: the key one is at, and everything that was wrong so far.
package struct Reading: Sendable {
    package private(set) var errors: [ConfigurationError] = []
    /// Whether what is missing and what contradicts what is looked at. Off while one file of several is read for
    /// itself: the rest may stand in another.
    package let isWhole: Bool

    private var path = ""

    package init(isWhole: Bool) {
        self.isWhole = isWhole
    }

    /// Dotted, of the value that is being read.
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

    /// The value at the present key is not one.
    ///
    /// - Parameter hidesValue: It may be a secret that was put in the wrong place.
    package mutating func refuse(_ node: YAMLNode, expected: String, nearest: String? = nil, hidesValue: Bool = false) {
        if node.isRefused { return }
        if node.isNull {
            return report(node.position, problem: "has no value", expected: expected + ", or no such line")
        }
        if hidesValue { return report(node.position, problem: "the value is not accepted", expected: expected) }
        errors.append(
            ConfigurationError(
                at: node.position, key: path, value: node.shown, problem: "is not accepted", expected: expected,
                nearest: nearest))
    }

    /// Something about the present key, or a key below it.
    package mutating func report(
        _ position: YAMLPosition, below: String? = nil, problem: String, expected: String? = nil, nearest: String? = nil
    ) {
        errors.append(
            ConfigurationError(
                at: position, key: key(below), problem: problem, expected: expected, nearest: nearest))
    }

    private func key(_ below: String?) -> String {
        guard let below else { return path }
        return path.isEmpty ? below : path + "." + below
    }
}
