import CSyncLinux
import Glibc
package import NIOCore
import NIOPosix
import Synchronization

/// A listening Unix socket whose file is deleted still serves its open connections, but no new client finds it. The kernel reports events
/// in its folder (inotify(7)), so that the detection costs no wake-up.
extension HTTPServer {
    /// `true` when clients that connect to ``address`` reach this server. Always `true` for TCP.
    package var isFound: Bool {
        door.withLock { door in
            if let file = door.file { return file.isInPlace }
            guard case .unix(let path) = address else { return true }
            switch door.inherited {
            case .named(let identity): return FileIdentity(at: path) == identity
            case .lost: return false
            case .unknown: return true
            }
        }
    }

    /// Creates the file of a Unix socket again when it is deleted. Open connections stay, and count against the same limits. Does nothing
    /// while the file is in place, and for TCP.
    ///
    /// - Throws: The errors of the first start: a file that another process has put there stays.
    package func listenAgain(mode: UInt16, group owner: UInt32?) async throws(HTTPServerError) {
        guard case .unix(let path) = address, !isFound, !isStopping else { return }
        let file = try UnixListener(path: path, mode: mode, group: owner)
        let listener: any Channel
        do {
            listener = try await Self.bootstrap(context, on: group).withBoundSocket(file.descriptor).get()
            Self.widen(file.descriptor)
        } catch {
            file.removeFile()
            throw HTTPServerError(.system, doing: "listen again on \(path)", detail: "\(error)")
        }
        let before = door.withLock { door in
            defer { door = Door(listener: listener, file: file) }
            return door.listener
        }
        // It fails if it is closed already, which is the wanted state.
        try? await before.close().get()
        guard isStopping else { return }
        // A stop that began meanwhile may have checked the door before this listener was there.
        file.removeFile()
        // It may be closed already.
        try? await listener.close().get()
    }

    private var isStopping: Bool { context.isStopping.load(ordering: .sequentiallyConsistent) }

    /// Calls `action` on the server's loop after each event that may concern the file of its Unix socket, until the watch is closed, or the
    /// folder itself is removed.
    ///
    /// - Returns: `nil` for TCP.
    /// - Throws: When the folder cannot be watched: it does not exist, or the user has no watch left
    ///   (`/proc/sys/fs/inotify/max_user_watches`).
    package func watchFile(_ action: @escaping @Sendable () -> Void) async throws(HTTPServerError) -> (any Channel)? {
        guard case .unix(let path) = address else { return nil }
        let folder = UnixListener.directory(of: path)
        let doing = "watch \(folder)"
        let descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        guard descriptor >= 0 else { throw HTTPServerError(.system, doing: doing, detail: String(cString: strerror(errno))) }
        let events = IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR
        guard inotify_add_watch(descriptor, folder, UInt32(events)) >= 0 else {
            let words = String(cString: strerror(errno))
            close(descriptor)
            throw HTTPServerError(.system, doing: doing, detail: words)
        }
        do {
            return try await NIOPipeBootstrap(group: group)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(FolderEvents(action)) }
                }
                .takingOwnershipOfDescriptor(input: descriptor).get()
        } catch {
            close(descriptor)
            throw HTTPServerError(.system, doing: doing, detail: "\(error)")
        }
    }
}

/// The file of a listening Unix socket that another process made, at the start of this one.
enum InheritedFile: Sendable {
    case named(FileIdentity)
    /// There is no file, or one without a listener: the maker of the socket still has it, and no client finds it.
    case lost
    /// It has no name, or its folder is not visible from here, which is no reason to create one.
    case unknown

    init(of address: HTTPServer.Address) {
        guard case .unix(let path) = address, path.hasPrefix("/"), access(UnixListener.directory(of: path), F_OK) == 0 else {
            self = .unknown
            return
        }
        let isDead = sync_unix_probe(path) != 0 && (errno == ECONNREFUSED || errno == ENOENT)
        self = isDead ? .lost : FileIdentity(at: path).map { .named($0) } ?? .lost
    }
}

/// The content of the events is ignored: the file itself is checked.
private final class FolderEvents: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let action: @Sendable () -> Void

    init(_ action: @escaping @Sendable () -> Void) {
        self.action = action
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        action()
        context.fireChannelReadComplete()
    }
}
