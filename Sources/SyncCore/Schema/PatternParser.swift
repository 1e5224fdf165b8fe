/// Reads the source of a ``LinearPattern``.
struct PatternParser {
    private let source: [Unicode.Scalar]
    private var place = 0
    private var depth = 0

    init(_ source: [Unicode.Scalar]) {
        self.source = source
    }

    var isAtEnd: Bool { place == source.count }
    private var next: Unicode.Scalar? { isAtEnd ? nil : source[place] }

    /// Moves behind the scalar if it is the next one.
    private mutating func consume(_ scalar: Unicode.Scalar) -> Bool {
        guard next == scalar else { return false }
        place += 1
        return true
    }

    mutating func alternatives() -> LinearPattern.Node? {
        var all: [LinearPattern.Node] = []
        repeat {
            guard let one = sequence() else { return nil }
            all.append(one)
        } while consume("|")
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
        case ".": return .one(LinearPattern.Class(ranges: [10...10, 13...13], isNegated: true).prepared)
        case "(":
            // `(?` begins an unsupported construct, except for a group without a reference.
            if consume("?"), !consume(":") { return nil }
            depth += 1
            guard depth < 50, let inside = alternatives(), consume(")") else { return nil }
            depth -= 1
            return inside
        case "[": return set().map { .one($0) }
        case "\\": return escape().map { .one($0) }
        case "*", "+", "?", "{", ")": return nil
        default: return .one(.one(scalar.value))
        }
    }

    private mutating func repetition(of node: LinearPattern.Node) -> LinearPattern.Node? {
        let bounds: (Int, Int?)
        if consume("*") {
            bounds = (0, nil)
        } else if consume("+") {
            bounds = (1, nil)
        } else if consume("?") {
            bounds = (0, 1)
        } else if consume("{") {
            guard let least = number() else { return nil }
            var most: Int? = least
            if consume(",") { most = next == "}" ? nil : number() ?? -1 }
            guard consume("}"), most.map({ $0 >= least }) ?? true else { return nil }
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
        var found = LinearPattern.Class(isNegated: consume("^"))
        while let scalar = next, scalar != "]" {
            place += 1
            var low = scalar.value
            if scalar == "\\" {
                guard let escaped = escape(inSet: true) else { return nil }
                guard let single = escaped.single else {
                    guard !escaped.isNegated else { return nil }
                    found.ranges += escaped.ranges
                    found.categories += escaped.categories
                    continue
                }
                low = single
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
        guard consume("]"), !found.ranges.isEmpty || !found.categories.isEmpty else { return nil }
        return found.prepared
    }

    private mutating func escape(inSet: Bool = false) -> LinearPattern.Class? {
        guard let scalar = next else { return nil }
        place += 1
        let digits: [ClosedRange<UInt32>] = [48...57]
        let words: [ClosedRange<UInt32>] = [48...57, 65...90, 95...95, 97...122]
        // White space and ends of lines of ECMA-262.
        let spaces: [ClosedRange<UInt32>] = [
            9...13, 32...32, 0xA0...0xA0, 0x1680...0x1680, 0x2000...0x200A, 0x2028...0x2029, 0x202F...0x202F, 0x205F...0x205F,
            0x3000...0x3000, 0xFEFF...0xFEFF,
        ]
        switch scalar {
        case "d", "D": return .init(ranges: digits, isNegated: scalar == "D").prepared
        case "w", "W": return .init(ranges: words, isNegated: scalar == "W").prepared
        case "s", "S": return .init(ranges: spaces, isNegated: scalar == "S").prepared
        case "p", "P": return property(isNegated: scalar == "P")
        case "n": return .one(10)
        case "r": return .one(13)
        case "t": return .one(9)
        case "f": return .one(12)
        case "v": return .one(11)
        case "b" where inSet: return .one(8)
        case "c":
            guard let letter = next, letter.isASCII, letter.properties.isAlphabetic else { return nil }
            place += 1
            return .one(letter.value % 32)
        case "x": return hexadecimal(2).map { .one($0) }
        case "u": return unicode().map { .one($0) }
        case "0"..."9", "a"..."z", "A"..."Z": return nil
        default: return .one(scalar.value)
        }
    }

    private mutating func hexadecimal(_ count: Int) -> UInt32? {
        guard place + count <= source.count else { return nil }
        var value: UInt32 = 0
        for scalar in source[place..<(place + count)] {
            guard scalar.isASCII, let digit = hexDigit(UInt8(scalar.value)) else { return nil }
            value = value << 4 | UInt32(digit)
        }
        place += count
        return value
    }

    /// `\uHHHH`, where two surrogates are one character, or `\u{H…}`.
    private mutating func unicode() -> UInt32? {
        if consume("{") {
            let start = place
            while let scalar = next, scalar != "}", place - start < 6 { place += 1 }
            let count = place - start
            place = start
            guard count > 0, let value = hexadecimal(count), consume("}"), Unicode.Scalar(value) != nil else { return nil }
            return value
        }
        guard let first = hexadecimal(4) else { return nil }
        guard (0xD800...0xDBFF).contains(first) else { return Unicode.Scalar(first) == nil ? nil : first }
        guard consume("\\"), consume("u"), let second = hexadecimal(4), (0xDC00...0xDFFF).contains(second) else { return nil }
        return 0x10000 + (first - 0xD800) << 10 + (second - 0xDC00)
    }

    /// `\p{Lu}`, by the short or long name of a general category.
    private mutating func property(isNegated: Bool) -> LinearPattern.Class? {
        guard consume("{") else { return nil }
        var name = ""
        while let scalar = next, scalar != "}", name.utf8.count < 64 {
            name.unicodeScalars.append(scalar)
            place += 1
        }
        for prefix in ["General_Category=", "gc="] where name.hasPrefix(prefix) { name.removeFirst(prefix.count) }
        guard consume("}"), let category = LinearPattern.Category.named(name) else { return nil }
        return .init(categories: [category], isNegated: isNegated).prepared
    }
}
