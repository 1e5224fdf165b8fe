import CSyncLinux
import Glibc
import SyncCore

/// A netlink socket, closed with its owner. Used by one thread at a time.
final class NetlinkSocket {
    let descriptor: Int32
    private var buffer: [UInt8]
    private var sequence: UInt32 = 0

    /// Size of the buffer. A dump comes in pieces of at most 32 KiB (net/netlink/af_netlink.c), and events are far smaller.
    private static let datagramBytes = 64 << 10

    /// - Parameters:
    ///   - groups: Bit mask of multicast groups.
    ///   - receiveBytes: Size of the kernel's queue, bytes; 0 for the system's default.
    init(protocol number: Int32, groups: UInt32, receiveBytes: Int32 = 0) throws(LinuxError) {
        let result = csl_netlink_open(number, groups, receiveBytes)
        guard result >= 0 else {
            throw LinuxError(
                Errno(number: -result).code, doing: "open a netlink socket (protocol \(number))",
                expected: "AF_NETLINK allowed to this service", errno: -result)
        }
        descriptor = result
        buffer = [UInt8](repeating: 0, count: Self.datagramBytes)
    }

    deinit {
        close(descriptor)
    }

    enum Received {
        case datagram(ArraySlice<UInt8>, group: UInt32)
        /// A message from a process other than the kernel, or a cut one. It must not be used.
        case unusable
        /// The kernel's queue overflowed, and messages are lost.
        case overrun
        case nothing
    }

    /// Receives one datagram without waiting.
    func receive() throws(LinuxError) -> Received {
        var sender: UInt32 = 0
        var group: UInt32 = 0
        let count = buffer.withUnsafeMutableBytes {
            csl_netlink_receive(descriptor, $0.baseAddress, $0.count, &sender, &group)
        }
        switch count {
        case -Int(EAGAIN): return .nothing
        case -Int(ENOBUFS): return .overrun
        case ..<0: throw Self.error("receive from the kernel", Int32(-count))
        default:
            // Any process may send messages to this socket; only the kernel's port is 0.
            guard sender == 0, count <= buffer.count else { return .unusable }
            return .datagram(buffer[..<count], group: group)
        }
    }

    /// Sends a request and hands out the messages of the answer, until its end.
    ///
    /// - Parameters:
    ///   - flags: `NLM_F_DUMP` for a list; otherwise the answer is one message.
    ///   - body: Bytes after the header.
    /// - Returns: `false` when the list changed while the kernel wrote it, so that it may be wrong.
    func request(
        _ type: Int, flags: Int32 = 0, body: [UInt8], each: (NetlinkMessage) -> Void
    ) throws(LinuxError) -> Bool {
        sequence &+= 1
        var request: [UInt8] = []
        request.append(native: UInt32(NetlinkMessage.headerSize + body.count))
        request.append(native: UInt16(type))
        request.append(native: UInt16(NLM_F_REQUEST | flags))
        request.append(native: sequence)
        request.append(native: UInt32(0))
        request += body
        let result = csl_netlink_send(descriptor, request, request.count)
        guard result == 0 else { throw Self.error("ask the kernel", -result) }

        var isConsistent = true
        while true {
            switch try receive() {
            case .nothing:
                // The kernel answers during the send, so waiting is the exception.
                guard csl_wait_readable(descriptor, -1, 5_000) != 0 else { throw Self.error("wait for the kernel", ETIMEDOUT) }
            case .unusable: isConsistent = false
            case .overrun: throw Self.error("hear the kernel's whole answer", ENOBUFS)
            case .datagram(let bytes, _):
                let (messages, isWhole) = NetlinkMessage.all(in: bytes)
                if !isWhole { isConsistent = false }
                // The rest of an earlier, interrupted answer has another number.
                for message in messages where message.sequence == sequence {
                    if message.flags & UInt16(NLM_F_DUMP_INTR) != 0 { isConsistent = false }
                    switch Int32(message.type) {
                    case NLMSG_NOOP: continue
                    case NLMSG_OVERRUN: throw Self.error("hear the kernel's whole answer", ENOBUFS)
                    case NLMSG_DONE, NLMSG_ERROR:
                        let number = message.errorNumber ?? EBADMSG
                        guard number == 0 else { throw Self.error("ask the kernel", number) }
                        return isConsistent
                    default:
                        each(message)
                        if message.flags & UInt16(NLM_F_MULTI) == 0 { return isConsistent }
                    }
                }
            }
        }
    }

    private static func error(_ doing: String, _ number: Int32) -> LinuxError {
        LinuxError(Errno(number: number).code, doing: "\(doing) about links (netlink)", errno: number)
    }
}
