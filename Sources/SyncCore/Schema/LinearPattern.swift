/// A regular expression that takes time proportional to the text, whatever the pattern is (Thompson's construction, with all states stepped
/// in parallel). A pattern comes from a server, so it must not be able to delay the agent.
///
/// Supported: characters, `.`, classes `[a-z]` and `[^a-z]`, `\d \w \s` and their capitals, `\p{…}` and `\P{…}` with a general category of
/// Unicode, escapes, groups, `|`, `* + ?`, `{m}`, `{m,}`, `{m,n}`, and `^` `$`. As in JSON Schema, a match may be anywhere in the text.
/// Characters are Unicode scalars. Not supported, and refused: back references, look-around, named groups, flags, lazy operators.
package struct LinearPattern: Hashable, Sendable {
    /// Largest length of the source, characters.
    package static let lengthMax = 200
    /// Largest number of steps of the machine: repetitions are expanded, so `(a{99}){99}` is refused.
    static let stepsMax = 2_000

    package let source: String
    private let program: [Step]
    private let classes: [Class]

    private enum Step: Sendable {
        case match
        /// One character of the class with this number.
        case one(Int32)
        case start, end
        case jump(Int32)
        case split(Int32, Int32)
    }

    /// - Returns: `nil` when the source is not a pattern as described above, or is too long.
    package init?(_ source: String) {
        guard source.unicodeScalars.count <= Self.lengthMax else { return nil }
        var parser = PatternParser(Array(source.unicodeScalars))
        guard let tree = parser.alternatives(), parser.isAtEnd else { return nil }
        var writer = Writer()
        guard writer.write(tree) else { return nil }
        writer.program.append(.match)
        self.source = source
        program = writer.program
        classes = writer.classes
    }

    // The program follows from the source.
    package static func == (left: LinearPattern, right: LinearPattern) -> Bool { sameBytes(left.source, right.source) }
    package func hash(into hasher: inout Hasher) { hasher.combine(source) }

    /// Number of steps of the machine, which is the memory of the pattern and the cost of one character.
    package var size: Int { program.count }

    package func matches(_ text: String) -> Bool {
        var steps = Int.max
        return matches(text, steps: &steps)
    }

    /// - Parameter steps: The number of steps that it may take. Negative afterwards when they were not enough; then the result means
    ///   nothing.
    package func matches(_ text: String, steps: inout Int) -> Bool {
        let size = program.count
        steps -= size / 16
        // Two sets of states, each as a list and the place of each state in the list, and the states that are still to be added.
        return withUnsafeTemporaryAllocation(of: Int32.self, capacity: 4 * size + 2 * size + 2) { memory in
            memory.initialize(repeating: 0)
            return program.withUnsafeBufferPointer { program in
                var run = Run(
                    program: program, classes: classes,
                    states: StateSet(memory, from: 0, size), next: StateSet(memory, from: 2 * size, size),
                    work: UnsafeMutableBufferPointer(rebasing: memory[(4 * size)...]))
                return run.matches(text.unicodeScalars, &steps)
            }
        }
    }

    // MARK: - Matching

    /// A set of states that is emptied in constant time.
    private struct StateSet {
        private let list: UnsafeMutableBufferPointer<Int32>
        private let places: UnsafeMutableBufferPointer<Int32>
        private(set) var count = 0

        init(_ memory: UnsafeMutableBufferPointer<Int32>, from start: Int, _ size: Int) {
            list = UnsafeMutableBufferPointer(rebasing: memory[start..<(start + size)])
            places = UnsafeMutableBufferPointer(rebasing: memory[(start + size)..<(start + 2 * size)])
        }

        subscript(index: Int) -> Int { Int(list[index]) }

        /// - Returns: `false` when the set has the state already.
        mutating func insert(_ state: Int32) -> Bool {
            let place = Int(places[Int(state)])
            if place < count, list[place] == state { return false }
            list[count] = state
            places[Int(state)] = Int32(count)
            count += 1
            return true
        }

        mutating func removeAll() { count = 0 }
    }

    private struct Run {
        let program: UnsafeBufferPointer<Step>
        let classes: [Class]
        var states: StateSet
        var next: StateSet
        let work: UnsafeMutableBufferPointer<Int32>

        mutating func matches(_ text: String.UnicodeScalarView, _ steps: inout Int) -> Bool {
            var scalars = text.makeIterator()
            var scalar = scalars.next()
            var isStart = true
            // A pattern that begins with `^` in all its alternatives cannot begin anywhere else.
            let isAnchored = if case .start = program[0] { true } else { false }
            while steps >= 0 {
                // A match may begin at every place.
                if isStart || !isAnchored, add(0, isStart, scalar == nil, to: &states, &steps) { return true }
                guard let present = scalar else { return false }
                if states.count == 0, isAnchored { return false }
                scalar = scalars.next()
                steps -= states.count + 1
                next.removeAll()
                for index in 0..<states.count {
                    let state = states[index]
                    guard case .one(let number) = program[state], classes[Int(number)].contains(present) else { continue }
                    if add(Int32(state + 1), false, scalar == nil, to: &next, &steps) { return true }
                }
                swap(&states, &next)
                isStart = false
            }
            return false
        }

        /// - Returns: `true` when the text matches.
        private func add(_ state: Int32, _ isStart: Bool, _ isEnd: Bool, to states: inout StateSet, _ steps: inout Int) -> Bool {
            work[0] = state
            var count = 1
            while count > 0 {
                count -= 1
                let state = work[count]
                guard states.insert(state) else { continue }
                steps -= 1
                switch program[Int(state)] {
                case .match: return true
                case .one: break
                case .start where !isStart: break
                case .end where !isEnd: break
                case .start, .end:
                    work[count] = state + 1
                    count += 1
                case .jump(let target):
                    work[count] = target
                    count += 1
                case .split(let first, let second):
                    work[count] = first
                    work[count + 1] = second
                    count += 2
                }
            }
            return false
        }
    }

    // MARK: - Writing the program

    indirect enum Node {
        case one(Class)
        case start, end
        case sequence([Node])
        case either([Node])
        case repeated(Node, least: Int, most: Int?)
    }

    private struct Writer {
        var program: [Step] = []
        var classes: [Class] = []
        /// Parts that were written, also those without a step: `(){999}` repeats nothing, and nested it would do so for years.
        private var parts = 0

        private var place: Int32 { Int32(program.count) }

        mutating func write(_ node: Node) -> Bool {
            parts += 1
            guard program.count <= stepsMax, parts <= 4 * stepsMax else { return false }
            switch node {
            case .one(let accepted):
                // A repeated part has its classes again; only the steps are many.
                if classes.last != accepted { classes.append(accepted) }
                program.append(.one(Int32(classes.count - 1)))
            case .start: program.append(.start)
            case .end: program.append(.end)
            case .sequence(let nodes):
                for node in nodes { guard write(node) else { return false } }
            case .either(let nodes):
                var jumps: [Int] = []
                for (index, node) in nodes.enumerated() {
                    let split = program.count
                    let isLast = index == nodes.count - 1
                    if !isLast { program.append(.split(Int32(split + 1), 0)) }
                    guard write(node) else { return false }
                    guard !isLast else { break }
                    jumps.append(program.count)
                    program.append(.jump(0))
                    program[split] = .split(Int32(split + 1), place)
                }
                for jump in jumps { program[jump] = .jump(place) }
            case .repeated(let node, let least, let most):
                for _ in 0..<least { guard write(node) else { return false } }
                guard let most else {
                    let split = program.count
                    program.append(.split(Int32(split + 1), 0))
                    guard write(node) else { return false }
                    program.append(.jump(Int32(split)))
                    program[split] = .split(Int32(split + 1), place)
                    return true
                }
                var splits: [Int] = []
                for _ in least..<most {
                    splits.append(program.count)
                    program.append(.split(place + 1, 0))
                    guard write(node) else { return false }
                }
                for split in splits { program[split] = .split(Int32(split + 1), place) }
            }
            return program.count <= stepsMax
        }
    }
}
