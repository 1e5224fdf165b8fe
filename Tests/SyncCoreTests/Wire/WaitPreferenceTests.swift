import SyncCore
import Testing

@Suite("The preference to wait")
struct WaitPreferenceTests {
    @Test(
        "Seconds are read from a list of preferences, and more than the longest wait are that wait",
        arguments: [
            ("wait=1", 1), ("wait=55", 55), ("wait=56", 55), ("wait=99999999999999999999", 55), ("Wait = 30", 30), ("wait=\"20\"", 20),
            ("respond-async, wait=10", 10), ("wait=10;foo=bar, return=minimal", 10), ("note=\"a, wait=3\", wait=4", 4),
            ("note=\"\\\", wait=3\", wait=4", 4), ("wait=7, wait=9", 7), ("wait=007", 7), (",, wait=8 ,", 8),
        ])
    func read(_ text: String, _ seconds: Int) {
        #expect(WaitPreference.seconds(in: text) == seconds)
    }

    @Test(
        "A value that is no number of seconds above zero is ignored, like every other preference",
        arguments: [
            "", "wait", "wait=", "wait=0", "wait=-1", "wait=1.5", "wait=1s", "wait=\"\"", "wait=\"5", "await=5", "wait-for=5",
            "foo; wait=5", "wait=x, wait=5", "=5", "\u{0}", "\"wait=5\"", "wait=٥",
        ])
    func ignored(_ text: String) {
        #expect(WaitPreference.seconds(in: text) == nil)
    }

    @Test("Both sides write the same text, and read it")
    func written() {
        #expect(WaitPreference.text(55) == "wait=55")
        #expect(WaitPreference.seconds(in: WaitPreference.text(13)) == 13)
    }
}
