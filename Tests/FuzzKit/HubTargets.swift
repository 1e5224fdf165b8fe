import SyncCore
import SyncLinux

extension FuzzTarget {
    /// Bodies of the hub's answers: the first byte says of which call. The hub's own writer makes the same of the value that was read.
    static let hubAnswer = FuzzTarget("hub-answer", lengthMax: 8_192) { bytes in
        var rest = bytes[...]
        guard let kind = choice(&rest, of: 8) else { return }
        let body = Array(rest)
        do throws(ReplyError) {
            switch kind {
            case 0: try again(PushMessages.readResponse, body) { PushMessages.response(head: $0.head, results: $0.results) }
            case 1: try again(PullMessages.readResponse, body, PullMessages.response)
            case 2: try again(SnapshotMessages.readResponse, body, SnapshotMessages.response)
            case 3: try again(VerifyMessages.readResponse, body, VerifyMessages.response)
            case 4: try again(KnownMessages.readResponse, body) { KnownMessages.response(unknown: $0) }
            case 5: try again(HelloMessages.readResponse, body, HelloMessages.response)
            case 6: try again(DeviceMessages.readGrant, body, DeviceMessages.grant)
            default: _ = KeptToken(reading: body).map(\.bytes).flatMap(KeptToken.init(reading:))
            }
        } catch {
            try claim(!error.expected.isEmpty, "refused without a word")
            try claim(!error.expected.hasPrefix(broken), "\(error)")
        }
    }

    private static let broken = "what was read to be the same when it is written: "

    /// Not all that was sent is kept, but all that was kept is written: the second reading is the first.
    private static func again<Message: Hashable>(
        _ read: ([UInt8]) throws(ReplyError) -> Message, _ body: [UInt8], _ write: (Message) -> [UInt8]
    ) throws(ReplyError) {
        let first = try read(body)
        let written = write(first)
        let second: Message
        do throws(ReplyError) {
            second = try read(written)
        } catch {
            throw ReplyError("", broken + "it is refused, \(error): \(written[...].asText)")
        }
        guard write(second) == written else { throw ReplyError("", broken + written[...].asText) }
    }

    /// A whole answer as it comes from the wire: head, then body. Only what says that it is the hub's counts as its answer.
    static let hubHead = FuzzTarget("hub-head") { bytes in
        let limits = AnswerLimits(headBytes: 1_024, headFields: 20, bodyBytes: 2_048, inflateRatio: 100)
        guard let response = WholeAnswer.read(bytes, limits: limits) else { return }
        try claim(response.body.count <= limits.bodyBytes, "a body of \(response.body.count) bytes")
        try claim(response.headers.fields.count <= limits.headFields, "\(response.headers.fields.count) header fields")
        let now = Timestamp(milliseconds: 1_763_700_000_000)
        switch HubReply.read(response, now: now) {
        case .answered(let headers, let body):
            try claim(headers.version == HubHeader.currentVersion && body == response.body, "an answer of another server counts")
            try claim((200...299).contains(response.status), "status \(response.status) counts as an answer")
        case .refused(let refusal):
            try claim(refusal.detail.utf8.count <= 16_384, "a refusal of \(refusal.detail.utf8.count) bytes")
        }
        let headers = HubHeaders(reading: response.headers, now: now)
        if let asked = headers.asked { try claim(asked >= .zero && asked <= .seconds(3_155_760_000), "a wait of \(asked)") }
        var written: HTTPHeaders = []
        headers.write(to: &written)
        var same = HubHeaders(reading: written, now: now)
        var plain = headers
        (same.retryAfter, plain.retryAfter, plain.rateLimit) = (nil, nil, nil)
        try claim(same == plain, "header fields changed: \(plain) and \(same)")
        _ = CaptivePortal(response)
    }

    /// Bodies of requests as the hub reads them: the first byte says which. An accepted request is bounded.
    static let hubRequest = FuzzTarget("hub-request", lengthMax: 8_192) { bytes in
        var rest = bytes[...]
        guard let kind = choice(&rest, of: 6) else { return }
        let body = Array(rest)
        do throws(Problem) {
            switch kind {
            case 0:
                let push = try PushMessages.readRequest(body)
                guard push.items.count <= Limits.batchMutationsMax, Set(push.items.map(\.key)).count == push.items.count else {
                    throw broken("\(push.items.count) items")
                }
            case 1:
                let pull = try PullMessages.readRequest(body)
                guard try PullMessages.readRequest(PullMessages.request(pull)) == pull, pull.limit <= Limits.pullRecordsMax else {
                    throw broken("a pull changed")
                }
            case 2:
                let verify = try VerifyMessages.readRequest(body)
                guard try VerifyMessages.readRequest(VerifyMessages.request(verify)) == verify else {
                    throw broken("a verify changed")
                }
            case 3:
                let keys = try KnownMessages.readRequest(body)
                guard try KnownMessages.readRequest(KnownMessages.request(keys)) == keys else { throw broken("keys changed") }
            case 4:
                let hello = try HelloMessages.readRequest(body)
                guard try HelloMessages.readRequest(HelloMessages.request(hello)) == hello else {
                    throw broken("a hello changed")
                }
            default:
                let token = try DeviceMessages.readEnrolment(body)
                guard try DeviceMessages.readEnrolment(DeviceMessages.enrolment(token)) == token else {
                    throw broken("a token changed")
                }
            }
        } catch {
            try claim(error.status >= 400 && error.status < 500, error.detail)
        }
    }

    private static func broken(_ words: String) -> Problem { Problem("broken", status: 0, detail: words) }

    /// Cursors as they come back to the hub. The hub opens only cursors that it has written itself.
    static let cursor = FuzzTarget("cursor", lengthMax: 700) { bytes in
        let text = bytes[...].asText
        // Cursors of version 1 are read, but not written any more.
        if let read = try? Cursor.read(text, secret: secret, epoch: "e-1", from: device), Base64URL.decode(text)?.first == UInt8(ascii: "2")
        {
            try claim(read.text(secret: secret, for: device).utf8.elementsEqual(text.utf8), "\(text) is taken for \(read)")
        }
        if let plain = Base64URL.decode(text) {
            try claim(Base64URL.encode(plain).utf8.elementsEqual(text.utf8), "two texts for the same bytes: \(text)")
        }
        // One of our own, made of the same bytes, opens; and not with a bit changed.
        let number = bytes.prefix(8).reduce(Int64(0)) { ($0 << 8 | Int64($1)) & .max }
        var own = Cursor(
            epoch: "e-1", entity: EntityName(trusted: "audits"), seq: number, live: number >> 3,
            sub: RecordID(bytes.dropFirst(8).prefix(64).map { Character(Unicode.Scalar($0 % 26 + 97)) }.map(String.init).joined()),
            opening: "0a1b2c3d"
        )
        if bytes.first?.isMultiple(of: 2) == true {
            own.share = CursorShare(index: number >> 8, holding: [number & 0xFFFF_FFFF_FFFF])
            let text = own.text(secret: secret, for: device)
            let other = DeviceID(trusted: "gw-2")
            try claim((try? Cursor.read(text, secret: secret, epoch: "e-1", from: other)) == nil, "opens for another device")
        }
        var written = Array(own.text(secret: secret, for: device).utf8)
        try claim((try? Cursor.read(written[...].asText, secret: secret, epoch: "e-1", from: device)) == own, "\(own) does not come back")
        try claim((try? Cursor.read(written[...].asText, secret: secret, epoch: "e-2", from: device)) == nil, "opens in another history")
        let place = Int(bytes.last ?? 0) % written.count
        written[place] = written[place] == 65 ? 66 : 65
        try claim((try? Cursor.read(written[...].asText, secret: secret, epoch: "e-1", from: device)) == nil, "opens with a letter changed")
        // A receipt comes back as it was, and neither passes for the other.
        let receipt = Receipt(
            position: HubPosition(epoch: "e-1", opening: "0a1b2c3d", head: number), device: device,
            replica: ReplicaID(trusted: "r-1"), seq: number >> 1)
        try claim(Receipt.read(receipt.text(secret: secret), secret: secret) == receipt, "\(receipt) does not come back")
        try claim(Receipt.read(own.text(secret: secret, for: device), secret: secret) == nil, "a cursor is taken for a receipt")
        try claim(
            (try? Cursor.read(receipt.text(secret: secret), secret: secret, epoch: "e-1", from: device)) == nil,
            "a receipt is taken for a cursor")
        if let read = Receipt.read(text, secret: secret) {
            try claim(read.text(secret: secret).utf8.elementsEqual(text.utf8), "\(text) is taken for \(read)")
        }
    }

    private static let secret = [UInt8](repeating: 7, count: 32)
    private static let device = DeviceID(trusted: "gw-1")
}
