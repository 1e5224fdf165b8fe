import Foundation
import PowerCutKit
import SyncCore
import Testing

extension EndToEnd {
    /// The power goes while files come down from the hub.
    @Suite("Power cut while files come down")
    struct FetchCutTests {
        private static let environment = ProcessInfo.processInfo.environment
        /// EDGE_SYNC_LONG: some 15 minutes.
        private static let states = environment["EDGE_SYNC_LONG"] == nil ? 15 : 600
        private static let seed = environment["EDGE_SYNC_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0 ... .max)

        // Fault: bytes that no sync had covered are shown, a part that was never compared is trusted, or a file never comes.
        @Test("After any power cut during downloads no wrong byte is served, and with the hub each file comes whole")
        func cut() async throws {
            print("power cut test of fetches: EDGE_SYNC_SEED=\(Self.seed), \(Self.states) states")
            var random = SeededRandom(seed: Self.seed)
            try await Stand.with(entities: FetchRecording.entities, agent: false) { stand in
                let recording = try await FetchRecording(on: stand)
                let folder = try Campaign.folder()
                // `try?`: the folder is in memory, or below /tmp.
                defer { try? FileManager.default.removeItem(atPath: folder) }
                let trial = try await FetchTrial(on: stand, files: recording.files, folder: folder)
                var faults: [String] = []
                var promises = Promises()
                var promised = 0
                for (life, log) in recording.lives.enumerated() {
                    promises.beginNextLog()
                    var disk = Disk(log)
                    for cut in Cut.draw(Self.states / recording.lives.count, from: log, using: &random) where faults.count < 5 {
                        disk.advance(to: cut.place)
                        promises.advance(to: cut.place, in: log)
                        promised += promises.files.count
                        let fault = try await trial.fault(of: disk.state(after: cut), promises)
                        if let fault { faults.append("life \(life + 1), cut \(cut): \(fault)") }
                    }
                    promises.advance(to: log.records.count, in: log)
                }
                #expect(faults.isEmpty, "seed \(Self.seed): \(faults.joined(separator: "\n"))")
                // Otherwise nothing of what was judged had been served before.
                #expect(promised > 0)
                print("power cut test of fetches: \(promised) served files in all states")
            }
        }
    }
}
