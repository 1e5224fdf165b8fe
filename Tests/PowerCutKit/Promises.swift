/// The promises that a program has made up to a place of a log, according to the bytes on its sockets. It may never take them
/// back.
package struct Promises: Sendable {
    /// Mutations that the agent has answered for: number and id.
    package var mutations: [Int64: String] = [:]
    /// Keys that the hub has accepted, with the version that it gave.
    package var accepted: [String: Int64] = [:]
    /// Keys that the agent has handed to the hub.
    package var offered: Set<String> = []
    /// The history that the hub has named last.
    package var epoch: String?
    /// Files, by their digest in hexadecimal digits: of the agent those that it took, of the hub those that arrived.
    package var files: Set<String> = []

    private var place = 0

    package init() {}

    package var count: Int { mutations.count + accepted.count + offered.count + files.count }

    /// Takes in what was sent before `place` in the log.
    package mutating func advance(to place: Int, in log: IOLog) {
        while self.place < min(place, log.records.count) {
            let record = log.records[self.place]
            if record.kind == .sent { read(log.bytes[record.data]) }
            self.place += 1
        }
    }

    /// From now on of another log, whose program goes on where this one was cut off.
    package mutating func beginNextLog() {
        place = 0
    }

    /// A promise begins to count with the part of an answer that names it, which is never too late.
    private mutating func read(_ sent: ArraySlice<UInt8>) {
        // `{"id":"01a2…","seq":402,`
        Self.each(#""id":""#, in: sent) { rest in
            guard let id = rest.upTo("\""), let tail = rest.dropFirst(id.count).after(#"","seq":"#), let seq = tail.number else { return }
            mutations[seq] = String(decoding: id, as: UTF8.self)
        }
        Self.each(#""idempotency_key":""#, in: sent) { rest in
            guard let key = rest.upTo("\"") else { return }
            let (name, tail) = (String(decoding: key, as: UTF8.self), rest.dropFirst(key.count))
            if tail.after(#"","status":"#) == nil {
                offered.insert(name)
            } else if let version = tail.after(#"","status":"accepted","version":"#)?.number {
                accepted[name] = version
            }
        }
        // `{"id":"b-1","digest":"sha256:9b1c…"`, in an answer and not in a request.
        guard sent.starts(with: Array("HTTP/1.1 ".utf8)) || sent.first == UInt8(ascii: "{") else { return }
        Self.each(#""digest":"sha256:"#, in: sent) { rest in
            if let digest = rest.upTo("\""), digest.count == 64 { files.insert(String(decoding: digest, as: UTF8.self)) }
        }
        guard sent.starts(with: Array("HTTP/1.1 2".utf8)) else { return }
        Self.each("Sync-Epoch: ", in: sent) { rest in
            if let name = rest.upTo("\r") { epoch = String(decoding: name, as: UTF8.self) }
        }
        Self.each("Repr-Digest: sha-256=:", in: sent) { rest in
            if let digest = rest.upTo(":").flatMap({ Self.bytes(base64: $0) }) { files.insert(Self.hex(digest)) }
        }
    }

    private static func each(_ mark: String, in bytes: ArraySlice<UInt8>, _ body: (ArraySlice<UInt8>) -> Void) {
        let mark = Array(mark.utf8)
        var rest = bytes
        while let start = rest.firstIndex(of: mark[0]) {
            rest = rest[start...]
            if rest.starts(with: mark) { body(rest.dropFirst(mark.count)) }
            rest = rest.dropFirst()
        }
    }

    private static func bytes(base64 text: ArraySlice<UInt8>) -> [UInt8]? {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var bits: UInt32 = 0
        var count = 0
        var bytes: [UInt8] = []
        for letter in text where letter != UInt8(ascii: "=") {
            guard let value = letters.firstIndex(of: letter) else { return nil }
            bits = bits << 6 | UInt32(value)
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
            }
        }
        return bytes.count == 32 ? bytes : nil
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}

extension ArraySlice<UInt8> {
    fileprivate func upTo(_ end: String) -> ArraySlice<UInt8>? {
        guard let end = end.utf8.first, let index = firstIndex(of: end) else { return nil }
        return self[..<index]
    }

    fileprivate func after(_ start: String) -> ArraySlice<UInt8>? {
        let start = Array(start.utf8)
        return starts(with: start) ? dropFirst(start.count) : nil
    }

    fileprivate var number: Int64? { Int64(String(decoding: prefix { (48...57).contains($0) }, as: UTF8.self)) }
}
