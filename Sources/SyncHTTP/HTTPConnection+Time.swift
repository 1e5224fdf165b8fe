import CSyncLinux
import NIOCore

/// The deadlines of a connection.
///
/// A request moves its deadlines several times, and a timer per move would cost more than the rest of the request. There is therefore one
/// timer, and a deadline that moves away only changes a number. The timer fires at its old time, finds nothing due, and is set again. A
/// connection that was used causes at most one wake-up per idle time.
struct Deadlines {
    /// For bytes from the client; the connection's state tells their purpose.
    var read: NIODeadline?
    /// For the next check whether the client reads its answers.
    var write: NIODeadline?
    /// Total number of bytes given to the channel.
    var bytesWritten = 0
    /// Number of them that the client had received at the last check (``HTTPConnection/bytesTaken``).
    var bytesTaken: Int?
    /// Number of bytes that the client had received when its idle time began.
    fileprivate var bytesTakenAtRest: Int?

    fileprivate var timer: NIOScheduledCallback?
    fileprivate var timerTime: NIODeadline?
    /// The head whose deadline is running, as the number of the request before it.
    fileprivate var headBegan: UInt64?
}

extension HTTPConnection: NIOScheduledCallbackHandler {
    func setReadDeadline(after time: Duration) {
        deadlines.read = .now() + TimeAmount(time)
        setTimer()
    }

    /// To be called after bytes came or an answer was sent.
    func updateReadDeadline(isHolding: Bool, wantsBytes: Bool) {
        switch input {
        case .head where framing.overhead == 0:
            if isHolding {
                // The other direction has the deadline: the client does not read its answers.
                deadlines.read = nil
            } else if number > 0 {
                deadlines.bytesTakenAtRest = nil
                let idleTime = isKnown ? server.limits.idleTime : server.limits.strangerIdleTime ?? server.limits.idleTime
                setReadDeadline(after: idleTime)
            }
        // The first request's time runs from the beginning of the connection.
        case .head:
            if number > 0, deadlines.headBegan != number {
                deadlines.headBegan = number
                setReadDeadline(after: server.limits.headTime)
            }
        case .body:
            let now = NIODeadline.now()
            let left = bodyPace?.update(at: now, count: bodyCount, isWaiting: wantsBytes)
            guard wantsBytes else {
                deadlines.read = nil
                break
            }
            let idleTime = TimeAmount(server.limits.bodyIdleTime)
            deadlines.read = now + max(.zero, min(idleTime, left ?? idleTime))
            setTimer()
        case .complete:
            deadlines.read = nil
        case .draining, .closed:
            break
        }
    }

    /// Bytes wait to be sent: schedules a check whether the client reads them.
    func watchWriting() {
        guard deadlines.write == nil else { return }
        deadlines.write = .now() + TimeAmount(server.limits.writeStallTime)
        deadlines.bytesTaken = nil
        setTimer()
    }

    func cancelDeadlines() {
        deadlines.timer?.cancel()
        deadlines = Deadlines()
    }

    func handleScheduledCallback(eventLoop: some EventLoop) {
        deadlines.timer = nil
        deadlines.timerTime = nil
        let now = NIODeadline.now()
        if let due = deadlines.read, due <= now {
            deadlines.read = nil
            readDeadlinePassed()
        }
        if let due = deadlines.write, due <= now {
            deadlines.write = nil
            lookAtWriting()
        }
        setTimer()
    }

    private func setTimer() {
        if case .closed = input { return }
        let due: NIODeadline
        switch (deadlines.read, deadlines.write) {
        case (let read?, let write?): due = min(read, write)
        case (let one?, nil), (nil, let one?): due = one
        case (nil, nil): return
        }
        if let timerTime = deadlines.timerTime, timerTime <= due { return }
        deadlines.timer?.cancel()
        deadlines.timerTime = due
        // It throws when the loop is shutting down, and then the connection ends, too.
        deadlines.timer = try? loop.scheduleCallback(at: due, handler: self)
    }

    private func readDeadlinePassed() {
        switch input {
        case .head where framing.overhead == 0:
            isReceiving ? setReadDeadline(after: server.limits.writeStallTime) : close()
        case .head:
            failInput(
                HTTPProblem(.timeout, status: 408, "The request's head did not arrive in time."),
                bodyFailure: .timedOut)
        case .body:
            failInput(
                HTTPProblem(.timeout, status: 408, "The request's body did not arrive in time."),
                bodyFailure: .timedOut)
        case .draining:
            // The answer may take any time while the client reads it; the other deadline controls that.
            if channelBacklog > 0 { setReadDeadline(after: server.limits.lingerTime) } else { close() }
        case .complete, .closed:
            break
        }
    }

    private func lookAtWriting() {
        guard channelBacklog > 0 else { return }
        let taken = bytesTaken
        if let before = deadlines.bytesTaken, taken <= before {
            close()
            return
        }
        deadlines.write = .now() + TimeAmount(server.limits.writeStallTime)
        deadlines.bytesTaken = taken
    }

    /// Number of bytes that have reached the client, from an arbitrary start: only differences matter.
    ///
    /// The local kernel's acceptance says little on a slow line. It accepts a whole page into its send buffer at once, and then nothing
    /// until that has drained, although the client reads all the time. For TCP the kernel reports the bytes that the client's side has
    /// acknowledged. A Unix socket has no such buffer in between.
    private var bytesTaken: Int {
        progress.map { Int(clamping: $0.acknowledged) } ?? deadlines.bytesWritten - channelBacklog
    }

    /// `true` while the end of an answer is still on its way to a reading client, which is not idle yet.
    private var isReceiving: Bool {
        guard let progress, progress.waiting > 0 else { return false }
        let taken = Int(clamping: progress.acknowledged)
        defer { deadlines.bytesTakenAtRest = taken }
        return deadlines.bytesTakenAtRest.map { $0 < taken } ?? true
    }

    private var progress: csl_tcp_progress? {
        guard case .remote = peer else { return nil }
        // `try?`: a channel without a socket, as in tests, or a closed one reports nothing.
        let told = try? context?.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { socket in
            var progress = csl_tcp_progress()
            return csl_tcp_progress(socket, &progress) ? progress : nil
        }
        return told.flatMap { $0 }.flatMap { $0 }
    }
}
