import Logging
import NIOCore
import SyncCore
import SyncHTTP

// Renews the token before it expires, and warns an operator before it is too late.
extension Agent {
    /// Shortest time between two attempts to renew it after a failure.
    private static let refreshPause: Duration = .seconds(3_600)

    /// Renews the token during a pause, because there are no cycles then, and a pause may be longer than the token's life.
    ///
    /// - Returns: Time of the next check.
    func refreshTokenInPause(_ now: Moment) -> Timestamp? {
        guard engine.memory.pause != nil, let refreshAt = observed.tokenRefreshAt else { return nil }
        guard refreshAt <= now.wall else { return refreshAt }
        refreshTokenIfDue()
        return now.wall.advanced(by: Self.refreshPause)
    }

    /// Uses a new token at once, if the hub refuses this device and another token is in place now.
    func showNewToken() {
        if engine.reachability == .auth, hub.hasNewToken() { handle(.credentialsChanged) }
    }

    /// Watches the token's file while the hub refuses this device, so that a new token is used within seconds.
    func watchToken() {
        guard engine.reachability == .auth, around.tokenWake == nil, !hasStopped else { return }
        around.tokenWake = schedule(after: environment.tokenLooks) { agent in
            agent.around.tokenWake = nil
            agent.showNewToken()
            agent.watchToken()
        }
    }

    /// - Precondition: No cycle is running and the last one succeeded, or the sync is paused.
    func refreshTokenIfDue() {
        let now = environment.time.now()
        defer { warnOfTokenEnd(now.wall) }
        warnOfOtherToken()
        guard let refreshAt = observed.tokenRefreshAt, refreshAt <= now.wall, !observed.refreshesToken, !hasStopped,
            observed.refreshTriedAt.map({ $0.duration(to: now.instant) >= Self.refreshPause }) ?? true,
            mayRefresh(now.wall)
        else { return }
        observed.refreshesToken = true
        observed.refreshTriedAt = now.instant
        let (hub, replica, uplink) = (hub, engine.replica, around.connectivity.uplink)
        Task(executorPreference: executor) { [weak self] in
            let result = await hub.refreshToken(replica: replica, over: uplink)
            await self?.refreshed(result, over: uplink)
        }
    }

    /// Returns whether a renewal is allowed, with the rules of critical work. A pause does not prevent it, because without a token there is
    /// no work after it.
    private func mayRefresh(_ now: Timestamp) -> Bool {
        var situation = engine.situation
        situation.pause = nil
        return Policy.decide(.critical, in: situation, now: now) == .allow
    }

    private func refreshed(_ result: Result<HTTPResponse, TransportError>, over uplink: Uplink?) {
        observed.refreshesToken = false
        observe(HubAnswer(.token, result, over: uplink, at: environment.time.now()))
        switch result {
        case .success(let response) where response.status == 200:
            // The new token is used with the next request, which ends the old one.
            (observed.tokenEndsAt, observed.tokenRefreshAt, observed.refreshTriedAt) = (nil, nil, nil)
            log.notice("the token was refreshed")
        case .success(let response): log.warning("the token was not refreshed", metadata: ["status": "\(response.status)"])
        case .failure(let error): log.warning("the token was not refreshed", metadata: ["error": "\(error)"])
        }
        warnOfTokenEnd(environment.time.now().wall)
    }

    private func warnOfOtherToken() {
        let code = "token_refused"
        guard hub.showsOtherToken else {
            alarms.end(code)
            return
        }
        guard alarms[code] == nil else { return }
        raise(code, "the hub refuses the token that should be shown; the last one that it took is shown instead")
    }

    private func warnOfTokenEnd(_ now: Timestamp) {
        let code = "token_ends"
        // A renewal is running, so no warning is needed, however soon the token expires.
        guard !observed.refreshesToken else { return }
        let isDue = observed.tokenRefreshAt.map { $0 <= now } ?? true
        guard isDue, let ends = observed.tokenEndsAt, now.duration(to: ends) < Doctor.endsSoon else {
            alarms.end(code)
            return
        }
        guard alarms[code] == nil else { return }
        raise(code, "the token of this device ends at \(ends), and it was not refreshed so far")
    }
}
