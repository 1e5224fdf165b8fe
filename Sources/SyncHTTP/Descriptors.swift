import CSyncLinux
import Glibc
import NIOCore

/// Descriptors that a local client attaches to its bytes.
///
/// NIO reads with `read(2)`, which lets the kernel close such descriptors. Right before it does, it asks for the size of its
/// buffer; that moment is used to look at the next byte with `recvmsg(MSG_PEEK)`, which installs the descriptors in this
/// process and leaves the byte where it is. It costs one system call a read, on Unix sockets alone, and none within a body.
///
/// What is installed is closed by this process or by nothing, and any user that can connect may attach 253 descriptors to
/// each message, before it is known who asks. So a connection holds at most one of them at any time:
///
/// - all that come with one read are accepted at once, and all but the first closed (`sync_peek_descriptors`);
/// - one that comes before a head is whole stays for the request with this head, and is closed when another one comes, or
///   when it turns out that no head began with these bytes;
/// - a request that does not admit a descriptor (``HTTPAdmission/stream(limit:takesDescriptor:then:)``) has it closed before
///   the handler sees the request; one that does has until its end to take it.
///
/// The kernel ends a read behind the bytes that descriptors came with, so they never come with the bytes of a later message.
/// Those of a later message are lost when the bytes of an earlier one are still unread: a client that attaches one waits for
/// the answers to its earlier requests, or uses a connection of its own.
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

/// What a client attached to the head of one request.
package enum AttachedDescriptor: Sendable, Hashable {
    case none
    /// Belongs to whoever takes it.
    case one(Int32)
    /// Closed already; which of them was meant cannot be known.
    case several(Int)
    /// This process had no number left for it.
    case lost
}

/// The descriptor that belongs to the next request or to the present one. On the loop only.
final class DescriptorBox: @unchecked Sendable {
    /// The next bytes may belong to a head. Otherwise a read lets the kernel close what comes with them.
    var isWanted = true
    /// The bytes that it came with are still to be read.
    private(set) var hasFound = false
    /// Came with bytes that no request has begun with yet.
    private var coming = AttachedDescriptor.none
    /// Came with the head of the present request.
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

    /// A head is whole.
    func beginRequest() {
        endRequest()
        swap(&present, &coming)
    }

    /// All bytes at hand were looked at.
    ///
    /// - Parameter isWithinHead: Bytes of a head were among them, and more of it is to come.
    func settle(isWithinHead: Bool) {
        if !isWithinHead { Self.discard(&coming, .none, leaving: .none) }
    }

    func take() -> AttachedDescriptor {
        defer { present = .none }
        return present
    }

    /// The request takes none, or is over.
    func endRequest() {
        Self.discard(&present, .none, leaving: .none)
    }

    func clear() {
        endRequest()
        settle(isWithinHead: false)
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
