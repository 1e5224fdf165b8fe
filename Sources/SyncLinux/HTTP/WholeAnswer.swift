package import SyncCore

/// An answer that is present in one piece. It is read by the same rules as one that arrives in pieces (``AnswerReader``): the lines of its
/// heads, then its body.
package enum WholeAnswer {
    /// - Returns: The answer; `nil` when the bytes are not a whole, valid answer within the limits.
    package static func read(_ bytes: [UInt8], limits: AnswerLimits) -> HTTPResponse? {
        var reader = AnswerReader(limits: limits, acceptsGzip: true, isHead: false, sink: .whole)
        do throws(Refusal) {
            var rest = bytes[...]
            while !reader.isHeadWhole {
                guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
                try feed(rest[...end]) { bytes throws(Refusal) in try reader.consume(line: bytes) }
                rest = rest[(end + 1)...]
            }
            try feed(rest) { bytes throws(Refusal) in try reader.consume(body: bytes) }
            try reader.finish()
        } catch {
            return nil
        }
        return HTTPResponse(status: reader.status, headers: reader.headers, body: reader.body)
    }

    private static func feed(
        _ bytes: ArraySlice<UInt8>, _ consume: (UnsafeRawBufferPointer) throws(Refusal) -> Void
    ) throws(Refusal) {
        let result: Result<Void, Refusal> = bytes.withUnsafeBytes { buffer in
            do throws(Refusal) {
                return .success(try consume(buffer))
            } catch {
                return .failure(error)
            }
        }
        try result.get()
    }
}
