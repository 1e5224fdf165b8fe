import LocalAPI
import SyncCore

/// What the apps of a soak do, and what they were told: the ground on which it is judged whether anything was lost.
///
/// Each change has a key of its own and is sent again, with it, until it is answered; nothing new is sent before that. So
/// whatever a crash leaves open is settled by asking again, as an app would.
struct SoakWork {
    /// Readings that were answered for, each by its number.
    private(set) var readings: Set<Int64> = []
    /// The last number that was answered for, by work order.
    private(set) var orders: [String: Int64] = [:]
    private(set) var accepted = 0
    /// Bytes of the documents in them, which is what has to be moved.
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

    /// Wants so many changes more, every fifth of them to one of fifty work orders.
    mutating func want(_ count: Int) {
        for _ in 0..<count {
            next += 1
            waiting.append(Change(number: next, order: next.isMultiple(of: 5) ? "wo-\(next / 5 % 50)" : nil))
        }
    }

    var isAnswered: Bool { waiting.isEmpty }

    /// Sends what is wanted; what gets no answer is kept for the next time.
    ///
    /// - Throws: When the agent says that it will never take a change.
    mutating func send(to agent: AgentUnderTest) throws {
        while !waiting.isEmpty {
            let part = waiting.prefix(Self.linesMax)
            let body = part.map { $0.line(Self.run) + "\n" }.joined()
            // No answer at all: the agent was just killed, or is not up yet.
            guard let answer = try? agent.call("POST", "/v1/mutations/bulk", body: body, timeout: .seconds(20)) else { return }
            let taken = try numbers(in: answer)
            for change in part where taken.contains(change.number) {
                accepted += 1
                acceptedBytes += change.document.utf8.count
                if let order = change.order { orders[order] = change.number } else { readings.insert(change.number) }
            }
            // In order: what was not taken goes again before anything later.
            waiting.removeFirst(part.count)
            let open = part.filter { !taken.contains($0.number) }
            waiting.insert(contentsOf: open, at: 0)
            if !open.isEmpty { return }
        }
    }

    private func numbers(in answer: String) throws -> Set<Int64> {
        var taken: Set<Int64> = []
        for line in answer.split(separator: "\n") {
            // A line that was cut off answers nothing.
            guard let object = (try? JSONReader.read(String(line)))?.object, let number = object["ref"]?.int else { continue }
            if object["id"]?.text != nil {
                taken.insert(number)
            } else if let status = object["problem"]?.object?["status"]?.int ?? object["status"]?.int, status < 500, status != 429 {
                throw BenchError("the agent refuses a change: \(line)")
            }
        }
        return taken
    }

    /// Compares with what the hub has.
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
            // A line that does not read is thrown as an error below.
            guard let object = (try? JSONReader.read(String(line)))?.object, let id = object["id"]?.text,
                let number = object["data"]?.object?["n"]?.int
            else { throw BenchError("the hub exports a line that is no record: \(line.prefix(200))") }
            return (id, number)
        }
    }
}
