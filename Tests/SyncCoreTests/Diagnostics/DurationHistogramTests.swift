import SyncCore
import Testing

@Suite("Durations by bound")
struct DurationHistogramTests {
    @Test("Each duration counts under every bound that it does not exceed, and the sum is that of all")
    func counts() {
        var histogram = DurationHistogram()
        for duration: Duration in [.microseconds(250), .microseconds(251), .seconds(30), .seconds(31), .seconds(-5)] {
            histogram.add(duration)
        }
        #expect(histogram.cumulative == [2, 3, 3, 3, 3, 3, 3, 3, 4])
        #expect(histogram.count == 5)
        #expect(histogram.sum == .seconds(61) + .microseconds(501))
        #expect(DurationHistogram.bounds == DurationHistogram.bounds.sorted())
    }
}
