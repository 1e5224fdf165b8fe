import LocalAPI
import Logging
import NIOCore
package import SyncHTTP

// Maintains the socket file: without it no app can reach the agent, and its loss would show nowhere else.
extension Agent {
    /// Creates the socket file again whenever it is removed, until ``wind()``.
    ///
    /// - Parameters:
    ///   - mode: Permissions of the file.
    ///   - group: Owner of the file; `nil`: that of the process.
    package nonisolated func keepFound(_ server: HTTPServer, mode: UInt16, group: UInt32?) {
        Task(executorPreference: executor) { [weak self] in
            await self?.lookAfterSocket(SocketFile(server: server, mode: mode, group: group))
        }
    }

    struct SocketFile: Sendable {
        let server: HTTPServer
        let mode: UInt16
        let group: UInt32?
    }

    /// Interval between checks where the kernel cannot report changes, and between attempts to create the file.
    private static let socketRetry: Duration = .seconds(30)

    private func lookAfterSocket(_ socket: SocketFile) async {
        socketCare.isStale = true
        // One check at a time: later changes are checked when this one has ended.
        guard !socketCare.isBusy else { return }
        socketCare.isBusy = true
        while socketCare.isStale, !hasStopped {
            socketCare.isStale = false
            await lookOnce(socket)
        }
        socketCare.isBusy = false
        if hasStopped { stopWatchingSocket() }
    }

    private func lookOnce(_ socket: SocketFile) async {
        let server = socket.server
        do throws(HTTPServerError) {
            let wasFound = server.isFound
            if !wasFound {
                try await server.listenAgain(mode: socket.mode, group: socket.group)
                tellSocketIsBack(server.address)
            }
            // A folder that was created again needs a new watch.
            guard socketCare.watch?.isActive != true || !wasFound else { return }
            socketCare.watch?.close(promise: nil)
            socketCare.watch = nil
            socketCare.watch = try await server.watchFile { [weak self] in
                if !server.isFound { self?.keepFound(server, mode: socket.mode, group: socket.group) }
            }
            // Changes before the watch existed were not reported.
            if !server.isFound { socketCare.isStale = true }
        } catch {
            if !server.isFound { tellSocketIsGone(server.address, error) }
            socketCare.retry?.cancel()
            socketCare.retry = executor.schedule(after: Self.socketRetry) { [weak self] in
                self?.keepFound(server, mode: socket.mode, group: socket.group)
            }
        }
    }

    private func tellSocketIsGone(_ address: HTTPServer.Address, _ error: HTTPServerError) {
        let text =
            "the file of the socket \(address) is gone, so that no app finds the agent, and it cannot be made anew (\(error)); "
            + "it is tried again every 30 seconds"
        raiseIfNew(StatusDocument.Alarm.socketRemoved, text)
    }

    private func tellSocketIsBack(_ address: HTTPServer.Address) {
        raise(
            StatusDocument.Alarm.socketRemoved,
            "the file of the socket \(address) was removed while agentd was listening on it, and was made anew. Find out what removes files there"
        )
        // The event is in the log and the journal; an alarm would stay although the socket is back.
        alarms.end(StatusDocument.Alarm.socketRemoved)
    }

    func stopWatchingSocket() {
        socketCare.retry?.cancel()
        socketCare.watch?.close(promise: nil)
        socketCare.watch = nil
    }
}

/// The agent's state of its socket file.
struct SocketCare {
    /// Reports changes in its folder.
    var watch: (any Channel)?
    var retry: LoopTimer?
    /// A check is running.
    var isBusy = false
    /// The folder may have changed since the check began.
    var isStale = false
}
