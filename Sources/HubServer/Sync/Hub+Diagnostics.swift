package import SyncCore

// Reports of devices after an outage (PROTOCOL A2): they are stored for an operator, and the hub does not use them.
extension Hub {
    /// Largest number of stored reports of one device; ``HubRetention`` limits their time.
    static let reportsMax = 64
    /// Largest size of one report, decompressed, bytes; an agent sends at most 256 KiB compressed.
    static let reportBytesMax = 2 << 20

    func diagnostics(_ request: HubRequest, _ caller: HubGate.Caller, at now: Timestamp) throws(HubRefusal) -> HubResponse {
        let body = try bodies.body(of: request)
        guard body.count <= Hub.reportBytesMax else { throw HubRefusal(Hub.bodyTooLarge) }
        guard !body.isEmpty, Hub.isLines(body) else {
            throw HubRefusal(Problem("malformed", status: 400, detail: "expected lines of JSON objects"))
        }
        try querying { () throws(DatabaseError) in
            try store.touch(caller.device, replica: nil, at: now)
            try store.keep(report: String(decoding: body, as: UTF8.self), of: caller.device, at: now)
            try recordWaiting(request, caller, at: now)
        }
        return HubResponse(status: 202)
    }

    /// Returns whether every line is a JSON object, so that a later display shows lines.
    private static func isLines(_ body: [UInt8]) -> Bool {
        body.split(separator: UInt8(ascii: "\n")).allSatisfy { line in
            // An unreadable line makes the report invalid, and it is refused.
            (try? JSONReader.read(Array(line), limits: .message))?.object != nil
        }
    }
}

extension SQLiteSchema {
    /// Reports of devices, newest last.
    static let diagnostics = """
        CREATE TABLE diagnostics(
          n INTEGER PRIMARY KEY,
          device TEXT NOT NULL REFERENCES device(id),
          at_ms INTEGER NOT NULL,
          lines TEXT NOT NULL
        ) STRICT;
        CREATE INDEX diagnostics_device ON diagnostics(device, n);
        """
}

extension HubStore {
    /// Adds a report and drops those beyond the limit; old ones are dropped once a day.
    func keep(report: String, of device: DeviceID, at now: Timestamp) throws(DatabaseError) {
        try database.run(
            "INSERT INTO diagnostics(device, at_ms, lines) VALUES(?, ?, ?)", .text(device.text), .int(now.milliseconds), .text(report))
        try database.run(
            """
            DELETE FROM diagnostics WHERE device = ?1 AND n <= (
                SELECT n FROM diagnostics WHERE device = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2)
            """, .text(device.text), .int(Int64(Hub.reportsMax)))
    }
}

/// A report of a device as an operator sees it.
package struct HubReport: Hashable, Sendable {
    package var number: Int64
    package var device: DeviceID
    package var at: Timestamp
    /// Lines of JSON, the first of them a summary.
    package var lines: String
}

extension HubInspector {
    /// Oldest first; of all devices, or of one.
    package func reports(of device: DeviceID? = nil) throws(HubError) -> [HubReport] {
        try reading { (database) throws(DatabaseError) in
            try database.all(
                "SELECT n, device, at_ms, lines FROM diagnostics WHERE CAST(?1 AS TEXT) IS NULL OR device = ?1 ORDER BY n",
                device.map { .text($0.text) } ?? .null
            ) { row in
                HubReport(
                    number: row.int(0), device: DeviceID(trusted: row.text(1)), at: Timestamp(milliseconds: row.int(2)),
                    lines: row.text(3))
            }
        }
    }
}
