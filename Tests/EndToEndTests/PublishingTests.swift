import Foundation
import Glibc
import SyncCore
import Testing

extension EndToEnd {
    /// An operator changes records and settings while hub and agents run.
    @Suite("Publishing while everything runs")
    struct PublishingTests {
        private func hub(_ arguments: [String], _ stand: Stand) async throws -> Output {
            try await Child.run([Programs.agenthub] + arguments + ["--data", "\(stand.folder)/hub"], in: stand.folder)
        }

        private func file(_ lines: [String], _ stand: Stand) throws -> String {
            let path = "\(stand.folder)/\(UUID().uuidString.prefix(8)).ndjson"
            try Stand.write(lines.joined(separator: "\n") + "\n", to: path)
            return path
        }

        private static func order(_ number: Int, _ title: String = "A") -> String { #"{"id":"w-\#(number)","data":{"title":"\#(title)"}}"# }

        @Test("A record without a value in the scope fields is told, beside a running hub and without one")
        func unshared() async throws {
            try await Stand.with(hubEntities: "  work_orders: { scope: [site] }", agent: false) { stand in
                let shared = #"{"id":"w-1","data":{"site":"s-1"}}"#
                let no = "no value in the scope fields of work_orders, so no device receives"
                let next = "To see the settings: agenthub entities history\n"
                for _ in 0..<2 {
                    let one = try await hub(["publish", "work_orders", try file([shared, Self.order(2)], stand)], stand)
                    #expect(one.status == 0 && one.text == "2 records of work_orders\n", "\(one.talk)")
                    #expect(one.talk == "agenthub: 1 record has \(no) it. \(next)")
                    let two = try await hub(["publish", "work_orders", try file([Self.order(3), Self.order(4)], stand)], stand)
                    #expect(two.talk == "agenthub: 2 records have \(no) them. \(next)")
                    await stand.stopHub()
                }
                #expect(try await hub(["publish", "work_orders", try file([shared], stand)], stand).talk.isEmpty)
            }
        }

        @Test("Records are published beside a running hub, and are at the device with its next sync")
        func beside() async throws {
            try await Stand.with { stand in
                let orders = try file((1...2_500).map { Self.order($0) }, stand)
                let output = try await hub(["publish", "work_orders", orders], stand)
                #expect(output.status == 0 && output.text == "2,500 records of work_orders\n", "\(output.talk)")
                for _ in 0..<50 {
                    if try await stand.agentctl("get", "work_orders", "w-2500").status == 0 { break }
                    _ = try await stand.sync()
                }
                #expect(try await stand.agentctl("get", "work_orders", "w-2500").status == 0)
                // A command without a hub sees the records that were published over the hub's socket.
                await stand.stopHub()
                #expect(!FileManager.default.fileExists(atPath: "\(stand.folder)/hub/hub.sock"))
                let again = try await hub(["publish", "work_orders", try file([Self.order(1, "B")], stand)], stand)
                #expect(again.status == 0 && again.text == "1 record of work_orders\n", "\(again.talk)")
                #expect(try await stand.hubRecords("work_orders").count == 2_500)
                try await stand.startHub()
            }
        }

        @Test("A mistake names its line and what is published; an atomic file is published as a whole or not at all")
        func mistakes() async throws {
            try await Stand.with(agent: false) { stand in
                let large = #"{"id":"big","data":{"text":"\#(String(repeating: "x", count: Limits.documentBytes))"}}"#
                var lines = (1...1_500).map { Self.order($0) } + [large]
                var path = try file(lines, stand)
                let atomic = try await hub(["publish", "work_orders", path, "--atomic"], stand)
                #expect(atomic.status == 65 && atomic.talk.contains(":1501: work_orders/big: the document has"), "\(atomic.talk)")
                #expect(atomic.talk.contains("Nothing is published"))
                #expect(try await stand.hubRecords("work_orders").isEmpty)
                let plain = try await hub(["publish", "work_orders", path], stand)
                #expect(plain.status == 65 && plain.talk.contains(":1501: "), "\(plain.talk)")
                #expect(plain.talk.contains("The lines 1 to 1000 are published (1,000 records), and none of the later ones"))
                #expect(try await stand.hubRecords("work_orders").count == 1_000)
                // The form of all lines is looked at before the first one is published.
                lines[1_500] = "nonsense"
                path = try file(lines, stand)
                let form = try await hub(["publish", "notes", path], stand)
                #expect(form.status == 65 && form.talk.contains(":1501: ") && form.talk.contains("Nothing is published"), "\(form.talk)")
                #expect(try await stand.hubRecords("notes").isEmpty)
                lines[1_500] = Self.order(1_501)
                let whole = try await hub(["publish", "notes", try file(lines, stand), "--atomic"], stand)
                #expect(whole.status == 0 && whole.text == "1,501 records of notes\n", "\(whole.talk)")
            }
        }

        @Test("The socket of a killed hub does not stop the next one")
        func killed() async throws {
            try await Stand.with(agent: false) { stand in
                await stand.killHub()
                #expect(FileManager.default.fileExists(atPath: "\(stand.folder)/hub/hub.sock"))
                let alone = try await hub(["publish", "work_orders", try file([Self.order(1)], stand)], stand)
                #expect(alone.status == 0, "\(alone.talk)")
                try await stand.startHub()
                let beside = try await hub(["publish", "work_orders", try file([Self.order(2)], stand)], stand)
                #expect(beside.status == 0, "\(beside.talk)")
                #expect(try await stand.hubRecords("work_orders").count == 2)
            }
        }

        private static func audits(_ values: String) -> String {
            "  audits: { validate: reject, schema: { properties: { value: { enum: [\(values)] } } } }"
        }

        @Test(
            "Settings are applied and taken back beside a running hub; a restart takes nothing back, and a changed file counts at a signal")
        func entities() async throws {
            try await Stand.with(entities: Self.audits("a"), agent: false) { stand in
                let peer = try await PlainPeer("peer", on: stand)
                func accepts(_ value: String, _ id: String) async throws -> Bool {
                    do {
                        try await peer.create("audits", id, #"{"value":"\#(value)"}"#, at: await stand.hubURL)
                        return true
                    } catch is StandError {
                        return false
                    }
                }
                func generations() async throws -> [Int64] {
                    let output = try await hub(["entities", "history", "--json"], stand)
                    return try JSONReader.read(output.text).array?.compactMap { $0.object?["generation"]?.int } ?? []
                }
                #expect(try await accepts("a", "a-1"))
                #expect(try await accepts("b", "a-2") == false)
                #expect(try await generations() == [1])
                let other = "\(stand.folder)/other.yaml"
                try Stand.write("entities:\n\(Self.audits("b"))\n", to: other)
                let dry = try await hub(["entities", "apply", other, "--dry-run"], stand)
                #expect(dry.status == 0 && dry.text.contains("stricter: value may not have the value a"), "\(dry.text)\(dry.talk)")
                #expect(try await generations() == [1])
                let applied = try await hub(["entities", "apply", other], stand)
                #expect(applied.status == 0 && applied.text.hasSuffix("generation 2 is in force\n"), "\(applied.text)\(applied.talk)")
                #expect(try await accepts("b", "a-3"))
                #expect(try await accepts("a", "a-4") == false)
                // The file of the start is older than what was applied.
                await stand.stopHub()
                try await stand.startHub()
                #expect(try await accepts("b", "a-5"))
                #expect(try await accepts("a", "a-6") == false)
                let back = try await hub(["entities", "rollback"], stand)
                #expect(back.status == 0 && back.text.hasSuffix("generation 3 is in force\n"), "\(back.text)\(back.talk)")
                #expect(try await accepts("a", "a-7"))
                #expect(try await accepts("b", "a-8") == false)
                try Stand.write("entities:\n\(Self.audits("c"))\n", to: "\(stand.folder)/entities.yaml")
                kill(try #require(await stand.hubProcess), SIGHUP)
                for _ in 0..<500 { if try await generations().first == 4 { break } }
                #expect(try await generations() == [4, 3, 2, 1])
                #expect(try await accepts("c", "a-9"))
                #expect(try await accepts("a", "a-10") == false)
                // Without a hub the command does it itself.
                await stand.stopHub()
                let alone = try await hub(["entities", "rollback", "2"], stand)
                #expect(alone.status == 0 && alone.text.hasSuffix("generation 5 is in force\n"), "\(alone.text)\(alone.talk)")
                try await stand.startHub()
                #expect(try await accepts("b", "a-11"))
                let wrong = "\(stand.folder)/wrong.yaml"
                try Stand.write("entities: { audits: { colour: red } }\n", to: wrong)
                let refused = try await hub(["entities", "apply", wrong], stand)
                #expect(refused.status == 78 && refused.talk.contains("wrong.yaml:1:"), "\(refused.talk)")
                #expect(try await hub(["entities", "rollback", "77"], stand).status == 78)
            }
        }
    }
}
