/// The receipt that a hub signs with an answer that brings verdicts or records (`Sync-Receipt`): the highest number that it had seen from
/// this database of this device, and its own position. The agent stores it on flash together with them and shows it when it greets,
/// pushes and lists, and with its next pull. A hub whose database was replaced by an older copy therefore detects this before it accepts
/// anything.
///
/// Text `r1/epoch/opening/head/device/replica/seq`, then 16 bytes of HMAC-SHA-256 over it, all as base64url. The first part distinguishes
/// it from a ``Cursor``, which is signed with the same secret. Agents carry it back and do not read its content.
package struct Receipt: Hashable, Sendable {
    /// The position of the hub when it answered.
    package var position: HubPosition
    package var device: DeviceID
    package var replica: ReplicaID
    /// The highest `seq` of that database that the hub had seen.
    package var seq: Int64

    package init(position: HubPosition, device: DeviceID, replica: ReplicaID, seq: Int64) {
        self.position = position
        self.device = device
        self.replica = replica
        self.seq = seq
    }

    package func text(secret: [UInt8]) -> String {
        let plain = Array("r1/\(position.epoch)/\(position.opening)/\(position.head)/\(device)/\(replica)/\(seq)".utf8)
        return Base64URL.encode(plain + HubSignature.of(plain, secret))
    }

    /// - Returns: `nil` for a text that this secret has not signed, and for any other value.
    package static func read(_ text: String, secret: [UInt8]) -> Receipt? {
        guard text.utf8.count <= Limits.cursorBytes, let bytes = Base64URL.decode(text), bytes.count > HubSignature.bytes else {
            return nil
        }
        let plain = Array(bytes.dropLast(HubSignature.bytes))
        guard constantTimeEqual(HubSignature.of(plain, secret), Array(bytes.suffix(HubSignature.bytes))) else { return nil }
        let parts = String(decoding: plain, as: UTF8.self).split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 7, parts[0] == "r1", let head = Int64(parts[3]), let device = DeviceID(String(parts[4])),
            let replica = ReplicaID(String(parts[5])), let seq = Int64(parts[6])
        else { return nil }
        return Receipt(
            position: HubPosition(epoch: String(parts[1]), opening: String(parts[2]), head: head), device: device,
            replica: replica, seq: seq)
    }

    /// The form that is allowed in the header: base64url, at most ``Limits/cursorBytes``. Any other text counts as no receipt.
    package static func isCarried(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= Limits.cursorBytes
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}

/// The hub's position when it last answered this database: within one history it must not fall behind it.
package struct HubStanding: Hashable, Sendable {
    package var epoch: String
    package var replica: ReplicaID
    package var head: Int64
    /// The highest `seq` of this database that the hub reported as seen.
    package var seq: Int64
    /// The hub's receipt for it; `nil` from a hub that signs nothing.
    package var receipt: String?

    package init(epoch: String, replica: ReplicaID, head: Int64, seq: Int64, receipt: String? = nil) {
        self.epoch = epoch
        self.replica = replica
        self.head = head
        self.seq = seq
        self.receipt = receipt
    }

    /// Returns whether an answer in this history shows less than the hub had reported. A missing value shows nothing, nor does the `seq` of
    /// another database.
    package func isAhead(of facts: HubHeaders, for replica: ReplicaID) -> Bool {
        if let head = facts.head, head < self.head { return true }
        guard let seq = facts.deviceSeq, self.replica == replica else { return false }
        return seq < self.seq
    }
}
