/// How far a device has come in the feed of one entity, as the hub reads it. Devices only carry it back.
///
/// Text `1/epoch/entity/seq/live/sub` (no part can hold a slash), then 8 bytes of HMAC-SHA-256 over it, all as base64url.
/// The code guards against mistakes, not against an enemy: whoever could forge a cursor can read the same records anyway.
package struct Cursor: Hashable, Sendable {
    package var epoch: String
    package var entity: EntityName
    /// Every change up to this commit was handed out.
    package var seq: Int64
    /// Of a first sync: deletions up to this commit are left out, since the device never had what they delete.
    package var live: Int64 = 0
    /// Set when a page had to end inside commit `seq`: the ids up to this one were handed out.
    package var sub: RecordID?

    package init(epoch: String, entity: EntityName, seq: Int64, live: Int64 = 0, sub: RecordID? = nil) {
        self.epoch = epoch
        self.entity = entity
        self.seq = seq
        self.live = live
        self.sub = sub
    }

    /// Below this commit, no deletion that was forgotten since can matter.
    package var seen: Int64 { max(seq - (sub == nil ? 0 : 1), live) }

    package func text(secret: [UInt8]) -> String {
        let plain = Array("1/\(epoch)/\(entity)/\(seq)/\(live)/\(sub?.text ?? "")".utf8)
        return Base64URL.encode(plain + Cursor.code(plain, secret))
    }

    /// Why a cursor cannot be used.
    package enum Refusal: Error, Hashable {
        /// Not one of ours, or changed on the way.
        case unreadable
        /// Of another history of this hub, or of another hub.
        case otherEpoch
    }

    package static func read(_ text: String, secret: [UInt8], epoch: String) throws(Refusal) -> Cursor {
        guard text.utf8.count <= Limits.cursorBytes, let bytes = Base64URL.decode(text), bytes.count > 8 else {
            throw .unreadable
        }
        let plain = Array(bytes.dropLast(8))
        let parts = String(decoding: plain, as: UTF8.self).split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 6, parts[0] == "1", let entity = EntityName(String(parts[2])), let seq = Int64(parts[3]),
            let live = Int64(parts[4]), seq >= 0, live >= 0
        else { throw .unreadable }
        // Before the code is checked: a hub that was made anew has another secret, and its devices should hear why.
        guard parts[1] == epoch else { throw .otherEpoch }
        guard constantTimeEqual(Cursor.code(plain, secret), Array(bytes.suffix(8))) else { throw .unreadable }
        return Cursor(epoch: epoch, entity: entity, seq: seq, live: live, sub: RecordID(String(parts[5])))
    }

    private static func code(_ plain: [UInt8], _ secret: [UInt8]) -> [UInt8] {
        Array(SHA256.authenticate(plain, key: secret).prefix(8))
    }
}

/// Takes as long for the first wrong byte as for the last one.
package func constantTimeEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    guard left.count == right.count else { return false }
    return zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
}
