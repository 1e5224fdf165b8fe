import SyncSQLite
import Testing

@Suite("Prepared statements")
struct StatementTests {
    @Test(
        "A value comes back as it was bound, with its type",
        arguments: [
            .null, .int(0), .int(-1), .real(1.5), .text(""), .text("a"), .text("a\0b\0"), .text("\0"), .text("größer 🜁"), .blob([]),
            .blob([0, 1, 0, 255]),
        ] as [SQLiteValue])
    func value(_ value: SQLiteValue) throws {
        let file = try DatabaseFile()
        try file.opened().run("INSERT INTO t VALUES (1, ?)", value)
        let connection = try SQLiteConnection(.reading(file.path))
        #expect(try connection.column("SELECT v FROM t") == [value])
    }

    @Test("A text with NUL is whole in each way to read it")
    func nul() throws {
        let connection = try SQLiteConnection(.memory)
        let statement = try connection.statement("SELECT ?, NULL")
        defer { statement.reset() }
        try statement.bind([.text("a\0bc")])
        try #require(try statement.step())
        #expect(statement.text(0) == "a\0bc")
        #expect(statement.optionalText(0) == "a\0bc")
        #expect(statement.byteCount(0) == 4)
        #expect(statement.bytes(0).map { Array($0) } == [97, 0, 98, 99])
        #expect(statement.blob(0) == [97, 0, 98, 99])
        #expect(statement.text(1) == "")
        #expect(statement.optionalText(1) == nil)
        #expect(statement.bytes(1) == nil)
        #expect(statement.blob(1) == [])
    }

    @Test("Parameters that are bound one by one are those of the list")
    func oneByOne() throws {
        let connection = try SQLiteConnection(.memory)
        let statement = try connection.statement("SELECT typeof(?1) || typeof(?2) || typeof(?3) || typeof(?4) || typeof(?5), ?2, ?3, ?5")
        try statement.bind(1, Int64?.none)
        try statement.bind(2, 7)
        try statement.bind(3, "")
        try statement.bind(4, String?.none)
        try statement.bind(5, [1, 2])
        try #require(try statement.step())
        #expect(statement.text(0) == "nullintegertextnullblob")
        #expect((1...3).map { statement.value($0) } == [.int(7), .text(""), .blob([1, 2])])
        statement.reset()
    }

    @Test("A blob and a text of many megabytes come back whole", arguments: [1 << 20, 32 << 20])
    func large(_ size: Int) throws {
        let file = try DatabaseFile()
        var blob = [UInt8](repeating: 7, count: size)
        for place in stride(from: 0, to: size, by: 4_093) { blob[place] = UInt8(truncatingIfNeeded: place >> 3) }
        let text = String(repeating: "0123456789abcdef", count: size / 16)
        let connection = try file.opened(sealed: true)
        try connection.run("INSERT INTO t VALUES (1, ?)", .blob(blob))
        try connection.run("INSERT INTO t VALUES (2, ?)", .text(text))
        #expect(try connection.checkpoint(truncating: true))
        let reader = try SQLiteConnection(.reading(file.path))
        let statement = try reader.statement("SELECT v FROM t ORDER BY k")
        defer { statement.reset() }
        try #require(try statement.step())
        #expect(statement.blob(0) == blob)
        try #require(try statement.step())
        #expect(statement.text(0) == text)
    }

    @Test(
        "Numbers are stored with all 64 bits, and read within the limits of sums",
        arguments: [Int64.max, .min, 1 << 62, -(1 << 62), 1 << 53 + 1])
    func limits(_ number: Int64) throws {
        let file = try DatabaseFile()
        defer { withExtendedLifetime(file) {} }
        let connection = try file.opened()
        try connection.run("INSERT INTO t VALUES (1, ?)", .int(number))
        #expect(try connection.column("SELECT CAST(v AS TEXT) FROM t") == [.text("\(number)")])
        let most: Int64 = (1 << 62) - 1
        #expect(try connection.column("SELECT v FROM t") == [.int(min(most, max(-most, number)))])
    }

    @Test("A statement that failed is reset, and can be used again")
    func failed() throws {
        let file = try DatabaseFile()
        defer { withExtendedLifetime(file) {} }
        let connection = try file.opened()
        let insert = try connection.statement("INSERT INTO t VALUES (?, 'x')")
        let cases: [(Int64, SQLiteError.Cause?)] = [(1, nil), (1, .constraint), (2, nil)]
        for (number, cause) in cases {
            let error = failure { () throws(SQLiteError) in
                try insert.bind([.int(number)])
                _ = try insert.step()
                insert.reset()
            }
            #expect(error?.cause == cause)
        }
        #expect(try connection.column("SELECT k FROM t") == [.int(1), .int(2)])
    }

    @Test("A parameter too many is an error, after which the statement can be used")
    func tooMany() throws {
        let connection = try SQLiteConnection(.memory)
        #expect(failure { () throws(SQLiteError) in _ = try connection.column("SELECT ?", .int(1), .int(2)) }?.cause == .other)
        #expect(try connection.column("SELECT ?", .int(3)) == [.int(3)])
    }

    @Test("Rows begin anew after a reset, and bound values stay until they are forgotten")
    func reset() throws {
        let connection = try SQLiteConnection(.memory)
        let statement = try connection.prepare("SELECT value, ? FROM json_each('[1, 2, 3]')")
        defer { statement.finalize() }
        try statement.bind([.int(7)])
        for _ in 0..<2 {
            try #require(try statement.step())
            #expect(statement.int(0) == 1 && statement.int(1) == 7)
            // A statement with a row keeps them.
            statement.forgetValues()
            statement.reset()
        }
        statement.forgetValues()
        try #require(try statement.step())
        #expect(statement.isNull(1))
        statement.reset()
    }

    @Test("Statements are prepared once; of composed SQL a limited number is kept, and never one that runs is dropped")
    func kept() throws {
        let connection = try SQLiteConnection(.memory, textsMax: 2)
        let literal = try connection.statement("SELECT 0")
        let running = try connection.statement(of: "SELECT 1 UNION SELECT 2")
        try running.bind([])
        try #require(try running.step())
        for number in 3...6 { #expect(try connection.column("SELECT \(number)") == [.int(Int64(number))]) }
        try #require(try running.step())
        #expect(running.int(0) == 2)
        running.reset()
        #expect(connection.keptSQL.count <= 3)
        #expect(try connection.statement(of: "SELECT 1 UNION SELECT 2") === running)
        connection.forgetStatements()
        #expect(connection.keptSQL == [])
        #expect(try connection.statement("SELECT 0") !== literal)
    }
}
