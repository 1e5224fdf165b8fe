import Agent
import SyncCore
import Testing

@Suite("The sources of the time")
struct ClockWatchTests {
    private func anchor(_ difference: Int64) -> ClockAnchor { ClockAnchor(difference: difference, error: .milliseconds(10)) }

    @Test("Only a change of the kernel's finding is told, and none after the hub's first answer")
    func kernel() {
        var clock = ClockWatch()
        let found = [false, false, true].map { clock.kernelFound(isSynchronised: $0) }
        #expect(found == [true, false, true] && clock.needsKernel)
        let first = clock.handle(anchor(5_000))
        let late = clock.kernelFound(isSynchronised: false)
        #expect(first == .anchor(anchor(5_000)) && !late && !clock.needsKernel)
    }

    @Test("An anchor is told when it moves by half a second, and again when the store did not get it")
    func anchors() {
        var clock = ClockWatch()
        let told = [5_000, 5_499, 5_500, 5_500].map { clock.handle(anchor($0)) != nil }
        #expect(told == [true, false, true, false])
        clock.forget()
        let again = clock.handle(anchor(5_500))
        #expect(again == .anchor(anchor(5_500)))
    }

    @Test("When the engine gives its anchor up, the kernel is asked again, once")
    func lost() {
        var clock = ClockWatch()
        _ = clock.kernelFound(isSynchronised: true)
        _ = clock.handle(anchor(5_000))
        let news = [clock.handle(nil), clock.handle(nil)]
        let asked = clock.kernelFound(isSynchronised: true)
        #expect(news == [.lost, nil] && asked)
    }
}
