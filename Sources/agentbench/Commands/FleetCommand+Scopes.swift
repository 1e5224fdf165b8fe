import BenchKit
import CBenchFloors
import Glibc
import SyncCore

// Records that are shared out: what each device receives, and what its first and its idle pulls cost.
extension FleetCommand {
    /// Numbers of scopes of the devices whose idle pulls are measured.
    private static let scopeCounts = [1, 16, 64]
    /// Devices whose pulls are timed; the shares of all are counted.
    private static let pullsOfEach = 200

    func measureScopes(_ name: String, _ workplace: Workplace) throws -> ScopesReport.Row {
        let program = try agenthub ?? neighbour("agenthub")
        let server = name == "sqlite" ? nil : try PostgresUnderTest(in: workplace.folder("scopes-pg"))
        defer { server?.stop() }
        let place = try server.map { ["--database", $0.url] } ?? ["--data", workplace.folder("scopes-data")]
        let folder = try workplace.folder("scopes-hub")
        let shares = FleetShares(devices: devices, records: records, counts: Self.scopeCounts)
        let hub = try FleetHub(program, place: place, in: folder, settings: shares.settings)
        defer { hub.end(SIGTERM) }
        Talk.say("\(name): \(records) records are published")
        try fill(program, place, folder, shares)

        Talk.say("\(name): \(devices) devices list their shares")
        let descriptor = try FleetSocket.connect(hub.port)
        defer { close(descriptor) }
        var first: [UInt64] = []
        var received = 0
        for device in 0..<devices {
            let start = bench_now()
            let found = try list(descriptor, "d-\(device)", "work")
            first.append(bench_now() - start)
            let wanted = shares.sites(of: device).reduce(0) { $0 + shares.records(of: $1) }
            guard found.records == wanted else {
                throw BenchError("\(name): d-\(device) received \(found.records) records, its share has \(wanted)")
            }
            guard found.sites.isSubset(of: Set(shares.sites(of: device).map { "s-\($0)" })) else {
                throw BenchError("\(name): d-\(device) received records of other devices")
            }
            received += found.records
        }

        var idle: [(scopes: Int, times: Times)] = []
        for count in Self.scopeCounts {
            let device = "wide-\(count)"
            let end = try list(descriptor, device, "work").cursor
            idle.append((count, try pulls(descriptor, device, "work", end)))
        }
        let plain = try list(descriptor, "d-0", "plain").cursor
        return ScopesReport.Row(
            name: name, received: received, first: Times(first), idle: idle, plain: try pulls(descriptor, "d-0", "plain", plain))
    }

    private func fill(_ program: String, _ place: [String], _ folder: String, _ shares: FleetShares) throws {
        let path = "\(folder)/work.ndjson", log = "\(folder)/publish.log"
        guard let file = fopen(path, "w") else { throw BenchError("cannot write \(path) (errno \(errno))") }
        for record in 0..<records { fputs(shares.line(record), file) }
        guard fclose(file) == 0 else { throw BenchError("cannot write \(path) (errno \(errno))") }
        let pid = try start([program, "publish", "work", path] + place, log: log)
        guard bench_stop(pid, 0, 3_600_000) == 0 else { throw BenchError("agenthub publish failed\n\(tail(of: log))") }
    }

    /// Pulls until there is no more.
    private func list(_ descriptor: Int32, _ device: String, _ entity: String) throws -> (records: Int, sites: Set<String>, cursor: String)
    {
        var cursor: String?
        var count = 0
        var sites: Set<String> = []
        while true {
            let stream = try pull(descriptor, device, entity, cursor)
            let records = stream["records"]?.array ?? []
            for record in records {
                if let site = record.object?["data"]?.object?["site"]?.text { sites.insert(site) }
            }
            count += records.count
            guard let next = stream["cursor"]?.text else { throw BenchError("a pull brought no cursor") }
            cursor = next
            if stream["has_more"] != .bool(true) { return (count, sites, next) }
        }
    }

    private func pulls(_ descriptor: Int32, _ device: String, _ entity: String, _ cursor: String) throws -> Times {
        Times(
            try (0..<Self.pullsOfEach).map { _ in
                let before = bench_now()
                // A stream without news may be left out of the answer.
                _ = try answer(descriptor, device, entity, cursor)
                return bench_now() - before
            })
    }

    private func pull(_ descriptor: Int32, _ device: String, _ entity: String, _ cursor: String?) throws -> JSONObject {
        try FleetSocket.stream(in: answer(descriptor, device, entity, cursor))
    }

    private func answer(_ descriptor: Int32, _ device: String, _ entity: String, _ cursor: String?) throws -> [UInt8] {
        let quoted = cursor.map { "\"\($0)\"" } ?? "null"
        try FleetSocket.send(
            FleetSocket.request(
                "/v1/sync/pull", of: device,
                #"{"streams":[{"entity":"\#(entity)","cursor":\#(quoted)}],"limit":500,"max_sent_seq":0}"#), over: descriptor)
        return try FleetSocket.receive(descriptor)
    }
}

/// The shares of a fleet with as many sites as devices. Each device has two sites, so each record goes to two devices. A few more devices
/// have more sites, for the cost of a pull by their number.
struct FleetShares {
    let devices: Int
    let records: Int
    let counts: [Int]

    func sites(of device: Int) -> [Int] { devices == 1 ? [0] : [device, (device + 1) % devices] }

    func records(of site: Int) -> Int { records / devices + (site < records % devices ? 1 : 0) }

    func line(_ record: Int) -> String {
        #"{"id":"w-\#(record)","data":{"site":"s-\#(record % devices)","title":"Pump 3 is hot, bearing at the drive end","n":\#(record)}}"#
            + "\n"
    }

    var settings: String {
        let rows = (0..<devices).map { device in
            "  d-\(device): { site: [\(sites(of: device).map { "s-\($0)" }.joined(separator: ", "))] }\n"
        }
        let wide = counts.map { count in
            "  wide-\(count): { site: [\((0..<count).map { "s-\($0 % devices)" }.joined(separator: ", "))] }\n"
        }
        return "entities:\n  work: { scope: [site] }\n  plain: { kind: record }\ndevices:\n" + (rows + wide).joined()
    }
}
