import CSyncLinux
import NIOCore

extension HTTPPeer {
    /// The peer of a new channel, as the kernel identifies it. On the channel's loop only.
    init(of channel: any Channel) {
        let address = channel.remoteAddress
        switch address {
        case .v4, .v6:
            self = .remote(address: address?.ipAddress ?? "", port: address?.port ?? 0, tlsSubject: nil)
        case .unixDomainSocket, nil:
            // A Unix client has no address of its own, which is nil here.
            let credentials = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
                of: NIOBSDSocket.Handle.self
            ) { LocalPeer(ofDescriptor: $0) }
            // A peer without credentials has no permissions, whatever the reason.
            self = credentials.flatMap { $0 }.map(HTTPPeer.local) ?? .unknown
        }
    }
}

extension LocalPeer {
    fileprivate init?(ofDescriptor descriptor: Int32) {
        var peer = sync_peer()
        guard sync_peer_credentials(descriptor, &peer) == 0 else { return nil }
        // The kernel allows 65,536 groups (NGROUPS_MAX); few users have more than the first guess.
        var groups: [UInt32] = []
        var count = Int32(32)
        while groups.count < count {
            let capacity = count
            groups = [UInt32](repeating: 0, count: Int(capacity))
            count = sync_peer_groups(descriptor, &groups, capacity)
            guard count >= 0 else { return nil }
            if count <= capacity {
                groups.removeLast(Int(capacity - count))
                break
            }
        }
        self.init(uid: peer.uid, gid: peer.gid, groups: groups, pid: peer.pid)
    }
}
