import CSyncLinux
import NIOCore

/// When something must have happened on a connection.
///
/// A request moves its deadlines several times, a timer per move would cost more than the rest of the request. So
/// there is one timer, and a deadline that moves away only changes a number: the timer fires at its old time, sees
/// that nothing is due, and is set again. A connection that was used causes at most one wake-up per idle time.
struct Deadlines {
    /// For bytes from the client; what they are needed for is told by the connection's state.
    var read: NIODeadline?
    /// For the next look at whether the client takes what is sent.
    var write: NIODeadline?
    /// Bytes given to the channel in all.
    var bytesWritten = 0
    /// How many of them the client had taken at the last look (``HTTPConnection/bytesTaken``).
    var bytesTaken: Int?
    /// What the client had taken when its idle time began to run.
    fileprivate var bytesTakenAtRest: Int?

    fileprivate var timer: NIOScheduledCallback?
    fileprivate var timerTime: NIODeadline?
    /// The head whose deadline is running, by the number of the request before it.
    fileprivate var headBegan: UInt64?
}

extension HTTPConnection: NIOScheduledCallbackHandler {
    func setReadDeadline(after time: Duration) {
        deadlines.read = .now() + TimeAmount(time)
        setTimer()
    }

    /// After bytes came or an answer went.
    func updateReadDeadline(isHolding: Bool, wantsBytes: Bool) {
        switch input {
        case .head where framing.overhead == 0:
            if isHolding {
                // The client is waited for on the other side: it does not take its answers.
                deadlines.read = nil
            } else if number > 0 {
                deadlines.bytesTakenAtRest = nil
                let idleTime = isKnown ? server.limits.idleTime : server.limits.strangerIdleTime ?? server.limits.idleTime
                setReadDeadline(after: idleTime)
            }
        // The first request's time runs since the connection began.
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

    /// Something waits to be sent: in a while, see whether the client has taken of it.
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
        // It throws when the loop is shutting down, and then the connection is going, too.
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
            // The answer may take its time as long as the client takes it, which is the other deadline's matter.
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

    /// Bytes that have gone towards the client, from any beginning: only a difference says something.
    ///
    /// What our own kernel takes says little on a slow line: it takes a whole page into its send buffer at once, and then
    /// nothing for as long as that takes to drain, although the client reads all the time. Of TCP the kernel tells what the
    /// client's has acknowledged. A Unix socket has no such buffer on its way.
    private var bytesTaken: Int {
        progress.map { Int(clamping: $0.acknowledged) } ?? deadlines.bytesWritten - channelBacklog
    }

    /// The end of an answer is still on its way to a client that takes it: it is not idle yet.
    private var isReceiving: Bool {
        guard let progress, progress.waiting > 0 else { return false }
        let taken = Int(clamping: progress.acknowledged)
        defer { deadlines.bytesTakenAtRest = taken }
        return deadlines.bytesTakenAtRest.map { $0 < taken } ?? true
    }

    private var progress: csl_tcp_progress? {
        guard case .remote = peer else { return nil }
        // `try?`: a channel without a socket, as in tests, or a closed one has nothing to tell.
        let told = try? context?.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { socket in
            var progress = csl_tcp_progress()
            return csl_tcp_progress(socket, &progress) ? progress : nil
        }
        return told.flatMap { $0 }.flatMap { $0 }
    }
}
