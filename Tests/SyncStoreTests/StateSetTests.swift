import Foundation
import SyncStore
import Testing

/// SQL tests states by number, and the code by name. Nothing but these tests stands between the two.
@Suite("States in SQL")
struct StateSetTests {
    @Test("The text of each set selects the states that the code means", arguments: StateSet.all)
    func sets(_ set: StateSet) throws {
        let tests = StateTest.all(in: "SELECT 1 FROM \(set.table.rawValue) WHERE \(set.sql)")
        #expect(tests.map(\.table) == [set.table])
        #expect(tests.first?.numbers == set.numbers)
    }

    @Test("Each test of a state in a statement has a set of the code")
    func statements() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Sources/SyncStore")
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects as? [URL] ?? []
        var count = 0
        for file in files.filter({ $0.pathExtension == "swift" }).sorted(by: { $0.path < $1.path }) {
            let place = file.path.dropFirst(folder.path.count + 1)
            // The sets themselves.
            if place == "StateSet.swift" { continue }
            for literal in Self.literals(in: try String(contentsOf: file, encoding: .utf8)) {
                for test in StateTest.all(in: literal) {
                    count += 1
                    guard let table = test.table else {
                        Issue.record("\(place): `\(test.sql)` does not show whose state it tests; take the text of a StateSet")
                        continue
                    }
                    #expect(Self.isKnown(test.numbers, of: table), "\(place): \(table) \(test.sql)")
                }
            }
        }
        #expect(count > 80, "hardly any test of a state was found: the test looks in the wrong place")
    }

    @Test(
        "A test of a state is found wherever it stands, with its table",
        arguments: [
            Case("SELECT 1 FROM mutation WHERE rid = ? AND state < 6", [.mutation: [0, 1, 2, 3, 4, 5]]),
            Case("SELECT 1 FROM mutation WHERE state < 6 AND +state BETWEEN 3 AND 5 LIMIT 1", [.mutation: [3, 4, 5]]),
            Case(
                "SELECT 1 FROM conflict c LEFT JOIN mutation m ON m.seq = c.seq WHERE c.state < 2 AND m.state <> 2",
                [.conflict: [0, 1], .mutation: [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]),
            Case("SELECT 1 FROM tie t JOIN mutation m ON m.seq = t.seq WHERE coalesce(m.state, 0) IN (0, 1)", [.mutation: [0, 1]]),
            Case("UPDATE blob SET has_file = 1, state = CASE WHEN state = 3 THEN 0 ELSE state END", [.blob: [3]]),
            Case("CREATE TABLE mutation (state INTEGER CHECK (state BETWEEN 0 AND 2)); CREATE TABLE x (y)", [.mutation: [0, 1, 2]]),
            Case("SELECT status FROM record WHERE status = 0", [:]), Case("SELECT 1 FROM mutation WHERE state = ?", [:]),
        ])
    func found(_ example: Case) {
        var found: [StateSet.Table?: Set<Int>] = [:]
        for test in StateTest.all(in: example.sql) { found[test.table] = test.numbers }
        #expect(found == Dictionary(uniqueKeysWithValues: example.found.map { (Optional($0.key), $0.value) }))
    }

    @Test("A set that no code means is noticed")
    func unknown() {
        #expect(Self.isKnown([9], of: .mutation))
        #expect(!Self.isKnown([0, 9], of: .mutation))
        #expect(!Self.isKnown([0, 1], of: .blob))
        #expect(!Self.isKnown([13], of: .mutation))
    }

    struct Case: Sendable, CustomStringConvertible {
        let sql: String
        let found: [StateSet.Table: Set<Int>]

        init(_ sql: String, _ found: [StateSet.Table: Set<Int>]) {
            self.sql = sql
            self.found = found
        }

        var description: String { sql }
    }

    /// Returns whether the numbers are one state, all others, all of the table, or a set of the code.
    private static func isKnown(_ numbers: Set<Int>, of table: StateSet.Table) -> Bool {
        let all = table.numbers
        guard numbers.isSubset(of: all) else { return false }
        return numbers == all || numbers.count == 1 || all.count - numbers.count == 1
            || StateSet.all.contains { $0.table == table && $0.numbers == numbers }
    }

    /// The string literals of a source file, without its comments.
    private static func literals(in source: String) -> [String] {
        let lines = source.split(separator: "\n").filter { !$0.drop(while: { $0 == " " }).hasPrefix("//") }
        let code = lines.joined(separator: "\n")
        return code.matches(of: /"""(?s:(.*?))"""|"((?:[^"\\\n]|\\.)*)"/).map { String($0.1 ?? $0.2 ?? "") }
    }
}

/// A test of the states of one table in a statement, such as `m.state < 6 AND m.state <> 3`.
private struct StateTest {
    /// `nil` when the text does not show whose state it is.
    let table: StateSet.Table?
    /// The text of the statement.
    let sql: String
    /// Numbers of the states that pass it. A number that it names is among them also if there is no such state.
    let numbers: Set<Int>

    /// The tests in a text, which may hold several statements.
    static func all(in text: String) -> [StateTest] {
        guard text.contains("state") else { return [] }
        let lines = text.split(separator: "\n").map { $0.split(separator: "--", maxSplits: 1, omittingEmptySubsequences: false)[0] }
        return lines.joined(separator: " ").split(separator: ";").flatMap { all(ofStatement: $0) }
    }

    private static func all(ofStatement statement: Substring) -> [StateTest] {
        let text = statement.split(separator: " ").joined(separator: " ").replacing(/coalesce\((\w+)\.state, 0\)/) { "\($0.1).state" }
        let tables = Tables(in: text)
        // By the default rule of Unicode, `m.state` is one word.
        let pattern = /(?:(\w+)\.|\+)?\bstate (?:(?:<>|<=|>=|=|<|>) \d+|(?:NOT )?IN \([\d, ]+\)|BETWEEN \d+ AND \d+)/
            .wordBoundaryKind(.simple)
        var groups: [(alias: Substring?, range: Range<String.Index>)] = []
        for match in text.matches(of: pattern) {
            if let last = groups.last, last.alias == match.1, text[last.range.upperBound..<match.range.lowerBound] == " AND " {
                groups[groups.count - 1].range = last.range.lowerBound..<match.range.upperBound
            } else {
                groups.append((match.1, match.range))
            }
        }
        return groups.filter { !tables.isCounter($0.alias) }.map { StateTest(text[$0.range], of: tables.table($0.alias)) }
    }

    private init(_ text: Substring, of table: StateSet.Table?) {
        let conditions = text.matches(of: /state (<>|<=|>=|=|<|>|NOT IN|IN|BETWEEN) (\d+ AND \d+|[(\d, ]+)/).map { match in
            (word: String(match.1), numbers: match.2.matches(of: /\d+/).compactMap { Int($0.output) })
        }
        let states = table?.numbers ?? []
        let named = Set(conditions.flatMap(\.numbers))
        numbers = states.union(named).filter { number in
            conditions.allSatisfy { Self.passes(number, $0.word, $0.numbers) }
        }
        self.table = table
        sql = String(text)
    }

    private static func passes(_ number: Int, _ word: String, _ numbers: [Int]) -> Bool {
        switch word {
        case "=": number == numbers[0]
        case "<>": number != numbers[0]
        case "<": number < numbers[0]
        case "<=": number <= numbers[0]
        case ">": number > numbers[0]
        case ">=": number >= numbers[0]
        case "IN": numbers.contains(number)
        case "NOT IN": !numbers.contains(number)
        default: (numbers[0]...numbers[1]).contains(number)
        }
    }

    /// The tables of one statement that have a column `state`, by alias.
    private struct Tables {
        private var names: [Substring: Substring] = [:]

        init(in statement: String) {
            let pattern = /\b(?:FROM|JOIN|UPDATE|INTO|TABLE|ON) (mutation|conflict|blob|record_index|counter)\b(?: (?:AS )?([a-z]\w*)\b)?/
                .wordBoundaryKind(.simple)
            for match in statement.matches(of: pattern) { names[match.2 ?? match.1] = match.1 }
        }

        /// The name without an alias, or with that of a part of the statement, is clear where there is one table.
        private func name(_ alias: Substring?) -> Substring? {
            alias.flatMap { names[$0] } ?? (Set(names.values).count == 1 ? names.values.first : nil)
        }

        func table(_ alias: Substring?) -> StateSet.Table? { name(alias).flatMap { StateSet.Table(rawValue: String($0)) } }

        /// A counter has the state that it counts.
        func isCounter(_ alias: Substring?) -> Bool { name(alias) == "counter" }
    }
}
