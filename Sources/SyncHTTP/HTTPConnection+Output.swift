import NIOCore
import Synchronization

/// The path of bytes out of the connection, and its ways to end.
extension HTTPConnection {
    /// Bytes that the kernel has not accepted.
    var channelBacklog: Int {
        // It throws when the channel is closed, and then no bytes wait any more.
        (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    /// `true` while a streaming handler may continue to write. A larger backlog makes the channel unwritable, which then reports when it is
    /// writable again.
    var hasRoom: Bool { out.readableBytes + channelBacklog <= Self.answerBacklog }

    /// Sends the written bytes at the end of this turn of the loop, unless a flush is in progress already.
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
        // Taken out first: the flush may report room, and a callback may then write at once.
        var bytes = ByteBuffer()
        swap(&bytes, &out)
        deadlines.bytesWritten += bytes.readableBytes
        context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        // Reuses the memory if the kernel accepted everything, but does not keep that of a large answer.
        if out.readableBytes == 0, bytes.capacity <= Self.answerBacklog {
            bytes.clear()
            swap(&bytes, &out)
        }
        let backlog = channelBacklog
        // The kernel mostly accepts everything; then no timer is needed to check.
        if backlog > 0 { watchWriting() }
        bytesInChannel.store(backlog, ordering: .relaxed)
        if !writableActions.isEmpty, hasRoom { runWritableActions() }
    }

    /// Closes when everything written is sent, or the client does not read it.
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

    /// Closes this side when everything written is sent, and discards further input until the client has closed its side.
    func linger() {
        guard let context, !isClosed else { return }
        // With both sides closed NIO would not wait for unsent bytes.
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

    /// Closes at once, without the end of TLS, which would wait for a silent peer.
    func cut() {
        if let edge { edge.close() } else { close() }
    }
}
