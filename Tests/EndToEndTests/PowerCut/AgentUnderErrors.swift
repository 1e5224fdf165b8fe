import Foundation
import Glibc
import LocalAPI
import PowerCutKit
import SyncCore
import SyncLinux

/// The agent at work while calls fail: changes of one record, each on the one before, and a file.
final class AgentUnderErrors: UnderErrors {
    let name = "agent"
    private let transport: CurlTransport
    private let trial: AgentTrial

    init(folder: String) throws {
        transport = try CurlTransport(name: "errors", idleConnections: 2)
        trial = try AgentTrial(folder: folder)
    }

    func close() { transport.close() }

    func begin(in place: String) async throws {
        let agent = try await LoneAgent.start(in: place, over: transport)
        await agent.child.stop()
    }

    func fault(in place: String, _ promises: Promises) async throws -> String? { try await trial.fault(in: place, promises) }

    func fault(of state: Disk.State, _ promises: Promises) async throws -> String? { try await trial.fault(of: state, promises) }

    private static let steps = 8

    func work(in place: String, _ environment: [String: String], mustGoOn: Bool) async throws -> ErrorBench.Work {
        var work = ErrorBench.Work()
        // Requests that are tried again every half minute are tried again at once.
        let environment = environment.merging(["AGENTD_STORE_RETRY_MS": "1"]) { $1 }
        let agent = try await LoneAgent.start(in: place, over: transport, environment: environment)
        for number in 1...Self.steps {
            let data: JSONObject = ["n": .int(Int64(number)), "s\(number)": 1, "t": .string(CutLoad.text("w0-0", number))]
            let change = NewMutation(
                number == 1 ? .create : .update, EntityName(trusted: "work_orders"), RecordID(trusted: "w0-0"), data: data,
                coalesces: false)
            // An app that gets no answer repeats the mutation with its key.
            work.isDone = false
            for _ in 0..<(mustGoOn ? 2_000 : 3) where !work.isDone {
                guard let reply = try? await agent.client.enqueue(change, key: "w0-0/\(number)") else { continue }
                work.promises.mutations[reply.value.seq] = reply.value.id.text
                work.isDone = true
            }
            if !work.isDone { break }
        }
        if let digest = await addFile(agent) { work.promises.files.insert(digest.hex) }
        work.isThere = (try? await agent.client.health()) != nil
        work.status = await agent.child.stop()
        return work
    }

    private func addFile(_ agent: LoneAgent) async -> BlobDigest? {
        let bytes = Array(CutLoad.text("file", 1).utf8)
        let answer = try? await transport.send(
            HTTPRequest(
                .post, "http://localhost/v1/blobs", headers: ["Content-Type": "image/png"], body: .bytes(bytes),
                socketPath: agent.client.socketPath))
        return answer?.status == 201 ? BlobDigest(bytes: SHA256.hash(bytes)) : nil
    }
}
