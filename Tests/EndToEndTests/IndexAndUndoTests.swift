import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// `agentctl query --explain` and `agentctl undo`, with the real programs.
    @Suite("Indexes and undo")
    struct IndexAndUndoTests {
        private static let plain = "  work_orders: { fields: { visits: counter }, undo: true }\n"

        @Test("An index is declared and removed by a reload, and explain says what a query does")
        func indexes() async throws {
            try await Stand.with(entities: Self.plain, hubEntities: Self.plain) { stand in
                for site in 1...3 {
                    for number in 1...20 {
                        let data = #"{"site":"s\#(site)","due":\#(number)}"#
                        #expect(try await stand.agentctl("enqueue", "work_orders", "wo-\(site)-\(number)", "--data", data).status == 0)
                    }
                }
                let query = ["query", "work_orders", "--where", "site:eq:s2", "--sort", "due", "--limit", "5"]
                func explained() async throws -> QueryExplanation {
                    let output = try await stand.agentctl(query + ["--explain", "--json"])
                    return try #require(QueryExplanation(JSONReader.read(Array(output.text.utf8))), "\(output.talk)")
                }
                // A record's line names its changes that still wait, and they arrive meanwhile.
                _ = try await stand.settle()
                let before = try await stand.agentctl(query).text
                // The command that a page offers for the next one asks the same.
                let offer = "there is more: agentctl "
                let hint = try await stand.agentctl(query).talk.split(separator: "\n").first { $0.contains(offer) }
                let next = try #require(hint?.components(separatedBy: offer).last?.split(separator: " ").map(String.init))
                let second = try await stand.agentctl(next).text.split(separator: "\n").map { $0.prefix { $0 != " " } }
                #expect(second == ["wo-2-6", "wo-2-7", "wo-2-8", "wo-2-9", "wo-2-10"], "\(next)")
                let scan = try await explained()
                #expect(scan.way == "scan" && scan.read == 60 && scan.suggestion == "site,due")
                let talk = try await stand.agentctl(query + ["--explain"]).text
                #expect(talk.contains(#"    index: ["site,due"]"#) && talk.contains("agentctl config reload"), "\(talk)")

                let declared = #"  work_orders: { fields: { visits: counter }, undo: true, index: ["site,due"] }"# + "\n"
                try await stand.declare(declared)
                #expect(try await stand.agentctl("config", "reload").status == 0)
                var index = try await explained()
                for _ in 0..<200 where index.way != "index" { index = try await explained() }
                #expect(index.way == "index" && index.index == "site,due" && index.read == 6 && index.found == 5, "\(index)")
                #expect(try await stand.agentctl(query).text == before)

                // After a restart it is there, and an enqueue is in it at once.
                await stand.killAgent()
                try await stand.startAgent()
                #expect(try await stand.agentctl("enqueue", "work_orders", "wo-0", "--data", #"{"site":"s2","due":0}"#).status == 0)
                #expect(try await stand.agentctl(query).text.hasPrefix("wo-0 "))
                #expect(try await explained().way == "index")

                try await stand.declare(Self.plain)
                #expect(try await stand.agentctl("config", "reload").status == 0)
                var last = try await explained()
                for _ in 0..<200 where !last.indexes.isEmpty { last = try await explained() }
                #expect(last.way == "scan" && last.indexes.isEmpty)
                #expect(try await stand.agentctl(query).text.hasPrefix("wo-0 "))
            }
        }

        @Test("A new change takes back what the hub has; fields that another device has changed since stay and are named")
        func undo() async throws {
            try await Stand.with(entities: Self.plain, hubEntities: Self.plain) { stand in
                func change(_ data: String) async throws -> String {
                    let output = try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", data, "--wait")
                    #expect(output.status == 0, "\(output.talk)")
                    return String(output.text.prefix { $0 != " " })
                }
                _ = try await change(#"{"status":"open","due":1}"#)
                let id = try await change(#"{"status":"done","due":2}"#)
                _ = try await change(#"{"due":3}"#)
                let trial = try await stand.agentctl("undo", id, "--dry-run")
                #expect(
                    trial.status == 0
                        && trial.text == "It would take back status of work_orders/wo-1.\ndue stays: it was changed since then.\n",
                    "\(trial.talk)")
                let undone = try await stand.agentctl("undo", id)
                #expect(undone.status == 0, "\(undone.talk)")
                _ = try await stand.settle()
                #expect(try await stand.hubRecords("work_orders").map(\.data) == [["status": "open", "due": 3]])
                let again = try await stand.agentctl("undo", id)
                let by = String(undone.text.prefix { $0 != " " })
                #expect(again.status == 1 && again.talk.contains("agentctl undo \(by)"), "\(again.talk)")
                let back = try await stand.agentctl("undo", by)
                #expect(back.status == 0, "\(back.talk)")
                _ = try await stand.settle()
                #expect(try await stand.hubRecords("work_orders").map(\.data) == [["status": "done", "due": 3]])
            }
        }
    }
}
