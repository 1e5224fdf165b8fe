import Agent
import Testing

@Suite("Attempts to use the rules of the configuration")
struct RulesAttemptsTests {
    /// The agent's way with attempts: each failure plans another one, which begins if it is still the newest.
    private struct Loop {
        var attempts = RulesAttempts()
        var planned: [Int] = []
        var begun = 0

        mutating func begin() -> Int {
            begun += 1
            return attempts.begin()
        }

        mutating func fail(_ attempt: Int) {
            if attempts.isNewest(attempt) { planned.append(attempt) }
        }

        /// All planned attempts are due, and fail again.
        mutating func pass() {
            let due = planned
            planned = []
            for attempt in due where attempts.isNewest(attempt) { fail(begin()) }
        }
    }

    // Fault: each reload during a failure left one more loop, until the first success.
    @Test("Reloads while attempts fail leave one loop", arguments: [1, 2, 10])
    func oneLoop(reloads: Int) {
        var loop = Loop()
        // Some reloads come while the attempt before them is under way, others while one is planned.
        var running: [Int] = []
        for number in 0..<reloads {
            running.append(loop.begin())
            if number % 2 == 1 { for attempt in running { loop.fail(attempt) } }
            if number % 2 == 1 { running = [] }
        }
        for attempt in running { loop.fail(attempt) }
        let before = loop.begun
        for _ in 0..<5 { loop.pass() }
        #expect(loop.begun == before + 5)
    }

    @Test("The result of an attempt counts only while it is the newest")
    func newest() {
        var attempts = RulesAttempts()
        let first = attempts.begin()
        #expect(attempts.isNewest(first))
        let second = attempts.begin()
        #expect(!attempts.isNewest(first) && attempts.isNewest(second))
    }
}
