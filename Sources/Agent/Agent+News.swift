import SyncCore

// The pull that waits at the hub for news (PROTOCOL G5).
extension Agent {
    /// Sends a pull that waits. It has a connection for itself as long as it waits, so a call of a cycle never waits for it: the transport
    /// opens another connection, or uses one that is kept. A pull that is given up closes its connection, and the next one takes the kept
    /// one of the cycle. An idle device has one connection.
    func wait(with request: HubCall) {
        let sent = environment.time.now().instant
        let (hub, replica, uplink) = (hub, engine.replica, around.connectivity.uplink)
        waitingPull = Task(executorPreference: executor) { [weak self] in
            let result = await hub.send(request, replica: replica, over: uplink) { [weak self] in
                self?.onLoop { $0.handle(.newsBegan(request.id)) }
            }
            await self?.waited(request, result, sent: sent, over: uplink)
        }
    }

    func endWait() {
        waitingPull?.cancel()
        waitingPull = nil
    }

    private func waited(_ request: HubCall, _ result: Result<HTTPResponse, TransportError>, sent: Instant, over uplink: Uplink?) {
        let now = environment.time.now()
        // Only an answer shows something about the way to the hub: many proxies cut a request that waits.
        observe(HubAnswer(result.isHubs(at: now.wall) ? .wait : .cutWait, result, over: uplink, at: now))
        engine.wallIsSynchronised = environment.wallIsSynchronised()
        handle(.waited(request.id, result, sent: sent))
    }
}

extension Result<HTTPResponse, TransportError> {
    /// The hub itself has answered.
    fileprivate func isHubs(at now: Timestamp) -> Bool {
        // `try?`: without an answer it has not.
        (try? get())?.isHubs(at: now) ?? false
    }
}
