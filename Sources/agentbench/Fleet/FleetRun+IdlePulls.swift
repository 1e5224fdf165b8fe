import BenchKit
import CBenchFloors
import Glibc
import SyncCore

// Pulls that bring nothing, and the records that a new device needs before all others.
extension FleetRun {
    private static let entity = "work"
    /// Records that pass the seed filter for the device that lists them.
    private static let wanted = 100

    func measureIdlePulls() throws -> IdlePullsReport {
        var report = IdlePullsReport(self)
        report.rows = try rows { try measureIdlePulls($0) }
        return report
    }

    private func measureIdlePulls(_ name: String) throws -> IdlePullsReport.Row {
        let stand = try FleetStand(name, self)
        defer { stand.end() }
        try stand.startHubs(
            entities: "  \(Self.entity): { seed_filter: { assignee: $device, status: open } }\n")
        Talk.say("\(name): \(records) records are published")
        let distance = max(records / Self.wanted, 1)
        try stand.publish(Self.entity, records) { record in
            let isWanted = record % distance == 0 && record / distance < Self.wanted
            let assignee = isWanted ? "idle-0" : "gw-\(record % 9_000)"
            return
                #"{"id":"w-\#(record)","data":{"assignee":"\#(assignee)","status":"open","title":"Pump 3 is hot, drive end"}}"#
        }
        let listing = try list(stand.ports[0])
        guard listing.records == min(records, Self.wanted) else {
            throw BenchError("\(name): the listing brought \(listing.records) records, \(min(records, Self.wanted)) pass the filter")
        }

        let probes = try load(stand, status: 204) { _ in Array("GET /v1/probe?n=benchrun HTTP/1.1\r\nHost: hub\r\n\r\n".utf8) }
        let pulls = try load(stand, status: 200) { device in
            FleetSocket.request(
                "/v1/sync/pull", of: "idle-\(device)",
                #"{"streams":[{"entity":"\#(Self.entity)","cursor":"\#(listing.cursor)"}],"limit":500,"max_sent_seq":0}"#)
        }
        return IdlePullsReport.Row(
            name: name, probes: probes, pulls: pulls, isServed: stand.server != nil, listing: listing)
    }

    private func load(_ stand: FleetStand, status: Int, _ request: (Int) -> [UInt8]) throws -> IdlePullsReport.Load {
        var client = try RepeatClient(port: stand.ports[0], requests: (0..<connections).map(request))
        defer { client.close() }
        // The first second makes connections, devices and caches.
        _ = try client.run(nanoseconds: span(1), status: status)
        let before = stand.cpu
        let outcome = try client.run(nanoseconds: span(5), status: status)
        let after = stand.cpu
        let count = Double(max(outcome.times.count, 1))
        return IdlePullsReport.Load(
            outcome: outcome, hubMicroseconds: Double(after.hubs - before.hubs) / 1_000 / count,
            serverMicroseconds: Double(after.server - before.server) / 1_000 / count)
    }

    /// Lists what passes the seed filter, to the end. The feed goes on from the cursor (PROTOCOL A8).
    private func list(_ port: UInt16) throws -> IdlePullsReport.Listing {
        let descriptor = try FleetSocket.connect(port)
        defer { close(descriptor) }
        let start = bench_now()
        var listing = IdlePullsReport.Listing(requests: 0, records: 0, nanoseconds: 0, cursor: "")
        var after: String?
        while true {
            let query = "entity=\(Self.entity)&limit=500&filter=seed" + (after.map { "&after=\($0)" } ?? "")
            try FleetSocket.send(
                Array(
                    """
                    GET /v1/sync/snapshot?\(query) HTTP/1.1\r\nHost: hub\r\nSync-Version: 1\r\nSync-Device: idle-0\r\n\
                    Sync-Replica: r-idle-0\r\n\r\n
                    """.utf8), over: descriptor)
            let body = try FleetSocket.receive(descriptor)
            // An unreadable answer is thrown as an error below.
            guard let page = (try? JSONReader.read(body))?.object, let records = page["records"]?.array,
                let cursor = page["start"]?.object?["cursor"]?.text
            else { throw BenchError("a listing brought no page: \(String(decoding: body.prefix(300), as: UTF8.self))") }
            listing.requests += 1
            listing.records += records.count
            if listing.cursor.isEmpty { listing.cursor = cursor }
            guard page["has_more"] == .bool(true), let next = page["after"]?.text else { break }
            after = next
        }
        listing.nanoseconds = bench_now() - start
        return listing
    }
}
