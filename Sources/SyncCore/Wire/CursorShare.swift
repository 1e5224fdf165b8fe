/// The scopes that a position in the feed of one entity was made under (PROTOCOL A16), and how far their changes were sent since.
///
/// A scope appears as its code: 48 bits that only the hub can compute. Two scopes with one code do no harm, because the hub compares the
/// scopes of each record before it sends it.
package struct CursorShare: Hashable, Sendable {
    /// Names the state of the hub's table of scopes; another one does not know the same rows.
    package var index: Int64
    /// Codes of the scopes whose records the device has, up to the cursor's commit; in order.
    package var held: [Int64]
    /// Scopes that the device has gained since: it may have a part of their records.
    package var gained: [Int64] = []
    /// Scopes that the device has lost since: it may still have records of them.
    package var lost: [Int64] = []
    /// The last row of the gained and lost scopes that was sent.
    package var after = Place()
    /// Stands for ``held`` where there are too many scopes for a cursor.
    package private(set) var digest: [UInt8]?

    /// A row of a scope: the commit of its last change, and the record.
    package struct Place: Hashable, Sendable {
        package var version: Int64
        package var id: String

        package init(version: Int64 = 0, id: String = "") {
            self.version = version
            self.id = id
        }
    }

    package init(index: Int64, holding scopes: [Int64]) {
        self.index = index
        held = scopes.sorted()
    }

    /// Changes of the scopes are still being sent.
    package var isChanging: Bool { !gained.isEmpty || !lost.isEmpty }

    /// The share with which a pull continues under the device's present scopes.
    ///
    /// Scopes that were gained and lost while an earlier change was being sent may be there in part. They are therefore sent again when the
    /// device has them now, and taken back when it has not.
    ///
    /// - Returns: `nil` when it is unknown what the device has: it must list its share anew.
    package func continued(under present: [Int64], index: Int64) -> CursorShare? {
        guard index == self.index else { return nil }
        if let digest {
            return digest == CursorShare.digest(of: present.sorted()) ? CursorShare(index: index, holding: present) : nil
        }
        let now = Set(present)
        if Set(held).union(gained) == now { return self }
        let surely = Set(held).intersection(now)
        var next = CursorShare(index: index, holding: Array(surely))
        next.gained = now.subtracting(surely).sorted()
        next.lost = Set(held).union(gained).union(lost).subtracting(now).sorted()
        return next
    }

    /// The share once all changes of the scopes were sent.
    package var settled: CursorShare { CursorShare(index: index, holding: held + gained) }

    private static func digest(of codes: [Int64]) -> [UInt8] {
        Array(SHA256.hash(Array(codes.map { String($0) }.joined(separator: ",").utf8)).prefix(8))
    }

    // MARK: Text

    /// Without a slash in any part.
    var parts: [String] {
        [
            String(index), digest.map { "#" + Base64URL.encode($0) } ?? CursorShare.text(held), CursorShare.text(gained),
            CursorShare.text(lost), String(after.version), after.id,
        ]
    }

    static let partCount = 6

    init?(_ parts: ArraySlice<String>) {
        let parts = Array(parts)
        guard parts.count == CursorShare.partCount, let index = Int64(parts[0]), let version = Int64(parts[4]), version >= 0,
            let gained = CursorShare.codes(parts[2]), let lost = CursorShare.codes(parts[3])
        else { return nil }
        self.init(index: index, holding: [])
        if parts[1].hasPrefix("#") {
            guard let bytes = Base64URL.decode(String(parts[1].dropFirst())) else { return nil }
            digest = bytes
        } else {
            guard let codes = CursorShare.codes(parts[1]) else { return nil }
            held = codes
        }
        self.gained = gained
        self.lost = lost
        after = Place(version: version, id: parts[5])
    }

    /// The same share in a few bytes: later changes of the scopes then need a listing.
    ///
    /// - Returns: `nil` while changes are being sent.
    var shortened: CursorShare? {
        if isChanging { return nil }
        var short = CursorShare(index: index, holding: [])
        short.digest = digest ?? CursorShare.digest(of: held)
        return short
    }

    private static func text(_ codes: [Int64]) -> String {
        Base64URL.encode(codes.flatMap { code in (0..<6).map { UInt8(truncatingIfNeeded: code >> (8 * (5 - $0))) } })
    }

    private static func codes(_ text: String) -> [Int64]? {
        guard let bytes = Base64URL.decode(text), bytes.count % 6 == 0 else { return nil }
        return stride(from: 0, to: bytes.count, by: 6).map { start in
            bytes[start..<start + 6].reduce(0) { $0 << 8 | Int64($1) }
        }
    }
}
