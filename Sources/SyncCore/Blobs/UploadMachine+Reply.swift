extension UploadMachine {
    /// The content of an answer, as far as an upload depends on it.
    struct Reply {
        let status: Int
        let isTus: Bool
        let isHub: Bool
        /// The answer identifies itself as the server that was asked, by the header of the hub or of tus.
        let isOwn: Bool
        let offset: Int64?
        let length: Int64?
        let digest: BlobDigest?
        let location: String?
        let expires: Timestamp?
        let asked: Duration?
        let isMismatch: Bool
        let hint: String

        init(_ response: HTTPResponse, _ server: Server, now: Timestamp) {
            status = response.status
            let facts = HubHeaders(reading: response.headers, now: now)
            isHub = facts.version == HubHeader.currentVersion
            isTus = response.headers[Tus.resumable] == Tus.version
            isOwn = server.blobs == nil ? isTus : isHub
            offset = Tus.count(response.headers[Tus.offset])
            length = Tus.count(response.headers[Tus.length])
            digest = response.headers[Tus.reprDigest].flatMap { BlobDigest(field: $0) }
            location = response.headers["Location"]
            expires = response.headers[Tus.expires].flatMap { HTTPDate.timestamp($0) }
            asked = facts.asked
            let text = String(decoding: response.body.prefix(512), as: UTF8.self)
            isMismatch = text.contains("digest-mismatch")
            hint = text.isEmpty ? "" : ": " + Printable.text(text, max: 120)
        }

        /// Another server answered in its place.
        var foreign: Outcome { .wait(counts: false, asked: asked, why: "answer \(status) was not the server's own\(hint)") }

        var trouble: Outcome {
            let isLoad = [408, 409, 421, 423, 425, 429, 503, 511].contains(status)
            return .wait(counts: !isLoad, asked: asked, why: "the server answered \(status)\(hint)")
        }
    }
}
