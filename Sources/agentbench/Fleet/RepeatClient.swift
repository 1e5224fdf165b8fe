import BenchKit
import CBenchFloors
import Glibc

/// Sends one request over each of many connections again and again, each as soon as its answer is there.
struct RepeatClient {
    struct Outcome {
        var times: Times
        var nanoseconds: UInt64

        var rate: Double { Double(times.count) * 1e9 / Double(max(nanoseconds, 1)) }
    }

    private struct Connection {
        var descriptor: Int32
        var request: [UInt8]
        var began: UInt64 = 0
        var answer: [UInt8] = []
    }

    private var connections: [Connection] = []

    /// - Parameter requests: One for each connection, as it is sent.
    init(port: UInt16, requests: [[UInt8]]) throws {
        for request in requests { connections.append(Connection(descriptor: try FleetSocket.connect(port), request: request)) }
    }

    func close() { for connection in connections { _ = Glibc.close(connection.descriptor) } }

    /// - Parameter status: That of every answer.
    mutating func run(nanoseconds: UInt64, status: Int) throws -> Outcome {
        var times: [UInt64] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var polled = connections.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        let start = bench_now()
        for index in connections.indices { try send(index) }
        var waiting = connections.count
        while waiting > 0 {
            guard poll(&polled, nfds_t(polled.count), 10_000) > 0 else { throw BenchError("the hub did not answer for 10 s") }
            let isOver = bench_now() - start >= nanoseconds
            for index in polled.indices where polled[index].revents != 0 {
                let count = recv(polled[index].fd, &buffer, buffer.count, 0)
                guard count > 0 else { throw BenchError("the hub closed a connection before its answer") }
                connections[index].answer += buffer[..<count]
                guard let answer = FleetAnswer(connections[index].answer) else { continue }
                guard answer.status == status else {
                    let text = String(decoding: connections[index].answer.prefix(600), as: UTF8.self)
                    throw BenchError("the hub answered \(answer.status): \(text)")
                }
                times.append(bench_now() - connections[index].began)
                if isOver {
                    polled[index].fd = -1
                    waiting -= 1
                } else {
                    try send(index)
                }
            }
        }
        return Outcome(times: Times(times), nanoseconds: bench_now() - start)
    }

    private mutating func send(_ index: Int) throws {
        connections[index].answer.removeAll(keepingCapacity: true)
        connections[index].began = bench_now()
        try FleetSocket.send(connections[index].request, over: connections[index].descriptor)
    }
}
