import BenchKit
import LocalAPI
import SyncCore

/// The work of the apps of a soak and the answers to it: the basis for deciding whether anything was lost.
///
/// Each change has its own key and is sent again with it until it is answered; no new change is sent before that. A change that a crash
/// leaves open is therefore settled by a repeated request, as an app would do.
struct SoakWork {
    /// Acknowledged readings, each by its number.
    private(set) var readings: Set<Int64> = []
    /// The last acknowledged number, by work order.
    private(set) var orders: [String: Int64] = [:]
    private(set) var accepted = 0
    /// Bytes of the accepted documents, which must be transferred.
    private(set) var acceptedBytes = 0
    private var waiting: [Change] = []
    private var next: Int64 = 0

    private struct Change {
        var number: Int64
        /// `nil`: a reading.
        var order: String?

        func line(_ run: String) -> String {
            let key = "\(run)-\(number)"
            let body =
                order.map { #""entity":"\#(BenchEntity.record.name)","record_id":"\#($0)","action":"upsert""# }
                ?? #""entity":"\#(BenchEntity.event.name)","action":"create""#
            return #"{"ref":\#(number),"idempotency_key":"\#(key)",\#(body),"data":\#(document)}"#
        }

        var document: String { #"{"n":\#(number),"note":"pressure within limits"}"# }
    }

    /// Lines of one request: a small part of a large burst.
    private static let linesMax = 250
    private static let run = "soak"

    /// Adds this number of changes, every fifth of them to one of fifty work orders.
    mutating func want(_ count: Int) {
        for _ in 0..<count {
            next += 1
            waiting.append(Change(number: next, order: next.isMultiple(of: 5) ? "wo-\(next / 5 % 50)" : nil))
        }
    }

    var isAnswered: Bool { waiting.isEmpty }

    /// Sends the waiting changes; those without an answer are kept for the next call.
    ///
    /// - Throws: When the agent refuses a change for good.
    mutating func send(to agent: AgentUnderTest) throws {
        while !waiting.isEmpty {
            let part = waiting.prefix(Self.linesMax)
            let body = part.map { $0.line(Self.run) + "\n" }.joined()
            // No answer at all: the agent was just killed, or is not ready yet.
            guard let answer = try? agent.call("POST", "/v1/mutations/bulk", body: body, timeout: .seconds(20)) else { return }
            let taken = try numbers(in: answer)
            for change in part where taken.contains(change.number) {
                accepted += 1
                acceptedBytes += change.document.utf8.count
                if let order = change.order { orders[order] = change.number } else { readings.insert(change.number) }
            }
            // The order is kept: unaccepted changes are sent again before anything later.
            waiting.removeFirst(part.count)
            let open = part.filter { !taken.contains($0.number) }
            waiting.insert(contentsOf: open, at: 0)
            if !open.isEmpty { return }
        }
    }

    private func numbers(in answer: String) throws -> Set<Int64> {
        var taken: Set<Int64> = []
        for line in answer.split(separator: "\n") {
            // A truncated line acknowledges nothing.
            guard let object = (try? JSONReader.read(String(line)))?.object, let number = object["ref"]?.int else { continue }
            if object["id"]?.text != nil {
                taken.insert(number)
            } else if let status = object["problem"]?.object?["status"]?.int ?? object["status"]?.int, status < 500, status != 429 {
                throw BenchError("the agent refuses a change: \(line)")
            }
        }
        return taken
    }

    /// Compares the work with the content of the hub.
    ///
    /// - Parameter export: The hub's own export of both entities, NDJSON.
    func judge(readings export: String, orders: String) throws -> (lost: Int, twice: Int, foreign: Int, wrong: Int) {
        var seen: [Int64: Int] = [:]
        for number in try SoakWork.documents(export).map(\.number) { seen[number, default: 0] += 1 }
        var wrong = 0
        var last = self.orders
        for (id, number) in try SoakWork.documents(orders) where last.removeValue(forKey: id) != number { wrong += 1 }
        return (
            readings.count { seen[$0] == nil }, seen.values.count { $0 > 1 }, seen.keys.count { !readings.contains($0) },
            wrong + last.count
        )
    }

    private static func documents(_ export: String) throws -> [(id: String, number: Int64)] {
        try export.split(separator: "\n").map { line in
            // An unreadable line is thrown as an error below.
            guard let object = (try? JSONReader.read(String(line)))?.object, let id = object["id"]?.text,
                let number = object["data"]?.object?["n"]?.int
            else { throw BenchError("the hub exports a line that is no record: \(line.prefix(200))") }
            return (id, number)
        }
    }
}
