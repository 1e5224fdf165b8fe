import CSyncLinux
import Glibc
import NIOCore

/// Descriptors that a local client attaches to its bytes.
///
/// NIO reads with `read(2)`, which throws such a descriptor away. Right before it does, it asks for the size of its buffer;
/// that moment is used to look at the next byte with `recvmsg(MSG_PEEK)`, which hands the descriptor over and leaves the byte
/// where it is. It costs one system call a read, on Unix sockets alone.
struct DescriptorPeek: RecvByteBufferAllocator, @unchecked Sendable {
    // Unchecked: NIO calls it on the channel's loop only, where the box is used as well.
    private var sizes = AdaptiveRecvByteBufferAllocator()
    private let socket: Int32
    private let box: DescriptorBox

    init(socket: Int32, box: DescriptorBox) {
        self.socket = socket
        self.box = box
    }

    func nextBufferSize() -> Int? {
        look()
        return sizes.nextBufferSize()
    }

    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
        look()
        return sizes.buffer(allocator: allocator)
    }

    mutating func record(actualReadBytes: Int) -> Bool {
        box.wasRead()
        return sizes.record(actualReadBytes: actualReadBytes)
    }

    private func look() {
        // Found once a read: a second look would install the same descriptor again.
        guard !box.hasFound else { return }
        let descriptor = sync_peek_descriptor(socket)
        if descriptor >= 0 { box.put(descriptor) }
    }
}

/// The descriptor that belongs to the next request or to the present one. On the loop only.
final class DescriptorBox: @unchecked Sendable {
    private var held: Int32?
    /// It came with bytes that no request has begun with yet.
    private var isNew = false
    /// The bytes that it came with are still to be read.
    private(set) var hasFound = false

    func wasRead() { hasFound = false }

    func put(_ descriptor: Int32) {
        clear()
        held = descriptor
        isNew = true
        hasFound = true
    }

    func beginRequest() {
        if !isNew { clear() }
        isNew = false
    }

    func take() -> Int32? {
        defer { held = nil }
        return held
    }

    func clear() {
        if let held { Self.close(held) }
        held = nil
    }

    static func close(_ descriptor: Int32) { _ = Glibc.close(descriptor) }
}

extension HTTPConnection {
    /// Lets clients of a Unix socket attach descriptors to their requests.
    func takesDescriptors(of channel: any Channel) throws {
        let box = descriptors
        let socket = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { $0 }
        guard let socket else { return }
        try channel.syncOptions?.setOption(.recvAllocator, value: DescriptorPeek(socket: socket, box: box))
    }
}
