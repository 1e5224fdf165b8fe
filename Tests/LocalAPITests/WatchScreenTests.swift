import LocalAPI
import SyncCore
import Testing

@Suite("The full screen of the status") struct WatchScreenTests {
    private static let now = Timestamp(milliseconds: 1_795_216_800_000)

    private static func history(_ counts: [Int64]) -> WatchHistory {
        var history = WatchHistory()
        history.seed(
            LedgerAnswer(
                by: .day,
                items: [
                    .init(link: "wwan0", period: "2026-11-12", purpose: "push", up: 3_000_000, down: 100_000, requests: 3),
                    .init(link: "eth0", period: "2026-11-12", purpose: "pull", up: 0, down: 900_000, requests: 1),
                    .init(link: "eth0", period: "2001-01-01", purpose: "pull", up: 0, down: 1 << 60, requests: 1),
                ]), at: now)
        for (index, count) in counts.enumerated() {
            var document = StatusSamples.offline
            document.outbox.counts = [.pending: count]
            history.see(document, at: now.advanced(by: .seconds(2 * (Int64(index) - Int64(counts.count) + 1))))
        }
        return history
    }

    @Test("It fills the screen exactly, whatever its size", arguments: [(80, 24), (40, 10), (200, 60), (20, 3), (1, 1), (80, 12)])
    func fills(width: Int, height: Int) {
        for sample in StatusSamples.all {
            let lines = WatchScreen(width: width, height: height, color: false)
                .render(sample.document, Self.history([1, 2, 3]), now: Self.now)
            #expect(lines.count == height)
            for line in lines { #expect(PlainText.columns(line) <= width, "\(line)") }
        }
    }

    @Test("On 80 x 24 the status stands above, the graphs and the keys below")
    func picture() {
        let lines = WatchScreen(width: 80, height: 24, color: false, hasBlocks: false)
            .render(StatusSamples.offline, Self.history([0, 4, 8, 16]), now: Self.now)
        #expect(lines[0].hasPrefix("agentd "))
        #expect(lines[21].hasPrefix("QUEUE "))
        #expect(lines[21].contains(":=@  16 open, most 16 in 6 s"), "\(lines[21])")
        #expect(lines[22].hasPrefix("DATA "))
        // Two days before it and 8 after it nothing went; the day with 4 MB is the highest.
        #expect(lines[22].contains("@@"), "\(lines[22])")
        #expect(lines[22].contains("most 4.0 MB in 14 d"), "\(lines[22])")
        #expect(lines[23].hasPrefix("q quits"))
        #expect(lines[23].hasSuffix("Z"))
    }

    @Test("Without an answer the last picture stays, and the last line says why")
    func trouble() {
        let screen = WatchScreen(width: 80, height: 24, color: false)
        let lines = screen.render(StatusSamples.offline, Self.history([1]), now: Self.now, trouble: "the agent does not answer\u{1B}[2J")
        #expect(lines[0].hasPrefix("agentd "))
        #expect(lines[23].hasPrefix("the agent does not answer?[2J; trying again"))
        let empty = screen.render(nil, WatchHistory(), now: Self.now, trouble: "no agent")
        #expect(empty[0] == "waiting for the agent")
        #expect(empty.count == 24)
    }

    @Test("Without colour there is no escape sequence at all")
    func plain() {
        let lines = WatchScreen(width: 80, height: 40, color: false).render(StatusSamples.offline, Self.history([1, 2]), now: Self.now)
        #expect(!lines.joined().contains("\u{1B}"))
    }

    @Test(
        "The highest bar fills the height, the smallest number that is not 0 shows, and 0 does not",
        arguments: [
            ([0, 1, 1_000_000], 1, ["  .@"]), ([5, 5, 5, 5, 5], 1, ["@@@@"]), ([0, 0], 1, ["    "]), ([], 1, ["    "]),
            ([8, 16], 2, ["   @", "  @@"]), ([Int64.max, Int64.max / 2], 1, ["  @="]),
        ])
    func sparkline(values: [Int64], rows: Int, expected: [String]) {
        #expect(Sparkline(hasBlocks: false).rows(values, columns: 4, rows: rows) == expected)
    }

    @Test("The day is extended, a new day pushes the oldest out, and samples are bounded")
    func days() {
        var history = Self.history([])
        var document = StatusSamples.offline
        document.usage = .init(up: 10, down: 5)
        history.see(document, at: Self.now)
        #expect(history.days.last == .init(name: "2026-11-20", bytes: 15))
        history.see(document, at: Self.now.advanced(by: .seconds(86_400)))
        #expect(history.days.count == 14)
        #expect(history.days.last?.name == "2026-11-21")
        for second in 0..<1_000 { history.see(document, at: Self.now.advanced(by: .seconds(86_400 + Int64(second)))) }
        #expect(history.samples.count == WatchHistory.samplesMax)
    }

    @Test("The graph begins with the hours that the agent has kept, and ends with what is seen now")
    func keptHours() throws {
        var status = StatusSamples.all[0].document
        let now = StatusSamples.now
        status.outbox.history = .init(step: .seconds(300), until: now.advanced(by: .seconds(-60)), open: [0, 40, 80, 20])
        let read = try #require(StatusDocument(JSONReader.read(status.answer.body)))
        #expect(read.outbox.history == status.outbox.history)
        var history = WatchHistory()
        for second in [0, 2] { history.see(read, at: now.advanced(by: .seconds(second))) }
        #expect(history.samples.map(\.open) == [0, 40, 80, 20, status.outbox.open])
        #expect(history.samples.first?.at == now.advanced(by: .seconds(-960)))
        let screen = WatchScreen(width: 80, height: 24, color: false).render(status, history, now: now.advanced(by: .seconds(2)))
        #expect(screen.contains { $0.hasPrefix("QUEUE ") && $0.contains("most 80 in 16 min") }, "\(screen)")
    }
}
