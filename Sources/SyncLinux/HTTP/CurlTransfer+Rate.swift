import CSyncLinux
import SyncCore

/// The rate of the link, which all its transfers share.
extension CurlTransfer {
    /// Charges the bytes that moved since the last call to the link's rate.
    func chargeRate(now: Instant) {
        guard let gate, let socket else { return }
        var counts = csl_tcp_counts()
        guard csl_tcp_counts(socket, &counts) else { return }
        let moved = SocketLedger.Bytes(from: limited, to: counts)
        limited = counts
        gate.limiter.moved(
            up: Int(clamping: moved.up &+ moved.headersUp), down: Int(clamping: moved.down &+ moved.headersDown), now: now)
    }

    var isPaused: Bool { paused != 0 }

    /// Charges the bytes that moved to the rate, and pauses reading when the rate is used up. It does not pause before the head of an
    /// answer is whole: curl joins the lines that it holds back.
    func holdToRate(now: Instant) {
        guard let gate, clock.step != .connecting else { return }
        chargeRate(now: now)
        guard !gate.limiter.isOpenDown, reader.isHeadWhole, paused & CURLPAUSE_RECV == 0 else { return }
        pause(paused | CURLPAUSE_RECV)
    }

    /// Resumes the directions in which the rate has room again.
    func goOn() {
        guard let gate, paused != 0 else { return }
        var left = paused
        if gate.limiter.isOpenUp { left &= ~CURLPAUSE_SEND }
        if gate.limiter.isOpenDown { left &= ~CURLPAUSE_RECV }
        if left != paused { pause(left) }
    }

    private func pause(_ directions: Int32) {
        paused = directions
        curl_easy_pause(easy, directions)
    }
}
