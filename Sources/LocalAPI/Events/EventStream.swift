package import SyncCore

/// Writes server-sent events of the local API: the WHATWG "event stream" format, UTF-8, LF line ends.
package enum EventStream {
    /// One event of the journal.
    ///
    /// - Parameters:
    ///   - id: Its row in the journal, which `Last-Event-ID` refers to.
    ///   - data: JSON text without a line feed, as from ``JSON/bytes``.
    package static func event(id: Int64, type: String, data: some Collection<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(data.count + type.utf8.count + 48)
        bytes.append(contentsOf: "id: \(id)\nevent: \(type)\n".utf8)
        append(data, to: &bytes)
        return bytes
    }

    /// The first block of every stream: the position before the first event, so that a reader that is disconnected before it continues
    /// there and misses nothing. A block with only an id dispatches no event.
    package static func start(at id: Int64) -> [UInt8] {
        Array("id: \(id)\n\n".utf8)
    }

    /// The first event for a reader whose position is no longer kept: it should read its data again and continue after `id`.
    package static func reset(id: Int64) -> [UInt8] {
        event(id: id, type: "reset", data: "{}".utf8)
    }

    /// The last event for a reader that fell too far behind. It carries no id, so that the reader continues after its last event.
    package static let overflow: [UInt8] = Array("event: overflow\ndata: {}\n\n".utf8)

    /// Returns whether the event is about the stream itself (`reset`, `overflow`). Such events are no news, and a stream with only them is
    /// no progress.
    static func isAboutStream(_ type: String) -> Bool { type == "reset" || type == "overflow" }

    /// Sent after ``keepAliveInterval`` without other output: it shows that the connection is alive.
    package static let keepAlive: [UInt8] = Array(":\n\n".utf8)
    package static let keepAliveInterval: Duration = .seconds(15)

    /// Largest number of bytes that may wait for a slow reader before it is disconnected.
    package static let backlogMax = 1 << 20

    /// Reads the position from the header `Last-Event-ID`.
    ///
    /// - Returns: The position. One beyond the journal's end gets a `reset`, like one that is no longer kept.
    /// - Throws: 400 `malformed` unless it is a whole number from 0 to 2^63 - 1.
    package static func position(lastEventID: String?) throws(Problem) -> Int64? {
        guard let lastEventID, !lastEventID.isEmpty else { return nil }
        guard lastEventID.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }), let id = Int64(lastEventID) else {
            throw LocalProblem.malformed.problem("Last-Event-ID must be the id of an event")
        }
        return id
    }

    private static func append(_ data: some Collection<UInt8>, to bytes: inout [UInt8]) {
        // A line feed would end the field. JSON text from our writer has none, but a stored payload comes from outside this file, so the
        // rule of the format is followed: one `data` field a line.
        for line in data.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            bytes.append(contentsOf: "data: ".utf8)
            bytes.append(contentsOf: line)
            bytes.append(UInt8(ascii: "\n"))
        }
        bytes.append(UInt8(ascii: "\n"))
    }
}

/// One event as a reader receives it.
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
