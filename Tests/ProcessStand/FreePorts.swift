import Glibc

/// TCP ports on loopback that nobody listens on, for programs that must be told theirs.
package enum FreePorts {
    /// - Returns: All different.
    package static func take(_ count: Int) throws -> [UInt16] {
        var descriptors: [Int32] = []
        defer { descriptors.forEach { close($0) } }
        return try (0..<count).map { _ in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            descriptors.append(descriptor)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let bound = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, size) == 0 && getsockname(descriptor, $0, &size) == 0
                }
            }
            guard bound else { throw SpawnFailure(description: "no free port") }
            return UInt16(bigEndian: address.sin_port)
        }
    }
}
