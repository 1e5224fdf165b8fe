import NIOCore

/// Creates the file of a listening Unix socket again whenever it is removed: without it no new client finds the server, and its loss would
/// show nowhere else.
///
/// The kernel reports changes in the folder. Where it cannot, and where the file cannot be created, the keeper checks every 30 seconds.
package actor SocketFileKeeper {
    package enum News: Sendable {
        /// The file was removed, and is back.
        case isBack(HTTPServer.Address)
        /// The file is gone, and the attempt to create it failed.
        case isGone(HTTPServer.Address, HTTPServerError)
    }

    private nonisolated let executor: LoopExecutor
    private let server: HTTPServer
    private let mode: UInt16
    private let owner: UInt32?
    private let report: @Sendable (News) -> Void
    /// Reports changes in the folder of the socket.
    private var watch: (any Channel)?
    private var retry: LoopTimer?
    /// A check is running.
    private var isBusy = false
    /// The folder may have changed since the check began.
    private var isStale = false
    private var hasStopped = false

    private static let retryAfter: Duration = .seconds(30)

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// - Parameters:
    ///   - mode: Permissions of the file.
    ///   - owner: Group of the file; `nil`: that of the process.
    ///   - report: Called on the executor's loop.
    package init(
        _ server: HTTPServer, mode: UInt16, group owner: UInt32?, on executor: LoopExecutor, report: @escaping @Sendable (News) -> Void
    ) {
        (self.server, self.mode, self.owner, self.executor, self.report) = (server, mode, owner, executor, report)
    }

    /// Begins.
    ///
    /// - Returns: When the folder is watched, or a later try is scheduled. A check that runs already is not waited for.
    package func begin() async {
        await checkAll()
    }

    /// Begins without waiting, or checks the file once more. May be called from any thread.
    package nonisolated func check() {
        Task(executorPreference: executor) { [weak self] in await self?.checkAll() }
    }

    /// Ends the watch; a removed file stays removed from now on.
    package func stop() {
        hasStopped = true
        retry?.cancel()
        watch?.close(promise: nil)
        watch = nil
    }

    private func checkAll() async {
        isStale = true
        // One check at a time: later changes are checked when this one has ended.
        guard !isBusy else { return }
        isBusy = true
        while isStale, !hasStopped {
            isStale = false
            await checkOnce()
        }
        isBusy = false
        // A watch that was made meanwhile ends, too.
        if hasStopped { stop() }
    }

    private func checkOnce() async {
        do throws(HTTPServerError) {
            let wasFound = server.isFound
            if !wasFound {
                try await server.listenAgain(mode: mode, group: owner)
                report(.isBack(server.address))
            }
            // A folder that was created again needs a new watch.
            guard watch?.isActive != true || !wasFound else { return }
            watch?.close(promise: nil)
            watch = nil
            watch = try await server.watchFile { [weak self, server] in
                if !server.isFound { self?.check() }
            }
            // Changes before the watch existed were not reported.
            if !server.isFound { isStale = true }
        } catch {
            if !server.isFound { report(.isGone(server.address, error)) }
            retry?.cancel()
            retry = executor.schedule(after: Self.retryAfter) { [weak self] in self?.check() }
        }
    }
}
