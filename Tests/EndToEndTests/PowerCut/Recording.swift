import Foundation
import PowerCutKit

/// Programs that are watched by `Tests/powercut` while they work.
struct Interposer {
    /// The recorded folder. Nothing else may be below it.
    var root: String
    var log: String?
    /// `sync:3:5:once`; see `Tests/powercut/include/powercut.h`.
    var fault: String?
    var count: String?

    var environment: [String: String] {
        var environment = ["LD_PRELOAD": Programs.interposer, "POWERCUT_ROOT": root]
        environment["POWERCUT_LOG"] = log
        environment["POWERCUT_FAULT"] = fault
        environment["POWERCUT_COUNT"] = count
        return environment
    }
}

/// The logs of the disks of agent and hub, and their answers, in a few lives. Each log ends with the end of the power; the next one begins
/// with what was on disk then.
struct Recording {
    var agent: [IOLog] = []
    var hub: [IOLog] = []

    /// The rules by which everything is written; the device's own value always stands, so that a document shows what it has seen.
    static let entities = """
              readings: { kind: event }
              work_orders: { kind: record, fields: { n: client, t: client } }
              audits: { kind: record }
        """

    /// - Parameters:
    ///   - ablations: Rules that are switched off in both programs.
    ///   - lives: Ends of the power while both work.
    static func make(
        seed: UInt64, lives: Int, rounds: Int, ablations: String = "", breaking: (Stand) throws -> Void = { _ in }
    ) async throws -> Recording {
        var recording = Recording()
        try await Stand.with(entities: entities, hub: false, agent: false) { stand in
            let fileManager = FileManager.default
            try fileManager.createDirectory(
                atPath: "\(stand.folder)/agent", withIntermediateDirectories: false, attributes: [.posixPermissions: NSNumber(value: 0o700)]
            )
            let load = CutLoad(stand, seed: seed)
            for life in 1...lives {
                let (agent, hub) = ("\(stand.folder)/agent-\(life).log", "\(stand.folder)/hub-\(life).log")
                await stand.setEnvironment(
                    agent: Interposer(root: "\(stand.folder)/agent", log: agent).environment.merging(["AGENTD_ABLATIONS": ablations]) {
                        $1
                    },
                    hub: Interposer(root: "\(stand.folder)/hub", log: hub).environment.merging(["AGENTHUB_ABLATIONS": ablations]) { $1 })
                try await stand.startHub()
                try await stand.startAgent()
                try await load.run(rounds: rounds)
                if life == 1 {
                    // An end in good order, and what follows it, are part of a life.
                    await stand.stopAgent()
                    await stand.stopHub(keepsUploads: true)
                    try await stand.startHub()
                    try await stand.startAgent()
                    try await load.run(rounds: rounds)
                }
                await stand.killAgent()
                await stand.killHub()
                recording.agent.append(try IOLog(path: agent))
                recording.hub.append(try IOLog(path: hub))
            }
        }
        return recording
    }
}
