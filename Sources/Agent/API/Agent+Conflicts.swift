import LocalAPI
import Logging
import SyncCore
import SyncStore

// Conflicts that wait for a person, and the decisions about them.
extension Agent {
    func listConflicts(_ call: LocalCall, _ query: ConflictListQuery) throws(Problem) {
        if let entity = query.entity { try call.checkEntity(entity) }
        let peer = call.peer
        var wanted = ConflictQuery()
        wanted.entity = query.entity
        wanted.states = Set((query.states ?? []).map(\.rawValue))
        wanted.after = query.after?.number ?? 0
        wanted.limit = query.limit
        let filter = wanted
        read(call) { reads, _ throws(StoreError) in
            let page = try reads.conflicts(filter)
            let items = page.items.filter { peer.allows($0.record.entity) }.map { ConflictItem($0, withHistory: false) }
            return (items, page.next)
        } answer: { items, next in
            ConflictItem.list(items, next: next.map { ConflictID(number: $0) })
        }
    }

    func showConflict(_ call: LocalCall, _ id: ConflictID) {
        let peer = call.peer
        read(call) { reads, _ throws(StoreError) in
            try reads.conflict(id.number).flatMap { peer.allows($0.record.entity) ? ConflictItem($0, withHistory: true) : nil }
        } answer: { item in
            item?.answer ?? LocalProblem.notFound("there is no conflict \(id)", list: "agentctl conflicts list").localAnswer
        }
    }

    func resolveConflict(_ call: LocalCall, _ id: ConflictID) throws(Problem) {
        let decision = try ResolveBody.read(call.body)
        let peer = call.peer
        fromStore(for: call) { store, now throws(StoreError) in
            guard let conflict = try store.reads.conflict(id.number), peer.allows(conflict.record.entity) else {
                throw .refused(LocalProblem.notFound("there is no conflict \(id)", list: "agentctl conflicts list"))
            }
            // An app may decide about its own changes, a caller with the role operate about all.
            guard peer.allows(.operate) || conflict.app == peer.app else {
                let owner = conflict.app.map { "it is about a change of \($0); " } ?? ""
                throw .refused(LocalProblem.forbidden.problem(owner + "this needs the role operate"))
            }
            return try store.resolve(id.number, decision, by: peer.requester, at: now)
        } then: { agent, resolved in
            agent.log.notice("resolve", metadata: ["conflict": "\(id)", "uid": "\(peer.uid)"])
            let list = resolved.list.map {
                ResolveAnswer.List(goOn: $0.goOn, wait: $0.wait, letGo: $0.letGo, waitsFor: $0.waitsFor)
            }
            call.answer(ResolveAnswer.answer(state: resolved.state, mutation: resolved.mutation, list: list))
            agent.reportNewWork()
            agent.serveMutationWaiters()
        }
    }
}

extension ConflictItem {
    init(_ conflict: ConflictSnapshot, withHistory: Bool) {
        func side(_ value: ConflictSide.Value) -> Side {
            Side(
                value.value, isDeleted: value.isDeleted, author: value.author, device: value.device, at: value.at,
                version: value.version)
        }
        self.init(
            id: ConflictID(number: conflict.number), record: conflict.record, mutation: conflict.mutation?.text,
            kind: conflict.kind.name, state: conflict.state, openedAt: conflict.openedAt, remoteVersion: conflict.remoteVersion,
            fields: conflict.sides.map { Field($0.field, base: $0.base, local: side($0.local), remote: side($0.remote)) },
            into: conflict.into?.text, history: withHistory ? conflict.history : nil)
    }
}
