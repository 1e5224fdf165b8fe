import CSyncLinux
import Glibc
import NIOCore

/// Descriptors that a local client attaches to its bytes.
///
/// NIO reads with `read(2)`, which lets the kernel close such descriptors. Right before the read, NIO asks for the size of its buffer. At
/// that moment `recvmsg(MSG_PEEK)` looks at the next byte, which installs the descriptors in this process and leaves the byte in place. It
/// costs one system call a read, on Unix sockets only, and none within a body.
///
/// Only this process can close an installed descriptor, and any user that can connect may attach 253 descriptors to each message, before
/// the caller is known. A connection therefore holds at most one of them at any time:
///
/// - All that come with one read are accepted at once, and all but the first closed (`sync_peek_descriptors`).
/// - One that comes before a head is complete stays for the request with this head. It is closed when another one comes, or when these
///   bytes turn out to begin no head.
/// - For a request that does not admit a descriptor (``HTTPAdmission/stream(limit:takesDescriptor:then:)``) it is closed before the handler
///   sees the request. For one that does, the handler may take it until the end of the request.
///
/// The kernel ends a read after the bytes that descriptors came with, so they never come with the bytes of a later message. Descriptors of
/// a later message are lost when the bytes of an earlier one are still unread. A client that attaches one must wait for the answers to its
/// earlier requests, or use a connection of its own.
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
        // Found once a read: a second look would install the same descriptors again.
        guard box.isWanted, !box.hasFound else { return }
        var first: Int32 = -1
        switch sync_peek_descriptors(socket, &first) {
        case 0: break
        case 1: box.put(.one(first))
        case let count where count > 1:
            DescriptorBox.close(first)
            box.put(.several(Int(count)))
        default: box.put(.lost)
        }
    }
}

/// The descriptors that a client attached to the head of one request.
package enum AttachedDescriptor: Sendable, Hashable {
    case none
    /// One descriptor; the caller that takes it must close it.
    case one(Int32)
    /// They are closed already, because the intended one is unknown.
    case several(Int)
    /// This process had no free descriptor number for it.
    case lost
}

/// The descriptor that belongs to the next request or to the present one. On the loop only.
final class DescriptorBox: @unchecked Sendable {
    /// The next bytes may belong to a head. Otherwise a read lets the kernel close their descriptors.
    var isWanted = true
    /// The bytes that it came with are still unread.
    private(set) var hasFound = false
    /// It came with bytes that have not begun a request yet.
    private var coming = AttachedDescriptor.none
    /// It came with the head of the present request.
    private var present = AttachedDescriptor.none

    func wasRead() { hasFound = false }

    func put(_ attached: AttachedDescriptor) {
        hasFound = true
        switch (coming, attached) {
        case (.none, _): coming = attached
        case (.lost, _), (_, .lost): Self.discard(&coming, attached, leaving: .lost)
        case (_, .none): break
        case (.one, .one): Self.discard(&coming, attached, leaving: .several(2))
        case (.one, .several(let count)), (.several(let count), .one): Self.discard(&coming, attached, leaving: .several(count + 1))
        case (.several(let some), .several(let more)): coming = .several(some + more)
        }
    }

    /// A head is complete.
    func beginRequest() {
        endRequest()
        swap(&present, &coming)
    }

    /// Discards the descriptor of the next request after all available bytes were examined, because no request came with it.
    ///
    /// - Parameter isWithinHead: The bytes contained an incomplete head, to which it may belong: it is kept.
    func discardComing(unless isWithinHead: Bool) {
        if !isWithinHead { Self.discard(&coming, .none, leaving: .none) }
    }

    func take() -> AttachedDescriptor {
        defer { present = .none }
        return present
    }

    /// The request takes no descriptor, or is over.
    func endRequest() {
        Self.discard(&present, .none, leaving: .none)
    }

    func clear() {
        endRequest()
        discardComing(unless: false)
    }

    private static func discard(_ held: inout AttachedDescriptor, _ other: AttachedDescriptor, leaving: AttachedDescriptor) {
        for case .one(let descriptor) in [held, other] { close(descriptor) }
        held = leaving
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
