/// State of the configuration in force, for the status and the doctor.
package struct ConfigurationState: Hashable, Sendable {
    /// Number of the configurations that were in force since the start.
    package private(set) var version: Int64 = 1
    /// The first fault of the configuration that was refused last; `nil` when the last one was accepted.
    package private(set) var error: String?
    /// The files were not accepted at the start, and the last good copy is in force.
    package private(set) var isLastGood = false
    /// Keys whose values take effect after a restart.
    package private(set) var restartNeeded: [String] = []

    package init() {}

    package mutating func startedFromLastGood(_ error: String) {
        isLastGood = true
        self.error = error
    }

    /// Records that a configuration was refused; the one before stays in force.
    package mutating func refused(_ error: String?) {
        self.error = error
    }

    /// Records that the files were accepted.
    ///
    /// - Returns: `true` when that ends the time of the last good copy.
    package mutating func accepted(needsRestart: [String]) -> Bool {
        error = nil
        restartNeeded = needsRestart
        guard isLastGood, needsRestart.isEmpty else { return false }
        isLastGood = false
        return true
    }

    /// Records that settings of the hub were accepted.
    package mutating func acceptedOffer() {
        error = nil
        version += 1
    }

    /// Records that other values are in force now.
    package mutating func changed() {
        version += 1
    }
}
