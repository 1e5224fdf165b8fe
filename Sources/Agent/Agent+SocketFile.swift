import LocalAPI
package import SyncHTTP

// Maintains the socket file: without it no app can reach the agent.
extension Agent {
    /// Creates the socket file again whenever it is removed, until ``endWork()``.
    ///
    /// - Parameters:
    ///   - mode: Permissions of the file.
    ///   - group: Owner of the file; `nil`: that of the process.
    /// - Returns: When the folder of the file is watched, or a later try is scheduled.
    package func keepFound(_ server: HTTPServer, mode: UInt16, group: UInt32?) async {
        guard !hasStopped else { return }
        let keeper = SocketFileKeeper(server, mode: mode, group: group, on: executor) { [weak self] news in
            self?.assumeIsolated { $0.publish(news) }
        }
        socketKeeper = keeper
        await keeper.begin()
    }

    private func publish(_ news: SocketFileKeeper.News) {
        guard !hasStopped else { return }
        switch news {
        case .isGone(let address, let error):
            let text =
                "the file of the socket \(address) is gone, so that no app finds the agent, and it cannot be created again (\(error)); "
                + "it is tried again every 30 seconds"
            raiseIfNew(.socketRemoved, text)
        case .isBack(let address):
            raise(
                .socketRemoved,
                "the file of the socket \(address) was removed while agentd was listening on it, and was created again. "
                    + "Find out what removes files there")
            // The event is in the log and the journal; an alarm would stay although the socket is back.
            alarms.end(.socketRemoved)
        }
    }

    func stopWatchingSocket() {
        guard let keeper = socketKeeper else { return }
        socketKeeper = nil
        keeper.assumeIsolated { $0.stop() }
    }
}
