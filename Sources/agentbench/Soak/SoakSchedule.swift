/// The events of a soak and their times, decided beforehand from a seed, so that a run can be repeated.
///
/// In the first half everything happens, including deaths of the agent. In the second half one process lives on, because growth can only be
/// measured there. Links, clock and bursts go on until the end; then all troubles end and the waiting changes must drain.
struct SoakSchedule {
    enum Event: Equatable {
        case linkDown, linkUp
        /// Seconds that are added to the true time.
        case clock(Int)
        /// All clocks of both sides advance by this number of days.
        case month(Int)
        case trouble(Trouble)
        /// The last trouble is over.
        case relief(Trouble)
        /// This number of changes at once, in addition to the steady ones.
        case burst(Int)
        case kill, restart
    }

    /// A temporary state of the path to the hub.
    enum Trouble: String, CaseIterable {
        /// 64 kbit/s with 100 ms each way.
        case slowLine = "slow_line"
        /// A NAT that forgets a connection after two seconds of silence.
        case forgetfulNAT = "forgetful_nat"
        /// The name has another address first, where no program answers.
        case deadAddress = "dead_address"
        /// A proxy that answers 404 to everything.
        case proxy404 = "proxy_404"
        /// A proxy that passes no body of more than 2 KB.
        case proxy413 = "proxy_413"
        /// A data budget of 200 KB a day.
        case smallBudget = "small_budget"
    }

    /// Events by seconds from the start, in order.
    let events: [(second: Int, event: Event)]
    let seconds: Int

    /// From here on one process lives, and growth is measured.
    var half: Int { seconds / 2 }

    init(seconds: Int, seed: UInt64) {
        self.seconds = seconds
        var random = SeededGenerator(state: seed)
        var events: [(Int, Event)] = []
        // A short run has all of it too, only closer together.
        func span(_ from: Int, _ to: Int) -> ClosedRange<Int> {
            let share = min(1, Double(seconds) / 120), first = max(1, Int(Double(from) * share))
            return first...max(first + 1, Int(Double(to) * share))
        }
        func every(_ span: ClosedRange<Int>, until end: Int, _ make: (Int, inout SeededGenerator) -> [(Int, Event)]) {
            var second = Int.random(in: 2...max(2, span.upperBound), using: &random)
            while second < end {
                events += make(second, &random)
                second += Int.random(in: span, using: &random)
            }
        }
        // Some quiet seconds at the end.
        let quiet = max(1, seconds - 4)
        every(span(20, 45), until: quiet) { second, random in
            [(second, .linkDown), (min(quiet, second + Int.random(in: span(4, 15), using: &random)), .linkUp)]
        }
        every(span(45, 90), until: quiet) { second, random in
            let jumps = [3_600, -3_600, 86_400, -86_400 * 3_650, 86_400 * 3_650]
            let jump = jumps[Int.random(in: 0..<jumps.count, using: &random)]
            return [(second, .clock(jump)), (min(quiet, second + Int.random(in: span(10, 30), using: &random)), .clock(0))]
        }
        // Troubles come one after the other, each for some time.
        var troubles = Trouble.allCases.shuffled(using: &random)
        every(span(25, 45), until: quiet) { second, random in
            let trouble = troubles.removeFirst()
            troubles.append(trouble)
            return [(second, .trouble(trouble)), (min(quiet, second + Int.random(in: span(10, 20), using: &random)), .relief(trouble))]
        }
        every(span(60, 120), until: quiet) { second, random in [(second, .month(Int.random(in: 20...40, using: &random)))] }
        every(span(10, 20), until: quiet) { second, random in [(second, .burst(Int.random(in: 200...2_000, using: &random)))] }
        every(span(20, 40), until: seconds / 2) { second, random in [(second, Bool.random(using: &random) ? .kill : .restart)] }
        self.events = events.enumerated().sorted { ($0.element.0, $0.offset) < ($1.element.0, $1.offset) }
            .map { (second: $0.element.0, event: $0.element.1) }
    }
}

/// SplitMix64: the same numbers for the same seed on every machine.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
