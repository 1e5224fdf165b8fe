/// Reads both clocks. The shell uses the system's clocks, the simulation its own.
package protocol TimeSource: Sendable {
    func now() -> Moment
}

/// Compresses request bodies and decompresses gzip; the core has no zlib of its own.
package protocol Compressor: Sendable {
    /// gzip at level 6, or `nil` when that fails or does not shrink the input.
    func gzip(_ bytes: [UInt8]) -> [UInt8]?
    /// - Returns: `nil` when the input is not complete, valid gzip or would exceed a limit.
    func gunzip(_ bytes: [UInt8], maxBytes: Int, maxRatio: Int) -> [UInt8]?
}

/// A small seeded generator (SplitMix64) for jitter, identifiers, and every choice of the simulation.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    package private(set) var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    /// Uniform in `0..<1`.
    package mutating func fraction() -> Double {
        Double(next() >> 11) / 9_007_199_254_740_992
    }

    /// Uniform in `low...high`, to the nanosecond.
    package mutating func duration(from low: Duration, to high: Duration) -> Duration {
        guard high > low else { return low }
        // 2^63 - 1 becomes 2^63 as a floating-point number, which an integer cannot hold.
        return low + .nanoseconds(Int64(min(Double((high - low).nanoseconds) * fraction(), 9e18)))
    }
}
