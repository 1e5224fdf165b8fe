package import SyncCore
import SyncHTTP

/// Renews the token of this device before it expires, and warns an operator before it is too late.
package struct TokenRefresh: Sendable {
    package enum Event: Sendable {
        /// An answer of the hub names the life of the token in use.
        case answered(HubAnswer)
        /// An operator has forced a sync: a renewal that failed a moment ago is tried again, too.
        case forced
        /// The sync rests: no cycle is running and the last one succeeded, or it is paused.
        ///
        /// - Parameter mayAsk: The hub may be asked now.
        case rests(mayAsk: Bool)
        /// The renewal has ended.
        case refreshed(isGood: Bool)
    }

    package enum Effect: Hashable, Sendable {
        /// Ask the hub for the next token.
        case refresh
        /// The token expires soon and was not renewed so far.
        case warn(endsAt: Timestamp)
        case endWarning
    }

    /// Shortest time between two attempts to renew it after a failure.
    package static let pause: Duration = .seconds(3_600)

    /// Expiry of the token in use, by the hub's answer; `nil`: none, or not known.
    package private(set) var endsAt: Timestamp?
    /// Time from which on the next token may be requested.
    package private(set) var refreshAt: Timestamp?
    private var isRefreshing = false
    private var triedAt: Instant?

    /// Timer of the next check of the token's file.
    var wake: LoopTimer?

    package init() {}

    package mutating func handle(_ event: Event, at now: Moment) -> [Effect] {
        switch event {
        case .answered(let answer):
            if let headers = answer.headers, headers.epoch != nil {
                (endsAt, refreshAt) = (headers.tokenEndsAt, headers.tokenRefreshAt)
            }
            return []
        case .forced:
            triedAt = nil
            return []
        case .rests(let mayAsk):
            guard mayAsk, !isRefreshing, let refreshAt, refreshAt <= now.wall,
                triedAt.map({ $0.duration(to: now.instant) >= Self.pause }) ?? true
            else { return warning(at: now.wall) }
            isRefreshing = true
            triedAt = now.instant
            return [.refresh]
        case .refreshed(let isGood):
            isRefreshing = false
            // The new token is used with the next request, which ends the old one.
            if isGood { (endsAt, refreshAt, triedAt) = (nil, nil, nil) }
            return warning(at: now.wall)
        }
    }

    private func warning(at now: Timestamp) -> [Effect] {
        // While a renewal is running no warning is needed, however soon the token expires.
        if isRefreshing { return [] }
        let isDue = refreshAt.map { $0 <= now } ?? true
        guard isDue, let endsAt, now.duration(to: endsAt) < Doctor.endsSoon else { return [.endWarning] }
        return [.warn(endsAt: endsAt)]
    }
}
