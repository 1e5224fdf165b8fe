package import SyncCore
import SyncHTTP

/// The trial of connection settings, until the hub has answered over them (``ConfigurationTrial``): what is asked, stored and announced.
package struct ConfigurationTrials: Sendable {
    package enum Event: Sendable {
        /// Settings were just put into force.
        ///
        /// - Parameter isAsked: A reload requested it; at a start, no person may be there to see what happens.
        case configured(ConfigurationTrial.Name, isAsked: Bool)
        /// It is time to look at the trial.
        ///
        /// - Parameters:
        ///   - counts: The time since the last look counts.
        ///   - mayAsk: The hub may be asked.
        case look(counts: Bool, mayAsk: Bool)
        /// The request of the trial has ended.
        case asked
        /// An answer of the hub, which proves the settings that it came over, if those are still in force.
        case answered(HubAnswer)
        /// The server has answered over these settings.
        case reached(ConfigurationTrial.Name?)
    }

    /// The reason why proven settings are put back.
    package enum Failure: Hashable, Sendable {
        /// The settings were refused before.
        case refusedBefore
        /// The hub was not reached within the window.
        case notReached
    }

    package enum Effect: Hashable, Sendable {
        /// Store ``record``.
        case keepRecord
        /// Store the settings in force as the proven ones.
        case keepProven
        /// End the alarm about reverted settings.
        case endAlarm
        /// Find the keys on trial (``began(_:)``).
        case compare
        /// Put the proven settings into force (``putBack(_:to:)``).
        case putBack(Failure)
        /// Tell that these keys are proven.
        case announceProven([String])
        /// Send the hub the smallest authenticated request; ``Event/asked`` ends it.
        case ask
        /// Look at the trial now, or at the next interval.
        case lookNow
        case lookLater
        case stopLooking
    }

    package static let lookInterval: Duration = .seconds(20)

    /// Time without an answer after which proven settings are put back.
    private let window: Duration
    private var trial = ConfigurationTrial()
    /// The record of an earlier run was read.
    package private(set) var isRestored = false
    /// Name of the settings in force; `nil` as long as trials are not stored.
    package private(set) var way: ConfigurationTrial.Name?
    /// Keys on trial.
    package private(set) var keys: [String] = []
    /// Keys of the files that are not in force.
    package private(set) var reverted: [String] = []
    private var isAsking = false

    /// Timer of the next look.
    var wake: LoopTimer?

    package init(window: Duration) {
        self.window = window
    }

    package var isOnTrial: Bool { trial.isOnTrial }

    /// The record to store.
    package var record: JSON { trial.record }

    /// Goes on with the stored record of an earlier run.
    package mutating func restore(_ record: JSON?) {
        trial = ConfigurationTrial(record: record)
        isRestored = true
    }

    /// Records the settings that a request uses, before they are considered.
    package mutating func use(_ way: ConfigurationTrial.Name) {
        self.way = way
    }

    package mutating func handle(_ event: Event, at now: Instant) -> [Effect] {
        switch event {
        case .configured(let way, let isAsked): return configured(way, isAsked: isAsked)
        case .look(let counts, let mayAsk): return look(counts: counts, mayAsk: mayAsk, at: now)
        case .asked:
            isAsking = false
            return []
        case .answered(let answer):
            guard case .success(let response) = answer.result, (200...299).contains(response.status) || response.status == 304,
                // The hub names its history only to devices that it knows.
                answer.headers?.epoch != nil
            else { return [] }
            return reached(answer.way)
        case .reached(let way): return reached(way)
        }
    }

    private mutating func configured(_ way: ConfigurationTrial.Name, isAsked: Bool) -> [Effect] {
        self.way = way
        keys = []
        var effects: [Effect]
        switch trial.consider(way, isAsked: isAsked) {
        case .settled:
            reverted = []
            effects = [.endAlarm, .keepRecord]
        case .onTrial:
            reverted = []
            effects = [.endAlarm, .compare, .keepRecord]
        case .useProven: effects = [.putBack(.refusedBefore), .keepRecord]
        }
        if trial.isOnTrial { effects.append(.lookNow) }
        return effects
    }

    private mutating func look(counts: Bool, mayAsk: Bool, at now: Instant) -> [Effect] {
        guard trial.isOnTrial else { return [] }
        switch trial.tick(counts: counts, now: now, window: window) {
        case .revert: return [.putBack(.notReached), .keepRecord]
        case .wait:
            guard mayAsk, !isAsking else { return [.keepRecord, .lookLater] }
            isAsking = true
            return [.keepRecord, .ask, .lookLater]
        }
    }

    private mutating func reached(_ way: ConfigurationTrial.Name?) -> [Effect] {
        guard trial.trying != nil, way == self.way, trial.reached() else { return [] }
        defer { keys = [] }
        // First the configuration, then the record that it is proven: a crash between them repeats the trial.
        return [.stopLooking, .keepProven, .keepRecord] + (keys.isEmpty ? [] : [.announceProven(keys)])
    }

    /// Records the keys on trial.
    package mutating func began(_ keys: [String]) {
        self.keys = keys
    }

    /// Records that the proven settings are in force again.
    ///
    /// - Parameter keys: The keys whose values in the files are not in force.
    package mutating func putBack(_ keys: [String], to way: ConfigurationTrial.Name) {
        self.keys = []
        reverted = keys
        self.way = way
    }

    /// One sentence for the status; `nil` when no settings are on trial.
    package var sentence: String? {
        guard trial.isOnTrial else { return nil }
        let left = max(.zero, window - trial.spent)
        let keys = keys.isEmpty ? "the way to the hub" : keys.joined(separator: ", ")
        return "\(keys) on trial: taken back if the hub is not reached within \((left.components.seconds + 59) / 60) min"
    }

    /// The reason in the words of the alarm.
    package func words(for failure: Failure) -> String {
        switch failure {
        case .refusedBefore: "they did not reach the hub before"
        case .notReached: "the hub was not reached with them within \(window.components.seconds / 60) min"
        }
    }
}
