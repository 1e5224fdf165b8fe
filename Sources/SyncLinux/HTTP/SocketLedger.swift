import CSyncLinux
import Glibc
import SyncCore
import Synchronization

/// Attributes what TCP counted on curl's sockets to the transfers that caused it.
///
/// No counter of curl's includes TLS, so the kernel's counters are read at the end of each transfer and just before a socket is closed. A
/// connection outlives its transfers, so the bytes that were attributed already are remembered per socket. On an HTTP/2 connection with
/// several transfers at once, the bytes go to the first transfer that ends after they moved; the sum is right.
///
/// Headers of TCP and IP are counted by segments. A segment that arrives twice, or for which the kernel has no room, was carried by the
/// link and is paid for, but is in no count of bytes. Its size is taken from that of the peer's full segments
/// (``SocketLedger/Bytes/init(from:to:)``). On a loaded machine such segments were an eighth of all bytes received.
///
/// Bytes that come after a transfer's end, on a kept connection or at its close (late acknowledgements, TLS tickets and farewells, FINs),
/// belong to no transfer. The next transfer on the connection is charged for them, or they are handed out as ``leftover``, so that the sum
/// is right for the link.
///
/// Used only on the thread of ``CurlLoop``, except for ``leftover``.
final class SocketLedger {
    /// Bytes that a connection moved.
    struct Bytes {
        var up: UInt64 = 0
        var down: UInt64 = 0
        var headersUp: UInt64 = 0
        var headersDown: UInt64 = 0

        static func + (left: Bytes, right: Bytes) -> Bytes {
            var sum = left
            sum.up &+= right.up
            sum.down &+= right.down
            sum.headersUp &+= right.headersUp
            sum.headersDown &+= right.headersDown
            return sum
        }
    }

    private struct Entry {
        var counted = csl_tcp_counts()
        /// The transfer that opened the socket or used it last; `nil` when that transfer is over.
        var owner: CurlTransfer? {
            didSet { if owner == nil { idleSince = SystemClocks.instant() } }
        }
        private(set) var idleSince = SystemClocks.instant()
    }

    private var entries: [Int32: Entry] = [:]
    var addresses = AddressBook()
    /// `true` when an address was left out since this was set to `false`.
    var hasLeftOut = false

    func opened(_ socket: Int32, by transfer: CurlTransfer) {
        entries[socket] = Entry(owner: transfer)
    }

    /// Records that the transfer is about to send on the connection between these two ends, be it new or kept.
    ///
    /// - Returns: Its socket, and the time for which it was unused. `nil` when it is not TCP: curl reports only the ends, and those of Unix
    ///   sockets have no names.
    func use(
        by transfer: CurlTransfer, local: UnsafePointer<CChar>, localPort: Int32, remote: UnsafePointer<CChar>,
        remotePort: Int32
    ) -> (socket: Int32, idle: Duration)? {
        for (socket, entry) in entries where csl_is_tcp_between(socket, local, localPort, remote, remotePort) {
            let idle = entry.owner == nil ? entry.idleSince.duration(to: SystemClocks.instant()) : .zero
            entries[socket]?.owner = transfer
            return (socket, idle)
        }
        return nil
    }

    /// Bytes that moved while no transfer used the connection. The reader takes them away.
    let leftover = Mutex(Bytes())

    /// Counts the last bytes of a socket that is about to be closed.
    func closing(_ socket: Int32) {
        if hasHeard(on: socket) { addresses.connected(socket) } else { addresses.closed(socket, now: SystemClocks.instant()) }
        count(socket, isClosing: true)
        entries[socket] = nil
    }

    /// Counts the bytes of a transfer that is over, and takes its sockets from it. Its connection may live on.
    func ended(_ transfer: CurlTransfer) {
        if let socket = transfer.socket, entries[socket] != nil {
            // On a shared connection another transfer may be the owner, but this one ends now.
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

    /// `true` when the peer has answered at all, be it only the first packet.
    func hasHeard(on socket: Int32) -> Bool {
        var counts = csl_tcp_counts()
        return csl_tcp_counts(socket, &counts) && counts.segments_in > 0
    }

    func owner(of socket: Int32) -> CurlTransfer? { entries[socket]?.owner }

    /// Idle TCP sockets. Unix sockets are left out, because it is not known whether a transfer uses one again.
    func idleSockets(except busy: Set<Int32>) -> [Int32] {
        entries.filter { socket, entry in
            var counts = csl_tcp_counts()
            return entry.owner == nil && !busy.contains(socket) && csl_tcp_counts(socket, &counts)
        }.map(\.key)
    }

    private func count(_ socket: Int32, isClosing: Bool = false) {
        guard let entry = entries[socket], entry.owner != nil || isClosing else { return }
        var counts = csl_tcp_counts()
        guard csl_tcp_counts(socket, &counts) else { return }
        var moved = Bytes(from: entry.counted, to: counts)
        entries[socket]?.counted = counts
        let header = UInt64(counts.header_bytes)
        if isClosing, counts.segments_in > 0 {
            // The FIN and its acknowledgement are still to come and cannot be counted: each way unless the peer was first.
            moved.headersUp &+= counts.is_established ? 2 * header : header
            moved.headersDown &+= header
        }
        if let owner = entry.owner { owner.moved(moved) } else { leftover.withLock { $0 = $0 + moved } }
    }
}

extension SocketLedger.Bytes {
    /// The bytes that a connection moved between two readings of its counters.
    ///
    /// The result is never less than the link carried, and exact unless segments were lost or came twice.
    init(from before: csl_tcp_counts, to now: csl_tcp_counts) {
        func more(_ count: KeyPath<csl_tcp_counts, UInt32>) -> UInt64 { UInt64(now[keyPath: count] &- before[keyPath: count]) }
        let header = UInt64(now.header_bytes)
        let received = now.received &- before.received
        up = now.sent &- before.sent
        headersUp = more(\.segments_out) &* header
        headersDown = more(\.segments_in) &* header
        // The kernel does not report which segments were thrown away, nor their length. They are taken as full-sized, up to the limit that
        // leaves room for the segments that were kept. (A keep-alive probe is counted among them.)
        let full = UInt64(now.payload_in)
        let most = more(\.data_segments_in) &* full
        let dropped = min(more(\.dropped_segments_in), more(\.data_segments_in))
        down = received &+ min(dropped &* full, most > received ? most - received : 0)

        if before.segments_out == 0, now.segments_out > 0 { headersUp &+= UInt64(now.more_in_syn) }
        if before.segments_in == 0, now.segments_in > 0 { headersDown &+= UInt64(now.more_in_syn) }
        guard now.has_selective_acknowledgements else { return }
        // Each segment that is out of order or a duplicate is answered at once, by an acknowledgement that names it.
        headersUp &+= (more(\.dropped_segments_in) &+ more(\.early_segments_in)) &* Self.block
        // Any of the peer's acknowledgements may carry such a block while data was retransmitted.
        if more(\.repeated_segments_out) > 0 {
            headersDown &+= (more(\.segments_in) &- more(\.data_segments_in)) &* Self.block
        }
    }

    /// Bytes of a selective acknowledgement with one block: kind, length and two sequence numbers, padded to words (RFC 2018).
    private static var block: UInt64 { 12 }
}

extension Traffic {
    mutating func add(_ bytes: SocketLedger.Bytes) {
        up = up.saturatingAdd(Int(clamping: bytes.up))
        down = down.saturatingAdd(Int(clamping: bytes.down))
        headersUp = headersUp.saturatingAdd(Int(clamping: bytes.headersUp))
        headersDown = headersDown.saturatingAdd(Int(clamping: bytes.headersDown))
    }
}
