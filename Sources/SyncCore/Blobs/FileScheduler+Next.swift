/// The choice of the next requests.
extension FileScheduler {
    /// The next request of a file: its machine is asked with the size of a piece, bytes. `bytes` is the size of what will be moved.
    typealias Ask = (inout File, _ chunk: Int) -> (request: Machine.Request, bytes: Int)

    /// Number of files that are moved at the same time on this link.
    var limit: Int { isMetered || sizer.isSlow ? 1 : pace.concurrent }

    /// Begins all requests that may go now.
    ///
    /// - Parameter wake: Time of the next step that needs no link.
    /// - Returns: `wake`: Time of the next choice, if the timer has to be set.
    mutating func proceed(_ moment: Moment, orAt wake: Instant? = nil, _ ask: Ask) -> (starts: [Start], wake: Instant?) {
        guard let terms, hasLoaded else { return ([], nil) }
        var (starts, wake) = ([Start](), wake)
        func wakeBy(_ instant: Instant) { wake = min(wake ?? instant, instant) }
        if terms.situation.reachability == .online, !terms.isBusy {
            if let held = [heldUntil, spreadUntil].compactMap({ $0 }).filter({ $0 > moment.instant }).max() {
                if order.contains(where: { files[$0]?.call == nil }) { wakeBy(held) }
            } else {
                for id in order {
                    guard calls.count < limit else { break }
                    guard let file = files[id], file.call == nil, file.machine.needsLink else { continue }
                    if let notBefore = file.notBefore, notBefore > moment.instant {
                        wakeBy(notBefore)
                        continue
                    }
                    switch begin(file, terms, moment, ask) {
                    case .now(let start): starts.append(start)
                    case .later(let later): if let later { wakeBy(later) }
                    }
                }
            }
        }
        // A wake-up that is overdue by this clock may be late: timers stand still while the machine sleeps.
        guard let at = wake, armed.map({ at < $0 || $0 <= moment.instant }) ?? true else { return (starts, nil) }
        armed = at
        return (starts, at)
    }

    private enum Turn {
        case now(Start)
        /// Time of the next check, if it is known.
        case later(Instant?)
    }

    private mutating func begin(_ file: File, _ terms: FileTerms, _ moment: Moment, _ ask: Ask) -> Turn {
        var (file, situation) = (file, terms.situation)
        situation.isForced = file.isForced
        let traffic = file.job.traffic(large: pace.large)
        // Bytes of running pieces are not counted in the budget yet.
        let underWay = self.underWay + terms.elsewhere
        var chunk = sizer.bytes
        if let most = Policy.largestRequest(traffic, in: situation) {
            // The rest of a budget is used, down to a piece that is still worth its request.
            let left = most - underWay - FilePace.overhead
            if left < chunk { chunk = max(ChunkSizer.smallest, left) }
        }
        let (request, bytes) = ask(&file, chunk)
        let cost = bytes + FilePace.overhead
        let verdict = Policy.decide(
            traffic, in: situation, now: moment.wall, bytes: cost + underWay, since: file.job.waitingSince)
        if case .defer(let why) = verdict {
            return .later(why.until.map { moment.instant.advanced(by: moment.wall.duration(to: $0)) })
        }
        if file.isRetry, let wait = budget.take(now: moment.instant) { return .later(moment.instant.advanced(by: wait)) }
        budget.sent()
        let isFirst = !file.hasBegun
        file.hasBegun = true
        let call = start(file, request, cost: cost)
        return .now(
            Start(
                call: call, file: file, request: request, bytes: bytes, isFirst: isFirst,
                bytesPerSecond: situation.uplink?.bytesPerSecond))
    }
}
