package import SyncCore

/// Server-sent events as the local API writes them: the WHATWG "event stream" format, UTF-8, LF line ends.
package enum EventStream {
    /// One event of the journal.
    ///
    /// - Parameters:
    ///   - id: Its row in the journal; what `Last-Event-ID` resumes after.
    ///   - data: JSON text without a line feed, as ``JSON/bytes`` makes it.
    package static func event(id: Int64, type: String, data: some Collection<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(data.count + type.utf8.count + 48)
        bytes.append(contentsOf: "id: \(id)\nevent: \(type)\n".utf8)
        append(data, to: &bytes)
        return bytes
    }

    /// The first block of every stream: the position before anything was sent, so that a reader which is cut before the
    /// first event resumes there and misses nothing. A block with an id alone dispatches no event.
    package static func start(at id: Int64) -> [UInt8] {
        Array("id: \(id)\n\n".utf8)
    }

    /// First event for a reader whose position is no longer kept: it should read again what it cares for, and go on
    /// after `id`.
    package static func reset(id: Int64) -> [UInt8] {
        event(id: id, type: "reset", data: "{}".utf8)
    }

    /// Last event for a reader that fell too far behind. It carries no id, so that the reader resumes after what it
    /// got.
    package static let overflow: [UInt8] = Array("event: overflow\ndata: {}\n\n".utf8)

    /// `reset` and `overflow` tell of the stream; they are no news, and a stream of nothing else is no progress.
    static func isAboutStream(_ type: String) -> Bool { type == "reset" || type == "overflow" }

    /// Sent when nothing else was for ``keepAliveInterval``: it shows that the connection lives.
    package static let keepAlive: [UInt8] = Array(":\n\n".utf8)
    package static let keepAliveInterval: Duration = .seconds(15)

    /// Bytes that may wait for one slow reader before it is cut.
    package static let backlogMax = 1 << 20

    /// The position in the header `Last-Event-ID`.
    ///
    /// - Returns: A position beyond the journal's end gets a `reset`, as one that was thrown away does.
    /// - Throws: 400 `malformed` for anything but a whole number from 0 to 2^63 - 1.
    package static func position(lastEventID: String?) throws(Problem) -> Int64? {
        guard let lastEventID, !lastEventID.isEmpty else { return nil }
        guard lastEventID.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }), let id = Int64(lastEventID) else {
            throw LocalProblem.malformed.problem("Last-Event-ID must be the id of an event")
        }
        return id
    }

    private static func append(_ data: some Collection<UInt8>, to bytes: inout [UInt8]) {
        // A line feed would end the field. JSON text from our writer has none, but a stored payload is data from
        // outside this file, so the rule of the format is followed: one `data` field a line.
        for line in data.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            bytes.append(contentsOf: "data: ".utf8)
            bytes.append(contentsOf: line)
            bytes.append(UInt8(ascii: "\n"))
        }
        bytes.append(UInt8(ascii: "\n"))
    }
}

/// One event as a reader gets it.
package struct LocalEvent: Hashable, Sendable {
    /// The last id seen on the stream, this event's or an earlier one's.
    package var id: String?
    package var type: String
    package var data: [UInt8]

    package init(id: String?, type: String, data: [UInt8]) {
        self.id = id
        self.type = type
        self.data = data
    }
}
