/// A regular expression that takes time proportional to the text, whatever the pattern is (Thompson's construction, with all states stepped
/// in parallel). A pattern comes from a server, so it must not be able to delay the agent.
///
/// Supported: characters, `.`, classes `[a-z]` and `[^a-z]`, `\d \w \s` and their capitals, escapes, groups, `|`, `* + ?`, `{m}`, `{m,}`,
/// `{m,n}`, and `^` `$`. As in JSON Schema, a match may be anywhere in the text. Characters are Unicode scalars. Not supported, and
/// refused: back references, look-around, named groups, flags, lazy operators.
package struct LinearPattern: Hashable, Sendable {
    /// Largest length of the source, characters.
    package static let lengthMax = 200
    /// Largest number of steps of the machine: repetitions are expanded, so `(a{99}){99}` is refused.
    static let stepsMax = 2_000

    package let source: String
    private let program: [Step]

    private enum Step: Hashable, Sendable {
        case match
        case one(Class)
        case start, end
        case jump(Int)
        case split(Int, Int)
    }

    struct Class: Hashable, Sendable {
        var ranges: [ClosedRange<UInt32>]
        var isNegated = false

        func contains(_ scalar: UInt32) -> Bool { ranges.contains { $0.contains(scalar) } != isNegated }
    }

    /// - Returns: `nil` when the source is not a pattern as described above, or is too long.
    package init?(_ source: String) {
        guard source.unicodeScalars.count <= Self.lengthMax else { return nil }
        var parser = Parser(Array(source.unicodeScalars))
        guard let tree = parser.alternatives(), parser.isAtEnd else { return nil }
        var program: [Step] = []
        guard Self.write(tree, &program) else { return nil }
        program.append(.match)
        self.source = source
        self.program = program
    }

    package func matches(_ text: String) -> Bool {
        let scalars = text.unicodeScalars.map(\.value)
        var states = Set<Int>()
        for position in 0...scalars.count {
            // A match may begin at every place.
            if add(0, at: position, of: scalars.count, to: &states) { return true }
            guard position < scalars.count else { return false }
            var next = Set<Int>()
            for state in states {
                guard case .one(let accepted) = program[state], accepted.contains(scalars[position]) else { continue }
                if add(state + 1, at: position + 1, of: scalars.count, to: &next) { return true }
            }
            states = next
        }
        return false
    }

    /// - Returns: `true` when the text matches.
    private func add(_ state: Int, at position: Int, of count: Int, to states: inout Set<Int>) -> Bool {
        var work = [state]
        while let state = work.popLast() {
            guard states.insert(state).inserted else { continue }
            switch program[state] {
            case .match: return true
            case .one: break
            case .start: if position == 0 { work.append(state + 1) }
            case .end: if position == count { work.append(state + 1) }
            case .jump(let target): work.append(target)
            case .split(let first, let second): work += [first, second]
            }
        }
        return false
    }

    // MARK: - Writing the program

    fileprivate indirect enum Node {
        case one(Class)
        case start, end
        case sequence([Node])
        case either([Node])
        case repeated(Node, least: Int, most: Int?)
    }

    private static func write(_ node: Node, _ program: inout [Step]) -> Bool {
        guard program.count <= stepsMax else { return false }
        switch node {
        case .one(let accepted): program.append(.one(accepted))
        case .start: program.append(.start)
        case .end: program.append(.end)
        case .sequence(let nodes): return nodes.allSatisfy { write($0, &program) }
        case .either(let nodes):
            var jumps: [Int] = []
            for (index, node) in nodes.enumerated() {
                let split = program.count
                let isLast = index == nodes.count - 1
                if !isLast { program.append(.split(split + 1, 0)) }
                guard write(node, &program) else { return false }
                guard !isLast else { break }
                jumps.append(program.count)
                program.append(.jump(0))
                program[split] = .split(split + 1, program.count)
            }
            for jump in jumps { program[jump] = .jump(program.count) }
        case .repeated(let node, let least, let most):
            for _ in 0..<least { guard write(node, &program) else { return false } }
            guard let most else {
                let split = program.count
                program.append(.split(split + 1, 0))
                guard write(node, &program) else { return false }
                program.append(.jump(split))
                program[split] = .split(split + 1, program.count)
                return true
            }
            var splits: [Int] = []
            for _ in least..<most {
                splits.append(program.count)
                program.append(.split(program.count + 1, 0))
                guard write(node, &program) else { return false }
            }
            for split in splits { program[split] = .split(split + 1, program.count) }
        }
        return program.count <= stepsMax
    }
}

// MARK: - Reading the source

private struct Parser {
    let source: [Unicode.Scalar]
    var place = 0
    var depth = 0

    init(_ source: [Unicode.Scalar]) {
        self.source = source
    }

    var isAtEnd: Bool { place == source.count }
    private var next: Unicode.Scalar? { isAtEnd ? nil : source[place] }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard next == scalar else { return false }
        place += 1
        return true
    }

    mutating func alternatives() -> LinearPattern.Node? {
        var all: [LinearPattern.Node] = []
        repeat {
            guard let one = sequence() else { return nil }
            all.append(one)
        } while take("|")
        return all.count == 1 ? all[0] : .either(all)
    }

    private mutating func sequence() -> LinearPattern.Node? {
        var nodes: [LinearPattern.Node] = []
        while let scalar = next, scalar != "|", scalar != ")" {
            guard let atom = atom(), let node = repetition(of: atom) else { return nil }
            nodes.append(node)
        }
        return .sequence(nodes)
    }

    private mutating func atom() -> LinearPattern.Node? {
        guard let scalar = next else { return nil }
        place += 1
        switch scalar {
        case "^": return .start
        case "$": return .end
        case ".": return .one(.init(ranges: [10...10, 13...13], isNegated: true))
        case "(":
            // `(?` begins an unsupported construct, except for a group without a reference.
            if take("?"), !take(":") { return nil }
            depth += 1
            guard depth < 50, let inside = alternatives(), take(")") else { return nil }
            depth -= 1
            return inside
        case "[": return set().map { .one($0) }
        case "\\": return escape().map { .one($0) }
        case "*", "+", "?", "{", ")": return nil
        default: return .one(.init(ranges: [scalar.value...scalar.value]))
        }
    }

    private mutating func repetition(of node: LinearPattern.Node) -> LinearPattern.Node? {
        let bounds: (Int, Int?)
        if take("*") {
            bounds = (0, nil)
        } else if take("+") {
            bounds = (1, nil)
        } else if take("?") {
            bounds = (0, 1)
        } else if take("{") {
            guard let least = number() else { return nil }
            var most: Int? = least
            if take(",") { most = next == "}" ? nil : number() ?? -1 }
            guard take("}"), most.map({ $0 >= least }) ?? true else { return nil }
            bounds = (least, most)
        } else {
            return node
        }
        // A second operator would be a lazy one, or an error.
        if let scalar = next, ["*", "+", "?", "{"].contains(scalar) { return nil }
        return .repeated(node, least: bounds.0, most: bounds.1)
    }

    private mutating func number() -> Int? {
        var value: Int?
        while let digit = next, ("0"..."9").contains(digit), value ?? 0 < 1_000 {
            value = (value ?? 0) * 10 + Int(digit.value - 48)
            place += 1
        }
        return value
    }

    private mutating func set() -> LinearPattern.Class? {
        var found = LinearPattern.Class(ranges: [], isNegated: take("^"))
        while let scalar = next, scalar != "]" {
            place += 1
            var low = scalar.value
            if scalar == "\\" {
                guard let escaped = escape() else { return nil }
                guard !escaped.isNegated, escaped.ranges.count == 1, escaped.ranges[0].count == 1 else {
                    guard !escaped.isNegated else { return nil }
                    found.ranges += escaped.ranges
                    continue
                }
                low = escaped.ranges[0].lowerBound
            }
            guard next == "-", place + 1 < source.count, source[place + 1] != "]" else {
                found.ranges.append(low...low)
                continue
            }
            place += 1
            guard let high = next, high != "\\" else { return nil }
            place += 1
            guard high.value >= low else { return nil }
            found.ranges.append(low...high.value)
        }
        return take("]") && !found.ranges.isEmpty ? found : nil
    }

    private mutating func escape() -> LinearPattern.Class? {
        guard let scalar = next else { return nil }
        place += 1
        let digits: [ClosedRange<UInt32>] = [48...57]
        let words: [ClosedRange<UInt32>] = [48...57, 65...90, 95...95, 97...122]
        let spaces: [ClosedRange<UInt32>] = [9...13, 32...32, 0xA0...0xA0, 0x2028...0x2029]
        switch scalar {
        case "d": return .init(ranges: digits)
        case "D": return .init(ranges: digits, isNegated: true)
        case "w": return .init(ranges: words)
        case "W": return .init(ranges: words, isNegated: true)
        case "s": return .init(ranges: spaces)
        case "S": return .init(ranges: spaces, isNegated: true)
        case "n": return .init(ranges: [10...10])
        case "r": return .init(ranges: [13...13])
        case "t": return .init(ranges: [9...9])
        case "0"..."9", "a"..."z", "A"..."Z": return nil
        default: return .init(ranges: [scalar.value...scalar.value])
        }
    }
}
