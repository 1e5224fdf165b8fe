import CSyncLinux
import Glibc
import SyncCore

/// The addresses that are tried, and the connection that carries the request.
extension CurlTransfer {
    /// Decides on a second attempt with all addresses. It is worth making when no address that was tried has answered, and another was left
    /// out or cut short. (Where the time was over before every address had its turn, the next request gets further, because it leaves the
    /// silent ones out.)
    ///
    /// - Returns: `false` when there is nothing more to try.
    func tryEveryAddress(after code: CURLcode) -> Bool {
        guard hasLeftOut || cut > 0, !triesEveryAddress, clock.step == .connecting, code == CURLE_COULDNT_CONNECT else { return false }
        guard tried == cut else {
            // A machine is there and refuses connections now. The addresses that were left out need not be better, so each gets its turn in
            // a later request.
            ledger.addresses.giveTurn(of: place.peer, now: SystemClocks.instant())
            return false
        }
        triesEveryAddress = true
        return true
    }

    /// Records that a connection was given up in favour of another address.
    func cutShort() { cut += 1 }

    /// - Returns: `false` when this address is left out.
    func allows(_ address: UnsafePointer<curl_sockaddr>) -> Bool {
        guard let text = text(of: address) else { return true }
        let isAllowed = ledger.addresses.allows(text, of: place.peer, now: SystemClocks.instant())
        guard !isAllowed, !triesEveryAddress else { return true }
        (hasLeftOut, ledger.hasLeftOut) = (true, true)
        return false
    }

    func opened(_ socket: Int32, to address: UnsafePointer<curl_sockaddr>) {
        ledger.opened(socket, by: self)
        tried += 1
        if let text = text(of: address) {
            ledger.addresses.began(socket, to: text, of: place.peer, now: SystemClocks.instant())
        }
        gate?.limit(socket)
    }

    /// The address as text; `nil` when it is no Internet address.
    private func text(of address: UnsafePointer<curl_sockaddr>) -> String? {
        var room = [CChar](repeating: 0, count: 64)
        guard csl_address_text(address, &room, Int32(room.count)) else { return nil }
        return String(decoding: room.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Called when the connection stands and before the request is sent on it.
    func isReadyToSend(
        local: UnsafePointer<CChar>, localPort: Int32, remote: UnsafePointer<CChar>, remotePort: Int32
    ) -> Bool {
        guard clock.step == .connecting else {
            // curl itself repeats a request when a kept connection turns out to be closed before an answer. The peer may have processed it
            // all the same, so only the caller, which knows the request, can decide on a retry.
            return refuse(.broken, "the connection was closed before an answer; it is unknown whether the request took effect")
        }
        if let used = ledger.use(by: self, local: local, localPort: localPort, remote: remote, remotePort: remotePort) {
            let socket = used.socket
            self.socket = socket
            ledger.addresses.connected(socket)
            if long(CURLINFO_NUM_CONNECTS) == 0, used.idle > .zero {
                idle = used.idle
                KeptConnections.limit(socket, to: KeptConnections.patience)
            }
            var counts = csl_tcp_counts()
            if csl_tcp_counts(socket, &counts) { acknowledged = counts.acknowledged }
            // Earlier transfers moved the bytes that the kept connection has counted so far.
            if long(CURLINFO_NUM_CONNECTS) == 0 {
                limited = counts
                // The connection may have been opened under another rate, or under none.
                if let gate { gate.limit(socket) } else { RateGate.release(socket) }
            }
            guard !holdsStrayBytes(socket) else {
                return refuse(.broken, "the kept connection holds bytes that were not asked for")
            }
        }
        clock.connected(hasBody: upload.size != 0, now: SystemClocks.instant())
        return true
    }

    /// Bytes that wait on a kept connection before the request belong to an earlier answer, and would be read as the answer to this one.
    /// (With TLS they may be session tickets.)
    private func holdsStrayBytes(_ socket: Int32) -> Bool {
        guard !place.isTLS, long(CURLINFO_NUM_CONNECTS) == 0 else { return false }
        var byte: UInt8 = 0
        return recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) > 0
    }

    /// Idle time of the kept connection before this transfer, when no byte of an answer came on it; `nil` otherwise.
    ///
    /// A connection that ends long after the request was sent was not dead: the request waited for its answer.
    var idleBeforeSilence: Duration? {
        let hasWaited = clock.moved.duration(to: SystemClocks.instant()) > KeptConnections.patience * 2
        return reader.hasBegun || hasWaited ? nil : idle
    }
}
