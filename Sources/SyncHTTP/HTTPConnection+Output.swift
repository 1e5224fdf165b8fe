import NIOCore
import Synchronization

/// The way of bytes out of the connection, and its ends.
extension HTTPConnection {
    /// Bytes that the kernel has not taken.
    var channelBacklog: Int {
        // It throws when the channel is closed, and then nothing waits any more.
        (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    /// Whether a streaming handler should write on. More than this makes the channel unwritable, and tell us when it is
    /// writable again.
    var hasRoom: Bool { out.readableBytes + channelBacklog <= Self.answerBacklog }

    /// Sends what was written, at the end of this turn of the loop if it is not being done already.
    func flushSoon() {
        guard !isPumping, !isReading, !flushIsDue else { return }
        flushIsDue = true
        loop.execute {
            self.flushIsDue = false
            self.flush()
        }
    }

    func flush() {
        guard let context, out.readableBytes > 0 else { return }
        // Taken out first: the flush may call back to say that there is room again, and who hears it writes at once.
        var bytes = ByteBuffer()
        swap(&bytes, &out)
        deadlines.bytesWritten += bytes.readableBytes
        context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        // Reuses the memory if the kernel took everything, and does not keep that of a large answer.
        if out.readableBytes == 0, bytes.capacity <= Self.answerBacklog {
            bytes.clear()
            swap(&bytes, &out)
        }
        let backlog = channelBacklog
        // Mostly the kernel takes everything, and then no timer need wake us to find that out.
        if backlog > 0 { watchWriting() }
        bytesInChannel.store(backlog, ordering: .relaxed)
        if !writableActions.isEmpty, hasRoom { runWritableActions() }
    }

    /// Closes when everything written is sent, or the client does not take it.
    func closeWhenSent() {
        guard let context, !isClosed else { return }
        input = .draining
        held = ByteBuffer()
        deadlines.read = nil
        let sent = loop.makePromise(of: Void.self)
        context.writeAndFlush(wrapOutboundOut(out), promise: sent)
        out = ByteBuffer()
        if channelBacklog > 0 { watchWriting() }
        sent.futureResult.assumeIsolated().whenComplete { _ in self.close() }
    }

    /// Closes our side when everything written is sent, and throws away what comes until the client has closed its own.
    func linger() {
        guard let context, !isClosed else { return }
        // With both sides closed NIO would not wait for what is still to be sent.
        guard !inputHasEnded else { return closeWhenSent() }
        input = .draining
        held = ByteBuffer()
        flush()
        context.close(mode: .output, promise: nil)
        setReadDeadline(after: server.limits.lingerTime)
        if readIsDue {
            readIsDue = false
            context.read()
        }
    }

    func close() {
        context?.close(mode: .all, promise: nil)
    }

    /// Closes at once, without the end of TLS, for which a silent peer would be waited for.
    func cut() {
        if let edge { edge.close() } else { close() }
    }
}
