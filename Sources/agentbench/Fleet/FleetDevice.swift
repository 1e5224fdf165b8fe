import BenchKit
import SyncCore

/// One simulated device: its remaining work, and its handling of answers. It says hello once, and then alternates between a pull and a push
/// of a batch of readings, with the keys, numbers and headers of the real protocol (PROTOCOL A1-A4). A new device pulls a whole entity
/// instead, page after page, and pushes nothing.
struct FleetDevice {
    enum Step: Equatable {
        case hello, pull, push
        /// The next page of the first sync.
        case page
        case done
    }

    let name: String
    /// Index of its hub; it changes to the next one when that hub does not answer, as behind a balancer.
    var hub: Int
    private(set) var step = Step.hello
    /// Number of pushes that were acknowledged.
    private(set) var pushed = 0
    /// Bytes and pages of the first sync that were received.
    private(set) var received = (bytes: 0, pages: 0)
    private var failures = 0
    private var cursor: String?

    private let load: FleetLoad
    /// The entity that a new device pulls; `nil`: this is none.
    private let first: String?

    var isNew: Bool { first != nil }

    init(_ index: Int, hubs: Int, _ load: FleetLoad) {
        name = "fleet-\(index)"
        hub = index % hubs
        self.load = load
        first = nil
    }

    /// A new device.
    init(new index: Int, of entity: String, hubs: Int) {
        name = "new-\(index)"
        hub = index % hubs
        load = FleetLoad(devices: 0, pushes: 0, mutations: 0)
        first = entity
    }

    // MARK: Requests

    /// Head and body as they are sent.
    func request() -> [UInt8] {
        let (path, body): (String, [UInt8]) =
            switch step {
            case .hello: ("/v1/sync/hello", Array(#"{"agent":"agentbench","platform":"linux","replica":"r-\#(name)"}"#.utf8))
            case .pull: ("/v1/sync/pull", Array(#"{"streams":[{"entity":"forms","cursor":null}],"limit":500,"max_sent_seq":0}"#.utf8))
            case .push: ("/v1/sync/push", push())
            case .page: ("/v1/sync/pull", page())
            case .done: ("/v1/probe", [])
            }
        let head = """
            POST \(path) HTTP/1.1\r\nHost: hub\r\nSync-Version: 1\r\nSync-Device: \(name)\r\nSync-Replica: r-\(name)\r\n\
            Content-Type: application/json\r\nContent-Length: \(body.count)\r\n\r\n
            """
        return Array(head.utf8) + body
    }

    private func page() -> [UInt8] {
        let quoted = cursor.map { "\"\($0)\"" } ?? "null"
        return Array(#"{"streams":[{"entity":"\#(first ?? "")","cursor":\#(quoted)}],"limit":500,"max_sent_seq":0}"#.utf8)
    }

    private func push() -> [UInt8] {
        var writer = JSONWriter(capacity: 400 * load.mutations)
        writer.object { writer in
            writer.member("acked_seq", Int64(pushed * load.mutations))
            writer.name("mutations")
            writer.array { writer in
                for place in 0..<load.mutations {
                    let seq = pushed * load.mutations + place + 1
                    writer.object { writer in
                        writer.member("seq", Int64(seq))
                        writer.member("idempotency_key", "k-\(name)-\(seq)")
                        writer.member("entity", "readings")
                        writer.member("record_id", "\(name)-\(seq)")
                        writer.member("action", "create")
                        writer.raw("data", #"{"sensor":"\#(name)","value":\#(seq % 97),"unit":"mm/s","remark":"\#(FleetDevice.remark)"}"#)
                        writer.member("base_version", Int64(0))
                        writer.member("hlc", "0199c3f2a1b4-0007-9f2c11ab")
                        writer.member("client_updated_at", "2026-11-20T21:04:05.120Z")
                    }
                }
            }
        }
        return writer.bytes
    }

    private static let remark = String(repeating: "bearing, drive end; ", count: 6)

    // MARK: Answers

    /// - Returns: The number of mutations that the hub accepted now, and of those that it had accepted before.
    mutating func answered(_ body: ArraySlice<UInt8>) throws -> (applied: Int, repeated: Int) {
        failures = 0
        switch step {
        case .hello: step = isNew ? .page : .pull
        case .page: try turn(body)
        case .pull: step = .push
        case .push:
            let results = try read(body)
            guard results.applied + results.repeated == load.mutations else {
                throw BenchError("\(name): of \(load.mutations) mutations the hub took \(results.applied) and knew \(results.repeated)")
            }
            pushed += 1
            step = pushed == load.pushes ? .done : .pull
            return results
        case .done: break
        }
        return (0, 0)
    }

    /// Takes the cursor of a page. Its records are not read: the devices share the processors with what they measure.
    private mutating func turn(_ body: ArraySlice<UInt8>) throws {
        guard let next = FleetPage(body) else {
            throw BenchError("\(name): a pull brought no page: \(String(decoding: body.prefix(300), as: UTF8.self))")
        }
        received.bytes += body.count
        received.pages += 1
        cursor = next.cursor
        if !next.hasMore { step = .done }
    }

    private func read(_ body: ArraySlice<UInt8>) throws -> (applied: Int, repeated: Int) {
        // An unreadable answer is thrown as an error below.
        guard let results = (try? JSONReader.read(Array(body)))?.object?["results"]?.array else {
            throw BenchError("\(name): the answer to a push does not read")
        }
        let words = results.compactMap { $0.object?["status"]?.text }
        return (words.filter { $0 == "accepted" }.count, words.filter { $0 == "duplicate" }.count)
    }

    /// The wait after a failure, in nanoseconds: random up to a bound that doubles, so that a fleet does not return as a wave (PROTOCOL G2,
    /// ten times as fast, because the outages here are short too).
    mutating func failed(hubs: Int, after seconds: Int?, _ random: inout SeededRandom) -> UInt64 {
        failures += 1
        if seconds == nil { hub = (hub + 1) % hubs }
        let bound = min(0.1 * Double(1 << min(failures, 6)), 6.0)
        return UInt64((Double(seconds ?? 0) * 0.1 + random.fraction() * bound) * 1e9)
    }
}

/// The members that lead from one page of a pull to the next, found without reading the records.
///
/// - Precondition: No record has text that looks like these members.
struct FleetPage: Equatable {
    let cursor: String
    let hasMore: Bool

    init?(_ body: ArraySlice<UInt8>) {
        guard let start = body.end(of: #""cursor":""#), let end = body[start...].firstIndex(of: UInt8(ascii: "\"")) else { return nil }
        cursor = String(decoding: body[start..<end], as: UTF8.self)
        hasMore = body.end(of: #""has_more":true"#) != nil
    }
}

extension ArraySlice<UInt8> {
    /// The place after the first occurrence.
    fileprivate func end(of text: String) -> Int? {
        let wanted = Array(text.utf8)
        return withUnsafeBufferPointer { bytes in
            var at = 0
            while at + wanted.count <= bytes.count {
                var same = 0
                while same < wanted.count, bytes[at + same] == wanted[same] { same += 1 }
                if same == wanted.count { return startIndex + at + same }
                at += 1
            }
            return nil
        }
    }
}

/// The work of each device.
struct FleetLoad {
    var devices: Int
    /// `Int.max`: until the time is over.
    var pushes: Int
    var mutations: Int

    var total: Int { devices * pushes * mutations }
}
