import LocalAPI
import Logging
import NIOCore
package import SyncHTTP

// The file of the socket: without it no app finds the agent, and nothing else would tell.
extension Agent {
    /// Makes the file of the socket anew whenever it is removed. Until ``wind()``.
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

    /// How often it is looked at where the kernel cannot be asked to tell, and tried again where it could not be made.
    private static let socketRetry: Duration = .seconds(30)

    private func lookAfterSocket(_ socket: SocketFile) async {
        socketCare.isStale = true
        // One at a time: what happens meanwhile is looked at when this one has ended.
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
            // A folder that was made anew needs a watch of its own.
            guard socketCare.watch?.isActive != true || !wasFound else { return }
            socketCare.watch?.close(promise: nil)
            socketCare.watch = nil
            socketCare.watch = try await server.watchFile { [weak self] in
                if !server.isFound { self?.keepFound(server, mode: socket.mode, group: socket.group) }
            }
            // What happened before the watch was there was told by nobody.
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
        if observed.attention[StatusDocument.Alarm.socketRemoved] != text { raise(StatusDocument.Alarm.socketRemoved, text) }
    }

    private func tellSocketIsBack(_ address: HTTPServer.Address) {
        raise(
            StatusDocument.Alarm.socketRemoved,
            "the file of the socket \(address) was removed while agentd was listening on it, and was made anew. Find out what removes files there")
        // It is in the log and the journal; as an alarm it would stay although all is well.
        observed.attention[StatusDocument.Alarm.socketRemoved] = nil
    }

    func stopWatchingSocket() {
        socketCare.retry?.cancel()
        socketCare.watch?.close(promise: nil)
        socketCare.watch = nil
    }
}

/// What the agent knows of the file of its socket.
struct SocketCare {
    /// Tells when something happens in its folder.
    var watch: (any Channel)?
    var retry: LoopTimer?
    /// It is being looked at.
    var isBusy = false
    /// Something may have happened since that look began.
    var isStale = false
}
