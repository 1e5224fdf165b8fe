/// SHA-256 (FIPS 180-4). It is part of the core because fingerprints, cursors and clock nodes are computed here, where no library may be
/// imported. It hashes small data; the system's libcrypto hashes files.
package struct SHA256: Sendable {
    private var state: [UInt32] = [
        0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
    ]
    private var pending: [UInt8] = []
    private var length: UInt64 = 0

    package init() {
        pending.reserveCapacity(64)
    }

    /// Continues from an earlier state.
    ///
    /// - Parameter midstate: The bytes of ``midstate``; other bytes give `nil`.
    package init?(midstate: [UInt8]) {
        guard midstate.count >= 40, midstate.count < 104 else { return nil }
        state = (0..<8).map { word in midstate[(word * 4)..<(word * 4 + 4)].reduce(0) { $0 << 8 | UInt32($1) } }
        length = midstate[32..<40].reduce(0) { $0 << 8 | UInt64($1) }
        pending = Array(midstate[40...])
        guard length % 512 == UInt64(pending.count) * 8 else { return nil }
    }

    /// The state that a later hash needs to continue: 8 words of state, the number of bits so far, and up to 63 bytes of an incomplete
    /// block; big-endian.
    package var midstate: [UInt8] {
        var bytes = Self.bytes(of: state)
        for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: length >> UInt64(shift))) }
        return bytes + pending
    }

    /// - Returns: The 32 bytes of the hash.
    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var digest = SHA256()
        digest.update(bytes)
        return digest.finish()
    }

    /// HMAC (RFC 2104).
    package static func authenticate(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
        var block = key.count > 64 ? hash(key) : key
        block += [UInt8](repeating: 0, count: 64 - block.count)
        let inner = hash(block.map { $0 ^ 0x36 } + message)
        return hash(block.map { $0 ^ 0x5c } + inner)
    }

    package mutating func update(_ bytes: some Sequence<UInt8>) {
        let before = pending.count
        pending.append(contentsOf: bytes)
        length &+= UInt64(pending.count - before) &* 8
        compressWhole()
    }

    /// Adds bytes. It is not generic, so that other modules need not specialise it: uploaded files are hashed here.
    package mutating func update(_ bytes: [UInt8]) {
        pending += bytes
        length &+= UInt64(bytes.count) &* 8
        compressWhole()
    }

    package mutating func finish() -> [UInt8] {
        let bits = length
        pending.append(0x80)
        let rest = pending.count % 64
        pending.append(contentsOf: repeatElement(0, count: rest > 56 ? 120 - rest : 56 - rest))
        for shift in stride(from: 56, through: 0, by: -8) { pending.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift))) }
        compressWhole()
        return Self.bytes(of: state)
    }

    /// The words, big-endian, without an array for each of them: the hub makes some ten digests for a request.
    private static func bytes(of words: [UInt32]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: words.count * 4) { bytes, count in
            for word in words {
                for shift in stride(from: UInt32(24), through: 0, by: -8) {
                    bytes[count] = UInt8(truncatingIfNeeded: word &>> shift)
                    count += 1
                }
            }
        }
    }

    private mutating func compressWhole() {
        let end = pending.count & ~63
        guard end > 0 else { return }
        pending.withUnsafeBufferPointer { bytes in
            Self.constants.withUnsafeBufferPointer { constants in
                guard let bytes = bytes.baseAddress, let constants = constants.baseAddress else { return }
                var start = 0
                while start < end {
                    Self.compress(bytes + start, constants, into: &state)
                    start += 64
                }
            }
        }
        pending.removeFirst(end)
    }

    /// Processes one block of 64 bytes. Plain loops over plain addresses, because tests run it unoptimised some hundred thousand times.
    private static func compress(
        _ block: UnsafePointer<UInt8>, _ constants: UnsafePointer<UInt32>, into state: inout [UInt32]
    ) {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { buffer in
            guard let schedule = buffer.baseAddress else { return }
            var index = 0
            while index < 16 {
                let high = UInt32(block[index * 4]) << 24 | UInt32(block[index * 4 + 1]) << 16
                schedule[index] = high | UInt32(block[index * 4 + 2]) << 8 | UInt32(block[index * 4 + 3])
                index += 1
            }
            while index < 64 {
                let a = schedule[index - 15], b = schedule[index - 2]
                let s0 = (a &>> 7 | a &<< 25) ^ (a &>> 18 | a &<< 14) ^ (a &>> 3)
                let s1 = (b &>> 17 | b &<< 15) ^ (b &>> 19 | b &<< 13) ^ (b &>> 10)
                schedule[index] = schedule[index - 16] &+ s0 &+ schedule[index - 7] &+ s1
                index += 1
            }
            var a = state[0], b = state[1], c = state[2], d = state[3]
            var e = state[4], f = state[5], g = state[6], h = state[7]
            index = 0
            while index < 64 {
                let s1 = (e &>> 6 | e &<< 26) ^ (e &>> 11 | e &<< 21) ^ (e &>> 25 | e &<< 7)
                let t1 = h &+ s1 &+ ((e & f) ^ (~e & g)) &+ constants[index] &+ schedule[index]
                let s0 = (a &>> 2 | a &<< 30) ^ (a &>> 13 | a &<< 19) ^ (a &>> 22 | a &<< 10)
                let t2 = s0 &+ ((a & b) ^ (a & c) ^ (b & c))
                (h, g, f, e, d, c, b, a) = (g, f, e, d &+ t1, c, b, a, t1 &+ t2)
                index += 1
            }
            state[0] &+= a
            state[1] &+= b
            state[2] &+= c
            state[3] &+= d
            state[4] &+= e
            state[5] &+= f
            state[6] &+= g
            state[7] &+= h
        }
    }

    private static let constants: [UInt32] = [
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    ]
}
