/// The request for a mutation.
package enum RestPlan: Hashable, Sendable {
    case send(RestAttempt)
    /// The record is read first, because the request depends on it.
    case read(target: String)
    /// There is no such request.
    case refused(Problem)

    /// - Parameter fresh: The record as it was just read.
    package static func make(
        _ mutation: OutgoingMutation, _ task: RestTask, _ mapping: RestMapping, fresh: RestRemote? = nil
    ) -> RestPlan {
        guard let entity = mapping.entities[mutation.record.entity] else {
            return .refused(Problem("unknown-entity", status: 404, detail: "rest.entities does not name \(mutation.record.entity)"))
        }
        return Planning(mutation: mutation, task: task, mapping: mapping, entity: entity, fresh: fresh).plan()
    }
}

struct Planning {
    let mutation: OutgoingMutation
    let task: RestTask
    let mapping: RestMapping
    let entity: RestEntity
    let fresh: RestRemote?

    func plan() -> RestPlan {
        let write: RestEntity.Write?
        switch task.content.action {
        case .create: write = entity.create
        case .update: write = entity.update
        case .delete: write = entity.delete
        }
        guard let write else {
            return .refused(
                Problem(
                    "unsupported", status: 405,
                    detail: "rest.entities.\(mutation.record.entity) has no \(task.content.action.rawValue)"))
        }
        let foreign = task.content.fields.filter { entity.readOnly.contains($0) }
        if !foreign.isEmpty {
            return .refused(
                Problem(
                    "validation", status: 422, detail: "only the backend writes \(foreign.joined(separator: ", "))",
                    errors: foreign.map { .init("/data/\($0)", "is read only") }))
        }
        return task.content.action == .update ? update(write) : plain(write)
    }

    private func plain(_ write: RestEntity.Write) -> RestPlan {
        if task.content.action == .delete, write.ifMatch, task.etag == nil, fresh == nil, let target = readTarget {
            return .read(target: target)
        }
        var document: JSONObject = [:]
        if task.content.action == .create {
            document = Fold.apply(task.content, to: nil) ?? [:]
            document = document.members.reduce(into: JSONObject()) { if entity.isSent($1.name.text) { $0[$1.name.text] = $1.value } }
        }
        var body = entity.server(document)
        if task.content.action == .create, let name = entity.clientID { body[name] = .string(mutation.record.id.text) }
        return attempt(write, body: body, sent: document)
    }

    private func update(_ write: RestEntity.Write) -> RestPlan {
        let computes = !task.content.operations.isEmpty
        // Without a condition, the time between reading and writing a whole document should be as short as possible.
        let wantsFresh = computes || (write.ifMatch && task.etag == nil) || write.body == .document && !write.ifMatch
        if wantsFresh, fresh == nil, let target = readTarget { return .read(target: target) }
        let known = fresh?.document ?? task.base
        if known == nil, write.body == .document {
            return .refused(
                Problem(
                    "validation", status: 422,
                    detail:
                        "nothing is known of the record, and the backend wants all of it: "
                        + "rest.entities.\(mutation.record.entity) has no read"))
        }
        for operation in task.content.operations where known != nil && !Fold.fits(operation, operation.target(in: known)) {
            return .refused(
                Problem(
                    "validation", status: 422, detail: "\(operation.kind.rawValue) does not fit what \(operation.field) has",
                    errors: [.init("/ops/\(operation.field)", "does not fit")]))
        }
        let result = Fold.apply(task.content, to: known ?? [:]) ?? [:]
        var sent: JSONObject = [:]
        for field in task.content.fields { sent[field] = result[field] ?? .null }
        var body = sent
        if write.body == .document {
            body = result.members.reduce(into: JSONObject()) { if entity.isSent($1.name.text) { $0[$1.name.text] = $1.value } }
        }
        return attempt(write, body: entity.server(body), sent: sent, before: known)
    }

    private func attempt(
        _ write: RestEntity.Write, body: JSONObject, sent: JSONObject, before: JSONObject? = nil
    ) -> RestPlan {
        guard let target = write.path.filled(place) else {
            let missing = write.path.missing(place) ?? "a part of it"
            return .refused(
                Problem("validation", status: 422, detail: "the path \(write.path.text) needs \(missing), which is not there"))
        }
        var attempt = RestAttempt(write.method, target)
        if write.body != .none {
            attempt.body = body.json
            attempt.contentType = write.contentType
        }
        if write.ifMatch { attempt.ifMatch = fresh == nil ? task.etag : fresh?.etag }
        if let idempotency = mapping.key(of: mutation.record.entity) {
            let key = RestAttempt.key(of: mutation.key, generation: task.generation)
            attempt.keyHeader = idempotency.header
            attempt.key = idempotency.isQuoted ? "\"\(key)\"" : key
        }
        attempt.sent = sent
        for operation in task.content.operations { attempt.before[operation.top] = before?[operation.top] ?? .null }
        attempt.counts = task.content.operations.contains { $0.kind == .increment }
        return .send(attempt)
    }

    // MARK: Targets

    var readTarget: String? { entity.read?.path.filled(place) }
    var lookupTarget: String? { entity.lookup?.path.filled(place) }

    /// The value of a placeholder in a path.
    func place(_ name: String) -> String? {
        switch name {
        case "server_id": (task.serverID ?? .string(mutation.record.id.text)).idText
        case "id": mutation.record.id.text
        case "key": mutation.key.text
        default: (task.content.data[name] ?? task.base?[name])?.idText
        }
    }
}
