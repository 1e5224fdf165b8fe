import Foundation
import SyncCore
import Testing

extension EndToEnd {
    @Suite("Soak")
    struct SoakTests {
        @Test("A quarter of a minute of cut links, clock jumps, bursts and deaths loses nothing and repeats nothing")
        func short() async throws {
            let folder = "/tmp/edge-sync-\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let picture = folder + "/soak.svg"
            let output = try await Child.run(
                [Programs.agentbench, "soak", "--minutes", "0.3", "--json", "--seed", "3", "--svg", picture], in: folder)
            guard !output.talk.contains("skipped:") else { return print("soak test: \(output.talk)") }
            #expect(output.status == 0, "\(output.talk) \(output.text)")
            let result = try #require(try JSONReader.read(output.text).object)
            #expect(result["holds"]?.bool == true && (result["accepted"]?.int ?? 0) > 100)
            #expect((result["events"]?.object?.count ?? 0) >= 2, "nothing happened: \(output.text)")
            #expect(try String(contentsOfFile: picture, encoding: .utf8).hasPrefix("<svg "))
        }
    }
}
