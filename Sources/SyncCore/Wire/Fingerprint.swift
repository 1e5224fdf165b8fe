/// The content of a mutation in 16 bytes: two bodies under one key must request the same (PROTOCOL A4, step 1).
///
/// It is the first half of the SHA-256 of entity, record, action and payload in a canonical form, so that equal meaning gives an equal
/// fingerprint. Members are sorted by name, numbers and text are in normal form, and a missing part equals an empty one. Stamps, versions
/// and `seq` are left out, because they may differ between two attempts.
///
/// It must identify the request of the app, not the sent form. A mutation that a rebase changed before it was first sent differs from that
/// request, so it carries the first fingerprint itself (`first_digest`): a database that is restored from before the rebase sends the first
/// form, and the hub must see one mutation. A mutation that took in a later edit must not keep its fingerprint. A database restored from
/// before that edit could take in another one, and the hub would treat that as known and drop it. An edit that goes into a rebased mutation
/// therefore changes its `first_digest` (``joined(_:_:)``), and one that goes into any other changes the sent form. A difference is refused
/// with `idempotency-mismatch` and waits for a person: an unnecessary decision, but no loss.
package enum Fingerprint {
    /// - Parameter item: One element of `mutations` as received.
    package static func of(_ item: JSONObject) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(512)
        for name in ["entity", "record_id", "action", "data", "unset", "ops"] {
            let part = name == "ops" ? unstamped(item[name]) : item[name] ?? .null
            if part.array?.isEmpty == true || part.object?.isEmpty == true {
                canonical(.null, &bytes)
            } else {
                canonical(part, &bytes)
            }
            bytes.append(UInt8(ascii: "\n"))
        }
        return Array(SHA256.hash(bytes).prefix(16))
    }

    /// The time of an operation is no part of its content.
    private static func unstamped(_ operations: JSON?) -> JSON {
        guard let list = operations?.array, list.contains(where: { $0.object?["hlc"] != nil }) else { return operations ?? .null }
        return .array(
            list.map { json in
                guard var operation = json.object else { return json }
                operation["hlc"] = nil
                return .object(operation)
            })
    }

    /// The form in `first_digest`: 32 hexadecimal digits.
    package static func text(_ fingerprint: [UInt8]) -> String {
        hexText(fingerprint)
    }

    /// The fingerprint of a rebased mutation that took in a later edit.
    package static func joined(_ first: String, _ added: String) -> String {
        text(Array(SHA256.hash(Array("\(first)+\(added)".utf8)).prefix(16)))
    }

    /// - Returns: `nil` for anything except 32 hexadecimal digits.
    package static func read(_ text: String) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count == 32 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: 32, by: 2) {
            guard let high = hexDigit(digits[index]), let low = hexDigit(digits[index + 1]) else { return nil }
            bytes.append(UInt8(high << 4 | low))
        }
        return bytes
    }

    private static func canonical(_ json: JSON, _ bytes: inout [UInt8]) {
        switch json {
        case .null: bytes.append(contentsOf: "null".utf8)
        case .bool(let value): bytes.append(contentsOf: (value ? "true" : "false").utf8)
        case .number(let value): canonical(value, &bytes)
        case .string(let value): canonical(value, &bytes)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for element in elements {
                canonical(element, &bytes)
                bytes.append(UInt8(ascii: ","))
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let object):
            bytes.append(UInt8(ascii: "{"))
            for member in inOrder(object.members) {
                canonical(member.name, &bytes)
                canonical(member.value, &bytes)
                bytes.append(UInt8(ascii: ","))
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    /// Most apps write their members in one order already, and then there is nothing to sort.
    private static func inOrder(_ members: [JSONObject.Member]) -> [JSONObject.Member] {
        let isInOrder = zip(members, members.dropFirst()).allSatisfy { precedesInBytes($0.name.text, $1.name.text) }
        return isInOrder ? members : members.sorted { precedesInBytes($0.name.text, $1.name.text) }
    }

    private static func canonical(_ string: JSONString, _ bytes: inout [UInt8]) {
        let plain = !string.source.utf8.contains(UInt8(ascii: "\\"))
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: (plain ? string.source : JSONString(string.text).source).utf8)
        bytes.append(UInt8(ascii: "\""))
    }

    private static func canonical(_ number: JSONNumber, _ bytes: inout [UInt8]) {
        let decimal = JSONNumber.Decimal(number)
        if decimal.isNegative { bytes.append(UInt8(ascii: "-")) }
        bytes.append(contentsOf: decimal.digits.utf8)
        bytes.append(UInt8(ascii: "e"))
        bytes.append(contentsOf: String(decimal.exponent).utf8)
    }
}
