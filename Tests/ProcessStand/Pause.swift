/// The pause of a test between two questions of a wait. Without it a wait for a link or a deadline takes a whole processor from the
/// programs that it waits for, and from the tests beside it. It decides nothing: the answer does.
package enum Pause {
    /// For a question that is a request or a look at a file.
    package static func short() async { await wait(.milliseconds(5)) }

    /// For such a question about links, timers and transfers, which take seconds.
    package static func long() async { await wait(.milliseconds(20)) }

    /// For a question that starts a program, which takes a processor 20 ms.
    package static func untilNextProgram() async { await wait(.milliseconds(100)) }

    private static func wait(_ duration: Duration) async {
        // A task that is cancelled asks at once, and learns it from the answer.
        try? await Task.sleep(for: duration)
    }
}
