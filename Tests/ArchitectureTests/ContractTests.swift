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

    private static let foundRows = Result { readRows(try text("deploy/api/PROTOCOL.md")) }

    /// The rows of the tables between two texts of the contract. Each of them is in it exactly once.
    private static func rows(from start: String, to end: String) throws -> [[String: Substring]] {
        let parts = try text("deploy/api/PROTOCOL.md").components(separatedBy: "\n" + start)
        try #require(parts.count == 2, "the contract does not have \(start) once")
        let rest = try #require(parts.last?.components(separatedBy: "\n" + end), "the contract has no \(end)")
        try #require(rest.count >= 2, "the contract has no \(end) behind \(start)")
        return readRows(rest[0])
    }

    /// The words in backticks of a column.
    private static func words(_ columns: String..., of rows: [[String: Substring]]) -> Set<String> {
        Set(rows.flatMap { row in columns.flatMap { row[$0].map(quoted) ?? [] } }.filter { $0.wholeMatch(of: /[a-z][a-z_-]*/) != nil })
    }

    private static func readRows(_ text: String) -> [[String: Substring]] {
        var rows: [[String: Substring]] = []
        var columns: [String] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
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

    /// The role of each route of the socket, out of its description.
    private static func socketRoles() throws -> [String: String] {
        var roles: [String: String] = [:]
        var path: Substring = "", method: Substring = ""
        for line in try text("deploy/api/agent-v1.openapi.yaml").split(separator: "\n") {
            if let match = line.wholeMatch(of: /[ ]{2}(\/[^ :]*):.*/) { path = match.1 }
            if let match = line.wholeMatch(of: /[ ]{4}(get|head|post|put|patch|delete):.*/) { method = match.1 }
            guard let match = line.wholeMatch(of: /[ ]{6}x-role: ([a-z]+)/) else { continue }
            roles[route(Substring(method.uppercased()), path.hasPrefix("/v1") ? path : "/v1" + path)] = String(match.1)
        }
        return roles
    }

    @Test("The table of the local API names every route of the socket with its role, and no other")
    func socketRoutesInTable() throws {
        let described = try Self.socketRoles()
        let routes = try Self.socketRoutes()
        #expect(Set(described.keys) == routes)
        var named: [String: String] = [:]
        for row in try Self.rows(from: "**Routes.** All paths", to: "### B2. ") {
            guard let cell = row["route"], let role = row["role"] else { continue }
            // A method counts for the paths behind it: `GET /pause`, `/resume`.
            var method: Substring = ""
            for text in Self.quoted(cell) {
                let words = text.split(separator: " ")
                if words.count == 2 { method = words[0] }
                let path = try #require(words.last, "an empty route")
                named[Self.route(method, "/v1" + path)] = role.trimmingCharacters(in: .whitespaces)
            }
        }
        for route in Set(named.keys).union(described.keys).sorted() where named[route] != described[route] {
            Issue.record("\(route): the contract has \(named[route] ?? "no row"), the description \(described[route] ?? "no route")")
        }
    }

    // MARK: States and codes

    /// The words behind the cases of a switch, such as `case .inFlight: "in_flight"`, in the first property `name` behind `start`.
    private static func names(behind start: String, in path: String) throws -> Set<String> {
        let source = try text(path).components(separatedBy: start).dropFirst().joined(separator: start)
        let property = source.components(separatedBy: "var name: String {").dropFirst().first?.components(separatedBy: "\n    }").first
        return Set(try #require(property, "\(path) has no names").matches(of: /case \.[A-Za-z]+: "([a-z_]+)"/).map { String($0.1) })
    }

    @Test("The tables have every state and type of event that the code has, and no other")
    func states() throws {
        let mutation = try Self.names(behind: "package enum MutationState", in: "Sources/SyncCore/Model/Mutation.swift")
        let changes = Self.words("from", "to", of: try Self.rows(from: "**Mutation.** Open states", to: "**Record.**"))
        // The row of a record that has left the share of the device names the code of its refusal.
        #expect(changes.subtracting(["revoked"]) == mutation)
        let reachability = try Self.codes(of: "Reachability:", in: "Sources/SyncCore/Policy/Conditions.swift")
        #expect(Self.words("state", of: try Self.rows(from: "**Reachability** is", to: "| from | to |")) == reachability)
        let events = try Self.codes(of: "EventType:", in: "Sources/LocalAPI/Routes/Route.swift")
        let types = Self.words("type", of: try Self.rows(from: "**Events.** `GET", to: "A rescue of the database"))
        // These two are about the stream itself.
        #expect(types.subtracting(["reset", "overflow"]) == events)
        #expect(mutation.count == 13 && reachability.count == 6 && events.count == 11)
    }

    @Test("The table of the local API's refusals has every code, and no other")
    func localProblems() throws {
        let local = try Self.codes(of: "LocalProblem:", in: "Sources/LocalAPI/Answers/LocalProblem.swift")
        let server = try Self.codes(of: "ServerCode", in: "Sources/SyncHTTP/HTTPHandler.swift")
        #expect(local.count > 30 && server.count == 8)
        let named = Self.words("codes", of: try Self.rows(from: "**Problems.** A refusal is `application", to: "**Routes.**"))
        #expect(local.subtracting(named) == [])
        // Members of the answers that the cells name.
        #expect(named.subtracting(local).subtracting(server) == ["etag", "errors"])
    }

    @Test("The table of the alarms has every code where it shows")
    func alarms() throws {
        let path = "Sources/LocalAPI/Status/AlarmCode.swift"
        let all = try Self.codes(of: "AlarmCode:", in: path)
        let rows = try Self.rows(from: "**Alarms.** The code", to: "**The level** is")
        func cell(_ start: String) -> Set<String> {
            Self.words("codes", of: rows.filter { $0["shown"]?.trimmingCharacters(in: .whitespaces).hasPrefix(start) == true })
        }
        let (status, elsewhere) = (cell("in `alarms`"), cell("elsewhere"))
        #expect(status.union(elsewhere) == all && status.isDisjoint(with: elsewhere))
        // The cases of `isInStatus` and `heals`, by their names in the code.
        let source = try Self.text(path)
        func cases(_ property: String) throws -> Set<String> {
            let body = source.components(separatedBy: "var \(property): Bool {").dropFirst().first?.components(separatedBy: "true").first
            return Set(try #require(body).matches(of: /\.([A-Za-z]+)/).map { String($0.1) })
        }
        var words: [String: String] = [:]
        for match in source.matches(of: /case ([A-Za-z]+)(?: = "([a-z_]+)")?\n/) { words[String(match.1)] = String(match.2 ?? match.1) }
        #expect(status == Set(try cases("isInStatus").compactMap { words[$0] }))
        let healing = try Self.text("deploy/api/PROTOCOL.md").components(separatedBy: "Alarms that\nheal by themselves are ").last ?? ""
        let named = Set(Self.quoted(healing.prefix { $0 != "." }))
        #expect(named == Set(try cases("heals").compactMap { words[$0] }))
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
            guard words.hasPrefix("case ") else { continue }
            for name in words.dropFirst(5).components(separatedBy: ", ") {
                guard let match = name.wholeMatch(of: /`?([A-Za-z]+)`?(?: = "([a-z_-]+)")?/) else { continue }
                codes.insert(String(match.2 ?? match.1))
            }
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
