/// Orders for the next cycle, left by callers and by the cycle before.
struct NextCycle: Hashable, Sendable {
    private(set) var request: SyncRequest?
    /// The cycle that failed last was requested, so the next one counts as requested.
    private var owesRequest = false
    /// The last cycle had to end between its pull and its push.
    private(set) var pushesFirst = false

    /// An operator or an app requested it, or requested the one before, which failed.
    var isRequested: Bool { request != nil || owesRequest }

    /// Adds a request. Requests that come before the cycle begins are served by the same one.
    mutating func add(_ wanted: SyncRequest) {
        guard let old = request else { return request = wanted }
        let scope: SyncRequest.Scope =
            old.scope == wanted.scope ? old.scope : (old.scope == .full || wanted.scope == .full ? .full : .all)
        request = SyncRequest(scope: scope, isForced: old.isForced || wanted.isForced)
    }

    /// A request gives one more attempt, not one after each failure of a long outage.
    mutating func cycleFailed(isAskedFor: Bool) {
        owesRequest = isAskedFor
    }

    mutating func cycleBegan() {
        (request, owesRequest) = (nil, false)
    }

    mutating func pushFirst() {
        pushesFirst = true
    }

    mutating func hasPushedFirst() {
        pushesFirst = false
    }
}
