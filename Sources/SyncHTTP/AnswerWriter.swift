import NIOCore

/// The framing by which the client finds the end of an answer.
enum AnswerFraming: Equatable {
    /// Exactly this number of further bytes.
    case counted(left: Int)
    case chunked
    /// HTTP/1.0 has no chunks: the end of the connection ends the body.
    case untilClose
    /// `HEAD`, 204 and 304 have no body, whatever the handler writes.
    case bodyless
}

/// Writes answers as bytes, RFC 9112 sections 4 to 7.
enum AnswerWriter {
    /// - Parameter length: Value of `Content-Length`; `nil` leaves it out.
    static func head(
        status: Int, headers: [(String, String)], length: Int?, isChunked: Bool, keepsConnection: Bool,
        into buffer: inout ByteBuffer
    ) {
        if status == 200 {
            buffer.writeStaticString("HTTP/1.1 200 OK\r\n")
        } else {
            buffer.writeStaticString("HTTP/1.1 ")
            buffer.writeString(String(status))
            buffer.writeStaticString(" ")
            buffer.writeString(ReasonPhrase.of(status))
            buffer.writeStaticString("\r\n")
        }
        for (name, value) in headers {
            buffer.writeString(name)
            buffer.writeStaticString(": ")
            write(fieldValue: value, into: &buffer)
            buffer.writeStaticString("\r\n")
        }
        if let length {
            buffer.writeStaticString("Content-Length: ")
            buffer.writeString(String(length))
            buffer.writeStaticString("\r\n")
        } else if isChunked {
            buffer.writeStaticString("Transfer-Encoding: chunked\r\n")
        }
        if !keepsConnection { buffer.writeStaticString("Connection: close\r\n") }
        buffer.writeStaticString("\r\n")
    }

    static func chunk(_ bytes: [UInt8], into buffer: inout ByteBuffer) {
        buffer.writeString(String(bytes.count, radix: 16))
        buffer.writeStaticString("\r\n")
        buffer.writeBytes(bytes)
        buffer.writeStaticString("\r\n")
    }

    static func lastChunk(into buffer: inout ByteBuffer) {
        buffer.writeStaticString("0\r\n\r\n")
    }

    static func proceed(into buffer: inout ByteBuffer) {
        buffer.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n")
    }

    /// A value may contain client data (a `Location`, an echo), which must not be able to begin another line.
    private static func write(fieldValue value: String, into buffer: inout ByteBuffer) {
        func isControl(_ byte: UInt8) -> Bool { (byte < 0x20 && byte != 0x09) || byte == 0x7F }
        if value.utf8.contains(where: isControl) {
            buffer.writeBytes(value.utf8.map { isControl($0) ? 0x20 : $0 })
        } else {
            buffer.writeString(value)
        }
    }
}

/// The reason phrases of RFC 9110, section 15.
enum ReasonPhrase {
    static func of(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 206: "Partial Content"
        case 304: "Not Modified"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 411: "Length Required"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 415: "Unsupported Media Type"
        case 416: "Range Not Satisfiable"
        case 417: "Expectation Failed"
        case 422: "Unprocessable Content"
        case 423: "Locked"
        case 425: "Too Early"
        case 426: "Upgrade Required"
        case 428: "Precondition Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 460: "Checksum Mismatch"  // tus 1.0.0, checksum extension
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 503: "Service Unavailable"
        case 505: "HTTP Version Not Supported"
        case 507: "Insufficient Storage"
        default: ""
        }
    }
}
