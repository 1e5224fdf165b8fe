import BenchKit
import CBenchFloors
import Glibc

/// A new device that lists an entity to its end, compares it with the hub, and begins again under another name. It asks for the next page
/// when one is there. A comparison waits for the begin of a round, so that a change comes while the hub has it in hand.
struct NewsLister {
    /// Answers so far, and requests that the hub was too busy for.
    struct Count {
        var pages = 0
        var comparisons = 0
        var refused = 0
    }

    let descriptor: Int32
    private(set) var count = Count()
    private let entity: String
    private var device = 0
    private var cursor: String?
    /// The listing is complete, and the comparison is next.
    private var compares = false
    /// The time of the next request; `.max`: the begin of the next round; `nil`: one is on its way.
    private var due: UInt64? = 0
    private var bytes: [UInt8] = []

    /// 256 sums of nothing in base64 (PROTOCOL A8), so that the hub's own sums differ in each bucket that has records.
    private static let buckets = String(repeating: "A", count: 2_731) + "="
    /// A hub without room is asked again after this time, nanoseconds.
    private static let pause: UInt64 = 50_000_000

    init(_ entity: String, port: UInt16) throws {
        self.entity = entity
        descriptor = try FleetSocket.connect(port)
    }

    func close() { _ = Glibc.close(descriptor) }

    /// Sends what the begin of a round was waited for.
    mutating func beginRound() throws {
        if due == .max { due = 0 }
        try proceed()
    }

    /// Sends the next request when its time has come.
    mutating func proceed() throws {
        guard let due, bench_now() >= due else { return }
        let quoted = cursor.map { "\"\($0)\"" } ?? "null"
        try FleetSocket.send(
            compares
                ? FleetSocket.request(
                    "/v1/sync/verify", of: "lister-\(device)",
                    #"{"entity":"\#(entity)","at":\#(quoted),"buckets":"\#(Self.buckets)"}"#)
                : FleetSocket.request(
                    "/v1/sync/pull", of: "lister-\(device)",
                    #"{"streams":[{"entity":"\#(entity)","cursor":\#(quoted)}],"limit":500,"max_sent_seq":0}"#), over: descriptor)
        self.due = nil
    }

    /// Reads what has arrived, and sends the next request after a complete answer.
    mutating func receive() throws {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let received = recv(descriptor, &buffer, buffer.count, 0)
        guard received > 0 else { throw BenchError("the hub closed the connection of a device that lists") }
        bytes += buffer[..<received]
        guard let answer = FleetAnswer(bytes) else { return }
        let body = bytes[answer.body]
        bytes = []
        due = bench_now()
        switch answer.status {
        case 503:
            count.refused += 1
            due = bench_now() + Self.pause
        case 200 where compares:
            count.comparisons += 1
            (compares, cursor) = (false, nil)
            device += 1
        case 200:
            guard let page = FleetPage(body) else { throw BenchError("a listing brought no page") }
            count.pages += 1
            cursor = page.cursor
            compares = !page.hasMore
            if compares { due = .max }
        default:
            throw BenchError("the hub answered \(answer.status): \(String(decoding: body.prefix(300), as: UTF8.self))")
        }
        try proceed()
    }
}
