/// Decides from the head of an answer which bytes of its body belong to the part. A value, because the head arrives on the transport's
/// thread.
package struct DownloadIntake: Hashable, Sendable {
    package enum Verdict: Hashable, Sendable {
        /// The body is an error, or of something else.
        case nothing(why: String)
        /// `skip` bytes of the body are here already; then the part grows up to `end`. `total`: size of the file, if the answer says it.
        case bytes(skip: Int64, end: Int64, total: Int64?, isWhole: Bool)
    }

    private let request: DownloadMachine.Request
    private let digest: BlobDigest

    package init(_ request: DownloadMachine.Request, _ digest: BlobDigest) {
        self.request = request
        self.digest = digest
    }

    package func judge(_ status: Int, _ headers: HTTPHeaders) -> Verdict {
        guard headers[HubHeader.version].flatMap({ Int($0) }) == HubHeader.currentVersion else {
            return .nothing(why: "the answer is not the hub's own")
        }
        if let tag = headers["ETag"], !sameBytes(tag, digest.entityTag) {
            return .nothing(why: "the hub answered with another file, \(Printable.text(tag, max: 80))")
        }
        switch status {
        case 200: return whole(Tus.count(headers["Content-Length"]))
        case 206: return part(headers["Content-Range"])
        default: return .nothing(why: "the hub answered \(status)")
        }
    }

    /// A server that ignores `Range` sends all bytes. Of a piece, no more is taken than was asked for, and nothing behind the first piece:
    /// the bytes before it would come again, which the policy has not agreed to.
    private func whole(_ length: Int64?) -> Verdict {
        switch request {
        case .rest(let offset): .bytes(skip: offset, end: length ?? .max, total: length, isWhole: true)
        case .piece(let offset, let count):
            .bytes(skip: 0, end: offset > 0 ? offset : min(length ?? .max, count), total: length, isWhole: true)
        }
    }

    private func part(_ field: String?) -> Verdict {
        guard let field, let said = ContentRange(field), let range = said.range else {
            return .nothing(why: "the hub's answer 206 does not say which bytes it has")
        }
        guard range.lowerBound <= request.offset, range.upperBound > request.offset else {
            return .nothing(why: "the hub answered with the bytes \(Printable.text(field, max: 80)), and \(request.offset) was asked for")
        }
        var end = range.upperBound
        if case .piece(let offset, let count) = request { end = min(end, offset.saturatingAdd(count)) }
        return .bytes(skip: request.offset - range.lowerBound, end: end, total: said.total, isWhole: false)
    }
}
