import HubServer
import SyncCore

/// What an agent makes of an answer, in lines that a person can compare.
enum CorpusReading {
    static func lines(_ path: String, _ answer: HubResponse, now: Timestamp) throws -> [String] {
        switch HubReply.read(HTTPResponse(status: answer.status, headers: answer.headers, body: answer.body), now: now) {
        case .refused(let refusal):
            var line = "refused, \(refusal.kind)"
            if let wait = refusal.facts?.retryAfter { line += ", again in \(wait.components.seconds) s" }
            return [line]
        case .answered(_, let body): return try lines(path, body)
        }
    }

    private static func lines(_ path: String, _ body: [UInt8]) throws -> [String] {
        switch path {
        case "/v1/sync/hello":
            let hello = try HelloMessages.readResponse(body)
            return [
                "device \(hello.device), seq \(hello.deviceSeq ?? -1), head \(hello.head)",
                "versions \(hello.versions), can \(hello.capabilities.joined(separator: " ")), spread \(hello.spread.components.seconds) s",
                "push \(hello.limits.pushMutations) mutations of \(hello.limits.mutationBytes) bytes, \(hello.limits.pushBytes) bytes, pull \(hello.limits.pullRecords) records",
            ]
        case "/v1/sync/pull":
            let pull = try PullMessages.readResponse(body)
            let pages = pull.pages.map { page in
                let deletions = page.deletions.map { "deleted \($0.id)@\($0.version)" }
                return "\(page.entity): " + list(page.records.map(line) + deletions + (page.hasMore ? ["more"] : []))
            }
            let entities = pull.entities.map { ", entities " + $0.map(\.text).joined(separator: " ") } ?? ""
            return ["head \(pull.head)\(entities)"] + pages
                + pull.errors.map { "\($0.entity): \($0.problem.code)\($0.isExpired ? ", begin again" : "")" }
        case "/v1/sync/push":
            let push = try PushMessages.readResponse(body)
            return ["head \(push.head)"] + push.results.map { "\($0.key) \(words($0))" }
        case "/v1/sync/snapshot":
            let page = try SnapshotMessages.readResponse(body)
            return ["\(page.entity): " + list(page.records.map(line) + (page.hasMore ? ["more"] : [])), "feed from \(page.startVersion)"]
        case "/v1/sync/verify":
            let verdict = try VerifyMessages.readResponse(body)
            let differs = verdict.differs.map { String($0) }
            return [differs.isEmpty ? "the same" : "other in " + list(differs), "feed from \(verdict.startVersion)"]
        case "/v1/sync/known": return ["unknown: " + list(try KnownMessages.readResponse(body).map(\.text))]
        default: throw CorpusCase.Mistake(description: "no agent asks for \(path)")
        }
    }

    private static func line(_ item: StreamPage.Record) -> String { "\(item.id)@\(item.record.version)" }

    private static func list(_ words: [String]) -> String { words.isEmpty ? "nothing" : words.joined(separator: ", ") }

    private static func words(_ result: PushResult) -> String {
        var words: String
        switch result.verdict {
        case .accepted(let version, _, let record, let merged):
            words = "accepted as \(version)"
            if let record { words += ", record comes along with \(record.data.count) fields" }
            if !merged.isEmpty { words += ", merged \(merged.joined(separator: " "))" }
        case .duplicate(let original, let current):
            words = "duplicate of \(original.rawValue), \(Self.words(current))"
            if let problem = result.notes.problem { words += ", \(problem.code)" }
            if !result.notes.fields.isEmpty { words += ", \(result.notes.fields.joined(separator: " "))" }
        case .conflict(let fields, let current): words = "conflict about \(fields.joined(separator: " ")), \(Self.words(current))"
        case .rejected(let problem, let current):
            words = "rejected, \(problem.code)" + (current.map { ", \(Self.words($0))" } ?? "")
        case .retry(let problem, _): words = "again later, \(problem?.code ?? "no reason")"
        }
        for member in result.notes.kept.members { words += ", kept \(member.name.text) \(member.value.json)" }
        if result.notes.hasLeft { words += ", record has left the share" }
        return words + (result.notes.isClockClamped ? ", clock clamped" : "")
    }

    private static func words(_ state: HubState) -> String {
        switch state {
        case .record(let record): "now \(record.version)"
        case .deleted(let version): "deleted at \(version)"
        case .absent: "not there"
        }
    }

    // MARK: Both directions

    /// The answer as the hub's own writer would write what the agent has read: nothing may get lost on the way.
    static func rewritten(_ path: String, _ body: [UInt8]) throws -> JSON {
        let bytes =
            switch path {
            case "/v1/sync/hello": HelloMessages.response(try HelloMessages.readResponse(body))
            case "/v1/sync/pull": PullMessages.response(try PullMessages.readResponse(body))
            case "/v1/sync/push":
                try { push in PushMessages.response(head: push.head, results: push.results) }(PushMessages.readResponse(body))
            case "/v1/sync/snapshot": SnapshotMessages.response(try SnapshotMessages.readResponse(body))
            case "/v1/sync/verify": VerifyMessages.response(try VerifyMessages.readResponse(body))
            case "/v1/sync/known": KnownMessages.response(unknown: try KnownMessages.readResponse(body))
            default: throw CorpusCase.Mistake(description: "no agent asks for \(path)")
            }
        return try JSONReader.read(bytes, limits: .message)
    }

    /// The request as the agent's own writer would write what the hub has read in it; `nil` for one that has no body.
    static func asked(_ request: CorpusCase.Request) throws -> JSON? {
        guard let body = request.body.map({ Blanks().filled($0) }) else { return nil }
        let bytes =
            switch request.path {
            case "/v1/sync/hello": HelloMessages.request(try HelloMessages.readRequest(body.bytes))
            case "/v1/sync/pull": PullMessages.request(try PullMessages.readRequest(body.bytes))
            case "/v1/sync/verify": VerifyMessages.request(try VerifyMessages.readRequest(body.bytes))
            case "/v1/sync/known": KnownMessages.request(try KnownMessages.readRequest(body.bytes))
            case "/v1/sync/push": try push(body)
            default: throw CorpusCase.Mistake(description: "no agent asks for \(request.path)")
            }
        return try JSONReader.read(bytes)
    }

    private static func push(_ body: JSON) throws -> [UInt8] {
        let read = try PushMessages.readRequest(body.bytes)
        let items = body.object?["mutations"]?.array ?? []
        let mutations = try zip(read.items, items).map { item, json in
            let mutation = try item.content.get()
            let object = json.object ?? [:]
            var outgoing = OutgoingMutation(
                seq: item.seq ?? 0, key: item.key, record: mutation.record, action: mutation.content.action,
                data: object["data"]?.json, unset: object["unset"]?.json, operations: object["ops"]?.json,
                dependsOn: object["depends_on"]?.json, baseVersion: mutation.baseVersion, hlc: mutation.hlc.description,
                clock: mutation.clock, clientUpdatedAt: mutation.clientUpdatedAt ?? Timestamp(milliseconds: 0),
                priority: object["priority"]?.text.flatMap { Priority(name: $0) } ?? .normal, group: item.group,
                base: object["base"]?.json, author: mutation.author)
            outgoing.supersedes = mutation.supersedes
            outgoing.fieldHLC = object["field_hlc"]?.json
            return outgoing
        }
        return PushMessages.request(
            Batch(mutations: mutations, ackedSeq: read.ackedSeq, maxSentSeq: read.maxSentSeq ?? 0), config: read.config)
    }
}
