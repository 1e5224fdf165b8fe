import CSyncLinux
import Glibc

/// curl's callbacks. The context is the transfer, except for the last callback, where it is the ledger.
enum CurlCallbacks {
    typealias Bytes = @convention(c) (UnsafeMutablePointer<CChar>?, Int, Int, UnsafeMutableRawPointer?) -> Int

    static let header: Bytes = { bytes, size, count, context in
        guard let context else { return 0 }
        let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
        return CurlTransfer.of(context: context).read(header: line) ? line.count : 0
    }

    static let body: Bytes = { bytes, size, count, context in
        guard let context else { return 0 }
        let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
        return CurlTransfer.of(context: context).read(body: piece) ? piece.count : 0
    }

    static let read: Bytes = { bytes, size, count, context in
        guard let context else { return Int(CURL_READFUNC_ABORT) }
        let room = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
        return CurlTransfer.of(context: context).nextBytes(into: room) ?? Int(CURL_READFUNC_ABORT)
    }

    static let ready:
        @convention(c) (
            UnsafeMutableRawPointer?, UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<CChar>?, Int32, Int32
        ) -> Int32 = { context, remote, local, remotePort, localPort in
            guard let context, let remote, let local else { return CURL_PREREQFUNC_ABORT }
            let isReady = CurlTransfer.of(context: context).isReadyToSend(
                local: local, localPort: localPort, remote: remote, remotePort: remotePort)
            return isReady ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
        }

    static let openSocket:
        @convention(c) (
            UnsafeMutableRawPointer?, curlsocktype, UnsafeMutablePointer<curl_sockaddr>?
        ) -> curl_socket_t = { context, _, address in
            guard let context, let address, CurlTransfer.of(context: context).allows(address) else { return CURL_SOCKET_BAD }
            let kind = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
            let socket = Glibc.socket(address.pointee.family, kind, address.pointee.protocol)
            if socket >= 0 {
                csl_end_without_rest(socket)
                CurlTransfer.of(context: context).opened(socket, to: address)
            }
            return socket
        }

    static let closeSocket: @convention(c) (UnsafeMutableRawPointer?, curl_socket_t) -> Int32 = { context, socket in
        if let context { Unmanaged<SocketLedger>.fromOpaque(context).takeUnretainedValue().closing(socket) }
        // The agent closes a connection when an answer is complete or a transfer was given up. Data that still waits in the kernel would
        // only cost volume again when the link is back.
        csl_close_without_rest(socket)
        return close(socket)
    }
}
