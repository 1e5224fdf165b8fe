import CBenchFloors
import Glibc

/// The entities of the measured agent.
package enum BenchEntity: String {
    case event, record

    package var name: String {
        switch self {
        case .event: "readings"
        case .record: "work_orders"
        }
    }
}

/// The number of connections, and the users that make them.
///
/// The agent allows 8 connections to a user, so 64 producers are 8 users. Only root can act as them; any other user measures with 8
/// connections of its own, and the result says so.
package struct Producers {
    package static let perUser = 8
    /// User ids that no distribution assigns; the users need not exist.
    private static let firstUser: UInt32 = 61_000

    package let count: Int
    package let users: [UInt32]
    package let shortfall: String?

    package init(wanted: Int) {
        if geteuid() == 0 {
            count = wanted
            users = (0..<(wanted + Producers.perUser - 1) / Producers.perUser).map { Producers.firstUser + UInt32($0) }
            shortfall = nil
        } else {
            count = min(wanted, Producers.perUser)
            users = []
            let needed = (wanted + Producers.perUser - 1) / Producers.perUser
            shortfall = "\(wanted) producers are \(needed) users, which takes root; measured with \(count) producers."
        }
    }
}

/// Requests to the agent, from an app's side of the socket.
package struct Load {
    private let socket: String
    private let entity: BenchEntity
    package let producers: Producers

    package init(socket: String, entity: BenchEntity, producers: Producers) {
        self.socket = socket
        self.entity = entity
        self.producers = producers
    }

    /// Sends one mutation a request, one request at a time on each connection.
    ///
    /// - Parameter firstRow: Records are named after their row, so runs on one agent need ranges of their own.
    package func requests(_ count: Int, connections: Int, firstRow: UInt64) throws -> Run {
        var times = [UInt64](repeating: 0, count: count)
        let result = try run(count, connections: connections, firstRow: firstRow) { plan, result, failure in
            bench_load(plan, &times, result, failure)
        }
        return Run(rows: count, nanoseconds: result.nanoseconds, times: Times(times))
    }

    /// Number of requests before the measured time starts, for a load of this size.
    package static func warmup(_ count: Int) -> Int { min(50, count / 10) }

    /// Sends one stream of NDJSON lines over one connection.
    package func lines(_ count: Int, firstRow: UInt64) throws -> Run {
        let result = try run(count, connections: 1, firstRow: firstRow, bench_load_lines)
        return Run(rows: count, nanoseconds: result.nanoseconds, times: Times([]))
    }

    private func run(
        _ count: Int, connections: Int, firstRow: UInt64,
        _ call: (
            UnsafePointer<bench_load_plan>, UnsafeMutablePointer<bench_load_result>, UnsafeMutablePointer<bench_failure>
        ) -> Int32
    ) throws -> bench_load_result {
        var result = bench_load_result()
        try socket.withCString { path in
            try entity.name.withCString { name in
                try producers.users.withUnsafeBufferPointer { users in
                    var plan = bench_load_plan()
                    plan.socket_path = path
                    plan.connections = Int32(connections)
                    plan.requests = UInt64(count)
                    plan.warmup = UInt64(Load.warmup(count))
                    plan.first_index = firstRow
                    plan.entity = name
                    plan.with_record_id = entity == .record ? 1 : 0
                    plan.users = connections > 1 ? users.baseAddress : nil
                    plan.user_count = connections > 1 ? Int32(users.count) : 0
                    try checked("load") { call(&plan, &result, $0) }
                }
            }
        }
        guard result.refused == 0 else {
            let why = withUnsafeBytes(of: result.first_refusal) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            throw BenchError("load: the agent refused \(result.refused) of \(count) mutations, first: \(why)")
        }
        return result
    }
}
