/// A place in a JSON document of a backend, as `agentd.yaml` names it. It is a small part of RFC 9535.
///
/// | written | means |
/// |---|---|
/// | `$` | the whole |
/// | `$.a.b`, `$['a b']` | members |
/// | `$.items[0]` | one element, counted from 0 |
/// | `$.items[*].updated_at` | that member of every element |
/// | `…:max`, `…:min`, `…:first`, `…:last` | one of several values |
///
/// A path to a missing place leads to nothing; that is no error.
package struct JSONPath: Hashable, Sendable {
    package enum Step: Hashable, Sendable {
        case member(String)
        case element(Int)
        case all
    }

    package enum Choice: String, Hashable, Sendable, CaseIterable { case first, last, max, min }

    package let text: String
    package let steps: [Step]
    /// The choice among several values; `nil`: the path must lead to one value at most.
    package let choice: Choice?

    package static let whole = JSONPath("$", [])
    package static let plainID = JSONPath("$.id", [.member("id")])

    private init(_ text: String, _ steps: [Step]) {
        (self.text, self.steps, choice) = (text, steps, nil)
    }

    /// - Returns: `nil` when the text is not such a path.
    package init?(_ text: String) {
        guard text.utf8.first == UInt8(ascii: "$"), text.utf8.count <= 256 else { return nil }
        var rest = text.dropFirst()
        var choice: Choice?
        // A colon inside a quoted name belongs to the name.
        if let colon = rest.lastIndex(of: ":"), !rest[colon...].contains("]") {
            guard let found = Choice(rawValue: String(rest[rest.index(after: colon)...])) else { return nil }
            choice = found
            rest = rest[..<colon]
        }
        var steps: [Step] = []
        while let sign = rest.first {
            rest = rest.dropFirst()
            switch sign {
            case ".":
                let name = rest.prefix { $0 != "." && $0 != "[" && $0 != "]" && $0 != "'" && $0 != "*" && $0 != " " }
                guard !name.isEmpty else { return nil }
                steps.append(.member(String(name)))
                rest = rest.dropFirst(name.count)
            case "[":
                guard let step = Self.bracket(&rest) else { return nil }
                steps.append(step)
            default: return nil
            }
        }
        guard steps.count <= 16, !steps.contains(.all) || choice != nil else { return nil }
        self.text = text
        self.steps = steps
        self.choice = choice
    }

    /// Reads the rest of a bracket: `*]`, `0]`, `'a name']`.
    private static func bracket(_ rest: inout Substring) -> Step? {
        if rest.first == "'" {
            rest = rest.dropFirst()
            let name = rest.prefix { $0 != "'" }
            rest = rest.dropFirst(name.count)
            guard !name.isEmpty, rest.hasPrefix("']") else { return nil }
            rest = rest.dropFirst(2)
            return .member(String(name))
        }
        let inside = rest.prefix { $0 != "]" }
        rest = rest.dropFirst(inside.count)
        guard rest.first == "]" else { return nil }
        rest = rest.dropFirst()
        if inside == "*" { return .all }
        guard let index = Int(inside), index >= 0, String(index) == inside, index < 10_000 else { return nil }
        return .element(index)
    }

    /// All values that the path leads to, in the order of the document.
    package func values(in document: JSON) -> [JSON] {
        var found = [document]
        for step in steps {
            found = found.flatMap { value -> [JSON] in
                switch step {
                case .member(let name): value.object?[name].map { [$0] } ?? []
                case .element(let index): value.array.flatMap { $0.indices.contains(index) ? [$0[index]] : nil } ?? []
                case .all: value.array ?? []
                }
            }
        }
        return found
    }

    /// The chosen value; JSON `null` counts as none.
    package func value(in document: JSON) -> JSON? {
        let found = values(in: document).filter { !$0.isNull }
        switch choice {
        case nil, .first?: return found.first
        case .last?: return found.last
        case .max?: return extreme(.max, found)
        case .min?: return extreme(.min, found)
        }
    }

    /// The extreme of the values. Those that cannot be compared with the first one are skipped.
    private func extreme(_ kind: FieldOperation.Kind, _ values: [JSON]) -> JSON? {
        guard let first = values.first else { return nil }
        return values.dropFirst().reduce(first) { Fold.extreme(kind, $0, $1) ?? $0 }
    }

    /// The name of a member right below the root; `nil` when the path leads elsewhere.
    package var topMember: String? {
        if steps.count == 1, case .member(let name) = steps[0] { name } else { nil }
    }
}

/// The place in an answer that holds a value: `header:ETag`, or a path in its body.
package enum AnswerSource: Hashable, Sendable {
    case header(String)
    case body(JSONPath)

    package init?(_ text: String) {
        let prefix = "header:"
        if text.hasPrefix(prefix) {
            let name = String(text.dropFirst(prefix.count))
            guard HTTPFieldName.isValid(name) else { return nil }
            self = .header(name)
        } else {
            guard let path = JSONPath(text) else { return nil }
            self = .body(path)
        }
    }

    package var text: String {
        switch self {
        case .header(let name): "header:" + name
        case .body(let path): path.text
        }
    }

    package func value(of headers: HTTPHeaders, _ body: JSON?) -> JSON? {
        switch self {
        case .header(let name): headers[name].map { .string($0) }
        case .body(let path): body.flatMap { path.value(in: $0) }
        }
    }
}

package enum HTTPFieldName {
    /// Returns whether the name is a token (RFC 9110, section 5.6.2) of at most 64 bytes.
    package static func isValid(_ name: String) -> Bool {
        let others = Set("!#$%&'*+-.^_`|~".utf8)
        return (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte) || others.contains(byte)
            }
    }
}
