/// Counts the members and elements that lookups, comparisons and folds visit, so that a test can compare cost with input size without a
/// clock. It counts each member that a search passes, each comparison of two values, and each element that an index is made of. Builds
/// without the `ABLATIONS` condition count nothing.
package enum JSONWork {
    #if ABLATIONS
        private final class Meter: @unchecked Sendable {
            // Unchecked: only the task that `visits(in:)` runs in counts.
            var visits = 0
        }

        @TaskLocal private static var meter: Meter?

        /// - Returns: Number of members and elements that `body` visited.
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
