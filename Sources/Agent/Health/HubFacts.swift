package import SyncCore

/// Facts about the hub, by its answers since the start, for the doctor.
package struct HubFacts: Hashable, Sendable {
    package private(set) var certificateEndsAt: Timestamp?
    /// The common version of the protocol; `nil`: not known, or there is none.
    package private(set) var syncVersion: Int?
    /// The versions of a hub that has none in common with this agent.
    package private(set) var foreignVersions: [Int] = []
    /// The last lookup of the hub's name found an address; `nil` before the first lookup.
    package private(set) var isResolved: Bool?
    private var answeredAt: Instant?

    package init() {}

    package mutating func handle(_ answer: HubAnswer) {
        guard case .success(let response) = answer.result else { return }
        answered(at: answer.at.instant, certificateEndsAt: response.certificateEndsAt)
        guard let headers = answer.headers, let version = headers.version else { return }
        let supported = headers.supportedVersions
        let isCommon = supported.isEmpty || !HubHeader.supportedVersions.filter(supported.contains).isEmpty
        foreignVersions = isCommon ? [] : supported
        syncVersion = isCommon ? version : nil
    }

    /// Records an answer of the hub, or of an existing backend.
    package mutating func answered(at now: Instant, certificateEndsAt ends: Timestamp?) {
        answeredAt = now
        if let ends { certificateEndsAt = ends }
    }

    package mutating func lookedUp(found: Bool) {
        isResolved = found
    }

    /// - Returns: `true` when the last answer is not older than `age`.
    package func isFresh(_ age: Duration, at now: Instant) -> Bool {
        answeredAt.map { $0.duration(to: now) < age } ?? false
    }
}
