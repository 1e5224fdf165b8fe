package import SyncCore

/// One complete answer of the local API, ready to be written.
package struct LocalAnswer: Hashable, Sendable {
    package var status: Int
    /// Content type; `nil` when there is no body.
    package var contentType: String?
    /// Header fields besides Content-Type and Content-Length, which follow from the rest.
    package var headers: HTTPHeaders
    package var body: [UInt8]
    /// Problem code of a refusal, for the counters.
    package var problemCode: String?

    package init(
        _ status: Int, contentType: String? = LocalAnswer.json, headers: HTTPHeaders = [], body: [UInt8] = []
    ) {
        self.status = status
        self.contentType = body.isEmpty ? nil : contentType
        self.headers = headers
        self.body = body
    }

    package init(_ status: Int, headers: HTTPHeaders = [], _ body: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        body(&writer)
        self.init(status, headers: headers, body: writer.bytes)
    }

    package static let json = "application/json"
    package static let lines = "application/x-ndjson"
    package static let eventStream = "text/event-stream"
    package static let text = "text/plain; charset=utf-8"
}
