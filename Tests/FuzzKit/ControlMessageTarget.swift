import CSyncLinux

extension FuzzTarget {
    /// Control messages of a Unix socket, from which descriptors are accepted: nothing is read beyond the bytes, what is found
    /// does not depend on where they lie or on the room for it, and what stands before and behind is found as well.
    static let controlMessages = FuzzTarget("control-messages", lengthMax: 2_048) { bytes in
        for type in [SYNC_SCM_RIGHTS, SYNC_SCM_PIDFD] {
            let (count, found) = descriptors(in: bytes[...], type)
            try claim(count == found.count && count * 4 <= bytes.count, "\(count) descriptors in \(bytes.count) bytes")
            for room in [0, 1, count / 2] {
                let (same, first) = descriptors(in: bytes[...], type, room: room)
                try claim(same == count && first == Array(found.prefix(room)), "depends on the room")
            }
            let (_, moved) = descriptors(in: ([0xFF] + bytes)[1...], type)
            try claim(moved == found, "depends on where the bytes lie")
            let one = message(type, 41)
            let (_, more) = descriptors(in: (one + bytes)[...], type)
            try claim(more == [41] + found, "what stands before changes what is found")
        }
    }

    private static func descriptors(in bytes: ArraySlice<UInt8>, _ type: Int32, room: Int = 512) -> (count: Int, found: [Int32]) {
        var found = [Int32](repeating: -1, count: room)
        let count = bytes.withUnsafeBytes { Int(sync_control_descriptors($0.baseAddress, $0.count, type, &found, Int32(room))) }
        return (count, Array(found.prefix(count)))
    }

    /// A control message of one descriptor, with its padding.
    private static func message(_ type: Int32, _ descriptor: Int32) -> [UInt8] {
        var bytes: [UInt8] = []
        withUnsafeBytes(of: 20) { bytes += $0 }
        for value in [1, type, descriptor, 0] { withUnsafeBytes(of: value) { bytes += $0 } }
        return bytes
    }
}
