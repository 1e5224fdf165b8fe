/// The reason why a file has not begun that neither the policy nor a failure holds back.
package enum FileTurn: Hashable, Sendable {
    /// The hub was found a moment ago. Files begin at this time, which each device draws for itself (``FilePace/spread``).
    case spread(until: Timestamp)
    /// A cycle is running, and no piece is begun meanwhile.
    case afterCycle
    /// Other files go first.
    case behindOthers
    case next

    package var until: Timestamp? {
        if case .spread(let until) = self { until } else { nil }
    }

    /// One sentence, such as "nothing holds it back: it is sent next".
    ///
    /// - Parameter moved: `sent` or `fetched`.
    package func sentence(_ moved: String) -> String {
        let rest =
            switch self {
            case .spread: "\(moved) soon, because a device begins with its files a little after it has found the hub"
            case .afterCycle: "\(moved) after the sync that is running"
            case .behindOthers: "\(moved) after the files before it"
            case .next: "\(moved) next"
            }
        return "nothing holds it back: it is \(rest)"
    }
}

extension FileScheduler {
    /// - Precondition: Neither ``explanation(of:_:now:)`` nor ``hold(of:at:)`` has a reason.
    func turn(of id: BlobID, _ terms: FileTerms, at moment: Moment) -> FileTurn {
        if let spreadUntil, spreadUntil > moment.instant {
            return .spread(until: moment.wall.advanced(by: moment.instant.duration(to: spreadUntil)))
        }
        if terms.isBusy { return .afterCycle }
        // A file that is tried again later lets others pass. A running one keeps its place, whatever came before it since.
        let before = files[id] == nil ? order[...] : order.prefix { $0 != id }
        let isBehind = before.contains { files[$0]?.notBefore.map { $0 <= moment.instant } ?? true }
        return isBehind || calls.count >= limit ? .behindOthers : .next
    }
}
