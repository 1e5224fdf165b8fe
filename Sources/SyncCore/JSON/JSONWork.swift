/// Counts the members and elements that lookups, comparisons and folds visit, so that a test can hold cost to its input without
/// a clock: each member that a search passes, each comparison of two values, each element that an index is made of. Builds without the `ABLATIONS` condition count nothing.
package enum JSONWork {
    #if ABLATIONS
        private final class Meter: @unchecked Sendable {
            // Unchecked: one task counts, the one that `visits(in:)` runs in.
            var visits = 0
        }

        @TaskLocal private static var meter: Meter?

        /// - Returns: How many members and elements `body` visited.
        package static func visits(in body: () throws -> Void) rethrows -> Int {
            let meter = Meter()
            try $meter.withValue(meter) { try body() }
            return meter.visits
        }

        static func count(_ visits: Int) {
            meter?.visits += visits
        }
    #else
        @inline(__always)
        static func count(_ visits: Int) {}
    #endif
}
