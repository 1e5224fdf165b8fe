import LocalAPI
import Logging
package import NIOCore
package import SyncCore
package import SyncHTTP
package import SyncStore
package import SyncYAML

// The life of the agent, from the first request to the last.
extension Agent {
    /// Opens the local API. It does not depend on the network: apps are served before there is any link.
    package nonisolated func listen(
        on endpoint: HTTPEndpoint, group: any EventLoopGroup, limits: HTTPServerLimits = .localAPI
    ) async throws(HTTPServerError) -> HTTPServer {
        var configuration = HTTPServerConfiguration(endpoint: endpoint, problemBody: HTTPProblem.localBody)
        configuration.limits = limits
        configuration.refused = { [weak self] problem, peer in
            self?.assumeIsolated { $0.countRefusal(problem, peer) }
        }
        return try await HTTPServer.start(configuration, on: group, handler: LocalAPIHandler(agent: self))
    }

    private func countRefusal(_ problem: HTTPProblem, _ peer: HTTPPeer) {
        metrics.refused(problem.code)
        log.debug("refused a connection or request", metadata: ["code": "\(problem.code)", "detail": "\(problem.detail)"])
    }

    /// Handles an incident of the store. After a failed commit, the work is either stored or not; the waiting apps have their answers.
    package func handle(_ incident: StoreWriter.Incident) {
        storeHealth.handle(incident, at: environment.time.now().instant)
        switch incident {
        case .commitFailed(let error, let survived, let relaxedLost):
            log.error(
                "a commit failed",
                metadata: ["error": "\(error)", "survived": "\(survived)", "relaxed_lost": "\(relaxedLost)"])
            if relaxedLost > 0 {
                raise(.relaxedLost, "\(relaxedLost) acknowledged mutations with durability relaxed did not reach the disk")
            }
            // The work of the commit is there, though its app was told of an unknown outcome, and may not ask again.
            if survived { handle(.enqueued(.normal)) }
        case .readFailed(let error, let relaxedLost):
            log.error("the disk could not be read", metadata: ["error": "\(error)", "relaxed_lost": "\(relaxedLost)"])
            if relaxedLost > 0 {
                raise(.relaxedLost, "\(relaxedLost) acknowledged mutations with durability relaxed did not reach the disk")
            }
        case .unusable(let error):
            // When the files are missing, the connection is the only way left to read.
            if error.code != .removed { reader.openAgain(keepingConnection: false) }
            log.critical("the database cannot be used; agentd retries every 30 seconds", metadata: ["error": "\(error)"])
            if error.code == .removed {
                raise(
                    .databaseRemoved,
                    "\(error.detail) while agentd was using the database: no change is accepted until it is back. Stop agentd before "
                        + "the folder is moved")
            }
        case .restored(let error):
            reader.openAgain()
            raise(
                .databaseRemoved,
                "\(error.detail) while agentd was using it; its content was written again, and nothing is lost. Find out what "
                    + "removes files there")
        case .usableAgain(let opening):
            alarms.end(.databaseRemoved)
            reader.openAgain()
            log.notice("the database can be used again")
            guard case .unusable = mode else { return }
            endRecovery()
            publish(opening)
            start()
        case .wentOn:
            events.sendNew()
            serveMutationWaiters()
        case .fatal(let error):
            // Data that could not be read may be readable later; a database that contradicts itself is not opened any more.
            let next =
                error.isFailedRead
                ? "the database cannot be read; agentd ends and tries to read it at its next start"
                : "the database is inconsistent; agentd ends and rebuilds it at its next start"
            log.critical("\(next)", metadata: ["error": "\(error)"])
        }
    }

    /// Records the findings of the store's opening, for status and the log.
    package func publish(_ opening: StoreOpening) {
        if opening.isNew { log.notice("a new database was made") }
        if let rescue = opening.rescue { publish(rescue) }
        if opening.lostTail > 0 { reportLostTail(opening.lostTail) }
        guard opening.wasUnclean else { return }
        guard opening.needsCheck else { return log.notice("the last run did not end cleanly; the database was checked and is intact") }
        log.notice("the last run did not end cleanly; the database is being checked")
        reader.check { [self] result in
            assumeIsolated { $0.checked(result) }
        }
    }

    private func checked(_ result: Result<[String], StoreError>) {
        switch result {
        case .success([]): log.info("the database is intact")
        case .success(let complaints):
            storeHealth.checked(complaints)
            raise(.integrity, "the check of the database found \(complaints.count) faults: \(complaints.prefix(3))")
        case .failure(let error): log.warning("the database could not be checked", metadata: ["error": "\(error)"])
        }
    }

    package func reportLastGood(_ errors: ConfigurationErrors) {
        let first = "\(errors.errors[0])"
        configurationState.startedFromLastGood(first)
        raise(
            .configLastGood,
            "the configuration is not accepted, and the last good one is in force: \(first). Correct it, then: agentctl config reload")
    }

    /// Ends streams and waits, and begins no new work. Mutations in flight stay so and are settled by the next run.
    package func endWork() {
        events.closeAll()
        closeUsage()
        stopTendingIndexes()
        stopEngine()
        stopWatching()
        stopWatchingSocket()
    }
}

extension HTTPProblem {
    package static let localBody: @Sendable (HTTPProblem) -> [UInt8] = { problem in
        Problem(problem.code, status: problem.status, title: problem.title, detail: problem.detail)
            .json(prefix: Problem.localPrefix).bytes
    }

    package init(_ problem: Problem) {
        var headers: [(String, String)] = []
        if let retryAfter = problem.retryAfter { headers.append(("Retry-After", String(retryAfter))) }
        if let allow = problem.members["allow"]?.array {
            headers.append(("Allow", allow.compactMap(\.text).joined(separator: ", ")))
        }
        self.init(status: problem.status, code: problem.code, detail: problem.detail, headers: headers)
    }
}
