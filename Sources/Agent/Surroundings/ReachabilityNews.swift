package import SyncCore

/// The reachability of the hub as people are told it: since when, and why.
///
/// Both the probes (``Connectivity``) and the engine's requests find causes. While the hub is away, the probes know better.
package struct ReachabilityNews: Hashable, Sendable {
    /// Time of the last change; `nil` before the first.
    package private(set) var since: Timestamp?
    package private(set) var cause: String?
    /// The fault that the last attempt at the hub found; `nil` after a successful cycle.
    package private(set) var fault: HubFault?
    /// The findings of the probes, for the change of reachability that follows from them.
    private var foundCause: String?
    private var foundFault: HubFault?

    package init() {}

    package mutating func probesFound(_ cause: String, _ fault: HubFault?) {
        (foundCause, foundFault) = (cause, fault)
    }

    /// Records a change of reachability.
    ///
    /// - Parameters:
    ///   - cause: The cause that the engine knows; `fault` likewise.
    /// - Returns: The cause to tell.
    package mutating func changed(
        to reachability: Reachability, _ cause: String, _ fault: HubFault?, at now: Timestamp
    ) -> String {
        since = now
        let isOnline = reachability == .online
        self.fault = isOnline ? fault : foundFault ?? fault
        let told = isOnline ? cause : self.fault?.detail ?? foundCause ?? cause
        self.cause = told
        (foundCause, foundFault) = (nil, nil)
        return told
    }

    /// Records the present fault: people see that, and not the one that the outage began with.
    ///
    /// - Returns: `true` when it is another one.
    package mutating func failed(_ fault: HubFault) -> Bool {
        guard self.fault != fault else { return false }
        (self.fault, cause) = (fault, fault.detail)
        return true
    }

    /// Ends the fault, because a cycle has succeeded, or because the fault was that of another way to the hub.
    package mutating func endFault() {
        fault = nil
    }
}
