import Foundation
import Glibc
import LocalAPI
import PowerCutKit
import SyncCore
import SyncLinux
import SyncStore

/// Opens disks that a cut could have left with the real agent, and judges what comes up by what was promised before.
actor AgentTrial {
    private let folder: String
    private let transport: CurlTransport
    private var count = 0
    /// Alarms that the agent may raise. A power cut alone is no reason for any.
    private let alarmsAllowed: Set<String>

    init(folder: String, alarmsAllowed: Set<String> = []) throws {
        self.folder = folder
        self.alarmsAllowed = alarmsAllowed
        transport = try CurlTransport(name: "trial", idleConnections: 2)
    }

    /// - Returns: The fault that was found; `nil` for none.
    func fault(of state: Disk.State, _ promises: Promises) async throws -> String? {
        count += 1
        let place = "\(folder)/\(count)"
        try state.write(to: "\(place)/agent")
        defer { try? FileManager.default.removeItem(atPath: place) }
        return try await fault(in: place, promises)
    }

    /// The same of a disk that is at `place/agent` already.
    ///
    /// - Parameter mayLose: The disk itself was damaged: what is missing is no fault where the agent says that something is.
    func fault(in place: String, _ promises: Promises, mayLose: Bool = false) async throws -> String? {
        var alarms: Set<String> = []
        // A query may meet damage, which ends the agent, and the service manager starts it again. That start looks at everything.
        for life in 1...(mayLose ? 2 : 1) {
            let agent: LoneAgent
            do {
                agent = try await LoneAgent.start(in: place, over: transport)
            } catch {
                return "the agent does not start (life \(life)): \(error)"
            }
            do {
                let (fault, said) = try await faultInAnswers(agent.client)
                alarms.formUnion(said)
                var found = fault
                if found == nil, mayLose, alarms.isEmpty { found = try await faultInShown(agent.client, promises) }
                await agent.child.stop(SIGKILL)
                if let found { return found }
            } catch {
                let isDamage = mayLose && access("\(place)/agent/agent.db-damaged", F_OK) == 0
                let status = isDamage ? await agent.child.end() : await agent.child.stop(SIGKILL)
                guard isDamage, status == 70 else { return "the agent does not answer: \(error) \(EndedAtStart.log(of: place))" }
            }
        }
        do {
            return try faultInStore(place, promises, mayLose: !alarms.isEmpty)
        } catch {
            return "what the agent opened cannot be read: \(error)"
        }
    }

    private func faultInAnswers(_ client: AgentClient) async throws -> (String?, alarms: Set<String>) {
        let status = try await client.status().value
        let alarms = Set(status.alarms.map(\.code))
        // It said so, and ends now, as after any other question that met damage.
        guard !alarms.contains(AlarmCode.databaseUnreadable.rawValue) else { throw StandError("\(status.alarms)") }
        guard alarms.isSubset(of: alarmsAllowed) else { return ("alarms: \(status.alarms)", alarms) }
        guard status.outbox.isBalanced else { return ("the counters do not add up", alarms) }
        // And it goes on.
        let more = NewMutation(.create, EntityName(trusted: "more"), nil, data: ["x": 1])
        let taken = try await client.enqueue(more)
        return (taken.status == 201 ? nil : "the agent takes nothing more: \(taken.status)", alarms)
    }

    /// Returns the fault in the answers of an agent that knows of no damage: they have to be right. An agent that refuses to answer makes
    /// this throw.
    private func faultInShown(_ client: AgentClient, _ promises: Promises) async throws -> String? {
        var query = MutationListQuery()
        query.limit = 1_000
        let shown = try await client.mutations(query).value.items
        let ids = Dictionary(shown.map { ($0.seq, $0.id) }) { first, _ in first }
        if let lost = promises.mutations.first(where: { ids[$0.key] != $0.value }) {
            return "SILENT: seq \(lost.key) is not listed as it was"
        }
        for id in Set(shown.filter { $0.record.entity.text == "work_orders" }.map(\.record.id)).sorted(by: { $0.text < $1.text }) {
            let record = try await client.record(RecordName(EntityName(trusted: "work_orders"), id)).value
            guard let data = try record.data.flatMap({ try JSONReader.read($0).object }) else { return "SILENT: \(id) shows nothing" }
            if let fault = CutLoad.fault(ofRecord: id.text, data) { return "SILENT: \(fault)" }
            let last = shown.filter { $0.record.id == id }.count
            guard data["n"]?.int == Int64(last) else { return "SILENT: \(id) shows n=\(data["n"]?.int ?? 0) after \(last) changes" }
        }
        return nil
    }

    private func faultInStore(_ place: String, _ promises: Promises, mayLose: Bool) throws -> String? {
        let database = try Database.openReader(path: "\(place)/agent/agent.db")
        let integrity = try database.pragma("integrity_check")
        guard integrity == "ok" else { return "integrity: \(integrity.prefix(200))" }
        let reads = StoreReads(database: database)
        var all: [MutationSnapshot] = []
        let now = SystemClocks().now()
        var query = MutationQuery()
        query.limit = 1_000
        while true {
            let page = try reads.mutations(query, at: now)
            all += page.items
            guard let next = page.next else { break }
            query.after = next
        }
        if !mayLose, let fault = faultInPromises(all, promises) { return fault }
        if let fault = try faultInContent(all, reads, mayLose: mayLose) { return fault }
        return mayLose ? nil : try faultInFiles("\(place)/agent/blobs", reads, promises)
    }

    private func faultInPromises(_ all: [MutationSnapshot], _ promises: Promises) -> String? {
        let bySeq = Dictionary(all.map { ($0.seq, $0) }) { first, _ in first }
        var lost: [Int64] = []
        for (seq, id) in promises.mutations where bySeq[seq]?.key.text != id { lost.append(seq) }
        if !lost.isEmpty { return "LOST: \(lost.count) acknowledged mutations, such as seq \(lost.sorted().prefix(3))" }
        let byKey = Dictionary(all.map { ($0.key.text, $0) }) { first, _ in first }
        // Invariant of a push: what leaves is known as sent before it does.
        if let key = promises.offered.first(where: { byKey[$0]?.isSent != true }) { return "UNSENT: \(key) left, and nobody knows" }
        return nil
    }

    private func faultInContent(_ all: [MutationSnapshot], _ reads: StoreReads, mayLose: Bool) throws -> String? {
        var readings: [JSONObject] = []
        var numbers: [String: Int64] = [:]
        for mutation in all {
            guard let data = try mutation.data.flatMap({ try JSONReader.read($0).object }) else { return "a mutation without content" }
            let id = mutation.record.id.text
            switch mutation.record.entity.text {
            case "readings":
                if let fault = CutLoad.fault(ofReading: data) { return fault }
                readings.append(data)
            case "work_orders":
                let number = data["n"]?.int ?? 0
                guard number == numbers[id, default: 0] + 1 || (mayLose && number > numbers[id, default: 0]) else {
                    return "ORDER: change \(number) of \(id) follows \(numbers[id] ?? 0)"
                }
                guard data["t"]?.text == CutLoad.text(id, Int(number)) else { return "change \(number) of \(id) is not what was handed in" }
                numbers[id] = number
            default: break
            }
        }
        if !mayLose, let fault = CutLoad.fault(ofLists: readings) { return fault }
        if let fault = CutLoad.repeated(readings) { return fault }
        // With a change missing in the middle, a record shows what is left.
        for (id, number) in mayLose ? [:] : numbers {
            let name = RecordName(EntityName(trusted: "work_orders"), RecordID(trusted: id))
            guard let view = try reads.record(name)?.view, let data = try JSONReader.read(view).object else {
                return "\(id) cannot be seen"
            }
            guard data["n"]?.int == number else { return "HALF: \(id) shows n=\(data["n"]?.int ?? 0) after \(number) changes" }
            if let fault = CutLoad.fault(ofRecord: id, data) { return fault }
        }
        return nil
    }

    private func faultInFiles(_ folder: String, _ reads: StoreReads, _ promises: Promises) throws -> String? {
        let files = try BlobFiles(folder)
        let kept = try files.kept()
        for digest in kept {
            guard try files.hash(digest) == digest else { return "HALF A FILE under the name \(digest)" }
        }
        let names = Set(kept.map(\.hex))
        if let digest = promises.files.first(where: { !names.contains($0) }) { return "LOST: the file \(digest)" }
        for hex in promises.files {
            guard let digest = BlobDigest(hex: hex), let row = try reads.blob(digest), row.hasFile else { return "LOST: the row of \(hex)" }
        }
        return nil
    }
}

extension BlobFiles {
    /// The digest of the bytes that are there, whatever the file's name says.
    func hash(_ digest: BlobDigest) throws -> BlobDigest {
        let reader = try read(digest)
        let hash = FileHash()
        var offset: Int64 = 0
        while offset < reader.size {
            let bytes = try reader.read(at: offset, count: 1 << 20)
            hash.update(bytes)
            offset += Int64(bytes.count)
        }
        return hash.blobDigest
    }
}

extension Disk.State {
    func write(to root: String) throws {
        let fileManager = FileManager.default
        let mode: [FileAttributeKey: Any] = [.posixPermissions: NSNumber(value: 0o700)]
        try fileManager.createDirectory(atPath: root, withIntermediateDirectories: true, attributes: mode)
        for folder in folders.sorted() {
            try fileManager.createDirectory(atPath: "\(root)/\(folder)", withIntermediateDirectories: true, attributes: mode)
        }
        for (path, bytes) in files {
            guard
                fileManager.createFile(
                    atPath: "\(root)/\(path)", contents: Data(bytes), attributes: [.posixPermissions: NSNumber(value: 0o600)])
            else { throw StandError("cannot write \(root)/\(path)") }
        }
    }
}
