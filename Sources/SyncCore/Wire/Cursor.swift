/// One point of a hub's history: a commit number, and the opening of the database in which it was the newest.
///
/// The commit number alone does not tell an older copy of a database from the database: both give out the same numbers. A hub therefore
/// names each opening of its database (``HubLineage`` in `HubServer`). A point that the hub has signed and does not find among its own
/// openings proves that its database is an older copy.
package struct HubPosition: Hashable, Sendable {
    package var epoch: String
    /// Name of the opening, 8 hexadecimal digits; empty in a cursor of version 1, and of a hub that has written nothing yet.
    package var opening: String
    package var head: Int64

    package init(epoch: String, opening: String, head: Int64) {
        self.epoch = epoch
        self.opening = opening
        self.head = head
    }
}

/// The position of a device in the feed of one entity, as the hub reads it. Devices only carry it back.
///
/// Text `2/epoch/entity/seq/live/sub/opening` (no part can hold a slash), then 16 bytes of HMAC-SHA-256 over it, all as base64url. Version
/// 1 had no `opening` and 8 bytes; it is still read. Version 3 has the parts of ``CursorShare`` at its end.
///
/// The code is more than a guard against mistakes: a cursor beyond the hub's head proves that the database went back, and makes the hub
/// begin a new history for all devices. Only data that this hub has signed may do that.
///
/// A cursor with a share is signed for its device. It tells what to take back from that device, so it must say nothing to another one.
package struct Cursor: Hashable, Sendable {
    package var epoch: String
    package var entity: EntityName
    /// Every change up to this commit was sent.
    package var seq: Int64
    /// For a first sync: deletions up to this commit are left out, since the device never had the deleted records.
    package var live: Int64 = 0
    /// Set when a page had to end inside commit `seq`: the ids up to this one were sent.
    package var sub: RecordID?
    /// The opening of the hub's database that made this; empty in version 1.
    package var opening = ""
    /// The scopes of the device for an entity with scopes; `nil` in a cursor for all records.
    package var share: CursorShare?

    package init(
        epoch: String, entity: EntityName, seq: Int64, live: Int64 = 0, sub: RecordID? = nil, opening: String, share: CursorShare? = nil
    ) {
        self.share = share
        self.epoch = epoch
        self.entity = entity
        self.seq = seq
        self.live = live
        self.sub = sub
        self.opening = opening
    }

    /// A deletion that was forgotten since can only matter if its commit is above this one.
    package var seen: Int64 { max(seq - (sub == nil ? 0 : 1), live) }

    /// The newest commit that the hub must have had when it made this.
    package var position: HubPosition { HubPosition(epoch: epoch, opening: opening, head: max(seq, live)) }

    /// - Parameter device: The device that the cursor is for.
    package func text(secret: [UInt8], for device: DeviceID) -> String {
        let version = share == nil ? 2 : 3
        let parts = ["\(version)/\(epoch)/\(entity)/\(seq)/\(live)/\(sub?.text ?? "")/\(opening)"] + (share?.parts ?? [])
        let plain = Array(parts.joined(separator: "/").utf8)
        return Base64URL.encode(plain + Cursor.code(plain, version, device, secret))
    }

    private static func code(_ plain: [UInt8], _ version: Int, _ device: DeviceID, _ secret: [UInt8]) -> [UInt8] {
        HubSignature.of(version == 3 ? plain + Array("/\(device)".utf8) : plain, secret)
    }

    /// - Returns: `nil` when its share has more changes than a cursor holds.
    package func carried(secret: [UInt8], for device: DeviceID) -> String? {
        let text = text(secret: secret, for: device)
        if text.utf8.count <= Limits.cursorBytes { return text }
        guard let short = share?.shortened else { return nil }
        var cursor = self
        cursor.share = short
        return cursor.text(secret: secret, for: device)
    }

    /// The reason why a cursor cannot be used.
    package enum Refusal: Error, Hashable {
        /// The cursor was not made by this hub, is of another device, or was changed in transit.
        case unreadable
        /// The cursor belongs to another history of this hub, or to another hub.
        case otherEpoch
    }

    /// - Parameter device: The device that shows the cursor.
    package static func read(_ text: String, secret: [UInt8], epoch: String, from device: DeviceID) throws(Refusal) -> Cursor {
        guard text.utf8.count <= Limits.cursorBytes, let bytes = Base64URL.decode(text), bytes.count > 2 else {
            throw .unreadable
        }
        let version = Int(bytes[0] &- UInt8(ascii: "0"))
        let codeBytes = version == 1 ? 8 : HubSignature.bytes
        guard bytes.count > codeBytes, (1...3).contains(version) else { throw .unreadable }
        let partCount = version == 1 ? 6 : version == 2 ? 7 : 7 + CursorShare.partCount
        let plain = Array(bytes.dropLast(codeBytes))
        let parts = plain.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
        guard parts.count == partCount, parts[0].utf8.count == 1, let entity = EntityName(parts[2]),
            let seq = Int64(parts[3]), let live = Int64(parts[4]), seq >= 0, live >= 0
        else { throw .unreadable }
        let share = version == 3 ? CursorShare(parts[7...]) : nil
        if version == 3, share == nil { throw .unreadable }
        // Checked before the code: a hub that was created anew has another secret, and its devices should learn the reason.
        guard parts[1] == epoch else { throw .otherEpoch }
        let code = Cursor.code(plain, version, device, secret).prefix(codeBytes)
        guard constantTimeEqual(Array(code), Array(bytes.suffix(codeBytes))) else { throw .unreadable }
        return Cursor(
            epoch: epoch, entity: entity, seq: seq, live: live, sub: RecordID(parts[5]), opening: version == 1 ? "" : parts[6],
            share: share)
    }
}

/// The authentication code of values that a hub gives to its devices and that they show again.
package enum HubSignature {
    package static let bytes = 16

    package static func of(_ plain: [UInt8], _ secret: [UInt8]) -> [UInt8] {
        Array(SHA256.authenticate(plain, key: secret).prefix(bytes))
    }
}

/// Compares in the same time wherever the first difference is.
package func constantTimeEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    guard left.count == right.count else { return false }
    return zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
}
