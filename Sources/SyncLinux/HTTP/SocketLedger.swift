import CSyncLinux
import Glibc

/// Attributes what TCP counted on curl's sockets to the transfers that caused it.
///
/// No counter of curl's includes TLS, so the kernel's are read: at the end of each transfer, and just before a socket is
/// closed. A connection outlives its transfers, so what was attributed already is remembered per socket. On an HTTP/2
/// connection with several transfers at once the bytes go to the one that ends first after they moved; the sum is right.
///
/// Only used on the thread of ``CurlLoop``.
final class SocketLedger {
    private struct Entry {
        var sent: UInt64 = 0
        var received: UInt64 = 0
        /// Who opened the socket or used it last; `nil` when that transfer is over.
        var owner: CurlTransfer?
    }

    private var entries: [Int32: Entry] = [:]

    func opened(_ socket: Int32, by transfer: CurlTransfer) {
        entries[socket] = Entry(owner: transfer)
    }

    /// The transfer is about to send on the connection between these two ends, be it new or kept.
    ///
    /// - Returns: Its socket. `nil` when it is not TCP: curl tells no more than the ends, and those of Unix sockets have no
    ///   names.
    func use(
        by transfer: CurlTransfer, local: UnsafePointer<CChar>, localPort: Int32, remote: UnsafePointer<CChar>,
        remotePort: Int32
    ) -> Int32? {
        for socket in entries.keys where csl_is_tcp_between(socket, local, localPort, remote, remotePort) {
            entries[socket]?.owner = transfer
            return socket
        }
        return nil
    }

    /// The socket is about to be closed. Bytes on a connection that nobody uses (a TLS farewell) belong to nobody.
    func closing(_ socket: Int32) {
        count(socket)
        entries[socket] = nil
    }

    /// The transfer is over; its connection may live on.
    func settle(_ transfer: CurlTransfer) {
        if let socket = transfer.socket, entries[socket] != nil {
            // On a shared connection somebody else may be the owner, but it is this transfer that ends.
            let owner = entries[socket]?.owner
            entries[socket]?.owner = transfer
            count(socket)
            entries[socket]?.owner = owner
        }
        for (socket, entry) in entries where entry.owner === transfer {
            count(socket)
            entries[socket]?.owner = nil
        }
    }

    /// TCP only: of a Unix socket it is not known whether a transfer has taken it up again.
    func idleSockets(except busy: Set<Int32>) -> [Int32] {
        entries.filter { socket, entry in
            var counts = csl_tcp_counts()
            return entry.owner == nil && !busy.contains(socket) && csl_tcp_counts(socket, &counts)
        }.map(\.key)
    }

    private func count(_ socket: Int32) {
        guard let entry = entries[socket], let owner = entry.owner else { return }
        var now = csl_tcp_counts()
        guard csl_tcp_counts(socket, &now) else { return }
        owner.moved(up: now.sent &- entry.sent, down: now.received &- entry.received)
        entries[socket]?.sent = now.sent
        entries[socket]?.received = now.received
    }
}
