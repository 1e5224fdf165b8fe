import BenchKit
import CBenchFloors
import Glibc
import SyncCore

// Records that are shared out: what each device receives, what its first and its idle pulls cost, and the room of the scopes.
extension FleetRun {
    /// Numbers of scopes of the devices whose idle pulls are measured.
    private static let scopeCounts = [1, 16, 64]
    /// Pulls that are timed of each such device.
    private static let pullsOfEach = 200

    private struct Listing {
        var records: Set<String> = []
        var sites: Set<String> = []
        var pages = 0
        var cursor = ""
    }

    func measureScopes() throws -> ScopesReport {
        var report = ScopesReport(self)
        report.rows = try rows { try measureScopes($0) }
        return report
    }

    private func measureScopes(_ name: String) throws -> ScopesReport.Row {
        let stand = try FleetStand(name, self)
        defer { stand.end() }
        let shares = FleetShares(devices: devices, records: records, counts: Self.scopeCounts)
        try stand.startHubs(entities: FleetShares.settings)
        Talk.say("\(name): \(records) records are published")
        // An entities file may hold 50,000 values, which is 8,000 devices; records that grant have no such limit.
        let grants = shares.grants
        try stand.publish("assignments", grants.count) { grants[$0] }
        try stand.publish("work", records + FleetShares.handful) { shares.line($0) }

        Talk.say("\(name): \(devices) devices list their shares")
        let descriptor = try FleetSocket.connect(stand.ports[0])
        defer { close(descriptor) }
        var first: [UInt64] = []
        var received = 0
        for device in 0..<devices {
            let start = bench_now()
            let found = try list(descriptor, "d-\(device)", "work")
            first.append(bench_now() - start)
            let sites = shares.sites(of: device)
            let wanted = sites.reduce(0) { $0 + shares.records(of: $1) }
            guard found.records.count == wanted else {
                throw BenchError("\(name): d-\(device) received \(found.records.count) records, its share has \(wanted)")
            }
            guard found.sites.isSubset(of: Set(sites.map { "s-\($0)" })) else {
                throw BenchError("\(name): d-\(device) received records of other devices")
            }
            received += wanted
        }
        let start = bench_now()
        let handful = try list(descriptor, "few", "work")
        let handfulTime = bench_now() - start
        guard handful.records.count == FleetShares.handful, handful.sites == ["few"] else {
            throw BenchError("\(name): few received \(handful.records.count) records, its share has \(FleetShares.handful)")
        }

        let rows = try stand.number("SELECT count(*) FROM record_scope WHERE entity = 'work'")
        guard rows == records + FleetShares.handful else {
            throw BenchError("\(name): the hub has \(rows) rows of scopes for \(records + FleetShares.handful) records of one scope each")
        }
        let probe = try times { try askProbe(descriptor) }
        var idle: [(scopes: Int, times: Times)] = []
        for count in Self.scopeCounts {
            let device = "wide-\(count)"
            let end = try list(descriptor, device, "work").cursor
            // A stream without news may be left out of the answer.
            idle.append((count, try times { _ = try answer(descriptor, device, "work", end) }))
        }
        let end = try list(descriptor, "d-0", "plain").cursor
        return ScopesReport.Row(
            name: name, received: received, first: Times(first), handful: (handfulTime, handful.pages), idle: idle,
            plain: try times { _ = try answer(descriptor, "d-0", "plain", end) }, probe: probe, scopeRows: rows,
            scopeBytes: try scopeBytes(stand))
    }

    /// The room of the table of scopes with its indexes; `nil`: the SQLite of this program does not count pages.
    private func scopeBytes(_ stand: FleetStand) throws -> Int? {
        if stand.server != nil { return try stand.number("SELECT pg_total_relation_size('record_scope')") }
        // The virtual table is an option of the SQLite library. Without it the figure is left out.
        return try? stand.number(
            "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = 'record_scope')")
    }

    private func times(_ act: () throws -> Void) throws -> Times {
        Times(
            try (0..<Self.pullsOfEach).map { _ in
                let before = bench_now()
                try act()
                return bench_now() - before
            })
    }

    /// Pulls until there is no more.
    private func list(_ descriptor: Int32, _ device: String, _ entity: String) throws -> Listing {
        var listing = Listing()
        var cursor: String?
        while true {
            let stream = try FleetSocket.stream(in: answer(descriptor, device, entity, cursor))
            for record in stream["records"]?.array ?? [] {
                if let id = record.object?["id"]?.text { listing.records.insert(id) }
                if let site = record.object?["data"]?.object?["site"]?.text { listing.sites.insert(site) }
            }
            listing.pages += 1
            guard let next = stream["cursor"]?.text else { throw BenchError("a pull brought no cursor") }
            (cursor, listing.cursor) = (next, next)
            if stream["has_more"] != .bool(true) { return listing }
        }
    }

    private func answer(_ descriptor: Int32, _ device: String, _ entity: String, _ cursor: String?) throws -> [UInt8] {
        let quoted = cursor.map { "\"\($0)\"" } ?? "null"
        try FleetSocket.send(
            FleetSocket.request(
                "/v1/sync/pull", of: device,
                #"{"streams":[{"entity":"\#(entity)","cursor":\#(quoted)}],"limit":500,"max_sent_seq":0}"#), over: descriptor)
        return try FleetSocket.receive(descriptor)
    }

    private func askProbe(_ descriptor: Int32) throws {
        try FleetSocket.send(Array("GET /v1/probe?n=benchrun HTTP/1.1\r\nHost: hub\r\n\r\n".utf8), over: descriptor)
        _ = try FleetSocket.receive(descriptor, status: 204)
    }
}

/// The shares of a fleet with as many sites as devices. Each device has two sites, so each record goes to two devices. One more device has
/// a site with 100 further records, and a few have more sites, for the cost of a pull by their number.
struct FleetShares {
    let devices: Int
    let records: Int
    let counts: [Int]

    /// Records of the device `few`, beside those of the others.
    static let handful = 100

    static let settings = """
          work: { scope: [site] }
          plain: { kind: record }
          assignments: { kind: reference }
        grants_from:
          - { entity: assignments, device: device, scope: site }

        """

    func sites(of device: Int) -> [Int] { devices == 1 ? [0] : [device, (device + 1) % devices] }

    func records(of site: Int) -> Int { records / devices + (site < records % devices ? 1 : 0) }

    /// The record of a number, as a line of NDJSON without its end; those from ``records`` on are of the device `few`.
    func line(_ record: Int) -> String {
        let site = record < records ? "s-\(record % devices)" : "few"
        return #"{"id":"w-\#(record)","data":{"site":"\#(site)","title":"Pump 3 is hot, bearing at the drive end","n":\#(record)}}"#
    }

    /// The records that grant, one for each site of a device, as lines of NDJSON.
    var grants: [String] {
        let pairs =
            (0..<devices).flatMap { device in sites(of: device).map { ("d-\(device)", "s-\($0)") } }
            + counts.flatMap { count in (0..<count).map { ("wide-\(count)", "s-\($0)") } } + [("few", "few")]
        return pairs.enumerated().map { #"{"id":"a-\#($0)","data":{"device":"\#($1.0)","site":"\#($1.1)"}}"# }
    }
}
