/// Callers that wait for the end of a cycle.
package struct CycleWaiters<Caller> {
    private struct Waiter {
        /// The session of the cycle that serves the request; `nil` until it has begun.
        var session: String?
        var number: UInt64
        var caller: Caller
    }

    private var waiters: [Waiter] = []
    private var lastNumber: UInt64 = 0

    package init() {}

    /// - Returns: The number of the next caller, for ``add(_:_:)`` and ``leave(_:)``.
    package mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    package mutating func add(_ number: UInt64, _ caller: Caller) {
        waiters.append(Waiter(session: nil, number: number, caller: caller))
    }

    /// Records that a cycle has begun, which serves all callers before it.
    package mutating func began(_ session: String) {
        for index in waiters.indices where waiters[index].session == nil { waiters[index].session = session }
    }

    /// Records that the next cycle goes on with the work of this one: its callers wait for that.
    package mutating func goOn(after session: String) {
        for index in waiters.indices where waiters[index].session == session { waiters[index].session = nil }
    }

    /// - Returns: A caller whose time is up, with the session of its cycle; `nil` when it has its answer.
    package mutating func leave(_ number: UInt64) -> (session: String?, caller: Caller)? {
        guard let index = waiters.firstIndex(where: { $0.number == number }) else { return nil }
        let waiter = waiters.remove(at: index)
        return (waiter.session, waiter.caller)
    }

    /// - Returns: The callers that the ended cycle has served; they no longer wait.
    package mutating func ended(_ session: String) -> [Caller] { remove(session) }

    /// Callers wait for a cycle that has not begun.
    package var hasCallersWithoutCycle: Bool { waiters.contains { $0.session == nil } }

    /// - Returns: The callers for which no cycle has begun; they no longer wait.
    package mutating func leaveWithoutCycle() -> [Caller] { remove(nil) }

    private mutating func remove(_ session: String?) -> [Caller] {
        defer { waiters.removeAll { $0.session == session } }
        return waiters.filter { $0.session == session }.map(\.caller)
    }
}
