import Glibc

/// TCP ports on loopback without a listener, for programs that must be told theirs.
package enum FreePorts {
    /// Ports below those that the kernel gives to connections (ip_local_port_range begins at 32768): a program that is killed and
    /// started again must find its port free.
    private static let lasting: ClosedRange<UInt16> = 12_000...31_999

    /// - Returns: All different.
    package static func take(_ count: Int) throws -> [UInt16] {
        var descriptors: [Int32] = []
        defer { descriptors.forEach { close($0) } }
        return try (0..<count).map { _ in
            let bound = try bindLasting()
            descriptors.append(bound.descriptor)
            return bound.port
        }
    }

    private static func bindLasting() throws -> (descriptor: Int32, port: UInt16) {
        for _ in 0..<100 {
            do {
                return try bind(.random(in: lasting))
            } catch {
                // Another program has this one.
                continue
            }
        }
        return try bind()
    }

    /// - Returns: A socket that listens, to be inherited: no other program can take its port in between.
    package static func listen() throws -> (descriptor: Int32, port: UInt16) {
        let bound = try bind(isInherited: true)
        guard Glibc.listen(bound.descriptor, 128) == 0 else {
            let error = errno
            close(bound.descriptor)
            throw SpawnFailure(description: "listen on a free port: \(String(cString: strerror(error)))")
        }
        return bound
    }

    /// Here, because what `SOCK_STREAM` is called depends on the modules of the file that names it.
    ///
    /// - Returns: A socket for a stream of bytes that is closed in children; -1 with `errno` when there is none.
    package static func socket(_ family: Int32 = AF_INET) -> Int32 {
        Glibc.socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    }

    /// - Parameters:
    ///   - port: 0 lets the kernel choose.
    ///   - isInherited: Otherwise a program that is started meanwhile would keep the port.
    private static func bind(_ port: UInt16 = 0, isInherited: Bool = false) throws -> (descriptor: Int32, port: UInt16) {
        let type = Int32(SOCK_STREAM.rawValue) | (isInherited ? 0 : Int32(SOCK_CLOEXEC.rawValue))
        let descriptor = Glibc.socket(AF_INET, type, 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.bind(descriptor, $0, size) == 0 && getsockname(descriptor, $0, &size) == 0
            }
        }
        guard isBound else {
            let error = errno
            close(descriptor)
            throw SpawnFailure(description: "no free port: \(String(cString: strerror(error)))")
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }
}
