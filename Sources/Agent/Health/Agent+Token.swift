import LocalAPI
import Logging
import SyncCore
import SyncHTTP

// Renews the token before it expires, and warns an operator before it is too late.
extension Agent {
    /// Renews the token during a pause, because there are no cycles then, and a pause may be longer than the token's life.
    ///
    /// - Returns: Time of the next check.
    func refreshTokenInPause(_ now: Moment) -> Timestamp? {
        guard engine.memory.pause != nil, let refreshAt = tokenRefresh.refreshAt else { return nil }
        guard refreshAt <= now.wall else { return refreshAt }
        refreshTokenIfDue()
        return now.wall.advanced(by: TokenRefresh.pause)
    }

    /// Uses a new token at once, if the hub refuses this device and another token is in place now.
    func showNewToken() {
        if engine.reachability == .auth, hub.hasNewToken() { handle(.credentialsChanged) }
    }

    /// Watches the token's file while the hub refuses this device, so that a new token is used within seconds.
    func watchToken() {
        guard engine.reachability == .auth, tokenRefresh.wake == nil, !hasStopped else { return }
        tokenRefresh.wake = schedule(after: environment.tokenLooks) { agent in
            agent.tokenRefresh.wake = nil
            agent.showNewToken()
            agent.watchToken()
        }
    }

    /// - Precondition: No cycle is running and the last one succeeded, or the sync is paused.
    func refreshTokenIfDue() {
        let now = environment.time.now()
        warnOfOtherToken()
        perform(tokenRefresh.handle(.rests(mayAsk: !hasStopped && mayRefresh(now.wall)), at: now))
    }

    /// Returns whether a renewal is allowed, with the rules of critical work. A pause does not prevent it, because without a token there is
    /// no work after it.
    private func mayRefresh(_ now: Timestamp) -> Bool {
        var situation = engine.situation
        situation.pause = nil
        return Policy.decide(.critical, in: situation, now: now) == .allow
    }

    private func perform(_ effects: [TokenRefresh.Effect]) {
        for effect in effects {
            switch effect {
            case .refresh: refreshToken()
            case .warn(let endsAt):
                if alarms[.tokenEnds] == nil {
                    raise(.tokenEnds, "the token of this device ends at \(endsAt), and it was not refreshed so far")
                }
            case .endWarning: alarms.end(.tokenEnds)
            }
        }
    }

    private func refreshToken() {
        let (hub, replica, uplink) = (hub, engine.replica, around.connectivity.uplink)
        Task(executorPreference: executor) { [weak self] in
            let result = await hub.refreshToken(replica: replica, over: uplink)
            await self?.refreshed(result, over: uplink)
        }
    }

    private func refreshed(_ result: Result<HTTPResponse, TransportError>, over uplink: Uplink?) {
        let now = environment.time.now()
        // `try?`: without an answer there is no new token.
        let status = (try? result.get())?.status
        let effects = tokenRefresh.handle(.refreshed(isGood: status == 200), at: now)
        observe(HubAnswer(.token, result, over: uplink, at: now))
        switch result {
        case .success(let response) where response.status == 200: log.notice("the token was refreshed")
        case .success(let response): log.warning("the token was not refreshed", metadata: ["status": "\(response.status)"])
        case .failure(let error): log.warning("the token was not refreshed", metadata: ["error": "\(error)"])
        }
        perform(effects)
    }

    private func warnOfOtherToken() {
        let code = AlarmCode.tokenRefused
        guard hub.showsOtherToken else {
            alarms.end(code)
            return
        }
        guard alarms[code] == nil else { return }
        raise(code, "the hub refuses the present token; the agent sends the last one that it accepted")
    }
}
