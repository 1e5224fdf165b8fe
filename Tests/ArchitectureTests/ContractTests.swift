import Foundation
import Testing

/// `deploy/api/PROTOCOL.md` and the sources name each other: comments and checks name sections of the contract, and its tables name
/// routes, problem codes and header fields of the programs. Both are read as text, so this test needs no other target.
@Suite("The contract")
struct ContractTests {
    private static func text(_ path: String) throws -> String { try Checkout.text(path) }

    // MARK: Sections

    /// The sections of the contract: `A`, `A4`, `0.2`.
    private static func sections() throws -> Set<String> {
        let headings = try text("deploy/api/PROTOCOL.md").split(separator: "\n").filter { $0.hasPrefix("## ") || $0.hasPrefix("### ") }
        return Set(headings.compactMap { line in section(line.split(separator: " ")[1]) })
    }

    /// The name of a section without the punctuation around it; `nil` for another word.
    private static func section(_ word: Substring) -> String? {
        let punctuation: Set<Character> = ["(", ")", ",", ".", ":", ";"]
        let name = String(word.drop { punctuation.contains($0) }.reversed().drop { punctuation.contains($0) }.reversed())
        return name.wholeMatch(of: /0(?:\.[0-9])?|[A-Z](?:[0-9]{1,2}(?:-[A-Z][0-9]{1,2})?)?/) == nil ? nil : name
    }

    /// The sections of the contract that a text names: the words behind `PROTOCOL`, also on the next line.
    private static func references(in text: String) -> [String] {
        let comments: Set<Substring> = ["//", "///", "#", "--"]
        let spaces: Set<UInt8> = [0x20, 0x0A, 0x0D, 0x09]
        let words = text.utf8.split { spaces.contains($0) }
        var found: [String] = []
        for (index, bytes) in words.enumerated() where bytes.count >= 8 {
            let word = Substring(bytes)
            guard word.has("PROTOCOL"), word.wholeMatch(of: /[(`"]*PROTOCOL(?:\.md)?`?,?/) != nil else { continue }
            var place = index + 1
            while place < words.count {
                let next = Substring(words[place])
                place += 1
                if next == "and" || comments.contains(next) { continue }
                if next == "step" {
                    while place < words.count, comments.contains(Substring(words[place])) { place += 1 }
                    place += 1
                    continue
                }
                // `C5 (T4), C7`
                if next.hasPrefix("(T") { continue }
                guard let name = section(next) else { break }
                found += name.split(separator: "-").map(String.init)
                if next.hasSuffix(")") || next.hasSuffix(".") || next.hasSuffix(":") { break }
            }
        }
        return found
    }

    @Test("Every section that the sources name is in the contract")
    func references() throws {
        let sections = try Self.sections()
        var count = 0
        for folder in ["Sources", "Tests", "deploy", "etc", "README.md"] {
            // The contract itself is left out, and so is this test, whose examples are no references.
            for file in Checkout.files(folder) where file.text.has("PROTOCOL") {
                if file.path.hasSuffix("/PROTOCOL.md") || file.path.hasSuffix("/ContractTests.swift") { continue }
                for name in Self.references(in: file.text) {
                    count += 1
                    if !sections.contains(name) { Issue.record("\(file.path): the contract has no section \(name)") }
                }
            }
        }
        #expect(count > 100, "hardly a reference was found: the test looks in the wrong place")
    }

    @Test(
        "A reference is found in each of its forms",
        arguments: [
            ("(PROTOCOL A4 step 4, D1, D2)", ["A4", "D1", "D2"]), ("PROTOCOL.md C2)", ["C2"]),
            ("PROTOCOL A1-A7, A9, A10):", ["A1", "A7", "A9", "A10"]),
            ("PROTOCOL 0.2, on the product", ["0.2"]), ("/// (PROTOCOL\n/// C6). A", ["C6"]),
            ("PROTOCOL A3, C5 (T4), C7: pages", ["A3", "C5", "C7"]),
            ("PROTOCOL A6 and A8 at", ["A6", "A8"]), ("PROTOCOL F). Programs", ["F"]), ("`PROTOCOL.md`, section", []),
            ("UNSUPPORTED_PROTOCOL, C", []),
            ("PROTOCOL A4, D): all", ["A4", "D"]), ("PROTOCOL B6, F: never", ["B6", "F"]),
        ])
    func forms(_ text: String, _ names: [String]) {
        #expect(Self.references(in: text) == names)
    }

    @Test("A check of a server names sections that there are")
    func conformance() throws {
        let sections = try Self.sections()
        var count = 0
        for file in Checkout.files("Sources/HubConformance") {
            for match in file.text.matches(of: /"([A-Z][0-9]{1,2}(?:, [A-Z](?:[0-9]{1,2})?)*)"/) {
                for name in match.1.split(separator: ", ") {
                    count += 1
                    if !sections.contains(String(name)) { Issue.record("\(file.path): the contract has no section \(name)") }
                }
            }
        }
        #expect(count > 50, "hardly a section was found: the test looks in the wrong place")
    }

    // MARK: Rules

    // Fault: rules were added to the test build, and the contract did not tell what they prevent.
    @Test("The contract names each rule that a test build can switch off, and marks those that other tests guard")
    func ablations() throws {
        let source = try Self.text("Sources/SyncCore/Ablation.swift")
        let cases = source.matches(of: /\n    case (\w+)\n/).map { String($0.1) }
        #expect(cases.count > 80, "hardly a rule was found: the test looks in the wrong place")
        let rows = try Self.rows().compactMap { row -> (name: String, isStarred: Bool)? in
            guard let cell = row["name in the test build"], let rule = row["rule"] else { return nil }
            let name = cell.trimmingCharacters(in: CharacterSet(charactersIn: " `"))
            return (name, rule.trimmingCharacters(in: .whitespaces).hasSuffix("*"))
        }
        #expect(rows.map(\.name).sorted() == cases.sorted())
        let tests = try Self.text("Tests/SimulationTests/AblationTests.swift")
        let list = try #require(tests.firstMatch(of: /elsewhere: Set<Ablation> = \[([^\]]*)\]/)).1
        let elsewhere = list.matches(of: /\.(\w+)/).map { String($0.1) }
        #expect(rows.filter(\.isStarred).map(\.name).sorted() == elsewhere.sorted())
    }

    // MARK: Tables

    /// The rows of the contract's tables, each with its cells by the name of the column. The worked examples are no tables.
    private static func rows() throws -> [[String: Substring]] { try foundRows.get() }

    private static let foundRows = Result { try readRows() }

    private static func readRows() throws -> [[String: Substring]] {
        var rows: [[String: Substring]] = []
        var columns: [String] = []
        for line in try text("deploy/api/PROTOCOL.md").split(separator: "\n", omittingEmptySubsequences: false) {
            guard line.hasPrefix("|") else {
                columns = []
                continue
            }
            let cells = line.split(separator: "|")
            if columns.isEmpty {
                columns = cells.map { $0.trimmingCharacters(in: .whitespaces) }
            } else if !line.hasPrefix("|-") {
                rows.append(Dictionary(zip(columns, cells), uniquingKeysWith: { first, _ in first }))
            }
        }
        return rows
    }

    /// The texts in backticks of a cell.
    private static func quoted(_ cell: Substring) -> [String] {
        cell.matches(of: /`([^`]+)`/).map { String($0.1) }
    }

    // MARK: Routes

    /// `POST /v1/files`, with every place in the path as `{}` and without a query.
    private static func route(_ method: Substring, _ path: Substring) -> String {
        let plain = path.prefix { $0 != "?" }
        return "\(method) " + plain.replacing(/\{[^}]*\}/, with: "{}")
    }

    private static func routes(in cell: Substring) -> [String] {
        quoted(cell).compactMap { text in
            guard let match = text.wholeMatch(of: /(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (\/(?:v1\/|healthz|readyz|metrics)\S*)/) else {
                return nil
            }
            return route(match.1, match.2)
        }
    }

    /// The routes of the hub, out of `Endpoint.swift`: its cases with their paths, and the table of methods.
    private static func hubRoutes() throws -> Set<String> {
        let source = try text("Sources/HubServer/Requests/Endpoint.swift")
        var paths: [String: Substring] = [:]
        for match in source.matches(of: /case ([a-z]+) = "([^"]+)"/) { paths[String(match.1)] = match.2 }
        var routes: Set<String> = []
        for match in source.matches(of: /case ([a-z., ]+): \[((?:"[A-Z]+"(?:, )?)+)\]/) {
            let names = match.1.split(separator: ",").map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " .")) }
            for method in match.2.matches(of: /[A-Z]+/) {
                for name in names {
                    if let path = paths[name] { routes.insert(route(method.0, path)) }
                }
            }
        }
        return routes
    }

    /// The routes of the agent's socket, out of its description, which another test holds to the code.
    private static func socketRoutes() throws -> Set<String> {
        var routes: Set<String> = []
        var path: Substring?
        for line in try text("deploy/api/agent-v1.openapi.yaml").split(separator: "\n") {
            switch line.utf8.prefix(while: { $0 == UInt8(ascii: " ") }).count {
            case 0: path = nil
            case 2: if let match = line.wholeMatch(of: /[ ]{2}(\/[^ :]*):.*/) { path = match.1 }
            case 4:
                guard let match = line.wholeMatch(of: /[ ]{4}(get|head|post|put|patch|delete):.*/), let place = path else { continue }
                routes.insert(route(Substring(match.1.uppercased()), place.hasPrefix("/v1") ? place : "/v1" + place))
            default: continue
            }
        }
        return routes
    }

    @Test("The tables name every route of the hub, and no route that no program has")
    func routes() throws {
        let hub = try Self.hubRoutes(), socket = try Self.socketRoutes()
        #expect(hub.count > 20 && socket.count > 20, "routes were not found: \(hub.count) of the hub, \(socket.count) of the socket")
        var named: Set<String> = []
        for row in try Self.rows() {
            for cell in row.values { named.formUnion(Self.routes(in: cell)) }
        }
        for route in named.subtracting(hub).subtracting(socket).sorted() { Issue.record("no program has \(route)") }
        for route in hub.subtracting(named).sorted() { Issue.record("the contract lacks \(route)") }
    }

    // MARK: Problem codes

    /// The codes of an enumeration of codes.
    private static func codes(of enumeration: String, in path: String) throws -> Set<String> {
        let source = try text(path)
        guard let start = source.range(of: "enum \(enumeration)") else { return [] }
        var codes: Set<String> = []
        for line in source[start.upperBound...].split(separator: "\n").dropFirst() {
            let words = line.trimmingCharacters(in: .whitespaces)
            if words == "}" || words.contains("var ") || words.contains("func ") { break }
            guard let match = words.wholeMatch(of: /case `?([A-Za-z]+)`?(?: = "([a-z-]+)")?/) else { continue }
            codes.insert(String(match.2 ?? match.1))
        }
        return codes
    }

    /// The codes that the hub can answer with, or that an agent puts in the place of an answer of the hub.
    private static func hubCodes() throws -> Set<String> {
        var codes = try codes(of: "ServerCode", in: "Sources/SyncHTTP/HTTPHandler.swift")
        for folder in [
            "Sources/HubServer", "Sources/HubPostgres", "Sources/SyncCore/Wire", "Sources/SyncCore/Merge", "Sources/SyncCore/Schema",
        ] {
            for file in Checkout.files(folder) {
                for call in ["Problem(", "resync("] where file.text.has(call) {
                    for part in file.text.components(separatedBy: call).dropFirst() {
                        if let match = part.prefixMatch(of: /\s*"([a-z-]+)"/) { codes.insert(String(match.1)) }
                    }
                }
            }
        }
        return codes
    }

    /// The words that some program has as a text, or as a case of an enumeration.
    private static let wordsOfSources: Set<String> = {
        var words: Set<String> = []
        for file in Checkout.sources where file.path.hasSuffix(".swift") {
            let bytes = file.text.utf8
            // The text between two quotation marks.
            for piece in bytes.split(separator: UInt8(ascii: "\""), omittingEmptySubsequences: false).dropFirst().dropLast() {
                if isWord(piece) { words.insert(String(Substring(piece))) }
            }
            // `case word` and further words of the same line, each before a comma or the line's end.
            for line in bytes.split(separator: UInt8(ascii: "\n")) {
                for (index, piece) in line.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).enumerated() {
                    guard let space = piece.lastIndex(of: UInt8(ascii: " ")) else { continue }
                    let word = piece[piece.index(after: space)...], before = piece[...space]
                    guard isWord(word), index > 0 && before.count == 1 || before.suffix(5).elementsEqual("case ".utf8) else { continue }
                    words.insert(String(Substring(word)))
                }
            }
        }
        return words
    }()

    /// As the tables name codes: `[a-z][a-z0-9_-]*`.
    private static func isWord(_ bytes: Substring.UTF8View) -> Bool {
        guard let first = bytes.first, (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first) else { return false }
        return bytes.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"): true
            default: false
            }
        }
    }

    @Test("The tables have every problem code of the hub, and no code that no program has")
    func codes() throws {
        let hub = try Self.hubCodes()
        #expect(hub.count > 40, "only \(hub.count) codes of the hub were found")
        var named: Set<String> = []
        for row in try Self.rows() {
            for column in ["problem code", "code"] {
                guard let cell = row[column] else { continue }
                named.formUnion(Self.quoted(cell).filter { $0.wholeMatch(of: /[a-z][a-z0-9_-]*/) != nil })
            }
        }
        for code in named.subtracting(hub).sorted() where !Self.wordsOfSources.contains(code) {
            Issue.record("no program has the code \(code)")
        }
        for code in hub.subtracting(named).sorted() { Issue.record("the contract lacks the code \(code)") }
    }

    // MARK: Header fields

    @Test("The tables have every header field of the protocol, and no other")
    func headers() throws {
        let source = try Self.text("Sources/SyncCore/Wire/HubHeaders.swift")
        let known = Set(source.matches(of: /static let [A-Za-z]+ = "([A-Z][A-Za-z-]+)"/).map { String($0.1) })
        #expect(known.contains("Sync-Version") && known.contains("Retry-After"), "header fields were not found")
        var named: Set<String> = []
        for row in try Self.rows() {
            for column in ["request field", "answer field"] {
                if let cell = row[column] { named.formUnion(Self.quoted(cell)) }
            }
        }
        for name in named.filter({ $0.hasPrefix("Sync-") }).sorted() {
            #expect(known.contains(name), "no program has \(name)")
        }
        for name in known.sorted() { #expect(named.contains(name), "the contract lacks \(name)") }
    }
}
