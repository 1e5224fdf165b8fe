import NIOCore
import SyncCore

// The daily work, in slices between the turns of requests.
extension HubWorker {
    /// With ``Hub/shrinkPages``: at most 400 MB a day.
    private static let shrinkSlicesMax = 100

    /// Begins a run, unless the one before still goes on.
    func housekeep() {
        guard sliceOfHouse == nil else { return }
        // The hub reports a failure, and the next day tries again.
        guard let run = try? hub.beginHousekeeping(at: environment.time.now().wall) else { return }
        housekeep(run, HousekeepingPace(began: environment.time.now().instant))
    }

    /// Removes slice by slice: requests that came meanwhile go first.
    private func housekeep(_ run: HousekeepingRun, _ pace: HousekeepingPace) {
        sliceOfHouse = nil
        var run = run
        let start = NIODeadline.now()
        // The hub reports a failure; what is left goes with the next day's run.
        let isDone = (try? hub.housekeep(&run)) == nil || run.isOver
        let elapsed = Duration.nanoseconds((NIODeadline.now() - start).nanoseconds)
        hub.transactionTimes.add(elapsed)
        guard !isDone, let pause = pace.pause(after: elapsed, at: environment.time.now().instant) else {
            return shrink(slices: HubWorker.shrinkSlicesMax)
        }
        sliceOfHouse = loop.scheduleTask(in: .nanoseconds(pause.nanoseconds)) { [run] in self.housekeep(run, pace) }
    }

    /// Works slice by slice, so that no request waits for all of it.
    private func shrink(slices: Int) {
        // The hub reports a failure; the next day tries a slice again.
        guard slices > 0, let isDone = try? hub.shrink(), !isDone else { return }
        loop.execute { self.shrink(slices: slices - 1) }
    }
}
